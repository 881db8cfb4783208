/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/cell.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "isolate/ns/probe.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whole sandboxes, started from here, with layers that were made by hand. */

static char *const env[] = {(char *)"PATH=/usr/bin:/bin", NULL};

struct place {
	char root[200], workspace[256];
	char top[256], other[256], sealed[64][256];
	const char *sealed_of[64];
};

static void make_file(const char *dir, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	CHECK_INT(fd_write_text(path, text), 0);
	CHECK_INT(chmod(path, 0644), 0);
}

static void make_dir(char ret[256], const char *root, const char *name)
{
	CHECK((size_t)snprintf(ret, 256, "%.190s/%.60s", root, name) < 256);
	CHECK_INT(mkdir(ret, 0755), 0);
}

static void make_top(char ret[256], const char *root, const char *name)
{
	char part[256];

	make_dir(ret, root, name);
	make_dir(part, ret, "upper");
	make_dir(part, ret, "work");
}

static void make_place(struct place *place)
{
	char store[256];

	close(test_tempdir());
	snprintf(place->root, sizeof place->root, "%s", test_tempdir_path());
	CHECK_INT(chmod(place->root, 0755), 0);
	make_dir(place->workspace, place->root, "workspace");
	make_dir(store, place->root, "store");
	make_top(place->top, store, "top");
	make_top(place->other, store, "other");
	for (size_t i = 0; i < ARRAY_SIZE(place->sealed); i++) {
		char name[32], layer[256];

		snprintf(name, sizeof name, "layer%zu", i);
		make_dir(layer, store, name);
		make_dir(place->sealed[i], layer, "upper");
		place->sealed_of[i] = place->sealed[i];
	}
	make_file(place->workspace, "base", "base\n");
	make_file(place->workspace, "secret", "secret\n");
}

struct sandbox {
	struct spec *spec;
	struct cell_extra extra;
	struct cell *cell;
	struct cell_handle handle;
	int in, out; /* our ends */
};

static struct atoll_error story;

#define CHECK_DONE(call_)                                                                          \
	do {                                                                                       \
		if ((call_) < 0)                                                                   \
			test_fail(__FILE__, __LINE__, "%s", story.text);                           \
	} while (0)

static void prepare(struct sandbox *box, const struct place *place, const char *script)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
	char hidden[256];

	snprintf(hidden, sizeof hidden, "%.200s/secret", place->workspace);
	box->spec = spec_new("/nonexistent", place->workspace, &story);
	CHECK(box->spec);
	CHECK_DONE(spec_set_command(box->spec, argv, "test", &story));
	CHECK_DONE(spec_set_workspace_mode(box->spec, "layer", "test", &story));
	CHECK_DONE(spec_add_rule(box->spec, SPEC_HIDE, hidden, "test", &story));
	CHECK_DONE(spec_finish(box->spec, &story));
	if (ns_backend.prepare(box->spec, env, &box->extra, NULL, &box->cell, &story) < 0)
		test_fail(__FILE__, __LINE__, "%s", story.text);
}

static void start(struct sandbox *box, const struct place *place, const char *script)
{
	int in[2], out[2];

	if (!isolate_choose(NULL) || isolate_choose(NULL) != &ns_backend)
		test_skip("user namespaces");
	prepare(box, place, script);
	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	CHECK_DONE(
		ns_backend.start(box->cell, (int[]){in[0], out[1], out[1]}, &box->handle, &story));
	close(in[0]);
	close(out[1]);
	box->in = in[1];
	box->out = out[0];
}

/* All that it says up to a line. */
static void hear(struct sandbox *box, const char *line)
{
	char text[4096] = "";
	size_t used = 0;

	while (!strstr(text, line) && used < sizeof text - 1) {
		ssize_t got = read(box->out, text + used, sizeof text - 1 - used);

		if (got <= 0)
			test_fail(__FILE__, __LINE__, "no '%s' in '%s'", line, text);
		used += (size_t)got;
	}
}

/* The rest of it, and its end. */
static void finish(struct sandbox *box, char *ret, size_t size)
{
	size_t used = 0;
	ssize_t got;

	close(box->in);
	while (used < size - 1 && (got = read(box->out, ret + used, size - 1 - used)) > 0)
		used += (size_t)got;
	ret[used] = '\0';
	close(box->out);
	ns_backend.stop(box->cell, &box->handle);
	while (waitpid(box->handle.pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(box->handle.pid_fd);
	close(box->handle.control_fd);
	ns_backend.release(box->cell);
	spec_free(box->spec);
}

static bool is_there(const char *dir, const char *name, struct stat *ret)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return lstat(path, ret) == 0;
}

static void give_away(const char *dir, const char *name)
{
	char path[300];

	snprintf(path, sizeof path, "%s%s", dir, name);
	CHECK(chown(path, 12345, 12345) == 0);
}

TEST(what_is_written_is_in_the_layer_and_belongs_to_the_workspace_s_owner)
{
	struct place place;
	struct sandbox box = {.extra.layer = &(struct cell_layer){.top = place.top}};
	struct stat st, base;
	char text[512];

	make_place(&place);
	if (geteuid() == 0) { /* somebody else's: ids are mapped */
		give_away(place.workspace, "");
		give_away(place.workspace, "/base");
		give_away(place.top, "");
		give_away(place.top, "/upper");
		give_away(place.top, "/work");
	}
	start(&box, &place,
	      "cat base; cat secret; ls; echo new >made; echo more >>base; mkdir -p .git/hooks; "
	      "echo x >.git/hooks/pre-commit; stat -c %u made");
	finish(&box, text, sizeof text);
	CHECK(strstr(text, "base\n"));
	CHECK(!strstr(text, "secret\n"));
	CHECK(lstat(place.workspace, &base) == 0);
	CHECK(is_there(place.top, "upper/made", &st));
	CHECK_INT(st.st_uid, base.st_uid);
	CHECK(is_there(place.top, "upper/base", &st) && st.st_size == 10);
	CHECK(is_there(place.top, "upper/.git/hooks/pre-commit", &st));
	CHECK(!is_there(place.workspace, "made", &st));
	CHECK(is_there(place.workspace, "base", &st) && st.st_size == 5);
}

TEST(the_topmost_of_many_sealed_layers_counts)
{
	struct place place;
	struct cell_layer layer = {.top = place.top, .sealed = place.sealed_of, .n_sealed = 48};
	struct sandbox box = {.extra.layer = &layer};
	char text[512];

	make_place(&place);
	make_file(place.sealed[47], "base", "lowest\n");
	make_file(place.sealed[0], "base", "topmost\n");
	make_file(place.sealed[20], "middle", "middle\n");
	start(&box, &place, "cat base middle");
	finish(&box, text, sizeof text);
	CHECK_STR(text, "topmost\nmiddle\n");
}

TEST(a_layer_can_be_mounted_again)
{
	struct place place;
	struct cell_layer layer = {.top = place.top};
	char text[512];

	make_place(&place);
	for (int i = 0; i < 2; i++) {
		struct sandbox box = {.extra.layer = &layer};

		start(&box, &place, "echo more >>base; cat base");
		finish(&box, text, sizeof text);
	}
	CHECK_STR(text, "base\nmore\nmore\n");
}

TEST(what_a_tmpfs_holds_can_be_read_after_the_end)
{
	struct place place;
	struct sandbox box = {0};
	cleanup_fd int fd = -1;
	struct stat st;
	char text[512];

	make_place(&place);
	start(&box, &place, "echo new >made; rm base; echo done");
	hear(&box, "done\n");
	CHECK(box.handle.layer_fd >= 0);
	finish(&box, text, sizeof text);
	fd = box.handle.layer_fd;
	CHECK(fstatat(fd, "upper/made", &st, 0) == 0 && st.st_size == 4);
	CHECK(fstatat(fd, "upper/base", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode));
	CHECK(!is_there(place.workspace, "made", &st));
}

TEST(layers_can_be_exchanged_while_the_first_process_lives)
{
	struct place place;
	struct cell_layer before = {.top = place.top, .is_changed = true}, after;
	struct sandbox box = {.extra.layer = &before};
	char text[512], script[1024];
	int64_t began_ns;

	make_place(&place);
	make_file(place.sealed[0], "base", "other\n");
	snprintf(script, sizeof script,
		 "cd /tmp; echo before >%s/made; cat %s/base; echo ready; read x; cat %s/base; "
		 "ls %s",
		 place.workspace, place.workspace, place.workspace, place.workspace);
	start(&box, &place, script);
	hear(&box, "ready\n");
	after = (struct cell_layer){
		.top = place.other, .sealed = place.sealed_of, .n_sealed = 1, .is_changed = true};
	CHECK_DONE(ns_backend.relayer(box.cell, &box.handle, &after, &story));
	/* And once more, over the same. */
	began_ns = clock_monotonic_ns();
	CHECK_DONE(ns_backend.relayer(box.cell, &box.handle, &after, &story));
	printf("# %lld us\n", (long long)(clock_monotonic_ns() - began_ns) / 1000);
	CHECK(write(box.in, "\n", 1) == 1);
	finish(&box, text, sizeof text);
	CHECK_STR(text, "other\nbase\n");
}

TEST(a_store_in_the_workspace_is_refused)
{
	struct place place;
	struct cell_layer layer = {.top = place.top};
	struct cell_extra extra = {.layer = &layer};
	struct spec *spec;
	struct cell *cell;
	char *argv[] = {(char *)"true", NULL};

	make_place(&place);
	spec = spec_new("/nonexistent", place.root, &story);
	CHECK(spec);
	CHECK_DONE(spec_set_command(spec, argv, "test", &story));
	CHECK_DONE(spec_set_workspace_mode(spec, "layer", "test", &story));
	CHECK_DONE(spec_finish(spec, &story));
	CHECK(ns_backend.prepare(spec, env, &extra, NULL, &cell, &story) < 0);
	CHECK(strstr(story.text, "contains the store of layers"));
	CHECK(strstr(story.text, "XDG_STATE_HOME"));
	spec_free(spec);
}

TEST(an_id_of_the_host_is_found_inside_again)
{
	static const uint32_t inside[] = {0, 1, 6, 999, 1000, 65534};
	const struct ns_ids ids = {.has_many = true,
				   .has_users = true,
				   .host_uid = 0x70000400,
				   .host_gid = 0x70000400,
				   .beyond = {{1000}, {1000}},
				   .n_beyond = {1, 1}};

	for (size_t i = 0; i < ARRAY_SIZE(inside); i++) {
		CHECK_INT(ids_inside_id(&ids, false, ids_host_id(&ids, false, inside[i])),
			  inside[i]);
		CHECK_INT(ids_inside_id(&ids, true, ids_host_id(&ids, true, inside[i])), inside[i]);
	}
	CHECK_INT(ids_inside_id(&ids, false, 0), 65534);
	CHECK_INT(ids_inside_id(&ids, false, 0x70000800), 65534);
}

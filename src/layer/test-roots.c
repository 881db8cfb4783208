/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "layer/layer.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>

/* What a cell's storage may look like, made by hand: the root, and two of the system's trees. */

static const char *const left_out[] = {"run", "dev", NULL};

struct storage {
	int fd;
	struct layer_part parts[3];
	struct layer_root root;
	struct layer_record *record;
};

static int open_dir(int fd, const char *path)
{
	return openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put(int fd, const char *path, const char *text)
{
	cleanup_fd int file = openat(fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(file >= 0);
	CHECK(fd_write_all(file, text, strlen(text)) == 0);
}

static void make_dirs(int fd, const char *const *paths)
{
	for (size_t i = 0; paths[i]; i++)
		CHECK(mkdirat(fd, paths[i], 0755) == 0);
}

static void fresh(struct storage *storage)
{
	static const char *const dirs[] = {"ws",	   "root",	"usr",
					   "dpkg",	   "root/run",	"root/var",
					   "root/var/lib", "root/usr",	"root/var/lib/dpkg",
					   "root/data",	   "usr/local", "usr/closed",
					   "usr/bin",	   NULL};
	char path[4096];
	struct atoll_error err = {0};

	umask(022);
	*storage = (struct storage){.fd = test_tempdir()};
	make_dirs(storage->fd, dirs);
	snprintf(path, sizeof path, "%s/state", test_tempdir_path());
	setenv("XDG_STATE_HOME", path, 1);
	snprintf(path, sizeof path, "%s/ws", test_tempdir_path());
	CHECK_INT(layer_record_create(ATOLL_RECORD_SANDBOX, path, &storage->record, &err), 0);
	storage->parts[0] = (struct layer_part){"", open_dir(storage->fd, "root")};
	storage->parts[1] = (struct layer_part){"usr", open_dir(storage->fd, "usr")};
	storage->parts[2] = (struct layer_part){"var/lib/dpkg", open_dir(storage->fd, "dpkg")};
	storage->root = (struct layer_root){.parts = storage->parts, .n = 3, .left_out = left_out};
}

static void done(struct storage *storage)
{
	for (size_t i = 0; i < 3; i++)
		close(storage->parts[i].fd);
	layer_record_close(storage->record);
	close(storage->fd);
}

/* Keep it upon what the record has; the layer's upper directory. */
static int keep(struct storage *storage, struct atoll_error *err)
{
	struct layer_roots below, now;
	char path[64];
	int r;

	layer_roots_get(storage->record, &below);
	r = layer_keep_root(storage->record, &storage->root, &below, err);
	if (r < 0)
		return r;
	layer_roots_get(storage->record, &now);
	snprintf(path, sizeof path, "layers/%s/upper", now.ids[0]);
	return open_dir(storage->record->store.fd, path);
}

static bool is_there(int fd, const char *path)
{
	return faccessat(fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static mode_t mode_of(int fd, const char *path)
{
	struct stat st = {0};

	fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW);
	return st.st_mode;
}

TEST(all_parts_of_a_root_become_one_layer)
{
	struct atoll_error err = {0};
	struct storage storage;
	cleanup_fd int upper = -1;
	char value[8];

	fresh(&storage);
	put(storage.fd, "root/data/f", "f");
	put(storage.fd, "root/run/socket", "not kept");
	put(storage.fd, "usr/local/tool", "tool");
	put(storage.fd, "dpkg/status", "installed");
	CHECK(mknodat(storage.fd, "usr/bin/yes", S_IFCHR, makedev(0, 0)) == 0);
	CHECK(fchmodat(storage.fd, "usr/local/tool", 06755, 0) == 0);
	CHECK(mknodat(storage.fd, "root/data/socket", S_IFSOCK | 0600, 0) == 0);
	CHECK(mkfifoat(storage.fd, "root/data/fifo", 0600) == 0);
	CHECK(symlinkat("/", storage.fd, "root/data/link") == 0);

	upper = keep(&storage, &err);
	if (upper < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(is_there(upper, "data/f") && is_there(upper, "data/fifo"));
	CHECK(S_ISLNK(mode_of(upper, "data/link")));
	CHECK(!is_there(upper, "run") && !is_there(upper, "data/socket"));
	CHECK_INT(mode_of(upper, "usr/local/tool"), S_IFREG | 0755);
	CHECK(is_there(upper, "var/lib/dpkg/status"));
	CHECK(S_ISCHR(mode_of(upper, "usr/bin/yes")));
	CHECK(fgetxattr(upper, "user.overlay.opaque", value, sizeof value) < 0);
	done(&storage);
}

TEST(notes_of_the_overlay_are_not_taken_over_but_whether_a_directory_is_opaque)
{
	struct atoll_error err = {0};
	struct storage storage;
	cleanup_fd int upper = -1, closed = -1, to = -1;
	char value[8];

	fresh(&storage);
	put(storage.fd, "usr/closed/f", "f");
	closed = open_dir(storage.fd, "usr/closed");
	if (fsetxattr(closed, "user.overlay.opaque", "y", 1, 0) < 0)
		test_skip("attributes of users in the temporary directory");
	CHECK(fsetxattr(closed, "user.overlay.redirect", "/etc", 4, 0) == 0);
	CHECK(fsetxattr(closed, "user.own", "mine", 4, 0) == 0);
	upper = keep(&storage, &err);
	CHECK(upper >= 0);
	to = open_dir(upper, "usr/closed");
	CHECK_INT(fgetxattr(to, "user.overlay.opaque", value, sizeof value), 1);
	CHECK_INT(fgetxattr(to, "user.own", value, sizeof value), 4);
	CHECK(fgetxattr(to, "user.overlay.redirect", value, sizeof value) < 0);
	done(&storage);
}

TEST(a_way_that_was_replaced_is_refused_and_nothing_stays)
{
	cleanup_with(store_ids_done) struct store_ids ids = {0};
	struct atoll_error err = {0};
	struct storage storage;

	fresh(&storage);
	put(storage.fd, "dpkg/status", "installed");
	CHECK(renameat(storage.fd, "root/var/lib", storage.fd, "root/var/lib2") == 0);
	CHECK(symlinkat("/etc", storage.fd, "root/var/lib") == 0);
	CHECK(keep(&storage, &err) < 0);
	CHECK(strstr(err.text, "moved or replaced"));
	CHECK(store_list(&storage.record->store, "layers", &ids, NULL) == 0);
	CHECK_INT(ids.n, 0);
	CHECK(!layer_record_get(storage.record, "roots"));
	done(&storage);
}

TEST(too_much_is_refused_and_what_is_written_again_counts_once)
{
	cleanup_with(store_ids_done) struct store_ids ids = {0};
	static char data[300000];
	struct atoll_error err = {0};
	struct layer_roots roots;
	struct storage storage;

	fresh(&storage);
	memset(data, 'x', sizeof data - 1);
	storage.root.max_bytes = 500000;
	put(storage.fd, "usr/local/a", data);
	for (int i = 0; i < 3; i++) {
		cleanup_fd int upper = keep(&storage, &err);

		CHECK(upper >= 0);
		CHECK(is_there(upper, "usr/local/a"));
	}
	layer_roots_get(storage.record, &roots);
	CHECK_INT(roots.n, 1);
	put(storage.fd, "usr/local/b", data);
	CHECK_INT(keep(&storage, &err), -EDQUOT);
	layer_roots_get(storage.record, &roots);
	CHECK_INT(roots.n, 1);
	CHECK(store_list(&storage.record->store, "layers", &ids, NULL) == 0);
	done(&storage);
}

TEST(many_layers_become_one_that_says_the_same)
{
	struct atoll_error err = {0};
	struct layer_roots roots;
	struct storage storage;
	char name[32];

	fresh(&storage);
	for (int i = 0; i < LAYER_ROOTS_MAX + 3; i++) {
		cleanup_fd int upper = -1;

		snprintf(name, sizeof name, "usr/local/%d", i);
		put(storage.fd, name, "x");
		upper = keep(&storage, &err);
		CHECK(upper >= 0);
		layer_roots_get(storage.record, &roots);
		CHECK(roots.n < LAYER_ROOTS_MAX);
		CHECK(unlinkat(storage.fd, name, 0) == 0);
		if (i == LAYER_ROOTS_MAX - 1) {
			CHECK(is_there(upper, "usr/local/0"));
			CHECK_INT(roots.n, 1);
			CHECK(layer_record_get(storage.record, LAYER_ROOTS_BELOW));
		}
	}
	CHECK(roots.n > 1);
	CHECK(!layer_record_get(storage.record, LAYER_ROOTS_BELOW));
	done(&storage);
}

TEST(what_has_changed_is_seen_by_its_time_and_what_is_left_out_is_not)
{
	const struct timespec pause = {.tv_nsec = 30000000};
	struct storage storage;
	struct timespec now;

	fresh(&storage);
	put(storage.fd, "usr/local/f", "f");
	nanosleep(&pause, NULL);
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	CHECK(!layer_root_has_changed(&storage.root, &now));
	put(storage.fd, "root/run/f", "f");
	CHECK(!layer_root_has_changed(&storage.root, &now));
	CHECK(fchmodat(storage.fd, "usr/local/f", 0600, 0) == 0);
	CHECK(layer_root_has_changed(&storage.root, &now));
	nanosleep(&pause, NULL);
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	CHECK(unlinkat(storage.fd, "usr/local/f", 0) == 0);
	CHECK(layer_root_has_changed(&storage.root, &now));
	done(&storage);
}

TEST(a_list_of_layers_is_read_as_it_was_written)
{
	struct layer_roots roots, other;

	layer_roots_read("abcdefgh,ijklmnop", &roots);
	CHECK_INT(roots.n, 2);
	CHECK_STR(roots.ids[1], "ijklmnop");
	layer_roots_read("abcdefgh ijklmnop ../../etc x", &other);
	CHECK(layer_roots_are(&roots, &other));
	layer_roots_read(NULL, &other);
	CHECK_INT(other.n, 0);
}

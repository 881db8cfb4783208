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

/* A store and a workspace of their own; the descriptor is of the directory that holds both. */
static int dir_fd;
static char workspace[4096];

static void fresh(void)
{
	char path[4096];

	umask(022);
	dir_fd = test_tempdir();
	snprintf(path, sizeof path, "%s/state", test_tempdir_path());
	snprintf(workspace, sizeof workspace, "%s/ws", test_tempdir_path());
	setenv("XDG_STATE_HOME", path, 1);
	CHECK(mkdirat(dir_fd, "ws", 0755) == 0);
}

static struct layer_record *make(enum atoll_record_kind kind)
{
	struct layer_record *record = NULL;
	struct atoll_error err = {0};

	if (layer_record_create(kind, workspace, &record, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(layer_record_save_soon(record, &err) == 0);
	return record;
}

static void put(const struct layer_record *record, const char *path, const char *text)
{
	cleanup_fd int fd = openat(record->fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	CHECK(fd_write_all(fd, text, strlen(text)) == 0);
}

static bool is_there(int fd, const char *path)
{
	return faccessat(fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static const char *content(int fd, const char *path)
{
	static char text[256];
	cleanup_fd int file = openat(fd, path, O_RDONLY | O_NOFOLLOW);
	ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);

	text[got < 0 ? 0 : got] = '\0';
	return got < 0 ? "(none)" : text;
}

/* ---- the store ---- */

TEST(a_store_is_made_for_its_owner_alone)
{
	struct layer_store store = {.fd = -1};
	struct stat st;

	fresh();
	CHECK_INT(layer_store_open(false, &store, NULL), -ENOENT);
	CHECK_INT(layer_store_open(true, &store, NULL), 0);
	CHECK(fstat(store.fd, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0700);
	layer_store_close(&store);
}

TEST(a_store_that_others_can_reach_is_refused)
{
	struct layer_store store = {.fd = -1};
	struct atoll_error err = {0};

	fresh();
	CHECK_INT(layer_store_open(true, &store, NULL), 0);
	CHECK(fchmod(store.fd, 0750) == 0);
	layer_store_close(&store);
	CHECK(layer_store_open(true, &store, &err) < 0);
	CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
	CHECK(strstr(err.text, "open to others (mode 750)") != NULL);
}

TEST(a_store_that_is_a_link_is_refused)
{
	struct layer_store store = {.fd = -1};
	struct atoll_error err = {0};

	fresh();
	CHECK(mkdirat(dir_fd, "state", 0700) == 0 && mkdirat(dir_fd, "else", 0700) == 0);
	CHECK(symlinkat("../else", dir_fd, "state/atoll") == 0);
	CHECK(layer_store_open(true, &store, &err) < 0);
	CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
	CHECK(!is_there(dir_fd, "else/records"));
}

TEST(a_workspace_that_holds_the_store_is_written_to_memory)
{
	fresh();
	CHECK(layer_store_needs_memory(test_tempdir_path()));
	CHECK(layer_store_needs_memory("/"));
}

/* ---- records ---- */

TEST(what_is_known_about_a_record_comes_back)
{
	struct layer_record *record, *again;
	char id[ATOLL_ID_SIZE];

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	strcpy(id, record->info.id);
	record->info.command = strdup("printf 'a\\n'\nb=\\");
	record->info.status = 7;
	record->n_applies = 3;
	CHECK(layer_record_push(record, "aaaaaaaa") == 0);
	CHECK(layer_record_push(record, "bbbbbbbb") == 0);
	CHECK(layer_record_set(record, "checkpoint.1", "x=\ny", NULL) == 0);
	CHECK(layer_record_set(record, "other", "1", NULL) == 0);
	CHECK(layer_record_set(record, "other", "2", NULL) == 0);
	CHECK(layer_record_set(record, "away", "2", NULL) == 0);
	CHECK(layer_record_set(record, "away", NULL, NULL) == 0);
	CHECK(layer_record_save(record, NULL) == 0);
	layer_record_close(record);

	CHECK(layer_record_open(id, &again, NULL) == 0);
	CHECK_STR(again->info.command, "printf 'a\\n'\nb=\\");
	CHECK_STR(again->info.workspace, workspace);
	CHECK_INT(again->info.kind, ATOLL_RECORD_SANDBOX);
	CHECK_INT(again->info.status, 7);
	CHECK_INT(again->n_applies, 3);
	CHECK_INT(again->n_layers, 2);
	CHECK_STR(again->layers[0], "bbbbbbbb");
	CHECK_STR(layer_record_get(again, "checkpoint.1"), "x=\ny");
	CHECK_STR(layer_record_get(again, "other"), "2");
	CHECK(layer_record_get(again, "away") == NULL);
	layer_record_close(again);
}

TEST(a_record_is_found_by_beginning_by_name_and_by_directory)
{
	struct layer_record *record, *found = NULL;
	struct atoll_error err = {0};
	char id[ATOLL_ID_SIZE], part[5];

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	strcpy(id, record->info.id);
	CHECK(layer_record_name(record, "frontend", &err) == 0);
	layer_record_close(record);
	snprintf(part, sizeof part, "%s", id);

	CHECK(layer_record_open(part, &found, &err) == 0);
	CHECK_STR(found->info.id, id);
	layer_record_close(found);
	CHECK(layer_record_open("frontend", &found, &err) == 0);
	CHECK_STR(found->info.id, id);
	layer_record_close(found);
	CHECK(chdir(workspace) == 0);
	CHECK(layer_record_open(NULL, &found, &err) == 0);
	CHECK_STR(found->info.id, id);
	layer_record_close(found);
	CHECK(chdir("/") == 0);
	CHECK_INT(layer_record_open(NULL, &found, &err), -ENOENT);
	CHECK_INT(layer_record_open("front", &found, &err), -ENOENT);
	CHECK_INT(layer_record_open("../x", &found, &err), -ENOENT);
	CHECK_INT(layer_record_open("", &found, &err), -ENOENT);
}

TEST(no_two_sandboxes_have_one_name)
{
	struct layer_record *one, *other;
	struct atoll_error err = {0};

	fresh();
	one = make(ATOLL_RECORD_SANDBOX);
	other = make(ATOLL_RECORD_SANDBOX);
	CHECK(layer_record_name(one, "web", &err) == 0);
	CHECK_INT(layer_record_name(other, "web", &err), -EEXIST);
	CHECK_INT(layer_record_name(other, one->info.id, &err), -EEXIST);
	CHECK(layer_record_name(other, "a b", &err) < 0);
	CHECK(layer_record_name(other, "-x", &err) < 0);
	CHECK(layer_record_name(other, "web2", &err) == 0);
	layer_record_close(one);
	layer_record_close(other);
}

TEST(a_lock_is_one_holders_and_goes_with_it)
{
	struct layer_record *record, *again;
	struct atoll_error err = {0};
	char id[ATOLL_ID_SIZE];

	fresh();
	record = make(ATOLL_RECORD_RUN);
	put(record, "top/upper/f", "x");
	strcpy(id, record->info.id);
	CHECK(layer_record_open(id, &again, &err) == 0);
	CHECK_INT(record_state(again), ATOLL_RECORD_LIVE);
	CHECK_INT(layer_record_lock(again, false, &err), -EBUSY);
	CHECK_INT(atoll_record_discard(id, false, &err), -EBUSY);
	layer_record_close(record);
	CHECK_INT(record_state(again), ATOLL_RECORD_KEPT);
	CHECK(layer_record_lock(again, false, &err) == 0);
	layer_record_close(again);
	CHECK(atoll_record_discard(id, false, &err) == 0);
	CHECK_INT(layer_record_open(id, &again, &err), -ENOENT);
}

TEST(who_waited_for_a_record_that_was_removed_hears_that)
{
	struct layer_record *record, *again;
	struct atoll_error err = {0};

	fresh();
	record = make(ATOLL_RECORD_RUN);
	CHECK(layer_record_open(record->info.id, &again, &err) == 0);
	CHECK(layer_record_remove(record, &err) == 0);
	layer_record_close(record);
	CHECK_INT(layer_record_lock(again, false, &err), -ENOENT);
	layer_record_close(again);
}

/* A holder that comes late: it has opened the record just before somebody removed it. */
TEST(what_was_removed_cannot_be_held)
{
	struct layer_record *record, *late;
	struct layer_names lost = {0};
	struct atoll_error err = {0};
	int held;

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	CHECK(layer_record_open(record->info.id, &late, &err) == 0);
	held = layer_record_hold(record);
	CHECK(held >= 0);
	CHECK_INT(layer_record_hold(late), -EBUSY);
	CHECK(layer_record_drop_first(record, &lost, &err) == 0);
	CHECK_INT(layer_record_hold(late), -EBUSY);
	/* It lies in the trash, with nobody's lock on it. */
	close(held);
	CHECK_INT(layer_record_hold(late), -ENOENT);
	layer_names_done(&lost);
	layer_record_close(record);
	layer_record_close(late);
}

TEST(a_damaged_record_hides_no_other_and_can_be_discarded)
{
	struct layer_record *record, *other;
	struct atoll_record *list;
	struct atoll_error err = {0};
	char id[ATOLL_ID_SIZE];
	size_t n;

	fresh();
	record = make(ATOLL_RECORD_RUN);
	other = make(ATOLL_RECORD_SANDBOX);
	strcpy(id, record->info.id);
	put(record, "meta", "version=1\nkind=tree\n");
	layer_record_close(record);
	layer_record_close(other);
	CHECK(atoll_records_list(false, &list, &n, &err) == 0);
	CHECK_INT(n, 2);
	atoll_records_free(list, n);
	CHECK_INT(layer_record_open(id, &record, &err), -EBADMSG);
	CHECK(atoll_record_discard(id, false, &err) < 0);
	CHECK(atoll_record_discard(id, true, &err) == 0);
	CHECK(atoll_records_list(false, &list, &n, &err) == 0);
	CHECK_INT(n, 1);
	atoll_records_free(list, n);
}

/* ---- tops ---- */

TEST(a_sealed_top_lies_beneath_a_new_empty_one)
{
	struct layer_record *record;
	char path[64];

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	CHECK(layer_top_is_empty(record));
	put(record, "top/upper/f", "one");
	CHECK(!layer_top_is_empty(record));
	CHECK(layer_seal_top(record, NULL) == 0);
	CHECK(layer_top_is_empty(record));
	CHECK_INT(record->n_layers, 1);
	snprintf(path, sizeof path, "layers/%s/upper/f", record->layers[0]);
	CHECK_STR(content(record->store.fd, path), "one");
	layer_record_close(record);
}

TEST(a_seal_that_was_not_saved_is_found_by_the_next_who_locks)
{
	struct layer_record *record, *again;
	struct atoll_error err = {0};
	char path[64];

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	put(record, "top/upper/f", "one");
	CHECK(layer_seal_top(record, NULL) == 0);
	CHECK(layer_record_open(record->info.id, &again, &err) == 0);
	CHECK(is_there(again->fd, "sealing"));
	CHECK_INT(again->n_layers, 1); /* who only reads has to see it as well */
	layer_record_close(record);    /* as a kill would */
	CHECK(layer_record_lock(again, false, &err) == 0);
	CHECK_INT(again->n_layers, 1);
	snprintf(path, sizeof path, "layers/%s/upper/f", again->layers[0]);
	CHECK_STR(content(again->store.fd, path), "one");
	CHECK(!is_there(again->fd, "sealing"));
	layer_record_close(again);
}

TEST(a_seal_that_was_not_saved_is_needed_and_goes_with_its_record)
{
	cleanup_with(layer_names_done) struct layer_names needed = {0}, lost = {0};
	struct layer_record *record;
	char layer[ATOLL_ID_SIZE], path[64];

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	put(record, "top/upper/f", "one");
	CHECK(layer_seal_top(record, NULL) == 0);
	snprintf(layer, sizeof layer, "%s", record->layers[0]);
	snprintf(path, sizeof path, "layers/%s", layer);
	CHECK(layer_names_read(&record->store, &needed) == 0);
	CHECK(layer_names_have(&needed, layer)); /* or a sweep takes it for an orphan */
	CHECK(layer_record_drop_first(record, &lost, NULL) == 0);
	layer_names_drop(&record->store, &lost);
	CHECK(!is_there(record->store.fd, path));
	layer_record_close(record);
}

TEST(a_seal_can_be_taken_back)
{
	struct layer_record *record;

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	put(record, "top/upper/f", "one");
	CHECK(layer_seal_top(record, NULL) == 0);
	CHECK(!is_there(record->fd, "top/upper/f"));
	layer_unseal_top(record);
	CHECK_INT(record->n_layers, 0);
	CHECK_STR(content(record->fd, "top/upper/f"), "one");
	CHECK(!is_there(record->fd, "sealing"));
	layer_unseal_top(record); /* of none */
	CHECK_STR(content(record->fd, "top/upper/f"), "one");
	layer_record_close(record);
}

TEST(a_sandbox_that_has_no_top_gets_one_from_the_next_who_locks)
{
	struct layer_record *record, *again;
	struct atoll_error err = {0};

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	CHECK(layer_record_open(record->info.id, &again, &err) == 0);
	CHECK(unlinkat(record->fd, "top/upper", AT_REMOVEDIR) == 0);
	/* Who cannot make it whole does not keep the lock; who removes it needs no top. */
	CHECK(renameat(record->fd, "top", record->fd, "elsewhere") == 0);
	CHECK(symlinkat("/nowhere", record->fd, "top") == 0);
	layer_record_close(record);
	CHECK(layer_record_lock(again, false, &err) < 0);
	CHECK_INT(again->lock_fd, -1);
	CHECK(layer_record_lock_to_remove(again, &err) == 0);
	close(again->lock_fd);
	again->lock_fd = -1;
	CHECK(unlinkat(again->fd, "top", 0) == 0);
	CHECK(layer_record_lock(again, false, &err) == 0);
	CHECK(layer_top_is_empty(again));
	CHECK(is_there(again->fd, "top/upper"));
	layer_record_close(again);
}

TEST(what_cannot_be_thrown_away_is_told)
{
	struct layer_record *record;
	struct atoll_error err = {0};

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	put(record, "top/upper/f", "one");
	/* In the place of the trash, as a disk without room for one. */
	unlinkat(record->store.fd, "trash", AT_REMOVEDIR);
	CHECK(symlinkat("nowhere/trash", record->store.fd, "trash") == 0);
	CHECK(store_throw_away(&record->store, record->fd, "top", &err) < 0);
	CHECK_STR(content(record->fd, "top/upper/f"), "one");
	CHECK(unlinkat(record->store.fd, "trash", 0) == 0);
	CHECK(store_throw_away(&record->store, record->fd, "top", &err) == 0);
	CHECK(!is_there(record->fd, "top"));
	CHECK(store_throw_away(&record->store, record->fd, "top", &err) == 0); /* is not there */
	layer_record_close(record);
}

TEST(a_top_that_was_emptied_comes_back_or_is_thrown_away)
{
	struct layer_record *record;
	struct atoll_error err = {0};

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	put(record, "top/upper/f", "one");
	CHECK(layer_reset_top(record, &err) == 0);
	CHECK(layer_top_is_empty(record));
	layer_reset_end(record, false);
	CHECK_STR(content(record->fd, "top/upper/f"), "one");
	CHECK(layer_reset_top(record, &err) == 0); /* and a kill */
	put(record, "top/upper/g", "two");
	CHECK(layer_reset_top(record, &err) == 0);
	layer_reset_end(record, true);
	CHECK(layer_top_is_empty(record));
	CHECK(!is_there(record->fd, "old") && !is_there(record->fd, "next"));
	layer_record_close(record);
}

/* As a command may leave it: names of one file, a hole, attributes, a deleted name, an opaque
 * directory, and a directory that even its owner cannot enter. */
static void fill_top(const struct layer_record *record)
{
	cleanup_fd int upper = openat(record->fd, "top/upper", O_RDONLY | O_DIRECTORY);
	cleanup_fd int sparse = -1, file = -1;

	put(record, "top/upper/f", "text");
	CHECK(linkat(upper, "f", upper, "g", 0) == 0);
	CHECK(symlinkat("/nowhere", upper, "link") == 0);
	CHECK(mknodat(upper, "fifo", S_IFIFO | 0640, 0) == 0);
	CHECK(mknodat(upper, "gone", S_IFCHR, makedev(0, 0)) == 0);
	sparse = openat(upper, "sparse", O_RDWR | O_CREAT, 0600);
	CHECK(pwrite(sparse, "x", 1, 64 << 20) == 1);
	CHECK(mkdirat(upper, "shut", 0755) == 0);
	put(record, "top/upper/shut/in", "inner");
	file = openat(upper, "shut", O_RDONLY | O_DIRECTORY);
	CHECK(fsetxattr(file, "user.overlay.opaque", "y", 1, 0) == 0);
	CHECK(fsetxattr(file, "user.own", "mine", 4, 0) == 0);
	CHECK(fchmod(file, 0) == 0);
	CHECK(utimensat(upper, "shut", (struct timespec[]){{.tv_sec = 5}, {.tv_sec = 6}}, 0) == 0);
}

TEST(a_copied_top_is_the_same_in_all_that_counts)
{
	struct layer_record *record;
	struct atoll_error err = {0};
	cleanup_fd int upper = -1, shut = -1;
	char path[64], value[8];
	struct stat st, other;

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	fill_top(record);
	if (layer_copy_top(record, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	snprintf(path, sizeof path, "layers/%s/upper", record->layers[0]);
	upper = openat(record->store.fd, path, O_RDONLY | O_DIRECTORY);
	CHECK_STR(content(upper, "f"), "text");
	CHECK(fstatat(upper, "f", &st, 0) == 0 && fstatat(upper, "g", &other, 0) == 0);
	CHECK_INT(st.st_ino, other.st_ino);
	CHECK(fstatat(record->fd, "top/upper/f", &other, 0) == 0);
	CHECK(st.st_ino != other.st_ino);
	CHECK(fstatat(upper, "fifo", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISFIFO(st.st_mode));
	CHECK_INT(st.st_mode & 07777, 0640);
	CHECK(fstatat(upper, "gone", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode));
	CHECK(fstatat(upper, "sparse", &st, 0) == 0);
	CHECK_INT(st.st_size, (64 << 20) + 1);
	CHECK(st.st_blocks < 2048);
	CHECK(readlinkat(upper, "link", value, sizeof value) > 0);
	CHECK(fstatat(upper, "shut", &st, 0) == 0);
	CHECK_INT(st.st_mode & 07777, 0);
	CHECK_INT(st.st_mtim.tv_sec, 6);
	/* The one that was copied is shut again, too. */
	CHECK(fstatat(record->fd, "top/upper/shut", &st, 0) == 0);
	CHECK_INT(st.st_mode & 07777, 0);
	CHECK(fchmodat(upper, "shut", 0700, 0) == 0);
	shut = openat(upper, "shut", O_RDONLY | O_DIRECTORY);
	CHECK_INT(fgetxattr(shut, "user.overlay.opaque", value, sizeof value), 1);
	CHECK_INT(fgetxattr(shut, "user.own", value, sizeof value), 4);
	CHECK_STR(content(shut, "in"), "inner");
	CHECK(layer_record_remove(record, &err) == 0);
	layer_record_close(record);
	CHECK(!is_there(dir_fd, "state/atoll/layers/x"));
}

TEST(a_tree_of_any_depth_is_copied_and_removed)
{
	struct layer_record *record;
	struct atoll_error err = {0};
	cleanup_fd int fd = -1;

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	fd = openat(record->fd, "top/upper", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 3000; i++) {
		int next;

		CHECK(mkdirat(fd, "deep", 0755) == 0);
		next = openat(fd, "deep", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = next;
	}
	if (layer_copy_top(record, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(layer_record_save(record, &err) == 0);
	CHECK(layer_record_remove(record, &err) == 0);
	layer_record_close(record);
	CHECK(unlinkat(dir_fd, "state/atoll/trash", AT_REMOVEDIR) == 0);
	CHECK(unlinkat(dir_fd, "state/atoll/layers", AT_REMOVEDIR) == 0);
	CHECK(unlinkat(dir_fd, "state/atoll/records", AT_REMOVEDIR) == 0);
}

TEST(a_top_thrown_away_is_empty)
{
	struct layer_record *record;

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	fill_top(record);
	CHECK(layer_reset_top(record, NULL) == 0);
	CHECK(layer_top_is_empty(record));
	layer_record_close(record);
}

/* ---- many layers as one ---- */

static void whiteout(const struct layer_record *record, const char *path)
{
	CHECK(mknodat(record->fd, path, S_IFCHR, makedev(0, 0)) == 0);
}

TEST(joined_layers_mean_the_same)
{
	struct layer_record *record;
	struct atoll_error err = {0};
	cleanup_fd int upper = -1, d = -1, e = -1;
	char path[64], value[4];
	struct stat st;

	fresh();
	record = make(ATOLL_RECORD_SANDBOX);
	/* the lowest: a file that will be changed, one deleted, two directories */
	put(record, "top/upper/changed", "old");
	put(record, "top/upper/deleted", "old");
	CHECK(mkdirat(record->fd, "top/upper/d", 0755) == 0);
	put(record, "top/upper/d/old", "old");
	CHECK(mkdirat(record->fd, "top/upper/e", 0755) == 0);
	put(record, "top/upper/e/old", "old");
	CHECK(layer_seal_top(record, &err) == 0);
	/* then: the base's `below` is deleted, d becomes a file's place, e opaque */
	put(record, "top/upper/changed", "new");
	whiteout(record, "top/upper/deleted");
	whiteout(record, "top/upper/below");
	whiteout(record, "top/upper/d");
	CHECK(mkdirat(record->fd, "top/upper/e", 0755) == 0);
	e = openat(record->fd, "top/upper/e", O_RDONLY | O_DIRECTORY);
	CHECK(fsetxattr(e, "user.overlay.opaque", "y", 1, 0) == 0);
	CHECK(layer_seal_top(record, &err) == 0);
	/* and again a directory d on the deleted one */
	CHECK(mkdirat(record->fd, "top/upper/d", 0711) == 0);
	put(record, "top/upper/d/new", "new");
	CHECK(layer_seal_top(record, &err) == 0);
	while (record->n_layers <= LAYER_DEPTH_MAX / 2)
		CHECK(layer_seal_top(record, &err) == 0);
	if (layer_flatten(record, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_INT(record->n_layers, 1);
	snprintf(path, sizeof path, "layers/%s/upper", record->layers[0]);
	upper = openat(record->store.fd, path, O_RDONLY | O_DIRECTORY);
	CHECK_STR(content(upper, "changed"), "new");
	CHECK(fstatat(upper, "deleted", &st, 0) == 0 && S_ISCHR(st.st_mode));
	CHECK(fstatat(upper, "below", &st, 0) == 0 && S_ISCHR(st.st_mode));
	CHECK(fstatat(upper, "d", &st, 0) == 0);
	CHECK_INT(st.st_mode & 07777, 0711);
	CHECK_STR(content(upper, "d/new"), "new");
	CHECK(!is_there(upper, "d/old"));
	CHECK(!is_there(upper, "e/old"));
	d = openat(upper, "d", O_RDONLY | O_DIRECTORY);
	CHECK_INT(fgetxattr(d, "user.overlay.opaque", value, sizeof value), 1);
	close(e);
	e = openat(upper, "e", O_RDONLY | O_DIRECTORY);
	CHECK_INT(fgetxattr(e, "user.overlay.opaque", value, sizeof value), 1);
	layer_record_close(record);
}

TEST(a_sealed_layer_stays_as_long_as_somebody_names_it)
{
	struct layer_record *one, *other;
	struct atoll_error err = {0};
	char path[64];

	fresh();
	one = make(ATOLL_RECORD_SANDBOX);
	put(one, "top/upper/f", "x");
	CHECK(layer_seal_top(one, &err) == 0 && layer_record_save(one, &err) == 0);
	snprintf(path, sizeof path, "layers/%s/upper/f", one->layers[0]);
	other = make(ATOLL_RECORD_SANDBOX);
	put(other, "checkpoints", "1 0 0 first ");
	CHECK(layer_record_set(other, "x", one->layers[0], &err) == 0);
	CHECK(layer_record_save(other, &err) == 0);
	CHECK(layer_record_remove(one, &err) == 0);
	CHECK_STR(content(other->store.fd, path), "x");
	CHECK(layer_record_remove(other, &err) == 0);
	CHECK(!is_there(other->store.fd, path));
	layer_record_close(one);
	layer_record_close(other);
}

/* ---- what was there before ---- */

TEST(texts_are_kept_as_they_were_unless_the_host_changed_them)
{
	struct layer_record *record;
	struct atoll_error err = {0};
	cleanup_fd int ws = -1;

	fresh();
	ws = openat(dir_fd, "ws", O_RDONLY | O_DIRECTORY);
	CHECK(mkdirat(ws, "d", 0755) == 0);
	{
		cleanup_fd int a = openat(ws, "d/text", O_WRONLY | O_CREAT, 0644);
		cleanup_fd int b = openat(ws, "binary", O_WRONLY | O_CREAT, 0644);
		cleanup_fd int c = openat(ws, "untouched", O_WRONLY | O_CREAT, 0644);

		CHECK(write(a, "before\n", 7) == 7 && write(b, "a\0b", 3) == 3);
		CHECK(write(c, "x", 1) == 1);
	}
	record = make(ATOLL_RECORD_RUN);
	CHECK(mkdirat(record->fd, "top/upper/d", 0755) == 0);
	put(record, "top/upper/d/text", "after\n");
	put(record, "top/upper/binary", "after\n");
	put(record, "top/upper/new", "after\n");
	CHECK(layer_keep_base(record, &err) == 0);
	CHECK_STR(content(record->fd, "base/d/text"), "before\n");
	CHECK(!is_there(record->fd, "base/binary"));
	CHECK(!is_there(record->fd, "base/untouched"));
	CHECK(!is_there(record->fd, "base/new"));
	CHECK(record->info.bytes > 0);

	/* What it could not see. */
	CHECK(unlinkat(record->fd, "base/d/text", 0) == 0);
	CHECK(layer_record_set(record, "hide", "/elsewhere\n/**/text", &err) == 0);
	CHECK(layer_keep_base(record, &err) == 0);
	CHECK(!is_there(record->fd, "base/d/text"));
	CHECK(layer_record_set(record, "hide", NULL, &err) == 0);

	/* The host's own change later than the run began. */
	record->base_time_ns = 1;
	CHECK(layer_keep_base(record, &err) == 0);
	CHECK(!is_there(record->fd, "base/d/text"));
	layer_record_close(record);
}

/* ---- bounds ---- */

struct removed {
	size_t n;
	char ids[8][ATOLL_ID_SIZE];
	const char *why[8];
};

static void on_removed(const struct atoll_record *record, const char *why, void *data)
{
	struct removed *removed = data;

	if (removed->n < 8) {
		strcpy(removed->ids[removed->n], record->id);
		removed->why[removed->n++] = streq(why, "age") ? "age" : "size";
	}
}

/* A run that ended so long ago, with so much disk by its own account. */
static void make_old(uint64_t days, uint64_t bytes, enum atoll_record_state state,
		     char ret_id[ATOLL_ID_SIZE])
{
	struct layer_record *record = make(ATOLL_RECORD_RUN);
	uint64_t ago_s = days * 86400 + 60;
	struct timespec times[2];

	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= (time_t)ago_s;
	times[1] = times[0];
	put(record, "top/upper/f", "x");
	record->info.start_ns = record->info.end_ns = (uint64_t)times[0].tv_sec * 1000000000U;
	record->info.bytes = bytes;
	record->info.state = state;
	CHECK(layer_record_save_soon(record, NULL) == 0);
	CHECK(utimensat(record->fd, "meta", times, 0) == 0);
	strcpy(ret_id, record->info.id);
	layer_record_close(record);
}

TEST(what_is_old_goes_and_what_is_young_stays)
{
	struct removed removed = {0};
	struct atoll_gc_options options = {.removed = on_removed, .data = &removed, .is_dry = true};
	char old[ATOLL_ID_SIZE], young[ATOLL_ID_SIZE];
	struct layer_record *record;

	fresh();
	make_old(15, 100, ATOLL_RECORD_KEPT, old);
	make_old(13, 100, ATOLL_RECORD_KEPT, young);
	CHECK(atoll_gc(&options, NULL) == 0);
	CHECK_INT(removed.n, 1);
	CHECK_STR(removed.ids[0], old);
	CHECK(layer_record_open(old, &record, NULL) == 0);
	layer_record_close(record);
	options.is_dry = false;
	CHECK(atoll_gc(&options, NULL) == 0);
	CHECK_INT(removed.n, 2);
	CHECK_INT(layer_record_open(old, &record, NULL), -ENOENT);
	CHECK(layer_record_open(young, &record, NULL) == 0);
	layer_record_close(record);
}

TEST(what_takes_too_much_goes_by_age_applied_first_and_never_todays)
{
	struct removed removed = {0};
	struct atoll_gc_options options = {
		.removed = on_removed, .data = &removed, .max_bytes = 150};
	char kept[ATOLL_ID_SIZE], applied[ATOLL_ID_SIZE], today[ATOLL_ID_SIZE];
	struct layer_record *record;

	fresh();
	make_old(9, 100, ATOLL_RECORD_KEPT, kept);
	make_old(2, 100, ATOLL_RECORD_APPLIED, applied);
	make_old(0, 100, ATOLL_RECORD_KEPT, today);
	CHECK(atoll_gc(&options, NULL) == 0);
	CHECK_INT(removed.n, 2);
	CHECK_STR(removed.ids[0], applied);
	CHECK_STR(removed.ids[1], kept);
	options.max_bytes = 1;
	CHECK(atoll_gc(&options, NULL) == 0);
	CHECK_INT(removed.n, 2);
	CHECK(layer_record_open(today, &record, NULL) == 0);
	layer_record_close(record);
}

TEST(what_is_live_or_in_the_middle_of_an_apply_is_not_swept)
{
	struct removed removed = {0};
	struct atoll_gc_options options = {
		.removed = on_removed, .data = &removed, .is_any_age = true};
	char id[ATOLL_ID_SIZE];
	struct layer_record *live, *broken, *held;
	int held_fd;

	fresh();
	live = make(ATOLL_RECORD_RUN);
	put(live, "top/upper/f", "x");
	make_old(20, 1, ATOLL_RECORD_KEPT, id);
	CHECK(layer_record_open(id, &broken, NULL) == 0);
	put(broken, "journal", "atoll-journal 1 apply 1\n");
	held = make(ATOLL_RECORD_SANDBOX);
	held_fd = layer_record_hold(held);
	CHECK(held_fd >= 0);
	CHECK_INT(layer_record_hold(held), -EBUSY);
	strcpy(id, held->info.id);
	layer_record_close(held);
	CHECK(atoll_gc(&options, NULL) == 0);
	CHECK_INT(removed.n, 0);
	CHECK(atoll_record_discard(id, true, NULL) < 0);
	CHECK(atoll_record_discard(broken->info.id, false, NULL) < 0);
	close(held_fd);
	layer_record_close(live);
	layer_record_close(broken);
	CHECK(atoll_gc(&options, NULL) == 0);
	CHECK_INT(removed.n, 2);
}

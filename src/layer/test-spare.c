/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "layer/layer.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

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

/* As a run makes it; its first process says who it is. */
static struct layer_record *start(void)
{
	struct layer_record *record = NULL;
	struct atoll_error err = {0};

	if (layer_record_create(ATOLL_RECORD_RUN, workspace, &record, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(faccessat(record->fd, "meta", F_OK, 0) < 0);
	record->info.command = strdup("a secret command");
	CHECK(layer_record_save_soon(record, &err) == 0);
	dprintf(record->lock_fd, "%d\n", 123456);
	return record;
}

static void end(struct layer_record *record)
{
	CHECK(layer_record_recycle(record, NULL) == 0);
	layer_record_close(record);
}

static ino_t upper(const struct layer_record *record)
{
	struct stat st = {0};

	CHECK(fstatat(record->fd, "top/upper", &st, AT_SYMLINK_NOFOLLOW) == 0);
	return st.st_ino;
}

static bool is_there(const char *path)
{
	return faccessat(dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* As a mount leaves it. */
static void mount_it(const struct layer_record *record)
{
	CHECK(mkdirat(record->fd, "top/work/work", 0700) == 0);
	CHECK(mkdirat(record->fd, "top/work/work/incompat", 0700) == 0);
	CHECK(mkdirat(record->fd, "top/work/work/incompat/volatile", 0700) == 0);
}

static void write_file(const char *path)
{
	cleanup_fd int fd = openat(dir_fd, path, O_WRONLY | O_CREAT, 0644);

	CHECK(fd >= 0);
}

/* ---- used again ---- */

TEST(what_nobody_wrote_to_is_the_next_ones_under_another_id)
{
	struct layer_record *record;
	char id[ATOLL_ID_SIZE], text[64] = "";
	cleanup_fd int meta = -1;
	ino_t ino;

	fresh();
	record = start();
	mount_it(record);
	ino = upper(record);
	strcpy(id, record->info.id);
	end(record);
	CHECK(is_there("state/atoll/spare/1"));
	/* Who it was is forgotten. */
	meta = openat(dir_fd, "state/atoll/spare/1/meta.new", O_RDONLY);
	CHECK_INT(read(meta, text, sizeof text), 1);
	record = start();
	CHECK_INT(upper(record), ino);
	CHECK(!streq(record->info.id, id));
	CHECK(!is_there("state/atoll/spare/1"));
	CHECK(faccessat(record->fd, "top/work/work", F_OK, 0) < 0);
	layer_record_close(record);
}

TEST(of_the_last_run_no_process_is_named)
{
	struct layer_record *record = NULL;
	char text[16] = "";

	fresh();
	end(start());
	CHECK(layer_record_create(ATOLL_RECORD_RUN, workspace, &record, NULL) == 0);
	CHECK(pread(record->lock_fd, text, sizeof text - 1, 0) > 0);
	CHECK_INT(strtol(text, NULL, 10), 0);
	layer_record_close(record);
}

TEST(two_at_once_have_two)
{
	struct layer_record *one, *two;

	fresh();
	end(start());
	one = start();
	two = start();
	CHECK(upper(one) != upper(two));
	end(one);
	end(two);
	CHECK(is_there("state/atoll/spare/1") && is_there("state/atoll/spare/2"));
}

TEST(one_that_somebody_holds_is_left_alone)
{
	struct layer_record *record, *other;
	ino_t ino;

	fresh();
	record = start();
	ino = upper(record);
	/* Put aside, but its lock is not yet let go. */
	CHECK(layer_record_recycle(record, NULL) == 0);
	other = start();
	CHECK(upper(other) != ino);
	CHECK(is_there("state/atoll/spare/1"));
	layer_record_close(other);
	layer_record_close(record);
}

TEST(it_fits_the_workspace_of_the_run_that_takes_it)
{
	struct layer_record *record;
	struct stat st;
	ino_t ino;

	fresh();
	record = start();
	ino = upper(record);
	end(record);
	CHECK(fchmodat(dir_fd, "ws", 0710, 0) == 0);
	if (geteuid() == 0)
		CHECK(fchownat(dir_fd, "ws", 1234, 1235, 0) == 0);
	record = start();
	CHECK_INT(upper(record), ino);
	CHECK(fstatat(record->fd, "top/upper", &st, 0) == 0);
	CHECK_INT(st.st_mode & 07777, 0710);
	CHECK_INT(st.st_uid, geteuid() == 0 ? 1234 : geteuid());
	CHECK(fstatat(record->fd, "top/work", &st, 0) == 0);
	CHECK_INT(st.st_uid, geteuid() == 0 ? 1234 : geteuid());
	end(record);
	/* And back. */
	if (geteuid() != 0)
		return;
	CHECK(fchownat(dir_fd, "ws", 0, 0, 0) == 0);
	record = start();
	CHECK_INT(upper(record), ino);
	CHECK(fstatat(record->fd, "top/upper", &st, 0) == 0);
	CHECK(st.st_uid == 0 && st.st_gid == 0);
	layer_record_close(record);
}

/* ---- not used again ---- */

TEST(what_was_written_to_is_no_spare)
{
	struct layer_record *record;
	cleanup_fd int fd = -1;

	fresh();
	record = start();
	fd = openat(record->fd, "top/upper/f", O_WRONLY | O_CREAT, 0644);
	CHECK(fd >= 0);
	end(record);
	CHECK(!is_there("state/atoll/spare"));
	record = start();
	CHECK(fchmodat(record->fd, "top/upper", 0700, 0) == 0);
	end(record);
	CHECK(!is_there("state/atoll/spare"));
}

/* Whatever is not as it should be when it is taken, is thrown away. */
static void check_refused(void (*spoil)(void))
{
	struct layer_record *record;
	ino_t ino;

	fresh();
	record = start();
	ino = upper(record);
	end(record);
	spoil();
	record = start();
	CHECK(upper(record) != ino);
	CHECK(!is_there("state/atoll/spare/1"));
	layer_record_close(record);
}

static void add_file(void)
{
	write_file("state/atoll/spare/1/top/upper/f");
}

static void add_gone(void)
{
	write_file("state/atoll/spare/1/top/gone");
}

static void add_journal(void)
{
	write_file("state/atoll/spare/1/journal");
}

static void add_to_work(void)
{
	write_file("state/atoll/spare/1/top/work/index");
}

static void add_attribute(void)
{
	char path[4200];

	snprintf(path, sizeof path, "%s/state/atoll/spare/1/top/upper", test_tempdir_path());
	CHECK(setxattr(path, "user.overlay.opaque", "y", 1, 0) == 0);
}

static void remove_upper(void)
{
	CHECK(unlinkat(dir_fd, "state/atoll/spare/1/top/upper", AT_REMOVEDIR) == 0);
}

static void make_link(void)
{
	remove_upper();
	CHECK(symlinkat("../../../../../ws", dir_fd, "state/atoll/spare/1/top/upper") == 0);
}

TEST(what_is_not_as_new_is_thrown_away)
{
	void (*const ways[])(void) = {add_file,	     add_gone,	   add_journal, add_to_work,
				      add_attribute, remove_upper, make_link};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		check_refused(ways[i]);
}

TEST(a_kill_on_the_way_leaves_what_can_still_be_taken)
{
	struct layer_record *record;
	ino_t ino;

	fresh();
	record = start();
	ino = upper(record);
	end(record);
	/* Killed before its meta was put out of sight, and while the work directory was there. */
	CHECK(renameat(dir_fd, "state/atoll/spare/1/meta.new", dir_fd,
		       "state/atoll/spare/1/meta") == 0);
	CHECK(mkdirat(dir_fd, "state/atoll/spare/1/top/work/work", 0700) == 0);
	record = start();
	CHECK_INT(upper(record), ino);
	layer_record_close(record);
}

TEST(who_still_looks_at_the_old_record_hears_that_it_is_gone)
{
	struct layer_record *record, *old;
	struct atoll_error err = {0};

	fresh();
	record = start();
	CHECK(layer_record_open(record->info.id, &old, &err) == 0);
	end(record);
	record = start();
	CHECK_INT(layer_record_lock(old, false, &err), -ENOENT);
	layer_record_close(old);
	layer_record_close(record);
}

/* ---- of sandboxes ---- */

static const char mine[] = "what the tenant before had";

static void write_in(const struct layer_record *record, const char *name)
{
	cleanup_fd int fd = openat(record->fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && write(fd, mine, sizeof mine) == sizeof mine);
}

/* As one that has lived leaves it. */
static struct layer_record *live(void)
{
	static const char *const names[] = {"job", "number", "held", "network", "checkpoints"};
	struct layer_record *record = NULL;
	struct atoll_error err = {0};

	if (layer_record_create(ATOLL_RECORD_SANDBOX, workspace, &record, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		write_in(record, names[i]);
	CHECK(layer_record_save_soon(record, &err) == 0);
	mount_it(record);
	return record;
}

static void leave(struct layer_record *record)
{
	cleanup_with(layer_names_done) struct layer_names lost = {0};

	CHECK(layer_record_recycle_first(record, &lost, NULL) == 0);
	layer_record_close(record);
}

static ino_t inode(const struct layer_record *record)
{
	struct stat st = {0};

	CHECK(fstat(record->fd, &st) == 0);
	return st.st_ino;
}

static size_t n_spares(char ret_name[16])
{
	size_t n = 0;

	for (int i = 0; i < 64; i++) {
		char path[64];

		snprintf(path, sizeof path, "state/atoll/spare/s%d", i);
		if (!is_there(path))
			continue;
		snprintf(ret_name, 16, "s%d", i);
		n++;
	}
	return n;
}

static void check_blank(const struct layer_record *record, const char *name)
{
	cleanup_fd int fd = openat(record->fd, name, O_RDONLY);
	char text[64];

	CHECK(fd >= 0);
	CHECK_INT(read(fd, text, sizeof text), 1);
	CHECK_INT(text[0], 0);
}

TEST(a_sandbox_gets_the_record_of_another_and_nothing_that_was_in_it)
{
	static const char *const gone[] = {"meta", "network", "checkpoints", "top/work/work"};
	struct layer_record *record, *next = NULL;
	char id[ATOLL_ID_SIZE], name[16];
	ino_t ino;

	fresh();
	record = live();
	ino = inode(record);
	write_in(record, "top/upper/secret");
	write_in(record, "top/gone");
	CHECK(fchmodat(record->fd, "top/upper", 0500, 0) == 0);
	strcpy(id, record->info.id);
	leave(record);
	CHECK_INT(n_spares(name), 1);
	CHECK(layer_record_create(ATOLL_RECORD_SANDBOX, workspace, &next, NULL) == 0);
	CHECK_INT(inode(next), ino);
	CHECK(!streq(next->info.id, id));
	CHECK_INT(n_spares(name), 0);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		CHECK(faccessat(next->fd, gone[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0);
	check_blank(next, "job");
	check_blank(next, "number");
	check_blank(next, "meta.new");
	CHECK(layer_top_is_empty(next));
	layer_record_close(next);
}

TEST(what_was_only_read_is_used_as_it_is)
{
	struct layer_record *record;
	ino_t ino;

	fresh();
	record = live();
	ino = upper(record);
	leave(record);
	record = live();
	CHECK_INT(upper(record), ino);
	layer_record_close(record);
}

TEST(as_long_as_somebody_reads_a_record_it_becomes_nobody_elses)
{
	struct layer_record *record, *reader;
	struct atoll_error err = {0};
	char name[16];

	fresh();
	record = live();
	CHECK(layer_record_open(record->info.id, &reader, &err) == 0);
	leave(record);
	CHECK_INT(n_spares(name), 0);
	CHECK_INT(layer_record_lock(reader, false, &err), -ENOENT);
	layer_record_close(reader);
}

TEST(what_a_fork_is_made_of_is_not_written_over)
{
	struct layer_record *record;
	cleanup_fd int fd = -1;
	char text[64] = "", name[16];

	fresh();
	record = live();
	CHECK(linkat(record->fd, "job", dir_fd, "others", 0) == 0);
	leave(record);
	CHECK_INT(n_spares(name), 1);
	record = live();
	layer_record_close(record);
	fd = openat(dir_fd, "others", O_RDONLY);
	CHECK_INT(read(fd, text, sizeof text), (int)sizeof mine);
	CHECK_STR(text, mine);
}

TEST(a_kill_before_it_was_emptied_leaves_what_nobody_takes)
{
	struct layer_record *record;
	char path[64];
	ino_t ino;

	fresh();
	record = live();
	ino = inode(record);
	CHECK(mkdirat(dir_fd, "state/atoll/spare", 0700) == 0);
	snprintf(path, sizeof path, "state/atoll/records/%s", record->info.id);
	CHECK(renameat(dir_fd, path, dir_fd, "state/atoll/spare/s3") == 0);
	layer_record_close(record);
	record = live();
	CHECK(inode(record) != ino);
	CHECK(!is_there("state/atoll/spare/s3"));
	layer_record_close(record);
}

TEST(runs_and_sandboxes_have_their_own)
{
	struct layer_record *record;
	char name[16];

	fresh();
	leave(live());
	end(start());
	CHECK_INT(n_spares(name), 1);
	CHECK(is_there("state/atoll/spare/1"));
	record = start();
	CHECK_INT(n_spares(name), 1);
	CHECK(!is_there("state/atoll/spare/1"));
	layer_record_close(record);
}

TEST(there_are_never_many)
{
	struct layer_record *records[64];
	char name[16];

	fresh();
	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		records[i] = live();
	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		leave(records[i]);
	CHECK_INT(n_spares(name), 48);
	CHECK(atoll_gc(NULL, NULL) == 0);
	CHECK_INT(n_spares(name), 0);
}

/* ---- ahead, and away ---- */

TEST(one_made_ahead_is_taken_first_and_comes_back_to_its_place)
{
	struct layer_record *record;
	struct layer_store store = {.fd = -1};

	fresh();
	end(start());
	CHECK(layer_store_open(false, &store, NULL) == 0);
	if (!layer_store_can_overlay(&store))
		test_skip("a file system for layers");
	layer_store_prepare(&store);
	CHECK(is_there("state/atoll/spare/0") && is_there("state/atoll/spare/1"));
	record = start();
	CHECK(record->is_ahead && !is_there("state/atoll/spare/0"));
	end(record);
	CHECK(is_there("state/atoll/spare/0"));
	layer_store_close(&store);
}

TEST(a_sweep_removes_them_and_lists_do_not_show_them)
{
	struct atoll_record *list;
	struct atoll_error err = {0};
	size_t n;

	fresh();
	end(start());
	CHECK(atoll_records_list(true, &list, &n, &err) == 0);
	CHECK_INT(n, 0);
	atoll_records_free(list, n);
	CHECK(atoll_gc(NULL, &err) == 0);
	CHECK(!is_there("state/atoll/spare/1"));
	CHECK(unlinkat(dir_fd, "state/atoll/trash", AT_REMOVEDIR) == 0);
}

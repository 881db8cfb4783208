/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "layer/applied-files.h"
#include "layer/apply.h"
#include "layer/layer-tree.h"
#include "layer/test-layers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <sys/xattr.h>

/* ---- looking at trees ---- */

struct lines {
	char *items[512];
	size_t n;
	int fd;
};

static int describe(const char *path, const struct stat *st, void *data)
{
	cleanup_buf struct buf content = BUF_INIT(1 << 20), line = BUF_INIT(2 << 20);
	char target[256] = "", value[64] = "";
	struct lines *lines = data;
	cleanup_fd int fd = -1;

	if (S_ISREG(st->st_mode)) {
		fd = openat(lines->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		CHECK(fd >= 0 && (st->st_size > 1 << 20 || fd_read_all(fd, &content) == 0));
		fgetxattr(fd, "user.color", value, sizeof value - 1);
	}
	if (S_ISLNK(st->st_mode))
		CHECK(readlinkat(lines->fd, path, target, sizeof target - 1) > 0);
	buf_addf(&line, "%s %o", path, st->st_mode);
	/* A directory's time is that of the apply, but for new ones. */
	if (!S_ISDIR(st->st_mode))
		buf_addf(&line, " %zu t%ld n%u", (size_t)st->st_size, (long)st->st_mtim.tv_sec,
			 (unsigned)st->st_nlink);
	buf_addf(&line, " %s%s%s\n", target, value, content.data ? content.data : "");
	CHECK(lines->n < ARRAY_SIZE(lines->items));
	lines->items[lines->n++] = buf_take(&line);
	return 0;
}

static int by_line(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The whole of it as a text. */
static char *look(struct layers *l)
{
	cleanup_fd int fd = layers_fd(l, BASE);
	struct lines lines = {.fd = fd};
	struct buf text = BUF_INIT(4 << 20);

	CHECK(object_walk(fd, describe, &lines) == 0);
	qsort(lines.items, lines.n, sizeof *lines.items, by_line);
	for (size_t i = 0; i < lines.n; i++) {
		buf_add_str(&text, lines.items[i]);
		free(lines.items[i]);
	}
	return buf_take(&text);
}

static char *content(struct layers *l, const char *path)
{
	cleanup_fd int dir = layers_fd(l, BASE), fd = -1;
	struct buf text = BUF_INIT(1 << 20);

	fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return strdup("");
	return text.data ? buf_take(&text) : strdup("");
}

#define CHECK_FILE(l, path, want)                                                                  \
	do {                                                                                       \
		cleanup_free char *content_ = content(l, path);                                    \
		CHECK_STR(content_, want);                                                         \
	} while (0)

static bool exists(struct layers *l, size_t layer, const char *path)
{
	cleanup_fd int dir = layers_fd(l, layer);
	struct stat st;

	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- records by hand ---- */

static struct layers *begin(void)
{
	struct layers *l = layers_new(1);
	struct layer_record *record = layers_record(l);
	cleanup_fd int base = layers_fd(l, BASE);
	struct stat st;

	CHECK(fstat(base, &st) == 0);
	record->workspace_dev = st.st_dev;
	record->workspace_ino = st.st_ino;
	return l;
}

static void scope_layers(struct layers **l)
{
	layers_done(*l);
}
#define cleanup_layers cleanup_with(scope_layers)

static int apply_with(struct layers *l, const struct atoll_apply_options *options,
		      struct atoll_apply_report *ret)
{
	struct atoll_error err = {0};
	int r = layer_apply(layers_record(l), options, ret, &err);

	if (r < 0)
		printf("# %s\n", err.text);
	return r;
}

static int apply(struct layers *l)
{
	struct atoll_apply_report report;

	return apply_with(l, &(struct atoll_apply_options){0}, &report);
}

static int undo_with(struct layers *l, bool is_forced)
{
	struct atoll_apply_report report;
	struct atoll_error err = {0};
	int r = layer_undo(layers_record(l), is_forced, &report, &err);

	if (r < 0)
		printf("# %s\n", err.text);
	return r;
}

static int undo(struct layers *l)
{
	return undo_with(l, false);
}

/* Every kind of change. */
static struct layers *everything(void)
{
	struct layers *l = begin();

	layers_file(l, BASE, "changed", "one\n");
	layers_file(l, BASE, "deleted", "one\n");
	layers_file(l, BASE, "gone/a", "a\n");
	layers_file(l, BASE, "gone/b/c", "c\n");
	layers_file(l, BASE, "becomes-dir", "file\n");
	layers_file(l, BASE, "becomes-file/x", "x\n");
	layers_file(l, BASE, "becomes-link", "file\n");
	layers_link(l, BASE, "was-link", "changed");
	layers_file(l, BASE, "mode", "m\n");
	layers_file(l, BASE, "time", "t\n");
	layers_file(l, BASE, "colored", "c\n");
	layers_file(l, BASE, "kept/file", "k\n");
	layers_file(l, BASE, "old-name", "a text that is long enough to be told from others\n");
	for (const char *const *p =
		     (const char *const[]){"changed", "deleted", "gone/a", "gone/b/c",
					   "becomes-dir", "becomes-file/x", "becomes-link",
					   "was-link", "mode", "time", "colored", "kept/file",
					   "old-name", NULL};
	     *p; p++)
		layers_touch(l, BASE, *p, 1000);
	layers_begin(l);

	layers_file(l, 0, "changed", "two\n");
	layers_whiteout(l, 0, "deleted");
	layers_whiteout(l, 0, "gone");
	layers_file(l, 0, "becomes-dir/new", "new\n");
	layers_opaque(l, 0, "becomes-dir");
	layers_file(l, 0, "becomes-file", "file now\n");
	layers_link(l, 0, "becomes-link", "kept/nowhere");
	layers_file(l, 0, "was-link", "no link\n");
	layers_copy_up(l, 0, "mode");
	layers_chmod(l, 0, "mode", 0600);
	layers_copy_up(l, 0, "time");
	layers_copy_up(l, 0, "colored");
	layers_xattr(l, 0, "colored", "user.color", "red");
	layers_whiteout(l, 0, "old-name");
	layers_file(l, 0, "kept/new-name", "a text that is long enough to be told from others\n");
	layers_file(l, 0, "added/deep/er", "deep\n");
	layers_dir(l, 0, "added/empty");
	layers_chmod(l, 0, "added/empty", 0555);
	layers_file(l, 0, "pair-a", "pair\n");
	layers_hard_link(l, 0, "pair-a", "added/pair-b");
	layers_sparse(l, 0, "holes", 8 << 20, "data", 4 << 20);
	layers_fifo(l, 0, "fifo");
	for (const char *const *p =
		     (const char *const[]){"changed", "becomes-dir/new", "becomes-file",
					   "becomes-link", "was-link", "mode", "time", "colored",
					   "kept/new-name", "added/deep/er", "pair-a", "holes",
					   "fifo", NULL};
	     *p; p++)
		layers_touch(l, 0, *p, 2000);
	return l;
}

static void check_no_traces(struct layers *l)
{
	CHECK(!exists(l, BASE, ".atoll-apply-test"));
	CHECK(faccessat(layers_record(l)->fd, "journal", F_OK, 0) < 0);
}

/* ---- tests ---- */

TEST(every_kind_of_change_arrives_and_leaves_again)
{
	cleanup_layers struct layers *l = everything();
	cleanup_free char *before = look(l), *again = NULL, *after = NULL;
	cleanup_fd int base = layers_fd(l, BASE);
	struct stat st, other;

	CHECK_INT(apply(l), 0);
	after = look(l);
	CHECK_FILE(l, "changed", "two\n");
	CHECK(!exists(l, BASE, "deleted") && !exists(l, BASE, "gone"));
	CHECK_FILE(l, "becomes-dir/new", "new\n");
	CHECK_FILE(l, "becomes-file", "file now\n");
	CHECK_FILE(l, "was-link", "no link\n");
	CHECK_FILE(l, "kept/new-name", "a text that is long enough to be told from others\n");
	CHECK(!exists(l, BASE, "old-name"));
	CHECK(fstatat(base, "becomes-link", &st, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(S_ISLNK(st.st_mode));
	CHECK(fstatat(base, "pair-a", &st, 0) == 0 &&
	      fstatat(base, "added/pair-b", &other, 0) == 0);
	CHECK(st.st_ino == other.st_ino);
	CHECK(fstatat(base, "holes", &st, 0) == 0);
	CHECK(st.st_size == 8 << 20 && st.st_blocks * 512 < 1 << 20);
	CHECK(fstatat(base, "mode", &st, 0) == 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK_INT(st.st_mtim.tv_sec, 2000);
	CHECK(fstatat(base, "added/empty", &st, 0) == 0);
	CHECK_INT(st.st_mode & 07777, 0555);
	check_no_traces(l);
	layers_read(l);
	CHECK_STR(layers_words(l), "A fifo (special file)\n");
	CHECK_INT(layers_record(l)->info.state, ATOLL_RECORD_APPLIED);

	CHECK_INT(undo(l), 0);
	again = look(l);
	CHECK_STR(again, before);
	check_no_traces(l);
	CHECK_INT(layers_record(l)->n_applies, 0);
	CHECK_INT(layers_record(l)->info.state, ATOLL_RECORD_KEPT);
	CHECK_INT(undo(l), -EINVAL);

	/* And once more: what undo brought back is no change of the host's. */
	CHECK_INT(layers_read(l)->n_conflicts, 0);
	CHECK_INT(apply(l), 0);
	free(take_ptr(again));
	again = look(l);
	CHECK_STR(again, after);
}

TEST(a_conflict_anywhere_means_that_nothing_is_applied)
{
	cleanup_layers struct layers *l = everything();
	struct atoll_apply_report report;
	cleanup_free char *before = NULL, *after = NULL;

	layers_write(l, BASE, "changed", "the host's\n");
	before = look(l);
	CHECK_INT(apply_with(l, &(struct atoll_apply_options){0}, &report), -EEXIST);
	CHECK_INT(report.n_conflicts, 1);
	after = look(l);
	CHECK_STR(after, before);
	check_no_traces(l);

	/* Force overwrites, and undo brings the host's back, which conflicts again. */
	CHECK_INT(apply_with(l, &(struct atoll_apply_options){.is_forced = true}, &report), 0);
	CHECK_FILE(l, "changed", "two\n");
	CHECK_INT(undo(l), 0);
	CHECK_FILE(l, "changed", "the host's\n");
	CHECK_INT(apply(l), -EEXIST);
}

TEST(a_file_that_appeared_in_a_deleted_directory_is_not_lost)
{
	cleanup_layers struct layers *l = everything();

	layers_file(l, BASE, "gone/b/from-host", "precious\n");
	CHECK_INT(apply(l), -EEXIST);
	CHECK_FILE(l, "gone/b/from-host", "precious\n");
	CHECK_FILE(l, "changed", "one\n");
}

TEST(a_directory_that_became_a_link_is_not_followed)
{
	cleanup_layers struct layers *l = begin();

	layers_file(l, BASE, "d/kept", "k\n");
	layers_file(l, BASE, "elsewhere/kept", "k\n");
	layers_begin(l);
	layers_copy_up(l, 0, "d");
	layers_file(l, 0, "d/x", "from the run\n");
	layers_rename(l, BASE, "d", "d.away");
	layers_link(l, BASE, "d", "elsewhere");
	CHECK_INT(apply(l), -EEXIST);
	CHECK(!exists(l, BASE, "elsewhere/x") && !exists(l, BASE, "d.away/x"));
	/* Force replaces the link itself. */
	CHECK_INT(apply_with(l, &(struct atoll_apply_options){.is_forced = true},
			     &(struct atoll_apply_report){0}),
		  0);
	CHECK(!exists(l, BASE, "elsewhere/x"));
	CHECK_FILE(l, "d/x", "from the run\n");
	CHECK_INT(undo(l), 0);
	CHECK_FILE(l, "elsewhere/kept", "k\n");
	CHECK(!exists(l, BASE, "elsewhere/x"));
}

TEST(parts_can_be_applied_one_after_the_other_and_undone_in_turn)
{
	cleanup_layers struct layers *l = everything();
	cleanup_free char *before = look(l), *again = NULL;
	char *paths[] = {NULL, NULL};
	struct atoll_apply_report report;

	CHECK(asprintf(&paths[0], "%s/added/deep/er", layers_record(l)->info.workspace) > 0);
	CHECK_INT(apply_with(l, &(struct atoll_apply_options){.paths = paths}, &report), 0);
	CHECK_FILE(l, "added/deep/er", "deep\n");
	CHECK(!exists(l, BASE, "added/pair-b"));
	CHECK_FILE(l, "changed", "one\n");
	CHECK_INT(layers_record(l)->info.state, ATOLL_RECORD_KEPT);
	CHECK_INT(apply(l), 0);
	CHECK_FILE(l, "changed", "two\n");
	CHECK_INT(layers_record(l)->n_applies, 2);
	CHECK_INT(undo(l), 0);
	CHECK_FILE(l, "changed", "one\n");
	CHECK_FILE(l, "added/deep/er", "deep\n");
	CHECK_INT(undo(l), 0);
	again = look(l);
	CHECK_STR(again, before);
	free(paths[0]);
}

TEST(undo_does_not_take_what_the_host_changed_since)
{
	cleanup_layers struct layers *l = everything();

	CHECK_INT(apply(l), 0);
	layers_write(l, BASE, "changed", "edited\n");
	layers_file(l, BASE, "added/by-host", "mine\n");
	CHECK_INT(undo(l), -EEXIST);
	CHECK_FILE(l, "changed", "edited\n");
	CHECK_FILE(l, "becomes-file", "file now\n");
	CHECK_INT(undo_with(l, true), 0);
	CHECK_FILE(l, "changed", "one\n");
	CHECK_FILE(l, "added/by-host", "mine\n");
	CHECK(!exists(l, BASE, "added/deep"));
	check_no_traces(l);
}

TEST(what_is_marked_waits_until_it_is_named)
{
	cleanup_layers struct layers *l = everything();
	char *paths[] = {(char *)"fifo", NULL};
	struct atoll_apply_report report;

	CHECK_INT(apply_with(l, &(struct atoll_apply_options){0}, &report), 0);
	CHECK_INT(report.n_held, 1);
	CHECK(!exists(l, BASE, "fifo"));
	CHECK_INT(apply_with(l, &(struct atoll_apply_options){.paths = paths}, &report), 0);
	CHECK_INT(report.n_held, 0);
	CHECK_INT(report.n_applied, 1);
	CHECK(exists(l, BASE, "fifo"));
	CHECK_INT(layers_read(l)->n, 0);
	CHECK_INT(undo(l), 0);
	CHECK(!exists(l, BASE, "fifo"));
	CHECK_FILE(l, "changed", "two\n");
}

TEST(another_directory_of_the_same_name_is_left_alone)
{
	cleanup_layers struct layers *l = everything();

	layers_record(l)->workspace_ino++;
	CHECK_INT(apply(l), -EPERM);
	CHECK_FILE(l, "changed", "one\n");
}

/* ---- kill -9 ---- */

static unsigned steps_left;

static void die_in_time(const char *step)
{
	(void)step;
	if (steps_left-- == 0)
		raise(SIGKILL);
}

/* In a process that is killed at its n-th step. True if it came to its end. */
static bool do_until(struct layers *l, int (*what)(struct layers *), unsigned n)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		steps_left = n;
		layer_step_hook = die_in_time;
		_exit(what(l) == 0 ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
	return WIFEXITED(status);
}

/* Whoever opens the record next reads this from its meta. */
static void reread(struct layers *l)
{
	layers_record(l)->n_applies =
		faccessat(layers_record(l)->fd, "apply-1/journal", F_OK, 0) == 0;
}

static int recover(struct layers *l)
{
	struct atoll_error err = {0};
	int r = layer_recover(layers_record(l), &err);

	if (r < 0)
		printf("# %s\n", err.text);
	return r;
}

/* Every step of every recovery, too: the second one is killed as well. */
static void crash_at(struct layers *l, int (*what)(struct layers *), unsigned n, const char *before,
		     const char *after, bool *ret_was_last)
{
	cleanup_free char *seen = NULL;

	*ret_was_last = do_until(l, what, n);
	for (unsigned again = 0; again < n % 3; again++)
		do_until(l, recover, again * 2);
	CHECK_INT(recover(l), 0);
	reread(l);
	seen = look(l);
	if (*ret_was_last || strcmp(seen, before) != 0)
		CHECK_STR(seen, after);
	check_no_traces(l);
}

TEST(killed_at_any_step_an_apply_is_done_or_not_done)
{
	cleanup_layers struct layers *example = everything();
	cleanup_free char *before = look(example), *after = NULL;
	bool was_last = false;
	unsigned n = 0;

	CHECK_INT(apply(example), 0);
	after = look(example);
	for (; !was_last; n++) {
		cleanup_layers struct layers *l = everything();
		cleanup_free char *seen = NULL;

		crash_at(l, apply, n, before, after, &was_last);
		seen = look(l);
		CHECK(!strcmp(seen, before) || !strcmp(seen, after));
		/* Whatever it is now, it can be finished, and taken back. */
		if (strcmp(seen, before) == 0)
			CHECK_INT(apply(l), 0);
		CHECK_INT(undo(l), 0);
		free(take_ptr(seen));
		seen = look(l);
		CHECK_STR(seen, before);
	}
	printf("# %u steps\n", n);
	CHECK(n > 40);
}

TEST(killed_at_any_step_an_undo_is_done_or_not_done)
{
	cleanup_layers struct layers *example = everything();
	cleanup_free char *before = look(example), *after = NULL;
	bool was_last = false;
	unsigned n = 0;

	CHECK_INT(apply(example), 0);
	after = look(example);
	for (; !was_last; n++) {
		cleanup_layers struct layers *l = everything();

		CHECK_INT(apply(l), 0);
		crash_at(l, undo, n, after, before, &was_last);
	}
	printf("# %u steps\n", n);
	CHECK(n > 40);
}

/* ---- somebody is faster ---- */

static struct layers *raced;
static const char *raced_step;

static void write_meanwhile(const char *step)
{
	if (!raced || strcmp(step, raced_step) != 0)
		return;
	layers_write(raced, BASE, "time", "written meanwhile\n");
	raced = NULL;
}

TEST(what_is_written_meanwhile_takes_the_apply_back)
{
	static const char *const steps[] = {"commit", "take", "exchange"};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		cleanup_layers struct layers *l = begin();

		layers_file(l, BASE, "gone/x", "x\n");
		layers_file(l, BASE, "time", "t\n");
		layers_file(l, BASE, "z", "z\n");
		layers_begin(l);
		layers_whiteout(l, 0, "gone");
		layers_file(l, 0, "time", "from the run\n");
		layers_file(l, 0, "z", "zz\n");
		raced = l;
		raced_step = steps[i];
		layer_step_hook = write_meanwhile;
		CHECK_INT(apply(l), -EEXIST);
		layer_step_hook = NULL;
		CHECK_FILE(l, "time", "written meanwhile\n");
		CHECK_FILE(l, "gone/x", "x\n");
		CHECK_FILE(l, "z", "z\n");
		check_no_traces(l);
	}
}

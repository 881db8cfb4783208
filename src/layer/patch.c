/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/patch.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "layer/text.h"
#include "spec/names.h"

#include <errno.h>
#include <inttypes.h>

/*
 * A patch for `git apply`
 *
 * In git's format, from what the host has now to what the layers have. Git knows files, their
 * executable bit, and links; what else changed is named at the head of the patch, where git takes
 * it for a comment. So is what git refuses to touch: everything in a git directory.
 */

#define CONTENT_MAX ((size_t)512 << 20)
#define PATCH_MAX   ((size_t)2 << 30)

static const char no_blob[] = "0000000000000000000000000000000000000000";

/* Both sides of a change, as git sees them: a mode of 0 is nothing. */
struct sides {
	unsigned before, after;
	const char *from, *path;
	struct buf old, new;
};

static unsigned git_mode(mode_t mode)
{
	if (S_ISLNK(mode))
		return 0120000;
	if (!S_ISREG(mode))
		return 0;
	return mode & S_IXUSR ? 0100755 : 0100644;
}

static bool is_in_git(const char *path)
{
	for (;;) {
		size_t length = strcspn(path, "/");

		if (names_is_git(path, length))
			return true;
		if (!path[length])
			return false;
		path += length + 1;
	}
}

/* ---- what a patch cannot say ---- */

static const char *unsaid_type(mode_t mode)
{
	if (S_ISDIR(mode))
		return "a directory";
	return S_ISREG(mode) || S_ISLNK(mode) ? NULL : "a special file";
}

/* The paths that git is told of, in order. */
struct told {
	const char **paths;
	size_t n;
};

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_told(const struct atoll_changes *list, struct told *ret)
{
	ret->paths = calloc(2 * list->n + 1, sizeof *ret->paths);
	if (!ret->paths)
		return -ENOMEM;
	for (size_t i = 0; i < list->n; i++) {
		const struct atoll_change *change = &list->items[i];

		if (!git_mode(change->before.st_mode) && !git_mode(change->after.st_mode))
			continue;
		ret->paths[ret->n++] = change->path;
		if (change->from)
			ret->paths[ret->n++] = change->from;
	}
	qsort(ret->paths, ret->n, sizeof *ret->paths, compare_paths);
	return 0;
}

/* Does git make or remove this directory with what is in it? */
static bool has_children(const struct told *told, const char *dir)
{
	size_t length = strlen(dir), low = 0, high = told->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strncmp(told->paths[middle], dir, length);

		/* What follows "dir/" sorts behind "dir-x". */
		if (order == 0)
			order = (unsigned char)told->paths[middle][length] < '/' ? -1 : 0;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < told->n && strncmp(told->paths[low], dir, length) == 0 &&
	       told->paths[low][length] == '/';
}

/* Words, or NULL if the patch says it all. */
static const char *unsaid(const struct told *told, const struct atoll_change *change)
{
	mode_t mode = change->after.st_mode ? change->after.st_mode : change->before.st_mode;
	const char *type = unsaid_type(mode);
	mode_t kept = S_ISREG(mode) ? 0100 : 0;

	if (is_in_git(change->path) || (change->from && is_in_git(change->from)))
		return "in a git directory";
	if (type && S_ISDIR(mode) && change->kind == ATOLL_CHANGED &&
	    !(change->parts & ATOLL_PART_TYPE))
		return "the mode or attributes of a directory";
	if (type)
		return S_ISDIR(mode) && has_children(told, change->path) ? NULL : type;
	if (change->parts & ATOLL_PART_XATTRS)
		return "attributes";
	if (change->parts & ATOLL_PART_OWNER)
		return "the owner";
	if (change->parts == ATOLL_PART_TIME && change->kind == ATOLL_CHANGED)
		return "a time";
	if (change->parts & ATOLL_PART_MODE &&
	    ((change->before.st_mode ^ change->after.st_mode) & 07777 & ~kept))
		return "a mode beyond the executable bit";
	return NULL;
}

static int add_comments(const struct atoll_changes *list, struct buf *out)
{
	struct told told = {0};
	int r = list_told(list, &told);

	for (size_t i = 0; i < list->n && r == 0; i++) {
		const char *words = unsaid(&told, &list->items[i]);

		if (!words)
			continue;
		buf_add_str(out, "# not in this patch: ");
		text_add_name(out, "", list->items[i].path);
		buf_addf(out, " (%s)\n", words);
	}
	free(told.paths);
	return r;
}

/* ---- what the host would execute or trust ---- */

static bool is_written(const struct atoll_change *change)
{
	return (git_mode(change->before.st_mode) || git_mode(change->after.st_mode)) &&
	       !is_in_git(change->path) && !(change->from && is_in_git(change->from));
}

/* Git takes these lines for a comment, and whoever reads the patch sees them first. */
static uint64_t add_marks(const struct atoll_changes *list, struct buf *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct atoll_change *change = &list->items[i];

		if (!change->mark || !is_written(change))
			continue;
		n++;
		buf_add_str(out, "# the host would execute or trust: ");
		text_add_name(out, "", change->path);
		buf_addf(out, " (%s)\n", change->mark);
	}
	return n;
}

/* ---- one change ---- */

static void add_start(struct buf *out, const struct sides *sides)
{
	buf_add_str(out, "diff --git ");
	text_add_name(out, "a/", sides->from);
	buf_add_char(out, ' ');
	text_add_name(out, "b/", sides->path);
	buf_add_char(out, '\n');
	if (!sides->before)
		buf_addf(out, "new file mode %06o\n", sides->after);
	else if (!sides->after)
		buf_addf(out, "deleted file mode %06o\n", sides->before);
	else if (sides->before != sides->after)
		buf_addf(out, "old mode %06o\nnew mode %06o\n", sides->before, sides->after);
	if (sides->from == sides->path)
		return;
	buf_add_str(out, "rename from ");
	text_add_name(out, "", sides->from);
	buf_add_str(out, "\nrename to ");
	text_add_name(out, "", sides->path);
	buf_add_char(out, '\n');
}

static void add_hunks(struct buf *out, const struct sides *sides, const struct buf *hunks)
{
	buf_add_str(out, "--- ");
	sides->before ? text_add_name(out, "a/", sides->from) : buf_add_str(out, "/dev/null");
	buf_add_str(out, "\n+++ ");
	sides->after ? text_add_name(out, "b/", sides->path) : buf_add_str(out, "/dev/null");
	buf_add_char(out, '\n');
	buf_add(out, hunks->data, hunks->used);
}

/* Git applies one only to exactly the content that it is made for, so both have to be named. */
static void add_binary(struct buf *out, const struct sides *sides)
{
	char before[PATCH_NAME_SIZE], after[PATCH_NAME_SIZE];

	patch_blob_name(sides->old.data ? sides->old.data : "", sides->old.used, before);
	patch_blob_name(sides->new.data ? sides->new.data : "", sides->new.used, after);
	buf_addf(out, "index %s..%s\n", sides->before ? before : no_blob,
		 sides->after ? after : no_blob);
	patch_add_literal(out, sides->new.data ? sides->new.data : "", sides->new.used);
}

static bool is_same_content(const struct sides *sides)
{
	return sides->old.used == sides->new.used &&
	       (sides->old.used == 0 ||
		memcmp(sides->old.data, sides->new.data, sides->old.used) == 0);
}

static int add_sides(struct buf *out, const struct sides *sides)
{
	cleanup_buf struct buf hunks = BUF_INIT(PATCH_MAX);
	size_t added, removed;
	int r = 1;

	if (sides->before == sides->after && sides->from == sides->path && is_same_content(sides))
		return 0;
	add_start(out, sides);
	if (is_same_content(sides))
		return 0;
	if (sides->old.used <= TEXT_SIZE_MAX && sides->new.used <= TEXT_SIZE_MAX)
		r = layer_diff_text(sides->old.data ? sides->old.data : "", sides->old.used,
				    sides->new.data ? sides->new.data : "", sides->new.used, &hunks,
				    &added, &removed);
	/* More lines than are compared. */
	if (r == -E2BIG && buf_error(&hunks) == 0)
		r = 1;
	if (r == 1)
		add_binary(out, sides);
	else if (r == 0)
		add_hunks(out, sides, &hunks);
	return r < 0 ? r : 0;
}

/* A link in the place of a file, or the other way round, is two patches for git. */
static int add_change(const struct layer_changes *changes, const struct atoll_change *change,
		      size_t max, struct buf *out)
{
	struct sides sides = {
		.before = git_mode(change->before.st_mode),
		.after = git_mode(change->after.st_mode),
		.from = change->from ? change->from : change->path,
		.path = change->path,
		.old = BUF_INIT(max),
		.new = BUF_INIT(max),
	};
	int r = text_load(&changes->stack, change, true, max, &sides.old);

	if (r == 0)
		r = text_load(&changes->stack, change, false, max, &sides.new);
	if (r == 0 && sides.before && sides.after && (sides.before ^ sides.after) & S_IFMT) {
		struct sides gone = sides, made = sides;

		gone.after = made.before = 0;
		gone.new = made.old = (struct buf){0};
		r = add_sides(out, &gone);
		if (r == 0)
			r = add_sides(out, &made);
	} else if (r == 0) {
		r = add_sides(out, &sides);
	}
	buf_done(&sides.old);
	buf_done(&sides.new);
	return r;
}

/* Where the patch goes, and how much of it. */
struct target {
	const struct atoll_export_limits *limits;
	int fd;
	uint64_t n_bytes;
};

static int write_out(struct target *target, struct buf *out, struct atoll_error *err)
{
	const struct atoll_export_limits *limits = target->limits;
	int r = buf_error(out);

	target->n_bytes += out->used;
	if (limits->max_bytes && target->n_bytes > limits->max_bytes)
		return error_set(err, ATOLL_FAULT_REQUEST, EFBIG,
				 "the patch has more than %" PRIu64
				 " MiB; a tar takes files as they are",
				 limits->max_bytes >> 20);
	if (r == 0 && out->used)
		r = fd_write_all(target->fd, out->data, out->used);
	out->used = 0;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write the patch") : 0;
}

/* Files that are not read, because that would take too much memory, fail before they are opened. */
static bool is_too_large(const struct atoll_change *change, uint64_t max)
{
	return (S_ISREG(change->before.st_mode) && (uint64_t)change->before.st_size > max) ||
	       (S_ISREG(change->after.st_mode) && (uint64_t)change->after.st_size > max);
}

static int put_change(const struct layer_changes *changes, const struct atoll_change *change,
		      struct target *target, struct buf *out, struct atoll_error *err)
{
	const struct atoll_export_limits *limits = target->limits;
	const size_t max = limits->max_file && limits->max_file < CONTENT_MAX
				   ? (size_t)limits->max_file
				   : CONTENT_MAX;
	char shown[128];
	int r = is_too_large(change, max) ? -EFBIG : add_change(changes, change, max, out);

	if (r == -EFBIG || r == -E2BIG)
		return error_set(err, ATOLL_FAULT_REQUEST, -r,
				 "put '%s' into a patch; 'atoll export --format tar' takes any "
				 "size",
				 str_show(change->path, shown, sizeof shown));
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "put '%s' into a patch",
				 str_show(change->path, shown, sizeof shown));
	return write_out(target, out, err);
}

static int write_patch(const struct layer_changes *changes, struct target *target,
		       struct atoll_archive_report *ret, struct atoll_error *err)
{
	const struct atoll_changes *list = &changes->list;
	const struct atoll_export_limits *limits = target->limits;
	cleanup_buf struct buf out = BUF_INIT(PATCH_MAX);
	int r;

	ret->n_marked = add_marks(list, &out);
	r = add_comments(list, &out);
	if (r < 0)
		return error_oom(err);
	r = write_out(target, &out, err);
	for (size_t i = 0; i < list->n && r == 0; i++) {
		if (limits->is_wanted && !limits->is_wanted(limits->data))
			return error_set(err, ATOLL_FAULT_REQUEST, ECANCELED, "make a patch");
		if (!is_written(&list->items[i]))
			continue;
		ret->n_entries++;
		r = put_change(changes, &list->items[i], target, &out, err);
	}
	return r;
}

int atoll_export_patch(const char *id, const struct atoll_export_limits *limits, int fd,
		       struct atoll_archive_report *ret, struct atoll_error *err)
{
	static const struct atoll_export_limits none;
	struct target target = {.limits = limits ? limits : &none, .fd = fd};
	struct atoll_archive_report unheard;
	struct layer_changes *changes;
	int r = layer_changes_open_frozen(id, &changes, err);

	if (r < 0)
		return r;
	ret = ret ? ret : &unheard;
	*ret = (struct atoll_archive_report){0};
	r = write_patch(changes, &target, ret, err);
	atoll_changes_close(&changes->list);
	return r;
}

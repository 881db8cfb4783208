/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/text.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/layer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

#define AROUND 3 /* lines before and behind a change */

/* "12,3" of a hunk's head: where it begins, how many lines; git's way for one and for none. */
static void add_range(struct buf *out, char sign, size_t from, size_t n)
{
	buf_addf(out, "%c%zu", sign, n ? from + 1 : from);
	if (n != 1)
		buf_addf(out, ",%zu", n);
}

static void add_lines(struct buf *out, char sign, const struct text_lines *lines, size_t from,
		      size_t n)
{
	for (size_t i = from; i < from + n; i++) {
		const char *line = lines->data + lines->at[i];
		size_t size = lines->at[i + 1] - lines->at[i];

		buf_add_char(out, sign);
		buf_add(out, line, size);
		if (line[size - 1] != '\n')
			buf_add_str(out, "\n\\ No newline at end of file\n");
	}
}

/* Changes from `first` on belong to one hunk as long as the lines around them touch. Returns the
 * first change behind it, all zero at the end. */
static struct text_change add_hunk(const struct text_diff *diff, struct text_change first,
				   struct buf *out)
{
	size_t before = first.a < AROUND ? first.a : AROUND, behind;
	struct text_change last = first, next = first;
	bool is_more;

	while ((is_more = text_diff_next(diff, &next)) &&
	       next.a - (last.a + last.n_a) <= (size_t)2 * AROUND)
		last = next;
	behind = diff->a.n - (last.a + last.n_a);
	if (behind > AROUND)
		behind = AROUND;
	buf_add_str(out, "@@ ");
	add_range(out, '-', first.a - before, last.a + last.n_a + behind - (first.a - before));
	buf_add_char(out, ' ');
	add_range(out, '+', first.b - before, last.b + last.n_b + behind - (first.b - before));
	buf_add_str(out, " @@\n");
	for (struct text_change at = first, done = {.a = first.a - before};;) {
		add_lines(out, ' ', &diff->a, done.a, at.a - done.a);
		add_lines(out, '-', &diff->a, at.a, at.n_a);
		add_lines(out, '+', &diff->b, at.b, at.n_b);
		done.a = at.a + at.n_a;
		if (at.a == last.a && at.b == last.b)
			break;
		text_diff_next(diff, &at);
	}
	add_lines(out, ' ', &diff->a, last.a + last.n_a, behind);
	return is_more ? next : (struct text_change){0};
}

int layer_diff_text(const char *before, size_t n_before, const char *after, size_t n_after,
		    struct buf *out, size_t *ret_added, size_t *ret_removed)
{
	cleanup_with(text_diff_done) struct text_diff diff = {0};
	struct text_change change = {0}, hunk = {0};
	int r;

	*ret_added = *ret_removed = 0;
	if (text_is_binary(before, n_before) || text_is_binary(after, n_after))
		return 1;
	r = text_diff_init(&diff, before, n_before, after, n_after);
	if (r < 0)
		return r;
	while (text_diff_next(&diff, &change)) {
		*ret_removed += change.n_a;
		*ret_added += change.n_b;
	}
	if (text_diff_next(&diff, &hunk))
		while (hunk.n_a || hunk.n_b)
			hunk = add_hunk(&diff, hunk, out);
	return buf_error(out);
}

int text_load(const struct layer_stack *stack, const struct atoll_change *change, bool is_before,
	      size_t limit, struct buf *out)
{
	const struct stat *st = is_before ? &change->before : &change->after;
	const char *path = is_before && change->from ? change->from : change->path;
	cleanup_fd int fd = -1;
	char target[PATH_MAX];
	ssize_t length;

	if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
		return 0;
	fd = is_before ? layer_stack_open_before(stack, path) : layer_stack_open_after(stack, path);
	if (fd < 0)
		return fd;
	if (S_ISREG(st->st_mode))
		return tree_read_file(fd, limit, out);
	length = readlinkat(fd, "", target, sizeof target);
	if (length < 0)
		return -errno;
	buf_add(out, target, (size_t)length);
	return buf_error(out);
}

void text_add_name(struct buf *out, const char *prefix, const char *name)
{
	bool is_plain = true;

	for (const char *c = name; *c; c++)
		is_plain = is_plain && *c > ' ' && *c < 0x7f && *c != '"' && *c != '\\';
	if (!is_plain)
		buf_add_char(out, '"');
	buf_add_str(out, prefix);
	for (const char *c = name; *c; c++) {
		if (*c == '"' || *c == '\\')
			buf_addf(out, "\\%c", *c);
		else if (*c >= ' ' && *c < 0x7f)
			buf_add_char(out, *c);
		else
			buf_addf(out, "\\%03o", (unsigned char)*c);
	}
	if (!is_plain)
		buf_add_char(out, '"');
}

static void add_heading(struct buf *out, const struct atoll_change *change)
{
	const char *from = change->from ? change->from : change->path;

	buf_add_str(out, "--- ");
	if (change->before.st_mode)
		text_add_name(out, "a/", from);
	else
		buf_add_str(out, "/dev/null");
	buf_add_str(out, "\n+++ ");
	if (change->after.st_mode)
		text_add_name(out, "b/", change->path);
	else
		buf_add_str(out, "/dev/null");
	buf_add_char(out, '\n');
}

/* What is no text, or too much of it. */
static void add_sizes(struct buf *out, const struct atoll_change *change)
{
	buf_add_str(out, "Binary file ");
	text_add_name(out, "", change->path);
	if (!change->before.st_mode)
		buf_addf(out, ": %" PRId64 " bytes\n", (int64_t)change->after.st_size);
	else if (!change->after.st_mode)
		buf_addf(out, ": was %" PRId64 " bytes\n", (int64_t)change->before.st_size);
	else
		buf_addf(out, ": %" PRId64 " to %" PRId64 " bytes\n",
			 (int64_t)change->before.st_size, (int64_t)change->after.st_size);
}

static bool has_content(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

/* Is there anything to compare? */
static bool can_differ(const struct atoll_change *change)
{
	if (!has_content(change->before.st_mode) && !has_content(change->after.st_mode))
		return false;
	return change->kind == ATOLL_ADDED || change->kind == ATOLL_DELETED ||
	       change->parts & (ATOLL_PART_CONTENT | ATOLL_PART_TYPE);
}

#define OUTPUT_MAX ((size_t)256 << 20)

static int add_text(struct layer_changes *changes, struct atoll_change *change, struct buf *out,
		    size_t *ret_added, size_t *ret_removed)
{
	const size_t max = changes->list.text_max;
	cleanup_buf struct buf before = BUF_INIT(max), after = BUF_INIT(max);
	cleanup_buf struct buf hunks = BUF_INIT(OUTPUT_MAX);
	int r = text_load(&changes->stack, change, true, max, &before);

	if (r == 0)
		r = text_load(&changes->stack, change, false, max, &after);
	if (r == 0 && has_content(change->after.st_mode)) {
		hash_sha256(after.data ? after.data : "", after.used, change->digest);
		change->has_digest = true;
	}
	if (r == 0)
		r = layer_diff_text(before.data ? before.data : "", before.used,
				    after.data ? after.data : "", after.used, &hunks, ret_added,
				    ret_removed);
	if (r == 1 || r == -EFBIG || r == -E2BIG) {
		change->is_binary = true;
		add_sizes(out, change);
		return 0;
	}
	if (r < 0 || !hunks.used)
		return r;
	add_heading(out, change);
	buf_add(out, hunks.data, hunks.used);
	return buf_error(out);
}

int atoll_change_text(struct atoll_changes *list, size_t i, char **ret, size_t *ret_size,
		      size_t *ret_added, size_t *ret_removed, struct atoll_error *err)
{
	struct layer_changes *changes = (struct layer_changes *)list;
	struct buf out = BUF_INIT(OUTPUT_MAX + (1 << 20));
	char shown[128];
	int r = 0;

	*ret_added = *ret_removed = 0;
	if (can_differ(&list->items[i]))
		r = add_text(changes, &list->items[i], &out, ret_added, ret_removed);
	if (r < 0) {
		buf_done(&out);
		return error_set(err, ATOLL_FAULT_HOST, -r, "compare '%s'",
				 str_show(list->items[i].path, shown, sizeof shown));
	}
	*ret_size = out.used;
	*ret = buf_take(&out);
	return *ret ? 0 : error_oom(err);
}

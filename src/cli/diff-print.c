/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diff-print.h"

#include "base/scope.h"
#include "base/str.h"
#include "ui/ui.h"

#include <inttypes.h>

enum tint {
	TINT_NONE,
	TINT_BOLD,
	TINT_RED,
	TINT_GREEN,
	TINT_CYAN,
	TINT_ALARM,
};

static void tint(const struct pager *pager, enum tint which)
{
	static const char *const codes[] = {
		[TINT_NONE] = "\033[m",	   [TINT_BOLD] = "\033[1m",  [TINT_RED] = "\033[31m",
		[TINT_GREEN] = "\033[32m", [TINT_CYAN] = "\033[36m", [TINT_ALARM] = "\033[1;31m",
	};

	if (pager->has_colours)
		fputs(codes[which], pager->out);
}

static bool is_wanted(const struct diff_view *view, size_t i)
{
	return !view->wanted || view->wanted[i];
}

static const char *kind_word(const struct atoll_change *change)
{
	static const char *const words[] = {
		[ATOLL_ADDED] = "added",
		[ATOLL_CHANGED] = "changed",
		[ATOLL_DELETED] = "deleted",
		[ATOLL_RENAMED] = "renamed",
	};

	return words[change->kind];
}

static const char *type_word(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "link";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	default:
		return "device";
	}
}

/* Changes that the text does not show: "(mode 0644 to 0755, attributes)". */
static void print_parts(FILE *out, const struct atoll_change *change)
{
	mode_t one = change->after.st_mode ? change->after.st_mode : change->before.st_mode;
	const char *separator = " (";

	if (change->parts & ATOLL_PART_TYPE) {
		fprintf(out, "%s%s became %s", separator, type_word(change->before.st_mode),
			type_word(change->after.st_mode));
		separator = ", ";
	} else if (!S_ISREG(one)) {
		fprintf(out, "%s%s", separator, type_word(one));
		separator = ", ";
	}
	if (change->parts & ATOLL_PART_MODE) {
		fprintf(out, "%smode %04o to %04o", separator, change->before.st_mode & 07777,
			change->after.st_mode & 07777);
		separator = ", ";
	}
	if (change->parts & ATOLL_PART_XATTRS) {
		fprintf(out, "%sattributes", separator);
		separator = ", ";
	}
	if (change->parts & ATOLL_PART_OWNER) {
		fprintf(out, "%sowner %u:%u to %u:%u", separator, change->before.st_uid,
			change->before.st_gid, change->after.st_uid, change->after.st_gid);
		separator = ", ";
	}
	if (change->parts == ATOLL_PART_TIME && change->kind == ATOLL_CHANGED) {
		fprintf(out, "%stime only", separator);
		separator = ", ";
	}
	if (separator[0] == ',')
		fputc(')', out);
}

/* Names are always escaped: one line per file must stay one line. */
static void print_heading(const struct pager *pager, const struct atoll_change *change)
{
	FILE *out = pager->out;

	tint(pager, change->mark ? TINT_ALARM : TINT_BOLD);
	fprintf(out, "%s %-7s  ", change->mark ? "!" : " ", kind_word(change));
	if (change->from) {
		print_escaped(out, change->from);
		fputs(" -> ", out);
	}
	print_escaped(out, change->path);
	tint(pager, TINT_NONE);
	print_parts(out, change);
	if (change->link_group)
		fprintf(out, " (names of one file: %" PRIu32 ")", change->link_group);
	if (change->mark)
		fprintf(out, "  [%s]", change->mark);
	if (change->conflict) {
		tint(pager, TINT_RED);
		fprintf(out, "  conflict: %s", change->conflict);
		tint(pager, TINT_NONE);
	}
	fputc('\n', out);
}

/* Prints a line of a file: tabs as they are, other control characters escaped. */
static void print_safely(FILE *out, char *line)
{
	char *tab;

	for (; (tab = strchr(line, '\t')); line = tab + 1) {
		*tab = '\0';
		print_escaped(out, line);
		fputc('\t', out);
	}
	print_escaped(out, line);
}

static enum tint line_tint(const char *line)
{
	if (starts_with(line, "+++ ") || starts_with(line, "--- "))
		return TINT_BOLD;
	switch (line[0]) {
	case '+':
		return TINT_GREEN;
	case '-':
		return TINT_RED;
	case '@':
		return TINT_CYAN;
	default:
		return TINT_NONE;
	}
}

static void print_lines(const struct pager *pager, char *text)
{
	char *next = text, *line;

	while ((line = strsep(&next, "\n")) && next) {
		enum tint which = line_tint(line);

		if (which != TINT_NONE)
			tint(pager, which);
		print_safely(pager->out, line);
		if (which != TINT_NONE)
			tint(pager, TINT_NONE);
		fputc('\n', pager->out);
	}
}

static int print_change(const struct diff_view *view, size_t i, struct pager *pager,
			struct atoll_error *err)
{
	cleanup_free char *text = NULL;
	size_t size, added, removed;
	int r = atoll_change_text(view->changes, i, &text, &size, &added, &removed, err);

	if (r < 0)
		return r;
	print_heading(pager, &view->changes->items[i]);
	if (pager->is_terminal)
		print_lines(pager, text);
	else
		fwrite(text, 1, size, pager->out);
	return 0;
}

static size_t count_marked(const struct diff_view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->changes->n; i++)
		n += is_wanted(view, i) && view->changes->items[i].mark;
	return n;
}

static void print_legend(const struct diff_view *view, struct pager *pager)
{
	size_t n = count_marked(view);

	if (n == 0)
		return;
	tint(pager, TINT_ALARM);
	fprintf(pager->out,
		"! marks %zu change%s that the host would execute or trust; 'atoll apply' applies "
		"them only if you name them\n",
		n, n == 1 ? "" : "s");
	tint(pager, TINT_NONE);
}

int diff_print_text(const struct diff_view *view, struct pager *pager, struct atoll_error *err)
{
	int r = 0;

	print_legend(view, pager);
	for (size_t i = 0; i < view->changes->n && r == 0 && !ferror(pager->out); i++)
		if (is_wanted(view, i))
			r = print_change(view, i, pager, err);
	return r;
}

static void print_counts(const struct pager *pager, size_t added, size_t removed)
{
	char plus[24], minus[24];

	snprintf(plus, sizeof plus, "+%zu", added);
	snprintf(minus, sizeof minus, "-%zu", removed);
	tint(pager, TINT_GREEN);
	fprintf(pager->out, "%8s", plus);
	tint(pager, TINT_RED);
	fprintf(pager->out, "%8s", minus);
	tint(pager, TINT_NONE);
}

int diff_print_stat(const struct diff_view *view, struct pager *pager, struct atoll_error *err)
{
	size_t n = 0, all_added = 0, all_removed = 0;

	print_legend(view, pager);
	for (size_t i = 0; i < view->changes->n && !ferror(pager->out); i++) {
		cleanup_free char *text = NULL;
		size_t size, added, removed;
		int r;

		if (!is_wanted(view, i))
			continue;
		r = atoll_change_text(view->changes, i, &text, &size, &added, &removed, err);
		if (r < 0)
			return r;
		if (view->changes->items[i].is_binary)
			fprintf(pager->out, "%8s %7s", "binary", "");
		else
			print_counts(pager, added, removed);
		fputs("  ", pager->out);
		print_heading(pager, &view->changes->items[i]);
		n++;
		all_added += added;
		all_removed += removed;
	}
	fprintf(pager->out, "%zu change%s, %zu line%s added, %zu removed\n", n, n == 1 ? "" : "s",
		all_added, all_added == 1 ? "" : "s", all_removed);
	return 0;
}

void diff_print_names(const struct diff_view *view, FILE *out)
{
	for (size_t i = 0; i < view->changes->n; i++) {
		if (!is_wanted(view, i))
			continue;
		print_escaped(out, view->changes->items[i].path);
		fputc('\n', out);
	}
}

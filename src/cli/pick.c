/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pick.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "ui/ui.h"

#include <errno.h>
#include <stdlib.h>
#include <termios.h>

/* The number of lines of one diff, and of names, that are shown. */
#define DIFF_LINES_MAX 400
#define NAMES_MAX      200

struct dialogue {
	int fd;
	FILE *out;
	struct atoll_changes *changes;
	bool *is_wanted; /* of each change */
	const struct pick_options *options;
};

enum pick_answer pick_meaning(const char *line)
{
	static const struct {
		const char *word;
		enum pick_answer answer;
	} words[] = {
		{"y", PICK_YES},  {"yes", PICK_YES},   {"d", PICK_DIFF}, {"diff", PICK_DIFF},
		{"p", PICK_EACH}, {"pick", PICK_EACH}, {"q", PICK_QUIT}, {"quit", PICK_QUIT},
	};
	size_t length = strcspn(line, "\r\n");

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i].word) == length &&
		    strncasecmp(words[i].word, line, length) == 0)
			return words[i].answer;
	return PICK_NO;
}

void pick_line(FILE *out, const struct atoll_change *change)
{
	static const char *const words[] = {[ATOLL_ADDED] = "added",
					    [ATOLL_CHANGED] = "changed",
					    [ATOLL_DELETED] = "deleted",
					    [ATOLL_RENAMED] = "renamed"};

	fprintf(out, "%c %-8s ", change->mark ? '!' : ' ', words[change->kind]);
	if (change->from) {
		print_escaped(out, change->from);
		fputs(" -> ", out);
	}
	print_escaped(out, change->path);
	/* Show the target of a link, and a mode that the host would act on. */
	if (S_ISLNK(change->after.st_mode))
		fputs(" (a link)", out);
	else if (change->after.st_mode & (S_ISUID | S_ISGID) && S_ISREG(change->after.st_mode))
		fputs(" (set-id)", out);
	if (change->mark)
		fprintf(out, "  MARKED: %s", change->mark);
	if (change->conflict)
		fprintf(out, "  CONFLICT: %s", change->conflict);
	fputc('\n', out);
}

/* ---- the terminal ---- */

/* The controlling terminal, if this process is in its foreground group; else -1. */
static int open_terminal(void)
{
	cleanup_fd int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

	return fd < 0 || tcgetpgrp(fd) != getpgrp() ? -1 : take_fd(&fd);
}

/* The end of the input counts as no, and ends all questions. */
static enum pick_answer ask(struct dialogue *dialogue, const char *question)
{
	char line[64];
	ssize_t got;

	/* Discard input that was typed before the question was shown. The question is already
	 * written, so a quick answer is not lost. */
	fflush(dialogue->out);
	tcflush(dialogue->fd, TCIFLUSH);
	fputs(question, dialogue->out);
	fflush(dialogue->out);
	do
		got = read(dialogue->fd, line, sizeof line - 1);
	while (got < 0 && errno == EINTR);
	if (got <= 0) {
		fputc('\n', dialogue->out);
		return PICK_QUIT;
	}
	line[got] = '\0';
	return pick_meaning(line);
}

/* Prints the text of a diff: newlines as they are, other control characters escaped. */
static void show_text(FILE *out, const char *text, size_t size)
{
	const char *end = text + size;

	for (int n = 0; text < end; n++) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((newline ? newline : end) - text);
		cleanup_free char *line = strndup(text, length);

		if (n == DIFF_LINES_MAX) {
			fputs("  ... (the whole: atoll diff)\n", out);
			return;
		}
		fputs("  ", out);
		print_escaped(out, line ? line : "");
		fputc('\n', out);
		text = newline ? newline + 1 : end;
	}
}

static void show_diff(struct dialogue *dialogue, size_t i)
{
	size_t size = 0, added, removed;
	struct atoll_error problem = {0};
	cleanup_free char *text = NULL;

	if (atoll_change_text(dialogue->changes, i, &text, &size, &added, &removed, &problem) < 0) {
		fputs("  ", dialogue->out);
		print_escaped(dialogue->out, problem.text);
		fputc('\n', dialogue->out);
		return;
	}
	if (size == 0)
		fputs("  (no text to show)\n", dialogue->out);
	show_text(dialogue->out, text, size);
}

/* ---- questions ---- */

static void show_all(struct dialogue *dialogue, bool with_text)
{
	size_t n = dialogue->changes->n;

	for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
		pick_line(dialogue->out, &dialogue->changes->items[i]);
		if (with_text)
			show_diff(dialogue, i);
	}
	if (n > NAMES_MAX)
		fprintf(dialogue->out, "  and %zu more (atoll diff --stat)\n", n - NAMES_MAX);
}

static void ask_each(struct dialogue *dialogue)
{
	for (size_t i = 0; i < dialogue->changes->n; i++) {
		const struct atoll_change *change = &dialogue->changes->items[i];
		enum pick_answer answer;

		pick_line(dialogue->out, change);
		do {
			answer = ask(dialogue,
				     change->mark ? "  the host would execute or trust this; "
						    "apply it? [y]es, [d]iff, [q]uit, [N]o "
						  : "  apply it? [y]es, [d]iff, [q]uit, [N]o ");
			if (answer == PICK_DIFF)
				show_diff(dialogue, i);
		} while (answer == PICK_DIFF);
		if (answer == PICK_QUIT)
			return;
		dialogue->is_wanted[i] = answer == PICK_YES;
	}
}

static void ask_all(struct dialogue *dialogue)
{
	const struct atoll_changes *changes = dialogue->changes;
	enum pick_answer answer;

	show_all(dialogue, dialogue->options->with_text);
	for (;;) {
		answer = ask(dialogue, changes->n_marked
					       ? "apply all but the marked ones? [y]es, [d]iff, "
						 "[p]ick, [N]o "
					       : "apply these? [y]es, [d]iff, [p]ick, [N]o ");
		if (answer != PICK_DIFF)
			break;
		show_all(dialogue, true);
	}
	if (answer == PICK_EACH)
		ask_each(dialogue);
	for (size_t i = 0; answer == PICK_YES && i < changes->n; i++)
		dialogue->is_wanted[i] = !changes->items[i].mark;
}

/* ---- applying ---- */

static int by_path(const void *key, const void *item)
{
	return strcmp(key, (*(const struct atoll_change *const *)item)->path);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp((*(const struct atoll_change *const *)a)->path,
		      (*(const struct atoll_change *const *)b)->path);
}

/* The changes that the person approved, as they were shown, by path. */
struct wanted {
	const struct dialogue *dialogue;
	const struct atoll_change **shown;
	size_t n;
};

static const struct atoll_change *find_shown(const struct wanted *wanted, const char *path)
{
	const struct atoll_change **found =
		bsearch(path, wanted->shown, wanted->n, sizeof *wanted->shown, by_path);

	return found ? *found : NULL;
}

static bool has_same_mark(const struct atoll_change *a, const struct atoll_change *b)
{
	return !a->mark || !b->mark ? a->mark == b->mark : streq(a->mark, b->mark);
}

/* A running command may have changed a file since it was shown. */
static bool is_wanted(const struct atoll_change *change, void *data)
{
	const struct atoll_change *shown = find_shown(data, change->path);

	if (!shown)
		return false;
	return (shown->kind == ATOLL_DELETED) == (change->kind == ATOLL_DELETED) &&
	       (change->kind != ATOLL_DELETED || has_same_mark(shown, change));
}

/* A yes is for the content that was shown and for the mark beside it. A directory that an
 * approved file needs is applied without a question. */
static bool is_as_shown(const struct atoll_change *change,
			const unsigned char digest[ATOLL_DIGEST_SIZE], void *data)
{
	const struct atoll_change *shown = find_shown(data, change->path);

	if (!shown)
		return S_ISDIR(change->after.st_mode);
	return has_same_mark(shown, change) &&
	       (!shown->has_digest || memcmp(shown->digest, digest, ATOLL_DIGEST_SIZE) == 0);
}

static void pass_on(const struct atoll_change *change, enum atoll_apply_fate fate, const char *why,
		    void *data)
{
	const struct pick_options *options = ((struct wanted *)data)->dialogue->options;

	if (options->told)
		options->told(change, fate, why, options->data);
}

static int apply_wanted(struct dialogue *dialogue, const char *id, struct atoll_apply_report *ret,
			struct atoll_error *err)
{
	struct wanted wanted = {.dialogue = dialogue};
	struct atoll_apply_options options = {
		.pick = is_wanted,
		.approves = is_as_shown,
		.told = pass_on,
		.data = &wanted,
		.merges = dialogue->options->merges,
		.is_forced = dialogue->options->is_forced,
	};
	cleanup_free const struct atoll_change **shown =
		calloc(dialogue->changes->n + 1, sizeof(const struct atoll_change *));
	int r;

	if (!shown)
		return error_oom(err);
	for (size_t i = 0; i < dialogue->changes->n; i++)
		if (dialogue->is_wanted[i])
			shown[wanted.n++] = &dialogue->changes->items[i];
	if (wanted.n == 0)
		return 0;
	qsort(shown, wanted.n, sizeof(const struct atoll_change *), compare_paths);
	wanted.shown = shown;
	r = atoll_apply(id, &options, ret, err);
	return r < 0 ? r : 1;
}

static int talk(struct dialogue *dialogue, const char *id, struct atoll_apply_report *ret,
		struct atoll_error *err)
{
	int r;

	dialogue->is_wanted = calloc(dialogue->changes->n ? dialogue->changes->n : 1, sizeof(bool));
	dialogue->out = fdopen(fcntl(dialogue->fd, F_DUPFD_CLOEXEC, 3), "w");
	if (!dialogue->is_wanted || !dialogue->out) {
		free(dialogue->is_wanted);
		return error_oom(err);
	}
	if (dialogue->options->picks)
		ask_each(dialogue);
	else
		ask_all(dialogue);
	fclose(dialogue->out);
	r = apply_wanted(dialogue, id, ret, err);
	free(dialogue->is_wanted);
	return r;
}

int pick_and_apply(const char *id, const struct pick_options *options,
		   struct atoll_apply_report *ret, struct atoll_error *err)
{
	cleanup_fd int fd = open_terminal();
	struct dialogue dialogue = {.fd = fd, .options = options};
	int r;

	if (fd < 0)
		return -ENOTTY;
	r = atoll_changes_open(id, &dialogue.changes, err);
	if (r < 0)
		return r;
	r = dialogue.changes->n ? talk(&dialogue, id, ret, err) : 0;
	atoll_changes_close(dialogue.changes);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and splits Windows command lines. The launcher writes; the splitter exists for tests and
 * for the runner, which shows a command as a list.
 */
#include "nt/command-line.h"

#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* ---- writing ---- */

static void put_backslashes(struct buf *out, size_t n)
{
	while (n-- > 0)
		buf_add_char(out, '\\');
}

/* Backslashes before a quote, and before the closing quote, are doubled; others are not. */
static void put_quoted(struct buf *out, const char *text)
{
	size_t backslashes = 0;

	buf_add_char(out, '"');
	for (; *text; text++) {
		if (*text == '\\') {
			backslashes++;
			continue;
		}
		put_backslashes(out, *text == '"' ? 2 * backslashes + 1 : backslashes);
		buf_add_char(out, *text);
		backslashes = 0;
	}
	put_backslashes(out, 2 * backslashes);
	buf_add_char(out, '"');
}

static void put_argument(struct buf *out, const char *text)
{
	if (*text && !text[strcspn(text, " \t\n\v\"")])
		buf_add_str(out, text);
	else
		put_quoted(out, text);
}

static bool is_batch_file(const char *program)
{
	size_t size = strlen(program);

	/* Windows drops dots and blanks at the end of a name before it looks at the extension. */
	while (size > 0 && (program[size - 1] == '.' || program[size - 1] == ' '))
		size--;
	return size >= 4 && (strncasecmp(program + size - 4, ".bat", 4) == 0 ||
			     strncasecmp(program + size - 4, ".cmd", 4) == 0);
}

static bool is_safe_for_batch(const char *text)
{
	for (; *text; text++) {
		bool is_word = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
			       (*text >= '0' && *text <= '9');

		if (!is_word && !strchr("-_./:\\+@", *text))
			return false;
	}
	return true;
}

int nt_command_line(const char *const *argv, char **ret)
{
	cleanup_buf struct buf out = BUF_INIT(NT_COMMAND_LINE_MAX - 1);
	const bool is_batch = is_batch_file(argv[0]);

	/* The first word is split by a simpler rule: everything up to the next quote. */
	if (!*argv[0] || strchr(argv[0], '"'))
		return -EINVAL;
	buf_addf(&out, "\"%s\"", argv[0]);
	for (size_t i = 1; argv[i]; i++) {
		if (is_batch && !is_safe_for_batch(argv[i]))
			return -EPERM;
		buf_add_char(&out, ' ');
		put_argument(&out, argv[i]);
	}
	if (buf_error(&out) < 0)
		return buf_error(&out);
	*ret = buf_take(&out);
	return *ret ? 0 : -ENOMEM;
}

/* ---- splitting ---- */

struct splitter {
	const char *at;
	char *text; /* where the next byte of an argument goes */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The program's name: a quoted part ends at the next quote, and backslashes mean nothing. */
static void split_program(struct splitter *in)
{
	bool is_quoted = false;

	for (; *in->at && (is_quoted || !is_blank(*in->at)); in->at++) {
		if (*in->at == '"')
			is_quoted = !is_quoted;
		else
			*in->text++ = *in->at;
	}
	*in->text++ = '\0';
}

/* Backslashes and the quote behind them, if there is one. Returns whether the quote opens or closes
 * a quoted part. */
static bool split_backslashes(struct splitter *in)
{
	size_t n = strspn(in->at, "\\");

	in->at += n;
	if (*in->at != '"') {
		memset(in->text, '\\', n);
		in->text += n;
		return false;
	}
	memset(in->text, '\\', n / 2);
	in->text += n / 2;
	if (n % 2 == 0)
		return true;
	*in->text++ = '"';
	in->at++;
	return false;
}

static void split_argument(struct splitter *in)
{
	bool is_quoted = false;

	while (*in->at && (is_quoted || !is_blank(*in->at))) {
		if (*in->at == '\\' && !split_backslashes(in))
			continue;
		if (*in->at == '"' && is_quoted && in->at[1] == '"') {
			*in->text++ = '"'; /* two quotes within quotes are one */
			in->at += 2;
		} else if (*in->at == '"') {
			is_quoted = !is_quoted;
			in->at++;
		} else {
			*in->text++ = *in->at++;
		}
	}
	*in->text++ = '\0';
}

int nt_command_split(const char *line, char ***ret)
{
	const size_t size = strlen(line);
	/* No argument is longer than its part of the line, and each needs a blank before it. */
	const size_t n_most = size / 2 + 2;
	char **list = malloc((n_most + 1) * sizeof *list + size + n_most + 1);
	struct splitter in = {.at = line};
	size_t n = 0;

	if (!list)
		return -ENOMEM;
	in.text = (char *)(list + n_most + 1);
	list[n++] = in.text;
	split_program(&in);
	for (;;) {
		in.at += strspn(in.at, " \t");
		if (!*in.at)
			break;
		list[n++] = in.text;
		split_argument(&in);
	}
	list[n] = NULL;
	*ret = list;
	return (int)n;
}

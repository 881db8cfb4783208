/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/redact.h"

#include "audit/audit.h"
#include "audit/redact-forms.h"
#include "audit/redact-names.h"
#include "base/str.h"

#include <strings.h>

/*
 * Redacts a text in one pass from the left
 *
 * At the start of each word it looks for a token of a known form; at each "=" and ":" it checks the
 * name before; at each "://" it looks for credentials. Each search is bounded, and a found secret
 * is consumed, so the time is linear in the size of any text.
 */

struct scan {
	const char *text;
	size_t size;
	size_t at;
	size_t name_start, name_end; /* the last word that could be a name */
	struct buf *out;
	unsigned hits;
};

#define LOOK_MAX  4096 /* how far a "@" may be from its "://" */
#define JUDGE_MAX 512  /* the number of bytes of a value that decide whether it is a secret */

static void copy_to(struct scan *scan, size_t end)
{
	buf_add(scan->out, scan->text + scan->at, end - scan->at);
	scan->at = end;
}

/* A part that is already redacted does not count again. */
static void leave_out(struct scan *scan, size_t end)
{
	if (end <= scan->at)
		return;
	buf_add_str(scan->out, "[redacted]");
	scan->hits++;
	scan->at = end;
	scan->name_start = scan->name_end = end;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'' || c == '`';
}

static bool has(const struct scan *scan, size_t at, const char *text)
{
	size_t size = strlen(text);

	return at <= scan->size && scan->size - at >= size &&
	       memcmp(scan->text + at, text, size) == 0;
}

static size_t find_any(const struct scan *scan, size_t at, size_t max, const char *stops)
{
	while (at < max && (!scan->text[at] || !strchr(stops, scan->text[at])))
		at++;
	return at;
}

/* "user:password@" after "://"; a user alone only if it is long enough to be a token. */
static void scan_userinfo(struct scan *scan)
{
	size_t start = scan->at + 3, at, last = 0;
	bool has_colon = false, is_web;

	is_web = scan->name_end == scan->at && scan->name_end - scan->name_start <= 5 &&
		 strncasecmp(scan->text + scan->name_start, "http", 4) == 0;
	copy_to(scan, start);
	for (at = start; at < scan->size && at - start < LOOK_MAX; at++) {
		if (scan->text[at] == '@')
			last = at;
		else if (scan->text[at] && strchr("/?# \t\r\n\"'<>", scan->text[at]))
			break;
	}
	if (!last)
		return;
	has_colon = memchr(scan->text + start, ':', last - start);
	if (has_colon || (is_web && last - start >= 12))
		leave_out(scan, last);
}

/* "$NAME", "${...}", "$(...)": the shell has not expanded it yet, so it is not a secret. */
static bool is_reference(const char *value, size_t size)
{
	if (size < 2 || value[0] != '$')
		return false;
	if (value[1] == '{' || value[1] == '(')
		return true;
	for (size_t i = 1; i < size; i++)
		if (!redact_is_word(value[i]) || (value[i] >= 'a' && value[i] <= 'z'))
			return false;
	return true;
}

static bool is_nothing(const char *value, size_t size)
{
	static const char *const words[] = {"true", "false", "null", "none",  "yes",
					    "no",   "0",     "1",    "stdin", "prompt"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (size == strlen(words[i]) && strncasecmp(value, words[i], size) == 0)
			return true;
	return size == 0 || (size == 1 && value[0] == '-') || is_reference(value, size) ||
	       (size == 10 && memcmp(value, "[redacted]", 10) == 0);
}

static bool is_secret(enum redact_telling telling, const char *value, size_t size)
{
	if (telling == REDACT_PLAIN || is_nothing(value, size))
		return false;
	return telling == REDACT_SECRET || redact_looks_random(value, size);
}

/* The end of an unquoted value. A value that is a whole argument may contain any character. */
static size_t value_end(const struct scan *scan, size_t start, size_t max)
{
	const char *name = scan->text + scan->name_start;

	if (scan->name_start == 0 && has(scan, 0, "--"))
		return max;
	if (scan->name_start == 0 && *name >= 'A' && *name <= 'Z' && scan->text[scan->at] == '=')
		return find_any(scan, start, max, " \t\r\n\"'");
	return find_any(scan, start, max, " \t\r\n\"'`&;,)}]<>|");
}

/* "Authorization:" and "Cookie:": redacts the whole line except for the name of the scheme. */
static bool scan_header(struct scan *scan, size_t value)
{
	static const char *const names[] = {"authorization", "cookie"};
	static const char *const schemes[] = {"bearer ", "basic ", "token ", "digest "};
	const char *name = scan->text + scan->name_start;
	size_t size = scan->name_end - scan->name_start, end;
	bool is_header = false;

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(names[i]);

		is_header |= size >= n && strncasecmp(name + size - n, names[i], n) == 0;
	}
	if (!is_header || (size_t)(value - scan->at) < 1)
		return false;
	if (value < scan->size && is_quote(scan->text[value]))
		value++;
	for (size_t i = 0; i < 4; i++) {
		size_t n = strlen(schemes[i]);

		if (scan->size - value > n && strncasecmp(scan->text + value, schemes[i], n) == 0) {
			value += n;
			break;
		}
	}
	end = find_any(scan, value, scan->size, "\r\n\"'`");
	if (is_nothing(scan->text + value, end - value))
		return false;
	copy_to(scan, value);
	leave_out(scan, end);
	return true;
}

/* The end of a quoted value: the same quote without a backslash before it. */
static size_t quoted_end(const struct scan *scan, size_t start, size_t max, char quote)
{
	size_t at = start;

	while (at < max && scan->text[at] != quote)
		at += scan->text[at] == '\\' ? 2 : 1;
	return at < max ? at : max;
}

/* The end of the value that begins at `value`, at most `max`. */
static size_t any_end(const struct scan *scan, size_t value, size_t max)
{
	if (is_quote(scan->text[value - 1]))
		return quoted_end(scan, value, max, scan->text[value - 1]);
	return value_end(scan, value, max);
}

/* Redacts a value if its name (`telling`) or its beginning says that it is a secret. */
static bool leave_value(struct scan *scan, size_t value, enum redact_telling telling)
{
	size_t left = scan->size - value;
	size_t end = any_end(scan, value, value + (left < JUDGE_MAX ? left : JUDGE_MAX));

	if (has(scan, value, "[redacted]") || !is_secret(telling, scan->text + value, end - value))
		return false;
	end = any_end(scan, value, scan->size);
	copy_to(scan, value);
	leave_out(scan, end);
	return true;
}

/* Handles "=" or ":". Blanks around it are allowed only before a quoted value, or after ":". */
static bool scan_value(struct scan *scan)
{
	const char *text = scan->text;
	size_t value = scan->at + 1, gap = scan->at - scan->name_end;
	enum redact_telling telling;

	if (scan->name_end == scan->name_start || gap > 3)
		return false;
	while (value < scan->size && value - scan->at < 4 && is_blank(text[value]))
		value++;
	if (value >= scan->size)
		return false;
	if (text[scan->at] == ':' && scan_header(scan, value))
		return true;
	telling = redact_name(text + scan->name_start, scan->name_end - scan->name_start);
	if (telling == REDACT_PLAIN)
		return false;
	if (is_quote(text[value]))
		return leave_value(scan, value + 1, telling);
	if (text[scan->at] == '=' && (gap || value > scan->at + 1))
		return false;
	/* "secret:/run/secret" is a mount, "token: unexpected" a sentence. */
	return leave_value(scan, value, text[scan->at] == ':' ? REDACT_MAYBE : telling);
}

static bool is_number(const char *text, size_t size)
{
	size_t n = 0;

	while (n < size && text[n] >= '0' && text[n] <= '9')
		n++;
	return n == size;
}

/* Keeps the user of "user:password"; "1000:1000" and "node:node" are not credentials. */
static bool scan_login(struct scan *scan, size_t start)
{
	const char *text = scan->text + start;
	size_t size = scan->size - start, user;
	const char *colon = memchr(text, ':', size);

	if (!colon)
		return false;
	user = (size_t)(colon - text);
	if (user == size - 1 || is_number(colon + 1, size - user - 1) ||
	    (size == 2 * user + 1 && memcmp(text, colon + 1, user) == 0) || colon[1] == '/')
		return false;
	copy_to(scan, start + user + 1);
	leave_out(scan, scan->size);
	return true;
}

static bool is_login_flag(const char *flag)
{
	return streq(flag, "-u") || streq(flag, "-U") || streq(flag, "--user") ||
	       streq(flag, "--proxy-user");
}

/* Handles a value whose name is the argument before. */
static bool scan_behind(struct scan *scan, const char *previous)
{
	size_t size = strlen(previous);
	enum redact_telling telling;

	if (scan->size == 0 || scan->text[0] == '-')
		return false;
	if (is_login_flag(previous) && scan_login(scan, 0))
		return true;
	/* "--secret id=npm,src=file" is an option of docker and contains no value. */
	if (memchr(previous, '=', size) || has(scan, 0, "id=") || has(scan, 0, "type="))
		return false;
	if (starts_with(previous, "-pass") && has(scan, 0, "pass:")) {
		copy_to(scan, 5);
		leave_out(scan, scan->size);
		return true;
	}
	telling = redact_name(previous, size);
	/* "kubectl create secret generic": a word without a dash is not a flag. */
	if (telling == REDACT_SECRET && previous[0] != '-')
		telling = REDACT_MAYBE;
	if (!is_secret(telling, scan->text, scan->size) || has(scan, 0, "file:") ||
	    has(scan, 0, "env:"))
		return false;
	leave_out(scan, scan->size);
	return true;
}

/* Handles one character: a token at the start of a word, otherwise the character's meaning. */
static void scan_next(struct scan *scan)
{
	size_t at = scan->at, keep = 0, n;
	char c = scan->text[at];

	if (redact_is_word(c) && (at == 0 || !redact_is_word(scan->text[at - 1]))) {
		n = redact_form(scan->text + at, scan->size - at, &keep);
		if (n > keep) {
			copy_to(scan, at + keep);
			leave_out(scan, at + n);
			return;
		}
	}
	if (redact_is_word(c) || c == '.') {
		if (scan->name_end != at)
			scan->name_start = at;
		scan->name_end = at + 1;
	} else if (c == ':' && has(scan, at, "://")) {
		scan_userinfo(scan);
		return;
	} else if ((c == '=' || c == ':') && scan_value(scan)) {
		return;
	}
	copy_to(scan, at + 1);
}

unsigned audit_redact(const char *text, size_t size, const char *previous, struct buf *out)
{
	struct scan scan = {.text = text, .size = size, .out = out};

	if (previous && scan_behind(&scan, previous))
		return scan.hits;
	if (has(&scan, 0, "-u") && size > 5 && !has(&scan, 0, "-u=") && !memchr(text, '=', size) &&
	    scan_login(&scan, 2))
		return scan.hits;
	while (scan.at < size)
		scan_next(&scan);
	return scan.hits;
}

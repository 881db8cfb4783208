/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/describe-pieces.h"

#include "auditcmd/event-values.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <string.h>

/* Longer values are cut: bytes of one argument, and of all arguments. */
#define ARGUMENT_MAX 400
#define ARGV_MAX     800

#define DOTS "\xe2\x80\xa6"

/* Do not cut within a UTF-8 character. */
static size_t cut_length(const char *text, size_t size, size_t most)
{
	if (size <= most)
		return size;
	while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
		most--;
	return most;
}

static bool is_plain_word(const char *text)
{
	return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_./:=@%+,-^")] == '\0';
}

static void add_argument(const char *text, struct buf *out)
{
	size_t size = strlen(text), length = cut_length(text, size, ARGUMENT_MAX);
	bool is_plain = is_plain_word(text);
	char piece[ARGUMENT_MAX + 1];

	if (!is_plain)
		buf_add_char(out, '\'');
	for (size_t at = 0; at < length;) {
		size_t run = strcspn(text + at, "'");

		run = run > length - at ? length - at : run;
		memcpy(piece, text + at, run);
		piece[run] = '\0';
		event_show(piece, out);
		at += run;
		if (at < length) {
			buf_add_str(out, "'\\''");
			at++;
		}
	}
	if (length < size)
		buf_add_str(out, DOTS);
	if (!is_plain)
		buf_add_char(out, '\'');
}

void describe_argv(const json_t *argv, bool is_cut, struct buf *out)
{
	size_t begin = out->used, i;
	const json_t *each;

	json_array_foreach(argv, i, each)
	{
		if (i > 0)
			buf_add_char(out, ' ');
		if (out->used - begin > ARGV_MAX) {
			is_cut = true;
			break;
		}
		add_argument(json_string_value(each) ? json_string_value(each) : "?", out);
	}
	if (is_cut)
		buf_add_str(out,
			    out->used > begin && out->data[out->used - 1] != ' ' ? " " DOTS : DOTS);
}

void describe_ms(uint64_t ms, struct buf *out)
{
	if (ms < 1000)
		buf_addf(out, "%" PRIu64 " ms", ms);
	else if (ms < 60000)
		buf_addf(out, "%" PRIu64 ".%" PRIu64 " s", ms / 1000, ms % 1000 / 100);
	else if (ms < 3600000)
		buf_addf(out, "%" PRIu64 " min %" PRIu64 " s", ms / 60000, ms / 1000 % 60);
	else
		buf_addf(out, "%" PRIu64 " h %" PRIu64 " min", ms / 3600000, ms / 60000 % 60);
}

void describe_size(uint64_t bytes, struct buf *out)
{
	char text[32];

	if (bytes < 1024)
		buf_addf(out, "%" PRIu64 " B", bytes);
	else
		buf_add_str(out, amount_size(bytes, text, sizeof text));
}

void describe_value(const json_t *value, struct buf *out)
{
	cleanup_free char *text = NULL;

	if (json_is_string(value)) {
		event_show(json_string_value(value), out);
	} else if (json_is_integer(value)) {
		buf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	} else {
		text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		if (text)
			event_show(text, out);
	}
}

void describe_target(const json_t *object, struct buf *out)
{
	const char *name = event_text(object, "name"), *address = event_text(object, "address");
	uint64_t port = event_number(object, "port", 0);
	const char *first = name && *name ? name : address;

	event_show(first ? first : "?", out);
	if (port)
		buf_addf(out, ":%" PRIu64, port);
	if (first == name && name && address && *address && !streq(name, address)) {
		buf_add_str(out, " (");
		event_show(address, out);
		buf_add_char(out, ')');
	}
}

/* The same rule as in cli/summary-network.c: most other refusals cannot be allowed. */
static bool wants_name(const json_t *object)
{
	const char *reason = event_text(object, "reason");

	return !event_has(object, "rule") &&
	       (!reason || !reason[0] || ends_with(reason, "not allowed") ||
		starts_with(reason, "a person said no") || starts_with(reason, "nobody "));
}

static bool wants_address(const json_t *object)
{
	const char *reason = event_text(object, "reason");

	return reason && starts_with(reason, "the address is not allowed");
}

static void allow_connection(const json_t *object, struct buf *out)
{
	const char *name = event_text(object, "name"), *address = event_text(object, "address");
	const char *host = wants_address(object) || !name || !*name ? address : name;
	uint64_t port = event_number(object, "port", 0);
	bool has_port = port && port != 80 && port != 443, is_v6;

	if (!host || !*host || (!wants_address(object) && !wants_name(object)))
		return;
	is_v6 = has_port && strchr(host, ':');
	buf_add_str(out, is_v6 ? "--allow [" : "--allow ");
	event_show(host, out);
	if (is_v6)
		buf_add_char(out, ']');
	if (has_port)
		buf_addf(out, ":%" PRIu64, port);
}

void describe_allow(const json_t *object, struct buf *out)
{
	const char *kind = event_text(object, "kind"), *verdict = event_text(object, "verdict");

	if (event_has(object, "allow"))
		describe_value(json_object_get(object, "allow"), out);
	else if (kind && streq(kind, "connection") && verdict && streq(verdict, "refused"))
		allow_connection(object, out);
}

void describe_end(const json_t *object, struct buf *out)
{
	static const char *const words[][2] = {
		{"timed-out", "stopped at the time limit"},
		{"out-of-memory", "stopped at the memory limit"},
		{"over-limit", "stopped at a limit"},
		{"not-started", "not started"},
		{"stopped", "stopped by a rule or a monitor"},
		{"unrecorded", "stopped because the record could not be written"},
	};
	const char *end = event_text(object, "end"), *name;
	uint64_t code = event_number(object, "code", 0);

	if (!end) {
		buf_add_str(out, "ended");
	} else if (streq(end, "exited")) {
		buf_addf(out, "exited with %" PRIu64, code);
	} else if (streq(end, "signaled")) {
		name = code < 65 ? sigabbrev_np((int)code) : NULL;
		buf_addf(out, "ended by signal %" PRIu64, code);
		if (name)
			buf_addf(out, " (%s)", name);
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			if (streq(words[i][0], end)) {
				buf_add_str(out, words[i][1]);
				return;
			}
		event_show(end, out);
	}
}

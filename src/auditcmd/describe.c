/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/describe.h"

#include "auditcmd/describe-pieces.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"

#include <inttypes.h>

/*
 * One function per kind of event. A missing value is left out of the text.
 *
 * describe() at the foot finds the function in the table and calls it.
 */

static void add_count(const json_t *object, struct buf *out)
{
	uint64_t count = event_number(object, "count", 1);

	if (count > 1)
		buf_addf(out, ", %" PRIu64 " times", count);
}

/* Appends `before`, the text and `after`; nothing if there is no such text. */
static bool add_text(const json_t *object, const char *key, const char *before, const char *after,
		     struct buf *out)
{
	const json_t *value = json_object_get(object, key);

	if (!event_has(object, key))
		return false;
	buf_add_str(out, before);
	describe_value(value, out);
	buf_add_str(out, after);
	return true;
}

/* ---- the record about itself ---- */

static enum tone describe_open(const json_t *object, struct buf *out)
{
	add_text(object, "what", "", " ", out);
	add_text(object, "run", "", "", out);
	add_text(object, "atoll", ", atoll ", "", out);
	add_text(object, "parent", ", forked from ", "", out);
	add_text(object, "key", ", key ", "", out);
	return TONE_QUIET;
}

static enum tone describe_head(const json_t *object, struct buf *out)
{
	uint64_t size = event_number(object, "size", 0);

	buf_addf(out, "%" PRIu64 " line%s signed", size, size == 1 ? "" : "s");
	if (event_has(object, "last"))
		buf_add_str(out, ", the log is closed");
	add_text(object, "root", ", root ", "", out);
	return TONE_QUIET;
}

static enum tone describe_cut(const json_t *object, struct buf *out)
{
	buf_addf(out, "the writer was interrupted: %" PRIu64 " bytes of a half line were cut off",
		 event_number(object, "bytes", 0));
	return TONE_BAD;
}

static enum tone describe_key(const json_t *object, struct buf *out)
{
	buf_add_str(out, "handed over");
	add_text(object, "old", " from ", "", out);
	add_text(object, "new", " to ", "", out);
	return TONE_QUIET;
}

static enum tone describe_lost(const json_t *object, struct buf *out)
{
	if (!event_text(object, "of")) {
		buf_addf(out, "%" PRIu64 " events could not be told",
			 event_number(object, "count", 0));
		add_text(object, "why", ": ", "", out);
		return TONE_BAD;
	}
	buf_addf(out, "%" PRIu64 " more of", event_number(object, "count", 0));
	add_text(object, "of", " ", "", out);
	add_text(object, "verdict", ", ", ",", out);
	add_text(object, "rule", " by ", "", out);
	if (event_number(object, "distinct", 0))
		buf_addf(out, ", %s%" PRIu64 " different",
			 json_is_true(json_object_get(object, "more")) ? "more than " : "",
			 event_number(object, "distinct", 0));
	buf_add_str(out, ", only counted");
	return TONE_BAD;
}

/* ---- steps ---- */

static void add_weaker(const json_t *object, struct buf *out)
{
	const json_t *each, *list = json_object_get(object, "mechanisms");
	const char *before = "; weaker: ";
	size_t i;

	json_array_foreach(list, i, each)
	{
		const char *strength = event_text(each, "strength");

		if (!strength || streq(strength, "enforced"))
			continue;
		if (add_text(each, "clause", before, "", out))
			before = ", ";
		if (streq(strength, "missing"))
			buf_add_str(out, " (missing)");
	}
}

static enum tone describe_start(const json_t *object, struct buf *out)
{
	describe_argv(json_object_get(object, "argv"), false, out);
	add_text(object, "workspace", "  in ", "", out);
	add_text(object, "workspace_at", ", seen at ", "", out);
	add_text(object, "mode", " (", ")", out);
	add_weaker(object, out);
	return TONE_MAIN;
}

static enum tone describe_recipe(const json_t *object, struct buf *out)
{
	uint64_t redacted = event_number(object, "redacted", 0);

	buf_addf(out, "what the job was made of, %zu words",
		 json_array_size(json_object_get(object, "words")));
	if (redacted)
		buf_addf(out, ", %" PRIu64 " left out", redacted);
	return TONE_QUIET;
}

static void add_total(const json_t *object, const char *key, const char *one, const char *many,
		      struct buf *out)
{
	uint64_t n = event_number(object, key, 0);

	if (n)
		buf_addf(out, ", %" PRIu64 " %s", n, n == 1 ? one : many);
}

static void add_changes(const json_t *changes, struct buf *out)
{
	static const char *const keys[] = {"added", "changed", "deleted", "marked"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (event_number(changes, keys[i], 0))
			buf_addf(out, ", %" PRIu64 " %s", event_number(changes, keys[i], 0),
				 keys[i]);
}

static enum tone describe_step_end(const json_t *object, struct buf *out)
{
	const json_t *usage = json_object_get(object, "usage");
	const char *end = event_text(object, "end");
	uint64_t memory = event_number(json_object_get(usage, "memory"), "used", 0);
	uint64_t cpu = event_number(json_object_get(usage, "cpu_ms"), "used", 0);

	describe_end(object, out);
	buf_add_str(out, " after ");
	describe_ms(event_number(object, "wall_ms", 0), out);
	if (cpu) {
		buf_add_str(out, ", CPU ");
		describe_ms(cpu, out);
	}
	if (memory) {
		buf_add_str(out, ", memory ");
		describe_size(memory, out);
	}
	add_changes(json_object_get(object, "changes"), out);
	add_total(object, "connections", "connection", "connections", out);
	add_total(object, "denials", "denial", "denials", out);
	if (end && streq(end, "exited") && event_number(object, "code", 1) == 0)
		return TONE_GOOD;
	return TONE_BAD;
}

/* "anna (uid 1000)". */
static void add_who(const json_t *object, const char *before, struct buf *out)
{
	const json_t *who = json_object_get(object, "who");

	if (json_is_object(who)) {
		add_text(who, "name", before, "", out);
		add_text(who, "uid", " (uid ", ")", out);
	} else {
		add_text(object, "who", before, "", out);
	}
}

static enum tone describe_state(const json_t *object, struct buf *out)
{
	buf_add_str(out, "the sandbox");
	add_text(object, "name", ", state ", "", out);
	add_text(object, "child", ", new sandbox ", "", out);
	add_total(object, "ended", "process was ended", "processes were ended", out);
	add_who(object, ", by ", out);
	return TONE_PLAIN;
}

static enum tone describe_stop(const json_t *object, struct buf *out)
{
	buf_add_str(out, "everything inside");
	add_text(object, "why", ": ", "", out);
	return TONE_BAD;
}

/* ---- what it did ---- */

/* Does argv[0] differ from the program's name? "python3" for "python3.11" does not, "sh" for
 * "dash" does. */
static bool is_other_name(const char *file, const char *name)
{
	return *name && !starts_with(file, name);
}

static enum tone describe_exec(const json_t *object, struct buf *out)
{
	const json_t *argv = json_object_get(object, "argv");
	const char *path = event_text(object, "path"), *name;
	bool is_cut =
		event_has(object, "cut") || event_number(object, "argc", 0) > json_array_size(argv);

	/* Prints the path of the program, and argv[0] only if it differs. */
	if (!path || !*path) {
		buf_add_str(out, "something that could not be read");
	} else {
		describe_value(json_object_get(object, "path"), out);
		name = json_string_value(json_array_get(argv, 0));
		if (name && is_other_name(path_name(path), path_name(name))) {
			buf_add_str(out, " (as ");
			event_show(name, out);
			buf_add_char(out, ')');
		}
	}
	if (json_array_size(argv) > 1 || is_cut) {
		json_t *others = json_array();

		for (size_t i = 1; i < json_array_size(argv); i++)
			json_array_append(others, json_array_get(argv, i));
		buf_add_char(out, ' ');
		describe_argv(others, is_cut, out);
		json_decref(others);
	}
	return TONE_PLAIN;
}

static enum tone describe_denial(const json_t *object, struct buf *out)
{
	if (!add_text(object, "action", "", "", out))
		buf_add_str(out, "something");
	add_text(object, "object", " ", "", out);
	add_count(object, out);
	add_text(object, "rule", ": ", "", out);
	return TONE_BAD;
}

static void add_traffic(const json_t *object, struct buf *out)
{
	uint64_t sent = event_number(object, "sent", 0);
	uint64_t received = event_number(object, "received", 0);

	if (sent || received) {
		buf_add_str(out, ", sent ");
		describe_size(sent, out);
		buf_add_str(out, ", received ");
		describe_size(received, out);
	}
	if (event_has(object, "duration_ms")) {
		buf_add_str(out, ", ");
		describe_ms(event_number(object, "duration_ms", 0), out);
	}
}

static enum tone describe_connection(const json_t *object, struct buf *out)
{
	const char *verdict = event_text(object, "verdict");

	describe_target(object, out);
	add_text(object, "verdict", " ", "", out);
	add_count(object, out);
	if (!add_text(object, "reason", ": ", "", out))
		add_text(object, "rule", " by ", "", out);
	add_text(object, "request", ", ", "", out);
	add_traffic(object, out);
	return verdict && streq(verdict, "allowed") ? TONE_NET : TONE_BAD;
}

static enum tone describe_change(const json_t *object, struct buf *out)
{
	const char *type = event_text(object, "type");

	if (!add_text(object, "change", "", " ", out))
		buf_add_str(out, "changed ");
	add_text(object, "from", "", " -> ", out);
	add_text(object, "path", "", "", out);
	if (type && !streq(type, "file")) {
		buf_add_str(out, " (");
		event_show(type, out);
		buf_add_char(out, ')');
	} else if (json_is_integer(json_object_get(object, "size"))) {
		buf_add_str(out, ", ");
		describe_size(event_number(object, "size", 0), out);
	}
	add_text(object, "mode", ", mode ", "", out);
	return add_text(object, "mark", "  [", "]", out) ? TONE_ALARM : TONE_CHANGE;
}

static enum tone describe_approval(const json_t *object, struct buf *out)
{
	add_text(object, "about", "", " ", out);
	add_text(object, "object", "", "", out);
	add_text(object, "answer", ": ", "", out);
	add_text(object, "scope", ", ", "", out);
	add_who(object, ", by ", out);
	return TONE_PLAIN;
}

static enum tone describe_outcome(const json_t *object, struct buf *out)
{
	const char *result = event_text(object, "result");

	add_text(object, "about", "", "", out);
	add_text(object, "result", ": ", "", out);
	add_total(object, "files", "file", "files", out);
	add_total(object, "merged", "of them merged", "of them merged", out);
	add_total(object, "held", "held back", "held back", out);
	add_total(object, "conflicts", "conflict", "conflicts", out);
	if (event_has(object, "late"))
		buf_add_str(out, ", of one that was interrupted");
	add_text(object, "why", ": ", "", out);
	return result && (streq(result, "failed") || streq(result, "conflict")) ? TONE_BAD
										: TONE_PLAIN;
}

static enum tone describe_limit(const json_t *object, struct buf *out)
{
	add_text(object, "limit", "", "", out);
	add_text(object, "value", " of ", "", out);
	add_text(object, "used", ", used ", "", out);
	add_text(object, "note", ": ", "", out);
	return TONE_BAD;
}

static enum tone describe_output(const json_t *object, struct buf *out)
{
	add_text(object, "stream", "", ", ", out);
	describe_size(event_number(object, "bytes", 0), out);
	add_text(object, "hash", ", ", "", out);
	if (event_has(object, "kept"))
		buf_add_str(out, ", kept");
	return TONE_QUIET;
}

/* Appends the numbers of the events that it is about. */
static void add_about(const json_t *object, struct buf *out)
{
	const json_t *about = json_object_get(object, "about"), *each;
	const json_t *more = json_object_get(object, "more");
	size_t i;

	if (!json_is_integer(about))
		return;
	buf_add_str(out, json_array_size(more) ? " (events " : " (event ");
	describe_value(about, out);
	json_array_foreach(more, i, each)
	{
		buf_add_str(out, ", ");
		describe_value(each, out);
	}
	buf_add_char(out, ')');
}

static enum tone describe_flag(const json_t *object, struct buf *out)
{
	add_text(object, "verdict", "", "", out);
	add_text(object, "by", ", by ", "", out);
	add_text(object, "why", ": ", "", out);
	add_about(object, out);
	return TONE_ALARM;
}

static const struct {
	const char *kind;
	enum tone (*describe_kind)(const json_t *object, struct buf *out);
} describers[] = {
	{"exec", describe_exec},
	{"change", describe_change},
	{"connection", describe_connection},
	{"denial", describe_denial},
	{"open", describe_open},
	{"start", describe_start},
	{"approval", describe_approval},
	{"limit", describe_limit},
	{"output", describe_output},
	{"flag", describe_flag},
	{"checkpoint", describe_state},
	{"rollback", describe_state},
	{"fork", describe_state},
	{"remove", describe_state},
	{"lost", describe_lost},
	{"stopped", describe_stop},
	{"resumed", describe_stop},
	{"end", describe_step_end},
	{"cut", describe_cut},
	{"key", describe_key},
	{"recipe", describe_recipe},
	{"head", describe_head},
	{"outcome", describe_outcome},
};

const char *const event_kinds[] = {
	"open",	   "recipe",  "start",	 "exec", "denial",     "connection", "change", "approval",
	"outcome", "limit",   "output",	 "flag", "checkpoint", "rollback",   "fork",   "remove",
	"lost",	   "stopped", "resumed", "end",	 "cut",	       "key",	     "head",   NULL,
};

/* ---- the whole ---- */

/* A kind that this version does not know: print all members. */
static enum tone describe_unknown(const json_t *object, struct buf *out)
{
	static const char *const known[] = {"prev", "seq",  "time", "run",
					    "step", "kind", "pid",  "program"};
	json_t *others = json_copy((json_t *)(uintptr_t)object);

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		json_object_del(others, known[i]);
	describe_value(others, out);
	json_decref(others);
	return TONE_PLAIN;
}

static void describe_process(const json_t *object, struct buf *out)
{
	uint64_t pid = event_number(object, "pid", 0);

	if (pid)
		buf_addf(out, "%6" PRIu64 " ", pid);
	if (event_text(object, "program"))
		event_show(event_text(object, "program"), out);
}

static void clear(struct buf *buf)
{
	buf->used = 0;
	buf->failed = 0;
	buf_add(buf, "", 0);
	if (buf->data)
		buf->data[0] = '\0';
}

void describe(const struct event *event, struct description *ret)
{
	enum tone (*describe_kind)(const json_t *object, struct buf *out) = describe_unknown;

	clear(&ret->who);
	clear(&ret->what);
	clear(&ret->allow);
	for (size_t i = 0; i < ARRAY_SIZE(describers); i++)
		if (streq(describers[i].kind, event->kind)) {
			describe_kind = describers[i].describe_kind;
			break;
		}
	describe_process(event->object, &ret->who);
	ret->tone = describe_kind(event->object, &ret->what);
	describe_allow(event->object, &ret->allow);
}

void description_done(struct description *description)
{
	buf_done(&description->who);
	buf_done(&description->what);
	buf_done(&description->allow);
}

bool event_is_denial(const struct event *event)
{
	const char *verdict;

	if (streq(event->kind, "denial") || streq(event->kind, "limit"))
		return true;
	verdict = event_text(event->object, "verdict");
	return streq(event->kind, "connection") && verdict && streq(verdict, "refused");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-line.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * One line of the event log
 *
 * Called by all files of this component that write lines. A committed line waits in `audit` until
 * eventlog_flush() writes it, and goes to the hooks at once. The first waiting line sets the time
 * of the next flush, the first line after a head the time of the next head.
 */

#define FLUSH_NS (100 * INT64_C(1000000))
#define SEAL_NS	 (10 * INT64_C(1000000000))

void eventlog_write_dropped(struct eventlog *eventlog)
{
	struct json *json;

	if (!eventlog->n_dropped || audit_pending(eventlog->log) >= EVENTLOG_FLUSH_SIZE)
		return;
	json = audit_begin(eventlog->log, "lost", 0, 0);
	json_uint(json, "count", eventlog->n_dropped);
	json_str(json, "why", "there was no room for them");
	if (audit_commit(eventlog->log, &eventlog->problem) == 0)
		eventlog->n_dropped = 0;
}

void eventlog_emit_last(struct eventlog *eventlog)
{
	size_t size;
	const char *line = audit_last_line(eventlog->log, &size);

	if (line && eventlog->hooks.emitted)
		eventlog->hooks.emitted(line, size, eventlog->hooks.data);
}

struct json *eventlog_begin(struct eventlog *eventlog, const char *kind, uint64_t time_ns,
			    uint32_t step)
{
	eventlog_write_dropped(eventlog);
	return audit_begin(eventlog->log, kind, time_ns, step);
}

void eventlog_commit(struct eventlog *eventlog)
{
	const int64_t now_ns = clock_monotonic_ns();
	const bool is_counted = eventlog->is_counted;
	int r = is_counted ? 0 : audit_commit(eventlog->log, &eventlog->problem);

	eventlog->is_counted = false;
	if (is_counted)
		audit_end_unlogged(eventlog->log);
	/* A line that cannot be built (no memory) is lost like one that cannot be written. */
	if (r < 0) {
		eventlog->is_stuck = true;
		eventlog->n_dropped++;
		return;
	}
	eventlog_emit_last(eventlog);
	if (eventlog->flush_ns == INT64_MAX && !is_counted)
		eventlog->flush_ns = now_ns + FLUSH_NS;
	if (eventlog->seal_ns == INT64_MAX)
		eventlog->seal_ns = now_ns + SEAL_NS;
	if (!eventlog->is_stuck && audit_pending(eventlog->log) >= EVENTLOG_FLUSH_SIZE)
		eventlog_flush(eventlog, &eventlog->problem);
}

struct eventlog_counts *eventlog_counts(struct eventlog *eventlog, uint32_t step)
{
	struct eventlog_counts *counts = &eventlog->counts[step % EVENTLOG_STEPS_MAX];

	if (counts->step != step)
		*counts = (struct eventlog_counts){.step = step};
	return counts;
}

void eventlog_add_hash(struct json *json, const char *key, const unsigned char *hash)
{
	char text[7 + HASH_HEX_SIZE] = "sha256:";

	if (hash)
		hash_to_hex(hash, HASH_SIZE, text + 7);
	json_str(json, key, hash ? text : NULL);
}

void eventlog_add_redacted(struct json *json, const char *key, const char *text,
			   const char *previous)
{
	cleanup_buf struct buf out = BUF_INIT((size_t)4 << 20);

	audit_redact(text, strlen(text), previous, &out);
	/* Without memory for the redacted text nothing of it is written. */
	if (buf_error(&out) < 0)
		json_str(json, key, "[redacted]");
	else
		json_strn(json, key, out.data ? out.data : "", out.used);
}

void eventlog_add_who(struct json *json)
{
	char line[1024];
	FILE *accounts = fopen("/etc/passwd", "re");
	bool is_found = false;

	while (accounts && !is_found && fgets(line, sizeof line, accounts)) {
		char *rest = strchr(line, ':'), *number = rest ? strchr(rest + 1, ':') : NULL;

		if (!number || strtoul(number + 1, NULL, 10) != getuid())
			continue;
		*rest = '\0';
		is_found = true;
	}
	if (accounts)
		fclose(accounts);
	json_open(json, "who", '{');
	json_uint(json, "uid", getuid());
	json_str(json, "name", is_found ? line : NULL);
	json_close(json, '}');
}

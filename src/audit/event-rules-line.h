/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A line of an event log, parsed for the rules while it is written
 *
 * The lines come from this program (doc/events.md): one object with known keys. Nested values are
 * skipped. Only the kinds and keys that a rule needs are read. For logs from elsewhere there is the
 * reader of `atoll log` (auditcmd/events.h).
 */

enum line_kind {
	LINE_OTHER,
	LINE_EXEC,
	LINE_DENIAL,
	LINE_CONNECTION,
	LINE_CHANGE,
};

#define LINE_ARGS_MAX 128

/* Texts are never NULL, and "" where the line has none. */
struct line {
	enum line_kind kind;
	uint64_t seq;
	uint32_t step;
	int32_t pid, parent;
	uint16_t port;
	bool is_fresh; /* the executed file was created or changed during the run */
	const char *program, *path, *action, *object, *name, *address, *request, *change, *type;
	const char *argv[LINE_ARGS_MAX + 1];
	size_t argc;
	size_t used;
	char texts[20 * 1024]; /* longer texts are cut */
};

/* False if `text` is not a line, or of a kind that no rule needs. */
bool line_parse(const char *text, size_t size, struct line *ret);

/* The last component of a path. */
const char *line_base(const char *path);

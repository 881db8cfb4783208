/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A line of the record, taken apart for whoever watches while it is written
 *
 * Lines are our own (doc/events.md): one object, its keys known, what is nested is skipped. Only
 * those kinds are looked at that a rule asks for, and only those keys. For strangers' logs there is
 * the reader of `atoll log`.
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
	bool is_fresh; /* of what is executed: it was made or changed during the run */
	const char *program, *path, *action, *object, *name, *address, *request, *change, *type;
	const char *argv[LINE_ARGS_MAX + 1];
	size_t argc;
	size_t used;
	char texts[20 * 1024]; /* what does not fit is cut */
};

/* False for what is no line, or of no kind that is looked at. */
bool line_parse(const char *text, size_t size, struct line *ret);

/* The last component of a path. */
const char *line_base(const char *path);

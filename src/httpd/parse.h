/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"

#include <jansson.h>

/*
 * Parsing of JSON that a client has sent
 *
 * A text of 16 MiB takes seconds to parse and to free, and can need a gigabyte. So a text longer
 * than PARSE_SMALL is parsed and freed by a thread, and a text of more than PARSE_VALUES values is
 * refused before it is parsed.
 */
#define PARSE_SMALL  4096
#define PARSE_VALUES 100000

/* Refuses two members of one name. NULL: `why` is the mistake. */
json_t *parse_text(const char *text, size_t size, char why[160]);

struct parse;
/* `body` is NULL if `why` is not empty. It is freed after this callback unless parse_keep() was
 * called. */
typedef void parse_done(struct parse *parse, json_t *body, const char *why, void *data);

struct parse_request {
	struct daemon *daemon;
	struct tenant *tenant; /* charged for the bytes */
	char *text;	       /* allocated; parse_start() owns it, also on failure */
	size_t from, size;     /* the bytes of `text` that are parsed */
};
/* Parses on a thread. Calls `done` once, from the event loop. NULL: the tenant has too many bytes,
 * or no memory; `done` is not called then. */
struct parse *parse_start(const struct parse_request *request, parse_done *done, void *data);
/* `done` will not be called. */
void parse_leave(struct parse *parse);
/* In `done`: the document stays until parse_free(). */
void parse_keep(struct parse *parse);
void parse_free(struct parse *parse);

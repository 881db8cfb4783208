/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/held.h"
#include "box/work.h"

#include <jansson.h>

/*
 * JSON of strangers
 *
 * A text of 16 MiB takes seconds to parse, and to free, and can need a gigabyte. So what is longer
 * than PARSE_SMALL is parsed and freed by a thread, and a text of more than PARSE_VALUES values is
 * refused before it is parsed.
 */
#define PARSE_SMALL  4096
#define PARSE_VALUES 100000

/* An object, without two members of one name. NULL: `why` says what is wrong with it. */
json_t *parse_text(const char *text, size_t size, char why[160]);

struct parse;
/* `body` is NULL if `why` says something. It goes when this returns, unless parse_keep() was
 * called. */
typedef void parse_done(struct parse *parse, json_t *body, const char *why, void *data);

/* The bytes of `text` from `from` on; takes it. `done` is called from the event loop, once. NULL:
 * too much is held for this tenant, or no memory; then `done` is not called. */
struct parse *parse_start(struct daemon *daemon, struct tenant *tenant, char *text, size_t from,
			  size_t size, parse_done *done, void *data);
/* `done` will not be called. */
void parse_leave(struct parse *parse);
/* In `done`: the document stays until parse_free(). */
void parse_keep(struct parse *parse);
void parse_free(struct parse *parse);

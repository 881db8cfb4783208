/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Visitors of a published port: what they say first, and whether it is passed on
 *
 * visit.c judges the bytes (pure). door.c keeps them until they are judged; egress-relay.c asks it
 * about everything that such a visitor says, and what the server inside says is passed on at once.
 */

#include "http/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- visit.c ---- */

enum visit {
	VISIT_WORD,   /* so far one word: no server can do anything with it, so it is passed on, and
		       * judged together with what follows */
	VISIT_LINE,   /* perhaps a request's first line */
	VISIT_HEAD,   /* a request whose head is not all there */
	VISIT_PASS,   /* no request, or one that may pass; nothing is judged from here on */
	VISIT_REFUSE, /* a request that may not */
};

struct visit_names {
	const char *own;    /* this machine's name, or "" */
	char *const *names; /* that the contract lists; names beneath them as well */
	size_t n;
};

struct visit_refusal {
	unsigned status; /* of HTTP */
	const char *why;
};

/* All that a visitor has said, at most HTTP_HEAD_MAX bytes of it: with so many the answer is never
 * VISIT_LINE or VISIT_HEAD. More bytes change neither VISIT_PASS nor VISIT_REFUSE. */
enum visit visit_read(const char *data, size_t size, const struct visit_names *names,
		      struct visit_refusal *ret);
/* What follows HTTP_HEAD_MAX bytes of one word: VISIT_WORD, VISIT_PASS or VISIT_REFUSE. */
enum visit visit_read_on(const char *data, size_t size, struct visit_refusal *ret);

/* ---- door.c ---- */

struct door;

enum door_state {
	DOOR_WAITS,   /* for more, or until door_due() */
	DOOR_PASSES,  /* door_take() has what can be passed on; what follows is judged, too */
	DOOR_OPEN,    /* the same, and nothing is judged any more */
	DOOR_REFUSES, /* send door_answer() and close */
};

struct door *door_new(const struct visit_names *names); /* what it points to stays the caller's */
void door_free(struct door *door);			/* takes NULL */
/* Room for the next bytes of the visitor. NULL: there is no memory; then door_answer() says so. */
char *door_room(struct door *door, size_t *ret_size);
/* So many were put there; 0: the visitor will say nothing more. */
enum door_state door_add(struct door *door, size_t n, int64_t now_ns);
/* Nothing more fits in before door_take(). */
bool door_is_full(const struct door *door);
/* When door_fire() is to be called; 0: never. */
int64_t door_due(const struct door *door);
enum door_state door_fire(struct door *door, int64_t now_ns);
/* What is to be passed on, for the caller to free(). NULL with `*ret_size` 0: nothing. With another
 * size: out of memory. */
uint8_t *door_take(struct door *door, size_t *ret_size);
/* The answer to a visitor who was refused; the reason is for the event. */
size_t door_answer(const struct door *door, char *ret, size_t size);
const char *door_reason(const struct door *door);

/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/visit.h"

#include "base/scope.h"
#include "egress/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The first bytes of a visitor, until they are judged
 *
 * egress-relay.c reads into door_room(), calls door_add(), and does what it answers. A first word
 * is passed on at once. A line that may become a request waits for its end, but only until the
 * visitor has been silent for a moment: a browser sends a request's line in one piece, and a
 * program of another protocol may wait for an answer. What was passed on so is still kept, and
 * judged together with what follows: without the end of its head a server does not answer a
 * request. Once the line is a request's, everything behind it waits for the end of the head.
 */

#define ROOM_FIRST   4096 /* that everybody has */
#define SILENT_NS    (20 * MS_NS)
#define HEAD_NS	     (30 * SECOND_NS)
#define HELD_ALL_MAX (16 * 1024 * 1024) /* beyond that, of all visitors together */

struct door {
	struct visit_names names;
	enum visit visit;
	struct visit_refusal refusal;
	char *data; /* all that the visitor has said, or its last piece of a very long word */
	size_t n, room, n_passed;
	bool is_long; /* HTTP_HEAD_MAX bytes of one word were passed on, and are gone */
	int64_t due_ns;
};

static size_t n_held_all;

struct door *door_new(const struct visit_names *names)
{
	struct door *door = calloc(1, sizeof *door);

	if (door)
		door->names = *names;
	return door;
}

void door_free(struct door *door)
{
	if (!door)
		return;
	if (door->room)
		n_held_all -= door->room - ROOM_FIRST;
	free(door->data);
	free(door);
}

static char *no_room(struct door *door)
{
	door->refusal = (struct visit_refusal){503, "too many visitors with long requests"};
	return NULL;
}

char *door_room(struct door *door, size_t *ret_size)
{
	size_t room = door->room ? door->room * 2 : ROOM_FIRST;
	size_t more = door->room ? room - door->room : 0;
	char *grown;

	if (door->n == door->room) {
		if (n_held_all + more > HELD_ALL_MAX)
			return no_room(door);
		grown = realloc(door->data, room);
		if (!grown)
			return no_room(door);
		n_held_all += more;
		door->data = grown;
		door->room = room;
	}
	*ret_size = door->room - door->n;
	return door->data + door->n;
}

static void judge(struct door *door)
{
	door->visit = door->is_long ? visit_read_on(door->data, door->n, &door->refusal)
				    : visit_read(door->data, door->n, &door->names, &door->refusal);
}

/* The visitor's last byte has come: half a head is never passed on. */
static enum door_state end(struct door *door)
{
	if (door->visit != VISIT_HEAD)
		return DOOR_OPEN;
	door->refusal = (struct visit_refusal){400, "a request without the end of its head"};
	return DOOR_REFUSES;
}

enum door_state door_add(struct door *door, size_t n, int64_t now_ns)
{
	bool was_head = door->visit == VISIT_HEAD;

	if (n == 0)
		return end(door);
	door->n += n;
	judge(door);
	switch (door->visit) {
	case VISIT_WORD:
		return DOOR_PASSES;
	case VISIT_PASS:
		return DOOR_OPEN;
	case VISIT_REFUSE:
		return DOOR_REFUSES;
	case VISIT_LINE:
		door->due_ns = now_ns + SILENT_NS;
		return DOOR_WAITS;
	case VISIT_HEAD:
		if (!was_head)
			door->due_ns = now_ns + HEAD_NS;
		return DOOR_WAITS;
	}
	return DOOR_REFUSES;
}

bool door_is_full(const struct door *door)
{
	return door->n >= HTTP_HEAD_MAX;
}

int64_t door_due(const struct door *door)
{
	return door->due_ns;
}

enum door_state door_fire(struct door *door, int64_t now_ns)
{
	if (!door->due_ns || now_ns < door->due_ns)
		return DOOR_WAITS;
	door->due_ns = 0;
	if (door->visit != VISIT_HEAD)
		return DOOR_PASSES;
	door->refusal = (struct visit_refusal){408, "a request whose head took too long"};
	return DOOR_REFUSES;
}

uint8_t *door_take(struct door *door, size_t *ret_size)
{
	size_t n = door->n - door->n_passed;
	uint8_t *taken = n > 0 ? malloc(n) : NULL;

	*ret_size = n;
	door->due_ns = 0;
	if (!taken)
		return NULL;
	memcpy(taken, door->data + door->n_passed, n);
	door->n_passed = door->n;
	/* So long a word is not kept any longer. */
	if (door->is_long || (door->visit == VISIT_WORD && door->n >= HTTP_HEAD_MAX)) {
		door->is_long = true;
		door->n = door->n_passed = 0;
	}
	return taken;
}

static const char *phrase(unsigned status)
{
	return status == 421   ? "Misdirected Request"
	       : status == 408 ? "Request Timeout"
	       : status == 431 ? "Request Header Fields Too Large"
	       : status == 503 ? "Service Unavailable"
			       : "Bad Request";
}

size_t door_answer(const struct door *door, char *ret, size_t size)
{
	const struct visit_refusal *refusal = &door->refusal;
	char text[256];
	int n = snprintf(text, sizeof text, "atoll: request to a published port refused: %s%s\n",
			 refusal->why,
			 refusal->status == 421
				 ? "; use localhost, or list the name: listen: [{port: PORT, "
				   "names: [NAME]}]"
				 : "");

	n = snprintf(ret, size,
		     "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		     "X-Content-Type-Options: nosniff\r\nContent-Length: %d\r\n"
		     "Connection: close\r\n\r\n%s",
		     refusal->status, phrase(refusal->status), n, text);
	return (size_t)n < size ? (size_t)n : size - 1;
}

const char *door_reason(const struct door *door)
{
	return door->refusal.why;
}

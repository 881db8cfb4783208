/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of files as an answer: see listing.h
 *
 * Called by e2b-filesystem.c and v1-file.c.
 * 	listing_answer()  answers a short list; else sends the head, and queues the first piece
 * 	run_piece()	  sends one piece; the next one follows when the client has read
 */
#include "httpd/listing.h"

#include "base/scope.h"
#include "httpd/answer.h"
#include "httpd/reply.h"
#include "httpd/stream.h"

#include <stdlib.h>

#define SHORT_MAX (1U << 20)
#define PIECE_MAX (4U << 20) /* some hundred entries, each of at most some KiB */

struct listing {
	struct api_call *call;
	struct tenant *tenant;
	struct guest_list *list;
	const char *tail;
	void (*write)(struct json *json, const struct guest_entry *entry);
	struct loop_turn piece;
	bool has_some;
};

void listing_free(struct listing *listing)
{
	if (!listing)
		return;
	loop_unqueue(&listing->piece);
	exchange_on_drained(listing->call->exchange, NULL, NULL);
	guest_list_free(listing->list);
	free(listing);
}

static void queue_piece(struct listing *listing)
{
	loop_queue(listing->call->api->loop, &listing->tenant->own.lane, &listing->piece);
}

static void on_drained(struct exchange *exchange, void *own)
{
	(void)exchange;
	queue_piece(own);
}

/* The entries of one piece, with a comma before each one but the first of the list. */
static size_t write_piece(struct listing *listing, struct buf *out)
{
	const struct guest_entry *entries;
	struct json json = {.out = out, .needs_comma = listing->has_some};
	size_t n = guest_list_next(listing->list, &entries);

	for (size_t i = 0; i < n; i++)
		listing->write(&json, &entries[i]);
	listing->has_some = listing->has_some || n > 0;
	return n;
}

static void run_piece(struct loop_turn *piece)
{
	struct listing *listing = container_of(piece, struct listing, piece);
	struct exchange *exchange = listing->call->exchange;
	cleanup_buf struct buf out = BUF_INIT(PIECE_MAX);
	size_t n;

	if (stream_room(listing->call) == 0) {
		exchange_on_drained(exchange, on_drained, listing);
		return;
	}
	n = write_piece(listing, &out);
	if (buf_error(&out) < 0 || guest_list_has_failed(listing->list)) {
		exchange_cut(exchange);
		return;
	}
	if (n > 0) {
		exchange_send(exchange, out.data, out.used);
		queue_piece(listing);
		return;
	}
	exchange_send(exchange, listing->tail, strlen(listing->tail));
	exchange_end(exchange);
}

static void answer_short(struct listing *listing, const char *head)
{
	cleanup_buf struct buf out = BUF_INIT(SHORT_MAX);

	buf_add_str(&out, head);
	write_piece(listing, &out);
	buf_add_str(&out, listing->tail);
	api_answer(listing->call, guest_list_has_failed(listing->list) ? 500 : 200, &out);
}

struct listing *listing_answer(struct api_call *call, struct tenant *tenant,
			       struct guest_list *list, const char *head, const char *tail,
			       void (*write)(struct json *json, const struct guest_entry *entry))
{
	struct listing *listing = calloc(1, sizeof *listing);

	if (!listing) {
		guest_list_free(list);
		api_refuse(call, 503, "out of memory");
		return NULL;
	}
	*listing = (struct listing){.call = call,
				    .tenant = tenant,
				    .list = list,
				    .tail = tail,
				    .write = write,
				    .piece.run = run_piece};
	if (guest_list_is_short(list)) {
		answer_short(listing, head);
	} else if (!stream_open(call)) {
		exchange_add(call->exchange, "Retry-After", "5");
		api_refuse(call, 429, "this tenant has as many streams as it may have");
	} else {
		call->status = 200;
		exchange_begin(call->exchange, 200, "application/json", UINT64_MAX);
		exchange_send(call->exchange, head, strlen(head));
		queue_piece(listing);
		return listing;
	}
	listing_free(listing);
	return NULL;
}

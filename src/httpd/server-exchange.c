/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/server-exchange.h"

#include "base/str.h"
#include "httpd/answer.h"
#include "httpd/inflate.h"
#include "httpd/intake.h"
#include "httpd/query.h"
#include "httpd/server-state.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/*
 * The request of an exchange
 *
 * request.c makes an exchange when it has read a head; connection.c closes it when the answer was
 * sent or the connection has ended. Between, handlers ask about the request.
 */

/* ---- new and close ---- */

static void write_peer(const struct connection *connection, char ret[64])
{
	const struct sockaddr_in6 *peer = &connection->peer;
	char text[INET6_ADDRSTRLEN] = "";

	if (connection->is_unix) {
		snprintf(ret, 64, "unix");
	} else if (peer->sin6_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;

		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
		snprintf(ret, 64, "%s:%u", text, ntohs(v4->sin_port));
	} else {
		inet_ntop(AF_INET6, &peer->sin6_addr, text, sizeof text);
		snprintf(ret, 64, "[%s]:%u", text, ntohs(peer->sin6_port));
	}
}

/* A slice that points into `from` points to the same place in `to`. */
static void move_slice(struct http_slice *slice, const char *from, size_t size, char *to)
{
	if (slice->at >= from && slice->at <= from + size)
		slice->at = to + (slice->at - from);
}

/* The head gets a copy of its text, in which values end with a NUL. The NUL replaces white space or
 * the line end behind a value. */
static void move_head(struct http_head *head, const char *from, char *to)
{
	move_slice(&head->method, from, head->size, to);
	move_slice(&head->target, from, head->size, to);
	move_slice(&head->path, from, head->size, to);
	move_slice(&head->query, from, head->size, to);
	for (size_t i = 0; i < head->n_fields; i++) {
		move_slice(&head->fields[i].name, from, head->size, to);
		move_slice(&head->fields[i].value, from, head->size, to);
		to[head->fields[i].value.at + head->fields[i].value.size - to] = '\0';
	}
}

struct exchange *exchange_new(struct connection *connection, const char *text)
{
	struct server *server = connection->server;
	const struct http_head *read = &server->head;
	size_t head_size =
		offsetof(struct http_head, fields) + read->n_fields * sizeof *read->fields;
	struct exchange *exchange = calloc(1, sizeof *exchange);
	struct http_head *head = malloc(head_size + read->size);

	if (!exchange || !head) {
		free(exchange);
		free(head);
		return NULL;
	}
	memcpy(head, read, head_size);
	exchange->text = (char *)head + head_size;
	memcpy(exchange->text, text, read->size);
	move_head(head, text, exchange->text);
	exchange->head = head;
	exchange->server = server;
	exchange->connection = connection;
	exchange->fields.limit = HTTP_HEAD_MAX;
	exchange->whole.limit = exchange->again.limit = SIZE_MAX;
	exchange->file_fd = -1;
	exchange->is_head = http_slice_is(head->method, "HEAD");
	server->n_exchanges++;
	return exchange;
}

void exchange_close(struct exchange *exchange, bool is_broken)
{
	struct server *server = exchange->server;

	exchange->stage = STAGE_GONE;
	exchange->connection = NULL;
	if (exchange->over)
		exchange->over(exchange, is_broken || exchange->is_failed, exchange->over_own);
	if (exchange->file_fd >= 0)
		close(exchange->file_fd);
	inflate_free(exchange->inflater);
	intake_drop(exchange);
	buf_done(&exchange->again);
	buf_done(&exchange->fields);
	free(exchange->query);
	free(exchange->path);
	free((void *)exchange->head);
	free(exchange);
	server->n_exchanges--;
	server_exchange_ended(server);
}

void exchange_on_over(struct exchange *exchange,
		      void (*over)(struct exchange *exchange, bool is_broken, void *own), void *own)
{
	exchange->over = over;
	exchange->over_own = own;
}

void exchange_set_own(struct exchange *exchange, void *own)
{
	exchange->own = own;
}

void *exchange_own(const struct exchange *exchange)
{
	return exchange->own;
}

/* ---- the request ---- */

const struct http_head *exchange_head(const struct exchange *exchange)
{
	return exchange->head;
}

bool exchange_is_secure(const struct exchange *exchange)
{
	return exchange->connection && exchange->connection->ssl;
}

const char *exchange_peer(const struct exchange *exchange)
{
	char *peer = ((struct exchange *)exchange)->peer;

	if (!*peer && exchange->connection)
		write_peer(exchange->connection, peer);
	return peer;
}

const char *exchange_field(struct exchange *exchange, const char *name)
{
	struct http_slice value;

	return http_find(exchange->head, name, &value) ? value.at : NULL;
}

const char *exchange_query(struct exchange *exchange, const char *name)
{
	if (!exchange->query)
		exchange->query = query_split(exchange->head->query.at, exchange->head->query.size,
					      &exchange->query_size);
	return exchange->query ? query_find(exchange->query, exchange->query_size, name) : NULL;
}

const char *exchange_segment(struct exchange *exchange, size_t n)
{
	if (!exchange->path)
		exchange->path = query_segments(exchange->head->path.at, exchange->head->path.size,
						&exchange->path_size);
	return exchange->path ? query_word(exchange->path, exchange->path_size, n) : NULL;
}

bool exchange_inflate(struct exchange *exchange, uint64_t max)
{
	const char *coding = exchange_field(exchange, "content-encoding");

	if (!coding || !*coding || strcasecmp(coding, "identity") == 0)
		return true;
	if (exchange->stage != STAGE_OPEN || exchange->inflater)
		return exchange->inflater != NULL;
	if (strcasecmp(coding, "gzip") != 0 && strcasecmp(coding, "x-gzip") != 0) {
		exchange_fail(exchange, 415, "the body has a Content-Encoding other than gzip");
		return false;
	}
	exchange->inflater = inflate_new(max);
	if (!exchange->inflater)
		exchange_fail(exchange, 503, "out of memory");
	return exchange->inflater != NULL;
}

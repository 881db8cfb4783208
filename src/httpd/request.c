/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/request.h"

#include "base/scope.h"
#include "base/str.h"
#include "httpd/answer.h"
#include "httpd/connection.h"
#include "httpd/intake.h"
#include "httpd/server-exchange.h"

#include <stdio.h>

/*
 * Reading the heads of requests
 *
 * request_feed() gets all bytes of a connection in order: a head begins an exchange and calls the
 * handler; bytes of a body go to intake.c.
 */

/* The status for a mistake that http_read_request() has found, where it is not 400. */
static unsigned mistake_status(const char *why)
{
	static const struct {
		const char *why;
		unsigned status;
	} table[] = {
		{"a head of more than 64 KiB", 431},
		{"more than 256 fields", 431},
		{"a version of HTTP other than 1.0 and 1.1", 505},
		{"HTTP/0.9", 505},
		{"HTTP/2 without TLS", 505},
		{"a Transfer-Encoding other than chunked", 501},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (streq(table[i].why, why))
			return table[i].status;
	return 400;
}

static void refuse(struct connection *connection, unsigned status, const char *why)
{
	char message[160];

	snprintf(message, sizeof message, "the request has %s", why);
	answer_refusal(connection, status, message);
}

/* Valid HTTP that this server does not serve. 0, or a status. */
static unsigned check_head(const struct http_head *head, const char **ret_why)
{
	struct http_slice expect;

	if (head->form == HTTP_AUTHORITY) {
		*ret_why = "the method CONNECT, which is for proxies";
		return 405;
	}
	if (head->form == HTTP_ABSOLUTE && head->has_host &&
	    !http_place_is(&head->host, head->authority.name, &head->authority.address,
			   head->authority.port, head->authority.port)) {
		*ret_why = "a target for another host than its Host field";
		return 400;
	}
	if (http_find(head, "expect", &expect) && !http_slice_is_like(expect, "100-continue")) {
		*ret_why = "an Expect field that is not understood";
		return 417;
	}
	return 0;
}

static void begin_exchange(struct connection *connection, const char *text)
{
	struct server *server = connection->server;
	const struct http_head *head = &server->head;
	struct exchange *exchange = exchange_new(connection, text);
	struct http_slice expect;

	if (!exchange) {
		answer_refusal(connection, 503, "out of memory");
		return;
	}
	connection->exchange = exchange;
	connection->dropped = 0;
	connection->content = 0;
	if (head->wants_close || server->is_stopping)
		connection_close_after(connection);
	body_init(&connection->body, head->framing, head->length);
	exchange->expects_continue =
		head->minor == 1 && !connection->body.is_done && http_find(head, "expect", &expect);
	server->options.handle(exchange, server->options.data);
}

/* Some clients send an empty line behind a body. */
static size_t skip_empty_lines(const char *data, size_t size)
{
	size_t n = 0;

	while (size - n >= 2 && data[n] == '\r' && data[n + 1] == '\n')
		n += 2;
	return n;
}

static size_t feed_head(struct connection *connection, const char *data, size_t size)
{
	struct http_head *head = &connection->server->head;
	size_t skipped = skip_empty_lines(data, size);
	const char *why = NULL;
	unsigned status;

	/* A head that comes byte by byte is parsed at each line end, not at each byte. */
	if (skipped == size || (!connection->may_have_head && size < HTTP_HEAD_MAX))
		return skipped;
	connection->may_have_head = false;
	switch (http_read_request(data + skipped, size - skipped, head, &why)) {
	case HTTP_MORE:
		return skipped;
	case HTTP_BAD:
		refuse(connection, mistake_status(why), why);
		return size;
	case HTTP_OK:
		break;
	}
	status = check_head(head, &why);
	if (status) {
		refuse(connection, status, why);
		return size;
	}
	skipped += head->size;
	connection->server->behind = (struct http_slice){data + skipped, size - skipped};
	connection->server->behind_of = connection;
	begin_exchange(connection, data + skipped - head->size);
	connection->server->behind_of = NULL;
	/* The bytes behind it may be a complete head already. */
	connection->may_have_head = true;
	return skipped;
}

size_t request_feed(struct connection *connection, const char *data, size_t size)
{
	size_t used = 0;

	if (connection->phase >= CONNECTION_LINGERING ||
	    (connection->phase == CONNECTION_CLOSING && !connection->exchange))
		return size;
	if (!connection->exchange && connection->body.is_done && connection->content == 0)
		used += feed_head(connection, data, size);
	if (connection_is_over(connection))
		return size;
	if (connection->exchange || !connection->body.is_done || connection->content > 0)
		used += intake_feed(connection, data + used, size - used);
	return used;
}

bool request_wants(const struct connection *connection)
{
	const struct exchange *exchange = connection->exchange;

	if (!exchange)
		return true;
	if (connection->body.is_done && connection->content == 0)
		return exchange->stage < STAGE_ENDED && intake_wants(connection);
	return intake_wants(connection);
}

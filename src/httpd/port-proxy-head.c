/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/port-proxy-head.h"

#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "httpd/answer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/*
 * Heads between a client and a program in a box
 *
 * The head is written anew. Fields about the connection of the client stay here, and so do a key of
 * this daemon and the tokens of the box: the program inside may belong to anybody.
 */

static void add_field(struct buf *out, const char *name, struct http_slice value)
{
	buf_addf(out, "%s: ", name);
	buf_add(out, value.at, value.size);
	buf_add_str(out, "\r\n");
}

/* "Bearer KEY", as route.c reads it, or the key alone. */
static bool has_key(struct daemon *daemon, struct http_slice value)
{
	size_t from = value.size;

	while (from > 0 && value.at[from - 1] != ' ' && value.at[from - 1] != '\t')
		from--;
	return tenant_find_key(daemon, value.at + from, value.size - from);
}

static bool is_secret(const struct box *box, const struct http_field *field)
{
	if (http_slice_is_like(field->name, "e2b-traffic-access-token"))
		return true;
	if (http_slice_is_like(field->name, "x-access-token"))
		return http_slice_is(field->value, box->access_token);
	if (http_slice_is_like(field->name, "x-api-key") ||
	    http_slice_is_like(field->name, "authorization"))
		return has_key(box->daemon, field->value);
	return false;
}

static bool is_private_field(const struct proxy *proxy, const struct http_head *head,
			     const struct http_field *field)
{
	static const char *const names[] = {"expect", "x-forwarded-for", "e2b-sandbox-id",
					    "e2b-sandbox-port"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_slice_is_like(field->name, names[i]))
			return true;
	return http_is_hop(head, field->name) || is_secret(proxy->box, field);
}

/* network.maskRequestHost of the box, with its "${PORT}" replaced; false: there is none. */
static bool mask_host(const struct proxy *proxy, struct buf *out)
{
	json_t *network = proxy->box->network ? json_loads(proxy->box->network, 0, NULL) : NULL;
	const char *mask = json_string_value(json_object_get(network, "maskRequestHost"));
	const char *mark;
	struct http_place place;
	struct buf host = BUF_INIT(512);
	bool is_good = false;

	while (mask && *mask) {
		mark = strstr(mask, "${PORT}");
		buf_add(&host, mask, mark ? (size_t)(mark - mask) : strlen(mask));
		if (mark)
			buf_addf(&host, "%u", proxy->port);
		mask = mark ? mark + strlen("${PORT}") : NULL;
	}
	/* Only a host: the text comes from a client and must not add fields. */
	if (host.used > 0 && buf_error(&host) == 0 &&
	    http_place((struct http_slice){host.data, host.used}, &place) == 0) {
		add_field(out, "Host", (struct http_slice){host.data, host.used});
		is_good = true;
	}
	buf_done(&host);
	json_decref(network);
	return is_good;
}

static void write_host(const struct proxy *proxy, const struct http_head *head, struct buf *out)
{
	struct http_slice host;

	if (mask_host(proxy, out))
		return;
	if (http_find(head, "host", &host))
		add_field(out, "Host", host);
	else
		buf_addf(out, "Host: localhost:%u\r\n", proxy->port);
}

/* X-Forwarded-For and the like: the client's address for the program inside. */
static void write_forwarded(const struct proxy *proxy, const struct http_head *head,
			    struct buf *out)
{
	const char *peer = exchange_peer(proxy->exchange);
	const char *colon = strrchr(peer, ':');
	struct http_slice before, host, proto;

	buf_add_str(out, "X-Forwarded-For: ");
	if (http_find(head, "x-forwarded-for", &before)) {
		buf_add(out, before.at, before.size);
		buf_add_str(out, ", ");
	}
	buf_add(out, peer, colon ? (size_t)(colon - peer) : strlen(peer));
	buf_add_str(out, "\r\n");
	if (!http_find(head, "x-forwarded-host", &host) && http_find(head, "host", &host))
		add_field(out, "X-Forwarded-Host", host);
	if (!http_find(head, "x-forwarded-proto", &proto))
		buf_addf(out, "X-Forwarded-Proto: %s\r\n",
			 exchange_is_secure(proxy->exchange) ? "https" : "http");
}

void proxy_write_head(const struct proxy *proxy, struct buf *out)
{
	const struct http_head *head = exchange_head(proxy->exchange);

	buf_add(out, head->method.at, head->method.size);
	buf_add_char(out, ' ');
	buf_add(out, head->path.at, head->path.size);
	buf_add(out, head->query.at, head->query.size);
	buf_add_str(out, " HTTP/1.1\r\n");
	write_host(proxy, head, out);
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];

		if (is_private_field(proxy, head, field))
			continue;
		buf_add(out, field->name.at, field->name.size);
		buf_add_str(out, ": ");
		buf_add(out, field->value.at, field->value.size);
		buf_add_str(out, "\r\n");
	}
	write_forwarded(proxy, head, out);
	if (head->framing == HTTP_CHUNKED)
		buf_add_str(out, "Transfer-Encoding: chunked\r\n");
	else if (head->framing == HTTP_LENGTH)
		buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)head->length);
	buf_add_str(out, head->wants_websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
					       : "Connection: close\r\n\r\n");
}

/* ---- the answer ---- */

static void pass_field(struct exchange *exchange, const struct http_field *field)
{
	char name[128], *value;

	if (field->name.size >= sizeof name)
		return;
	memcpy(name, field->name.at, field->name.size);
	name[field->name.size] = '\0';
	value = strndup(field->value.at, field->value.size);
	if (value)
		exchange_add(exchange, name, value);
	free(value);
}

void proxy_pass_head(struct exchange *exchange, const struct http_head *head)
{
	static const char *const ours[] = {"date", "trailer"};

	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];
		bool is_ours = http_is_hop(head, field->name);

		for (size_t k = 0; k < ARRAY_SIZE(ours); k++)
			is_ours = is_ours || http_slice_is_like(field->name, ours[k]);
		if (!is_ours)
			pass_field(exchange, field);
	}
	exchange_begin(exchange, head->status, NULL,
		       head->framing == HTTP_LENGTH ||
				       (head->framing == HTTP_NONE && head->has_length)
			       ? head->length
		       : head->framing == HTTP_NONE && head->status != 200 ? 0
									   : UINT64_MAX);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "egress/exchange.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define METHOD_MAX 32

/* ---- answers of our own ---- */

static const char *status_text(unsigned status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 421:
		return "Misdirected Request";
	case 502:
		return "Bad Gateway";
	case 504:
		return "Gateway Timeout";
	default:
		return "Error";
	}
}

void exchange_refuse(struct exchange *ex, unsigned status, enum atoll_verdict verdict,
		     const char *format, ...)
{
	struct buf *out = &ex->inner.out.buf;
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (ex->is_finished)
		return;
	exchange_drop_server(ex, true);
	/* In the middle of an answer nothing can be said; the cut must be seen as one. */
	if (ex->has_answer) {
		exchange_finish(ex, verdict, text);
		return;
	}
	lane_tidy(&ex->inner.out);
	buf_addf(out,
		 "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		 "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
		 status, status_text(status), strlen("atoll: \n") + strlen(text));
	if (!ex->is_head_request)
		buf_addf(out, "atoll: %s\n", text);
	ex->verdict = verdict;
	snprintf(ex->reason, sizeof ex->reason, "%s", text);
	ex->phase = PHASE_LAST;
	exchange_set_deadline(ex, 30);
}

/* ---- judging ---- */

static void place_text(const struct http_place *place, char ret[NETWORK_NAME_MAX + 8])
{
	char address[46] = "";
	int n;

	if (!*place->name)
		network_address_text(&place->address, address);
	n = snprintf(ret, NETWORK_NAME_MAX, "%s%s", place->name, address);
	if (place->port)
		snprintf(ret + n, 8, ":%u", place->port);
}

/* Whom it is for must be whom the connection is for: else one allowed name would open the way to
 * everybody behind the same address. */
static bool place_fits(struct exchange *ex, const struct http_place *place)
{
	struct flow *flow = ex->flow;
	char text[NETWORK_NAME_MAX + 8];

	if (http_place_is(place, flow->name, &flow->address, flow->port, ex->is_tls ? 443 : 80))
		return true;
	place_text(place, text);
	exchange_refuse(ex, 421, ATOLL_CONN_REFUSED, "a request for %.60s on a connection to %.60s",
			text, ex->host);
	return false;
}

static bool rule_permits(struct exchange *ex, const char *method, const char *path)
{
	const struct network_rule *rule = ex->flow->rule;
	char text[96], shown[80];

	if (network_rule_permits(rule, method, path))
		return true;
	network_rule_text(rule, false, text, sizeof text);
	exchange_refuse(ex, 403, ATOLL_CONN_REFUSED, "%s %s is not allowed by %s", method,
			str_show(path, shown, sizeof shown), text);
	return false;
}

/* With an override what was judged is not what is done. */
static bool fields_fit(struct exchange *ex, const struct http_head *head)
{
	const struct network_rule *rule = ex->flow->rule;

	if (!rule || (rule->n_methods == 0 && rule->n_paths == 0))
		return true;
	for (size_t i = 0; i < head->n_fields; i++)
		if (http_is_override(head->fields[i].name)) {
			exchange_refuse(ex, 403, ATOLL_CONN_REFUSED,
					"%.*s, where methods or paths are limited",
					(int)head->fields[i].name.size, head->fields[i].name.at);
			return false;
		}
	return true;
}

static bool judge(struct exchange *ex, const struct http_head *head)
{
	struct atoll_connection *event = &ex->flow->event;
	cleanup_free char *path = strndup(head->path.at, head->path.size);
	char method[METHOD_MAX + 1];

	if (!path) {
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
		return false;
	}
	if (head->method.size > METHOD_MAX) {
		exchange_refuse(ex, 400, ATOLL_CONN_REFUSED, "a method that nobody knows");
		return false;
	}
	snprintf(method, sizeof method, "%.*s", (int)head->method.size, head->method.at);
	snprintf(event->request, sizeof event->request, "%s %.90s", method, path);
	if (head->form == HTTP_AUTHORITY) {
		exchange_refuse(ex, 403, ATOLL_CONN_REFUSED, "CONNECT within a connection");
		return false;
	}
	if ((head->form == HTTP_ABSOLUTE && !place_fits(ex, &head->authority)) ||
	    (head->has_host && !place_fits(ex, &head->host)))
		return false;
	if (head->form == HTTP_ABSOLUTE && head->is_https != ex->is_tls) {
		exchange_refuse(ex, 421, ATOLL_CONN_REFUSED, "a request for %s on a connection %s",
				head->is_https ? "https" : "http",
				ex->is_tls ? "with TLS" : "without TLS");
		return false;
	}
	return rule_permits(ex, method, path) && fields_fit(ex, head);
}

/* ---- writing ---- */

static void add_slice(struct buf *out, struct http_slice slice)
{
	buf_add(out, slice.at, slice.size);
}

static void add_framing(struct buf *out, const struct http_head *head)
{
	if (head->framing == HTTP_CHUNKED)
		buf_add_str(out, "Transfer-Encoding: chunked\r\n");
	else if (head->has_length)
		buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)head->length);
}

/* Host in its one spelling; with a port where one was given, for who signs requests signs that. */
static void add_host(struct exchange *ex, const struct http_head *head, struct buf *out)
{
	bool is_v6 = !*ex->flow->name && strchr(ex->host, ':');
	bool says_port = ex->flow->port != (ex->is_tls ? 443 : 80) || head->host.port;

	buf_addf(out, "Host: %s%s%s", is_v6 ? "[" : "", ex->host, is_v6 ? "]" : "");
	if (says_port)
		buf_addf(out, ":%u", ex->flow->port);
	buf_add_str(out, "\r\n");
}

/* A host with secrets is asked for whole and plain answers, which can be looked through: not for
 * parts, compressed ones or differences, and for WebSocket without extensions. */
static bool is_about_form(struct http_slice name)
{
	static const char *const names[] = {"accept-encoding",	       "accept-charset", "range",
					    "request-range",	       "if-range",	 "a-im",
					    "sec-websocket-extensions"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_slice_is_like(name, names[i]))
			return true;
	return false;
}

static int add_request_fields(struct exchange *ex, const struct http_head *head, struct buf *out)
{
	/* Only over TLS, which is verified before any of this goes out. */
	struct swap *swap = ex->is_tls && ex->has_secrets ? ex->flow->egress->swap : NULL;

	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];
		int r;

		if (http_is_hop(head, field->name))
			continue;
		if (ex->has_secrets && is_about_form(field->name))
			continue;
		/* Who speaks HTTP/1.0 does not understand the answer to it. */
		if (ex->is_old && http_slice_is_like(field->name, "expect"))
			continue;
		if (swap_sets(swap, ex->host, field->name))
			continue;
		add_slice(out, field->name);
		buf_add_str(out, ": ");
		r = swap_field(swap, ex->host, field->name, field->value, out);
		if (r < 0)
			return r;
		buf_add_str(out, "\r\n");
	}
	swap_add_fields(swap, ex->host, out);
	return 0;
}

/* A server that expects no body with this method would take the body for the next request. */
static bool has_odd_body(const struct http_head *head)
{
	static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"};

	for (size_t i = 0; head->framing != HTTP_NONE && i < ARRAY_SIZE(methods); i++)
		if (http_slice_is(head->method, methods[i]))
			return true;
	return false;
}

static int write_request(struct exchange *ex, const struct http_head *head)
{
	struct buf *out = &ex->outer.out.buf;
	int r;

	add_slice(out, head->method);
	buf_add_char(out, ' ');
	add_slice(out, head->path);
	add_slice(out, head->query);
	buf_addf(out, " HTTP/1.%u\r\n", head->minor);
	add_host(ex, head, out);
	r = add_request_fields(ex, head, out);
	if (r < 0)
		return r;
	if (ex->has_secrets)
		buf_add_str(out, "Accept-Encoding: identity\r\n");
	add_framing(out, head);
	if (head->wants_websocket)
		buf_add_str(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (ex->closes_server)
		buf_add_str(out, "Connection: close\r\n");
	buf_add_str(out, "\r\n");
	return buf_error(out);
}

bool exchange_take_request(struct exchange *ex, const struct http_head *head)
{
	int r;

	ex->is_head_request = http_slice_is(head->method, "HEAD");
	ex->is_old = head->minor == 0;
	ex->wants_websocket = head->wants_websocket;
	if (!judge(ex, head))
		return false;
	/* A client of a proxy may want somebody else next, and this connection is for one. */
	ex->closes_client = head->wants_close || ex->flow->kind == FLOW_FORWARD;
	ex->closes_server = ex->is_old || has_odd_body(head);
	body_init(&ex->request, head->framing, head->length);
	lane_tidy(&ex->outer.out);
	r = write_request(ex, head);
	if (r == -E2BIG)
		exchange_refuse(ex, 400, ATOLL_CONN_REFUSED,
				"a secret with more user names than are kept apart");
	else if (r < 0)
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
	return r == 0;
}

/* Why an answer of a host with secrets cannot be looked through, or NULL. */
static const char *refuse_form(const struct http_head *head, enum coding coding)
{
	struct http_slice type, range;
	bool has_range = http_find(head, "content-range", &range);

	if (coding == CODING_UNKNOWN && head->framing != HTTP_NONE)
		return "a Content-Encoding other than gzip and deflate, although it has a secret";
	/* Other units than bytes are pages of a list: "0-24/3573" of PostgREST. */
	if ((has_range && http_begins_like(range, "bytes")) ||
	    (head->status == 206 && !has_range) ||
	    (http_find(head, "content-type", &type) &&
	     http_begins_like(type, "multipart/byteranges")))
		return "a part of a text, although all of it was asked for";
	if (head->status == 226)
		return "a difference between two texts, although all of it was asked for";
	return NULL;
}

/* How the client gets the body: what is decompressed has no length that is known before. */
static int prepare_answer(struct exchange *ex, const struct http_head *head, const char **ret_why)
{
	enum coding coding = ex->has_secrets ? coding_of(head) : CODING_NONE;

	exchange_drop_answer(ex);
	ex->client_framing = head->framing;
	ex->is_unpacked = coding == CODING_GZIP || coding == CODING_DEFLATE;
	*ret_why = ex->has_secrets ? refuse_form(head, coding) : NULL;
	if (*ret_why)
		return -EPROTO;
	if (!ex->is_unpacked || head->framing == HTTP_NONE)
		return 0;
	ex->decoder = decoder_new(coding);
	if (!ex->decoder) {
		*ret_why = "more compressed text than there is memory for";
		return -EPROTO;
	}
	ex->client_framing = ex->is_old ? HTTP_TO_END : HTTP_CHUNKED;
	return 0;
}

static bool is_passed_back(const struct exchange *ex, const struct http_head *head,
			   struct http_slice name)
{
	if (http_is_hop(head, name))
		return false;
	if (ex->is_unpacked && http_slice_is_like(name, "content-encoding"))
		return false;
	return !ex->has_secrets || !http_slice_is_like(name, "accept-ranges");
}

static void add_answer_framing(const struct exchange *ex, const struct http_head *head,
			       struct buf *out)
{
	if (!ex->is_unpacked)
		add_framing(out, head);
	else if (ex->client_framing == HTTP_CHUNKED)
		buf_add_str(out, "Transfer-Encoding: chunked\r\n");
}

static void write_answer(struct exchange *ex, const struct http_head *head)
{
	struct buf *out = &ex->inner.out.buf;
	bool is_final = head->status >= 200;

	lane_tidy(&ex->inner.out);
	buf_addf(out, "HTTP/1.1 %u ", head->status);
	add_slice(out, head->reason);
	buf_add_str(out, "\r\n");
	for (size_t i = 0; i < head->n_fields; i++) {
		if (!is_passed_back(ex, head, head->fields[i].name))
			continue;
		add_slice(out, head->fields[i].name);
		buf_add_str(out, ": ");
		add_slice(out, head->fields[i].value);
		buf_add_str(out, "\r\n");
	}
	if (is_final && head->status != 204)
		add_answer_framing(ex, head, out);
	if (head->status == 101)
		buf_add_str(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (is_final && ex->closes_client)
		buf_add_str(out, "Connection: close\r\n");
	buf_add_str(out, "\r\n");
}

/* 1xx: passed on, and the answer is still to come. */
static int take_interim(struct exchange *ex, const struct http_head *head, const char **ret_why)
{
	if (++ex->n_interim > 16) {
		*ret_why = "too many interim answers";
		return -EPROTO;
	}
	if (!ex->is_old)
		write_answer(ex, head);
	return 0;
}

static int take_upgrade(struct exchange *ex, const struct http_head *head, const char **ret_why)
{
	struct http_slice extensions;

	if (!ex->wants_websocket || !head->wants_websocket) {
		*ret_why = "an upgrade that nobody asked for";
		return -EPROTO;
	}
	if (ex->has_secrets && http_find(head, "sec-websocket-extensions", &extensions)) {
		*ret_why = "an extension of WebSocket that nobody asked for";
		return -EPROTO;
	}
	write_answer(ex, head);
	ex->has_answer = true;
	ex->phase = PHASE_OPAQUE;
	return 0;
}

int exchange_take_answer(struct exchange *ex, const struct http_head *head, const char **ret_why)
{
	if (head->status == 101)
		return take_upgrade(ex, head, ret_why);
	if (head->status < 200)
		return take_interim(ex, head, ret_why);
	if (head->framing == HTTP_CHUNKED && ex->is_old) {
		*ret_why = "chunks in answer to HTTP/1.0";
		return -EPROTO;
	}
	if (prepare_answer(ex, head, ret_why) < 0)
		return -EPROTO;
	/* An early answer: what is left of the request is not waited for. */
	if (!ex->request.is_done || ex->client_framing == HTTP_TO_END)
		ex->closes_client = true;
	ex->closes_server = ex->closes_server || head->wants_close || head->framing == HTTP_TO_END;
	write_answer(ex, head);
	body_init(&ex->answer, head->framing, head->length);
	ex->has_answer = true;
	ex->is_answered = head->framing == HTTP_NONE;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/str.h"
#include "egress/core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

/*
 * The proxy at 127.0.0.1
 *
 * For programs that insist on one. SOCKS and HTTP share the port, told apart by the first byte. Who
 * is refused learns why, and which flag would allow it.
 */

#define PATIENCE_NS (30 * SECOND_NS)

struct proxy {
	struct flow *flow;
	struct loop_timer timer;
	struct socks socks;
};

static void abandon(struct flow *flow)
{
	struct proxy *proxy = flow->owner;
	struct loop *loop = &flow->egress->loop;

	flow->owner = NULL;
	flow->abandon = NULL;
	loop_disarm(loop, &proxy->timer);
	loop_unwatch(loop, &flow->client.watch);
	free(proxy);
}

static void end(struct flow *flow, const char *reason)
{
	abandon(flow);
	flow_end(flow, ATOLL_CONN_REFUSED, reason);
}

/* The socket is still empty towards the client, so a short answer fits at once. */
static bool say(struct flow *flow, const void *data, size_t size)
{
	return stream_write(&flow->client, data, size) == (ssize_t)size;
}

static void drop_early(struct flow *flow, size_t used)
{
	flow->n_early -= used;
	memmove(flow->early, flow->early + used, flow->n_early);
	if (flow->n_early == 0) {
		free(flow->early);
		flow->early = NULL;
	}
}

/* ---- answers of HTTP ---- */

static bool say_http(struct flow *flow, const char *status, const char *header, const char *body)
{
	char answer[1024];
	int n = snprintf(answer, sizeof answer,
			 "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
			 "Content-Length: %zu\r\n%sConnection: close\r\n\r\n%s",
			 status, strlen(body), header, body);

	return n > 0 && (size_t)n < sizeof answer && say(flow, answer, (size_t)n);
}

/* "example.com:443 is not allowed ...; allow it with --allow example.com" */
static void explain(const struct flow *flow, enum atoll_verdict verdict, const char *reason,
		    char *ret, size_t size)
{
	char address[46];
	const char *who = flow->name;
	bool is_v6 = false;
	char port[8] = "";

	if (!who[0]) {
		network_address_text(&flow->address, address);
		is_v6 = !network_address_is_v4(&flow->address);
		who = address;
	}
	if (verdict == ATOLL_CONN_FAILED) {
		snprintf(ret, size, "atoll: %s:%u could not be reached: %s\n", who, flow->port,
			 reason);
		return;
	}
	if (flow->event.rule[0] || !ends_with(reason, "is not allowed")) {
		snprintf(ret, size, "atoll: %s:%u is refused: %s%s%s%s\n", who, flow->port, reason,
			 flow->event.rule[0] ? " (" : "", flow->event.rule,
			 flow->event.rule[0] ? ")" : "");
		return;
	}
	if (flow->port != 80 && flow->port != 443)
		snprintf(port, sizeof port, ":%u", flow->port);
	snprintf(ret, size,
		 "atoll: %s:%u is not allowed by the contract; allow it with --allow %s%s%s%s\n",
		 who, flow->port, is_v6 && port[0] ? "[" : "", who, is_v6 && port[0] ? "]" : "",
		 port);
}

static bool reply_http(struct flow *flow, enum atoll_verdict verdict, const char *reason)
{
	static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	char text[640];

	if (!reason)
		return say(flow, yes, sizeof yes - 1);
	explain(flow, verdict, reason, text, sizeof text);
	return say_http(flow, verdict == ATOLL_CONN_FAILED ? "502 Bad Gateway" : "403 Forbidden",
			"", text);
}

/* ---- SOCKS ---- */

static bool say_socks(struct flow *flow, bool is_v4, enum atoll_verdict verdict, const char *reason)
{
	const struct socks socks = {.is_v4 = is_v4};
	uint8_t answer[10], code = 0;

	if (reason && verdict == ATOLL_CONN_FAILED)
		code = strstr(reason, "connection refused") ? 5 : 4; /* or "host unreachable" */
	else if (reason)
		code = 2; /* "not allowed by ruleset" */
	return say(flow, answer, socks_reply(&socks, code, answer));
}

static bool reply_socks4(struct flow *flow, enum atoll_verdict verdict, const char *reason)
{
	return say_socks(flow, true, verdict, reason);
}

static bool reply_socks5(struct flow *flow, enum atoll_verdict verdict, const char *reason)
{
	return say_socks(flow, false, verdict, reason);
}

static void go_on_socks(struct proxy *proxy)
{
	struct flow *flow = proxy->flow;
	struct socks *socks = &proxy->socks;
	bool is_v4;

	for (;;) {
		switch (socks_read(socks, flow->early, flow->n_early, flow->egress->token)) {
		case SOCKS_MORE:
			if (flow->n_early > 1024)
				end(flow, "no SOCKS request");
			return;
		case SOCKS_BAD:
			end(flow, "no SOCKS request");
			return;
		case SOCKS_REPLY:
			if (say(flow, socks->reply, socks->n_reply))
				stream_shut(&flow->client);
			end(flow, "a SOCKS request that is not supported");
			return;
		case SOCKS_CONTINUE:
			if (!say(flow, socks->reply, socks->n_reply)) {
				end(flow, "the client went away");
				return;
			}
			drop_early(flow, socks->used);
			continue;
		case SOCKS_CONNECT:
			drop_early(flow, socks->used);
			memcpy(flow->name, socks->name, sizeof flow->name);
			flow->address = socks->address;
			flow->port = socks->port;
			flow->kind = FLOW_SOCKS;
			is_v4 = socks->is_v4;
			abandon(flow);
			client_take(flow, is_v4 ? reply_socks4 : reply_socks5);
			return;
		}
	}
}

/* ---- HTTP ---- */

static void go_on_http(struct proxy *proxy)
{
	struct flow *flow = proxy->flow;
	struct proxy_request request;
	char text[256];
	enum proxy_result result =
		proxy_read(flow->early, flow->n_early, flow->egress->token, &request);

	switch (result) {
	case PROXY_MORE:
		return;
	case PROXY_BAD:
		snprintf(text, sizeof text, "atoll: %s\n", request.problem);
		if (say_http(flow, "400 Bad Request", "", text))
			stream_shut(&flow->client);
		end(flow, "no proxy request");
		return;
	case PROXY_NEEDS_TOKEN:
		if (say_http(flow, "407 Proxy Authentication Required",
			     "Proxy-Authenticate: Basic realm=\"atoll\"\r\n",
			     "atoll: the proxy wants the password of its variables\n"))
			stream_shut(&flow->client);
		end(flow, "the proxy's password is missing or wrong");
		return;
	case PROXY_CONNECT:
	case PROXY_FORWARD:
		break;
	}
	flow->kind = result == PROXY_CONNECT ? FLOW_CONNECT : FLOW_FORWARD;
	memcpy(flow->name, request.name, sizeof flow->name);
	flow->address = request.address;
	flow->port = request.port;
	if (result == PROXY_CONNECT)
		drop_early(flow, request.used);
	abandon(flow);
	client_take(flow, reply_http);
}

/* ---- */

static void proxy_ready(struct loop_watch *watch, uint32_t events)
{
	static uint8_t piece[PROXY_HEAD_MAX];
	struct flow *flow = container_of(watch, struct flow, client.watch);
	struct proxy *proxy = flow->owner;
	uint8_t *early;
	ssize_t n = recv(watch->fd, piece, PROXY_HEAD_MAX - flow->n_early, 0);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end(flow, "the client went away before it had asked for anything");
		return;
	}
	early = realloc(flow->early, flow->n_early + (size_t)n);
	if (!early) {
		end(flow, "out of memory");
		return;
	}
	memcpy(early + flow->n_early, piece, (size_t)n);
	flow->early = early;
	flow->n_early += (size_t)n;
	if (early[0] == 4 || early[0] == 5 || proxy->socks.step != SOCKS_GREETING)
		go_on_socks(proxy);
	else
		go_on_http(proxy);
}

static void too_slow(struct loop_timer *timer)
{
	end(container_of(timer, struct proxy, timer)->flow, "the client asked for nothing");
}

void proxy_take(struct flow *flow)
{
	struct proxy *proxy = calloc(1, sizeof *proxy);
	struct loop *loop = &flow->egress->loop;

	if (!proxy) {
		flow_end(flow, ATOLL_CONN_FAILED, "out of memory");
		return;
	}
	flow->kind = FLOW_CONNECT;
	proxy->flow = flow;
	proxy->timer.fire = too_slow;
	flow->owner = proxy;
	flow->abandon = abandon;
	flow->client.watch.ready = proxy_ready;
	if (loop_watch(loop, &flow->client.watch, EPOLLIN) < 0 ||
	    loop_arm(loop, &proxy->timer, clock_monotonic_ns() + PATIENCE_NS) < 0)
		end(flow, "out of memory");
}

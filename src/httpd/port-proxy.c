/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/json.h"
#include "base/scope.h"
#include "box/box.h"
#include "httpd/answer.h"
#include "httpd/intake.h"
#include "httpd/port-proxy-head.h"
#include "httpd/server-state.h"
#include "httpd/stream.h"
#include "httpd/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * A request for a program in a box; see port-proxy.h
 *
 * proxy_exchange() asks the guest for a connection to the port; on_connected() gets it. Then the
 * request is sent (port-proxy-head.c, send_piece()) while the answer is read: read_head(),
 * read_body(), or start_relay() for a WebSocket. The proxy is freed when the exchange, the callback
 * of the guest and the relay are all gone (free_if_unused()).
 */

#define READ_SIZE   (32 * 1024)
#define INTERIM_MAX 32 /* interim answers (1xx); servers send one or two */

/* The server does not count detached connections. A tenant may have an eighth of them, and its
 * visitors another eighth, so that others get some. */
#define RELAYS_MAX	  4096
#define TENANT_RELAYS_MAX 512

static bool has_relay_left(const struct proxy *proxy)
{
	return proxy->server->n_relays < RELAYS_MAX && proxy->load->n_relays < TENANT_RELAYS_MAX;
}

static void count_relay(struct proxy *proxy, int n)
{
	proxy->server->n_relays += (size_t)n;
	proxy->load->n_relays += (size_t)n;
}

/* ---- end ---- */

/* Frees the proxy when neither the exchange nor a callback nor a relay refers to it. */
static void free_if_unused(struct proxy *proxy)
{
	if (proxy->exchange || proxy->is_dialing || proxy->relay)
		return;
	if (proxy->box)
		box_forget_gone(proxy->box, proxy->gone);
	if (proxy->watch.fd >= 0) {
		loop_unwatch(proxy->loop, &proxy->watch);
		fd_close_strange(proxy->watch.fd);
	}
	buf_done(&proxy->out);
	buf_done(&proxy->in);
	proxy->load->waiting -= proxy->counted;
	proxy->load->n_streams--;
	free(proxy);
}

static void close_inner(struct proxy *proxy)
{
	proxy->stage = PROXY_OVER;
	loop_unqueue(&proxy->piece);
	if (proxy->watch.fd < 0)
		return;
	loop_unwatch(proxy->loop, &proxy->watch);
	fd_close_strange(proxy->watch.fd);
	proxy->watch.fd = -1;
}

static void on_over(struct exchange *exchange, bool is_broken, void *own)
{
	struct proxy *proxy = own;

	(void)exchange;
	(void)is_broken;
	proxy->exchange = NULL;
	close_inner(proxy);
	free_if_unused(proxy);
}

static void box_gone(struct box *box, void *data)
{
	struct proxy *proxy = data;

	(void)box;
	proxy->box = NULL;
	close_inner(proxy);
	if (proxy->relay) {
		relay_free(take_ptr(proxy->relay));
		count_relay(proxy, -1);
	}
	if (proxy->exchange)
		exchange_cut(proxy->exchange);
	free_if_unused(proxy);
}

/* ---- errors ---- */

static void refuse(struct proxy *proxy, const char *message)
{
	struct buf body = BUF_INIT(1024);
	struct json json = {.out = &body};

	close_inner(proxy);
	if (!proxy->exchange)
		return;
	json_open(&json, NULL, '{');
	json_str(&json, "sandboxId", proxy->box ? proxy->box->id : "");
	json_str(&json, "message", message);
	json_uint(&json, "port", proxy->port);
	json_uint(&json, "code", 502);
	json_close(&json, '}');
	exchange_answer(proxy->exchange, 502, "application/json", body.data, body.used);
	buf_done(&body);
}

/* The program inside has sent a wrong answer: 502, or a cut if the answer has begun. */
static void refuse_answer(struct proxy *proxy, const char *message)
{
	if (proxy->stage == PROXY_HEAD) {
		refuse(proxy, message);
		return;
	}
	close_inner(proxy);
	if (proxy->exchange)
		exchange_cut(proxy->exchange);
}

/* ---- the request ---- */

static size_t waiting(const struct proxy *proxy)
{
	return proxy->out.used - proxy->out_at;
}

/* Bytes that the port does not read count like bytes that the client does not read. */
static void count_out(struct proxy *proxy)
{
	size_t now = waiting(proxy);

	proxy->load->waiting += now - proxy->counted;
	proxy->counted = now;
}

static void watch(struct proxy *proxy)
{
	uint32_t events = 0;

	if (proxy->watch.fd < 0)
		return;
	if (exchange_waiting(proxy->exchange) < stream_part(proxy->load))
		events |= EPOLLIN;
	if (waiting(proxy) > 0)
		events |= EPOLLOUT;
	if (loop_watch(proxy->loop, &proxy->watch, events) < 0)
		refuse_answer(proxy, "The port could not be watched");
}

static void flush(struct proxy *proxy)
{
	while (waiting(proxy) > 0) {
		ssize_t n = send(proxy->watch.fd, proxy->out.data + proxy->out_at, waiting(proxy),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			count_out(proxy);
			return;
		}
		if (n < 0) {
			/* The program reads no more, but may have answered before: that answer is
			 * read. */
			proxy->out_at = proxy->out.used;
			break;
		}
		proxy->out_at += (size_t)n;
	}
	buf_done(&proxy->out);
	proxy->out.limit = SIZE_MAX;
	proxy->out_at = 0;
	count_out(proxy);
	if (proxy->exchange)
		exchange_resume(proxy->exchange);
}

static void send_piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct proxy *proxy = own;

	if (proxy->watch.fd < 0)
		return; /* the connection inside has ended */
	if (proxy->is_chunked && size > 0)
		buf_addf(&proxy->out, "%zx\r\n", size);
	buf_add(&proxy->out, data, size);
	if (proxy->is_chunked)
		buf_add_str(&proxy->out, size > 0 ? "\r\n" : "0\r\n\r\n");
	if (buf_error(&proxy->out) < 0) {
		refuse_answer(proxy, "No memory for the request");
		return;
	}
	flush(proxy);
	if (waiting(proxy) >= stream_part(proxy->load))
		exchange_pause(exchange);
	watch(proxy);
}

/* ---- the answer ---- */

static void relay_over(struct relay *relay, void *own)
{
	struct proxy *proxy = own;

	(void)relay;
	proxy->relay = NULL;
	count_relay(proxy, -1);
	free_if_unused(proxy);
}

/* The client's connection and the one inside become a relay. */
static void start_relay(struct proxy *proxy, const char *data, size_t size)
{
	struct exchange *exchange = proxy->exchange;
	char *unread = NULL;
	size_t unread_size = 0;
	int fd = exchange_detach_socket(exchange, &unread, &unread_size);

	if (fd < 0) {
		refuse(proxy, "The connection could not be handed over");
		return;
	}
	exchange_on_over(exchange, NULL, NULL);
	proxy->exchange = NULL;
	loop_unwatch(proxy->loop, &proxy->watch);
	proxy->relay = relay_new(&(struct relay_request){
		.loop = proxy->loop,
		.lane = &proxy->load->lane,
		.outer_fd = fd,
		.inner_fd = proxy->watch.fd,
		.to_outer = data,
		.to_outer_size = size,
		.to_inner = unread,
		.to_inner_size = unread_size,
		.over = relay_over,
		.own = proxy,
	});
	free(unread);
	proxy->stage = PROXY_RELAYS;
	if (proxy->relay) {
		proxy->watch.fd = -1;
		count_relay(proxy, 1);
	} else {
		close(fd);
	}
}

/* Sends the head of the 101 answer and the bytes behind it. */
static void switch_protocols(struct proxy *proxy, const struct http_head *head)
{
	struct buf text = BUF_INIT(SIZE_MAX);

	buf_add_str(&text, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
			   "Upgrade: websocket\r\n");
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];

		if (http_is_hop(head, field->name))
			continue;
		buf_add(&text, field->name.at, field->name.size);
		buf_add_str(&text, ": ");
		buf_add(&text, field->value.at, field->value.size);
		buf_add_str(&text, "\r\n");
	}
	buf_add_str(&text, "\r\n");
	buf_add(&text, proxy->in.data + head->size, proxy->in.used - head->size);
	if (buf_error(&text) < 0)
		refuse(proxy, "No memory for the answer");
	else
		start_relay(proxy, text.data, text.used);
	buf_done(&text);
}

static void drop_front(struct buf *buf, size_t size)
{
	buf->used -= size;
	memmove(buf->data, buf->data + size, buf->used);
}

static void finish(struct proxy *proxy)
{
	close_inner(proxy);
	exchange_end(proxy->exchange);
}

static void read_body(struct proxy *proxy)
{
	size_t used = 0;
	int r;

	do {
		struct body_piece piece;

		r = body_step(&proxy->body, proxy->in.data + used, proxy->in.used - used, &piece);
		used += piece.used;
		if (r >= 0 && piece.content.size > 0)
			exchange_send(proxy->exchange, piece.content.at, piece.content.size);
	} while (r > 0);
	drop_front(&proxy->in, used);
	if (r < 0 || proxy->in.used > HTTP_TRAILERS_MAX)
		refuse_answer(proxy, "");
	else if (proxy->body.is_done)
		finish(proxy);
}

/* Parses heads until the final answer; interim answers are dropped. True: its head was found. */
static bool read_head(struct proxy *proxy)
{
	static struct http_head head;
	const struct http_head *request = exchange_head(proxy->exchange);
	const char *why;

	for (;;) {
		switch (http_read_answer(proxy->in.data, proxy->in.used, request->method, &head,
					 &why)) {
		case HTTP_MORE:
			return false;
		case HTTP_BAD:
			refuse(proxy, "What the port answers is no HTTP");
			return false;
		case HTTP_OK:
			break;
		}
		if (head.status >= 200)
			break;
		if (head.status == 101) {
			if (!has_relay_left(proxy))
				refuse(proxy, "Too many WebSockets are open; retry later");
			else if (request->wants_websocket && head.wants_websocket)
				switch_protocols(proxy, &head);
			else
				refuse(proxy,
				       "The port switched to a protocol that was not requested");
			return false;
		}
		if (++proxy->n_interim > INTERIM_MAX) {
			refuse(proxy, "The port announces an answer again and again");
			return false;
		}
		drop_front(&proxy->in, head.size); /* an interim answer */
		if (proxy->in.used == 0)
			return false;
	}
	proxy->stage = PROXY_BODY;
	proxy_pass_head(proxy->exchange, &head);
	body_init(&proxy->body, head.framing, head.length);
	drop_front(&proxy->in, head.size);
	return true;
}

static void end_answer(struct proxy *proxy)
{
	if (proxy->stage == PROXY_BODY && body_end(&proxy->body) == 0)
		finish(proxy);
	else
		refuse_answer(proxy, "The port was closed without an answer");
}

static void read_some(struct proxy *proxy)
{
	static char data[READ_SIZE];
	const size_t part = stream_part(proxy->load), has = exchange_waiting(proxy->exchange);
	const size_t room = part - has < sizeof data ? part - has : sizeof data;
	ssize_t n;

	/* Other streams have taken the room since the watch. */
	if (has >= part)
		return;
	do
		n = recv(proxy->watch.fd, data, room, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		end_answer(proxy);
		return;
	}
	buf_add(&proxy->in, data, (size_t)n);
	if (buf_error(&proxy->in) < 0) {
		refuse_answer(proxy, "No memory for the answer");
		return;
	}
	if (proxy->stage == PROXY_HEAD && !read_head(proxy))
		return;
	if (proxy->stage == PROXY_BODY)
		read_body(proxy);
}

static void on_drained(struct exchange *exchange, void *own)
{
	(void)exchange;
	watch(own);
}

static void read_answer(struct proxy *proxy)
{
	if (proxy->stage == PROXY_HEAD || proxy->stage == PROXY_BODY)
		watch(proxy);
	else
		free_if_unused(proxy); /* does nothing if it relays or the exchange has not ended */
}

static void run_piece(struct loop_turn *piece)
{
	struct proxy *proxy = (struct proxy *)((char *)piece - offsetof(struct proxy, piece));

	read_some(proxy);
	read_answer(proxy);
}

/* A lane of the tenant reads from the port: thousands of connections that send without end do not
 * delay other tenants. */
static void on_ready(struct loop_watch *watched, uint32_t events)
{
	struct proxy *proxy = (struct proxy *)((char *)watched - offsetof(struct proxy, watch));

	if (events & EPOLLOUT)
		flush(proxy);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && proxy->watch.fd >= 0)
		loop_queue(proxy->loop, &proxy->load->lane, &proxy->piece);
	read_answer(proxy);
}

static bool is_stream_socket(int fd)
{
	int type = 0;
	socklen_t size = sizeof type;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	       fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0;
}

static void on_connected(int fd, const struct guest_entry *entry, const struct atoll_error *err,
			 void *data)
{
	struct proxy *proxy = data;

	(void)entry;
	proxy->is_dialing = false;
	if (!proxy->exchange || !proxy->box) {
		fd_close_strange(fd);
		free_if_unused(proxy);
		return;
	}
	if (fd < 0) {
		refuse(proxy, err->errnum == ECONNREFUSED
				      ? "The sandbox is running but port is not open"
				      : "The sandbox's port could not be reached");
		return;
	}
	/* The descriptor comes from inside the box: check its type. */
	if (!is_stream_socket(fd)) {
		fd_close_strange(fd);
		refuse(proxy, "The sandbox's port could not be reached");
		return;
	}
	proxy->watch = (struct loop_watch){.fd = fd, .ready = on_ready};
	proxy->stage = PROXY_HEAD;
	proxy_write_head(proxy, &proxy->out);
	exchange_on_drained(proxy->exchange, on_drained, proxy);
	flush(proxy);
	watch(proxy);
	if (proxy->stage == PROXY_HEAD && exchange_head(proxy->exchange)->framing != HTTP_NONE)
		exchange_read(proxy->exchange, send_piece, proxy);
}

void proxy_exchange(struct exchange *exchange, struct box *box, uint16_t port, struct load *load)
{
	struct proxy *proxy;

	if (load->n_streams >= STREAMS_MAX) {
		exchange_add(exchange, "Retry-After", "5");
		exchange_answer(exchange, 429, NULL, NULL, 0);
		return;
	}
	proxy = calloc(1, sizeof *proxy);
	if (!proxy) {
		exchange_answer(exchange, 503, NULL, NULL, 0);
		return;
	}
	load->n_streams++;
	*proxy = (struct proxy){
		.exchange = exchange,
		.server = exchange->server,
		.box = box,
		.load = load,
		.port = port,
		.loop = daemon_loop(box->daemon),
		.piece.run = run_piece,
		.watch.fd = -1,
		.out.limit = SIZE_MAX,
		.in.limit = SIZE_MAX,
		.is_chunked = exchange_head(exchange)->framing == HTTP_CHUNKED,
		.is_dialing = true,
	};
	proxy->gone = box_on_gone(box, box_gone, proxy);
	exchange_on_over(exchange, on_over, proxy);
	guest_connect(box, port, on_connected, proxy);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/str.h"
#include "egress/core.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * A connection to the outside
 *
 * The name is looked up once, and only its answer is tried: both kinds of addresses in turn, IPv6
 * first, the next one a quarter of a second after the one before or as soon as that has failed; the
 * first that connects is taken (RFC 8305). With a proxy of the caller's, names are connected to
 * through that (it looks them up); addresses as such never are. Such a name is looked up here as
 * well, and refused where it leads to an address that is not public; what only the proxy knows,
 * passes.
 */

#define STAGGER_NS (250 * MS_NS)
#define TOTAL_NS   (30 * SECOND_NS)
#define HEAD_MAX   8192
#define CHECK_NS   (2 * SECOND_NS) /* to look a name up that a proxy will look up */

struct attempt {
	struct loop_watch watch;
	struct dial *dial;
	size_t index; /* in `addresses` */
};

struct dial {
	struct egress *egress;
	struct flow *flow;
	dial_fn *done;
	struct resolve *resolve;
	struct loop_timer stagger, total, deliver;
	struct network_address addresses[RESOLVE_MAX];
	size_t n_addresses, next;
	struct attempt attempts[RESOLVE_MAX];
	uint16_t port; /* to connect to: the proxy's if there is one */
	size_t n_failed;
	int last_error;
	bool is_proxied;
	struct loop_watch proxy; /* connected, CONNECT is being said */
	size_t n_request, n_request_sent;
	char request[2 * NETWORK_NAME_MAX + 64 + 1024];
	int result;
	char reason[128];
};

/* ---- the end ---- */

static void let_go(struct dial *dial)
{
	struct loop *loop = &dial->egress->loop;

	resolve_cancel(dial->resolve);
	dial->resolve = NULL;
	loop_disarm(loop, &dial->stagger);
	loop_disarm(loop, &dial->total);
	loop_disarm(loop, &dial->deliver);
	for (size_t i = 0; i < RESOLVE_MAX; i++) {
		if (dial->attempts[i].watch.fd < 0)
			continue;
		loop_unwatch(loop, &dial->attempts[i].watch);
		close(dial->attempts[i].watch.fd);
		dial->attempts[i].watch.fd = -1;
	}
	if (dial->proxy.fd >= 0) {
		loop_unwatch(loop, &dial->proxy);
		close(dial->proxy.fd);
		dial->proxy.fd = -1;
	}
}

void dial_cancel(struct dial *dial)
{
	if (!dial)
		return;
	let_go(dial);
	if (dial->result >= 0)
		close(dial->result);
	free(dial);
}

static void deliver(struct loop_timer *timer)
{
	struct dial *dial = container_of(timer, struct dial, deliver);
	struct flow *flow = dial->flow;
	dial_fn *done = dial->done;
	int result = dial->result;
	char reason[sizeof dial->reason];

	memcpy(reason, dial->reason, sizeof reason);
	let_go(dial);
	free(dial);
	done(flow, result, reason);
}

/* Told from the loop, never from within the call that found it out. */
static void finish(struct dial *dial, int result, const char *reason)
{
	let_go(dial);
	dial->result = result;
	snprintf(dial->reason, sizeof dial->reason, "%s", reason ? reason : "");
	/* There is room: three timers were just taken out. Long due, so that it is still in this
	 * round, also if that is at its timers. */
	loop_arm(&dial->egress->loop, &dial->deliver, 0);
}

static void took_too_long(struct loop_timer *timer)
{
	finish(container_of(timer, struct dial, total), -ETIMEDOUT,
	       "nobody answered within 30 seconds");
}

/* ---- through a proxy of the caller's ---- */

static void proxy_failed(struct dial *dial, const char *reason)
{
	finish(dial, -EPROTO, reason);
}

/* The answer's head is looked at before it is taken, so that not a byte behind it is. */
static void proxy_read_answer(struct dial *dial)
{
	char head[HEAD_MAX + 1];
	ssize_t n = recv(dial->proxy.fd, head, HEAD_MAX, MSG_PEEK);
	char *end;
	int fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		proxy_failed(dial, "the upstream proxy closed the connection");
		return;
	}
	head[n] = '\0';
	end = strstr(head, "\r\n\r\n");
	if (!end) {
		if (n == HEAD_MAX || strlen(head) < (size_t)n)
			proxy_failed(dial, "the upstream proxy answered something else than HTTP");
		else /* peeked at, so level-triggered waiting would spin */
			loop_watch(&dial->egress->loop, &dial->proxy, EPOLLIN | EPOLLET);
		return;
	}
	if (recv(dial->proxy.fd, head, (size_t)(end + 4 - head), 0) != end + 4 - head ||
	    !(starts_with(head, "HTTP/1.1 ") || starts_with(head, "HTTP/1.0 "))) {
		proxy_failed(dial, "the upstream proxy answered something else than HTTP");
	} else if (head[9] != '2') {
		char reason[64];

		head[12] = '\0';
		snprintf(reason, sizeof reason, "the upstream proxy refused it with status %s",
			 str_is_printable(head + 9) ? head + 9 : "?");
		proxy_failed(dial, reason);
	} else {
		loop_unwatch(&dial->egress->loop, &dial->proxy);
		fd = dial->proxy.fd;
		dial->proxy.fd = -1;
		finish(dial, fd, NULL);
	}
}

static void proxy_ready(struct loop_watch *watch, uint32_t events)
{
	struct dial *dial = container_of(watch, struct dial, proxy);

	(void)events;
	if (dial->n_request_sent < dial->n_request) {
		ssize_t n = send(watch->fd, dial->request + dial->n_request_sent,
				 dial->n_request - dial->n_request_sent, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			proxy_failed(dial, "the upstream proxy closed the connection");
		else if (n > 0 && (dial->n_request_sent += (size_t)n) == dial->n_request)
			loop_watch(&dial->egress->loop, watch, EPOLLIN);
		return;
	}
	proxy_read_answer(dial);
}

/* The line that says who the caller is to his proxy; "" if its URL names nobody. */
static void write_password(const char *url, char *ret, size_t size)
{
	const char *user = url + strlen("http://"), *at = strrchr(user, '@');
	char plain[512];
	size_t n = 0;
	int used;

	ret[0] = '\0';
	if (!at)
		return;
	/* In a URL "%40" is "@". */
	for (const char *c = user; c < at && n + 1 < sizeof plain; c++) {
		unsigned byte;

		if (*c == '%' && at - c > 2 && sscanf(c + 1, "%2x", &byte) == 1) {
			plain[n++] = (char)byte;
			c += 2;
		} else {
			plain[n++] = *c;
		}
	}
	used = snprintf(ret, size, "Proxy-Authorization: Basic ");
	sodium_bin2base64(ret + used, size - (size_t)used - 3, (unsigned char *)plain, n,
			  sodium_base64_VARIANT_ORIGINAL);
	strcat(ret, "\r\n");
	sodium_memzero(plain, sizeof plain);
}

static void proxy_begin(struct dial *dial, int fd)
{
	const struct flow *flow = dial->flow;
	char password[1024];

	write_password(dial->egress->network.upstream, password, sizeof password);
	dial->proxy = (struct loop_watch){.fd = fd, .ready = proxy_ready};
	dial->n_request =
		(size_t)snprintf(dial->request, sizeof dial->request,
				 "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n%s\r\n", flow->name,
				 flow->port, flow->name, flow->port, password);
	if (loop_watch(&dial->egress->loop, &dial->proxy, EPOLLOUT) < 0)
		proxy_failed(dial, "out of memory");
}

/* ---- attempts ---- */

static void try_next(struct dial *dial);

void dial_keep_alive(int fd)
{
	int yes = 1, idle = 60, interval = 20, count = 6;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static const char *error_words(int errnum)
{
	switch (errnum) {
	case ECONNREFUSED:
		return "connection refused";
	case EACCES:
		return "atoll itself listens there, which no sandbox may reach";
	case ETIMEDOUT:
		return "nobody answered";
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "no way to that address";
	default:
		return strerrordesc_np(errnum);
	}
}

static void attempt_failed(struct dial *dial, int errnum)
{
	/* That this host has no IPv6 says less than why IPv4 failed. */
	if (!dial->last_error || errnum != ENETUNREACH)
		dial->last_error = errnum;
	if (++dial->n_failed == dial->n_addresses) {
		char reason[128];

		snprintf(reason, sizeof reason, "%s%s", dial->is_proxied ? "upstream proxy: " : "",
			 error_words(dial->last_error));
		finish(dial, -dial->last_error, reason);
		return;
	}
	if (dial->next < dial->n_addresses)
		try_next(dial);
}

static bool is_own_listener(const struct attempt *attempt)
{
	const struct dial *dial = attempt->dial;

	return resolve_is_own_listener(dial->egress, &dial->addresses[attempt->index], dial->port);
}

static void connected(struct attempt *attempt)
{
	struct dial *dial = attempt->dial;
	int fd = attempt->watch.fd;

	/* atoll's listener may have begun between the first check and connect(): check again. */
	if (is_own_listener(attempt)) {
		loop_unwatch(&dial->egress->loop, &attempt->watch);
		close(fd);
		attempt->watch.fd = -1;
		attempt_failed(dial, EACCES);
		return;
	}
	network_address_text(&dial->addresses[attempt->index], dial->flow->event.address);
	loop_unwatch(&dial->egress->loop, &attempt->watch);
	attempt->watch.fd = -1;
	if (!dial->is_proxied) {
		finish(dial, fd, NULL);
		return;
	}
	/* One connection to the proxy is enough. */
	for (size_t i = 0; i < RESOLVE_MAX; i++) {
		if (dial->attempts[i].watch.fd < 0)
			continue;
		loop_unwatch(&dial->egress->loop, &dial->attempts[i].watch);
		close(dial->attempts[i].watch.fd);
		dial->attempts[i].watch.fd = -1;
	}
	loop_disarm(&dial->egress->loop, &dial->stagger);
	proxy_begin(dial, fd);
}

static void attempt_ready(struct loop_watch *watch, uint32_t events)
{
	struct attempt *attempt = container_of(watch, struct attempt, watch);
	int errnum = 0;
	socklen_t size = sizeof errnum;

	(void)events;
	getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &errnum, &size);
	if (errnum == 0) {
		connected(attempt);
		return;
	}
	loop_unwatch(&attempt->dial->egress->loop, watch);
	close(watch->fd);
	watch->fd = -1;
	attempt_failed(attempt->dial, errnum);
}

/* 0 if it is on the way, 1 if it is there already. */
static int begin(struct dial *dial, struct attempt *attempt)
{
	struct sockaddr_storage to;
	socklen_t size;
	int fd, r, yes = 1;

	attempt->dial = dial;
	if (is_own_listener(attempt))
		return -EACCES;
	address_to_socket(&dial->addresses[attempt->index], dial->port, &to, &size);
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	flow_bound_socket(dial->egress, fd);
	attempt->watch = (struct loop_watch){.fd = fd, .ready = attempt_ready};
	r = connect(fd, (struct sockaddr *)&to, size) < 0 ? -errno : 1;
	/* Near by it is done when the call returns, though that says otherwise. */
	if (r == -EINPROGRESS)
		r = connect(fd, (struct sockaddr *)&to, size) < 0 ? -errno : 1;
	if (r == -EALREADY || r == -EINPROGRESS)
		r = loop_watch(&dial->egress->loop, &attempt->watch, EPOLLOUT);
	if (r < 0) {
		close(fd);
		attempt->watch.fd = -1;
	}
	return r;
}

static void try_next(struct dial *dial)
{
	struct attempt *attempt = &dial->attempts[dial->next];
	int r;

	loop_disarm(&dial->egress->loop, &dial->stagger);
	attempt->index = dial->next++;
	r = begin(dial, attempt);
	if (r < 0)
		attempt_failed(dial, -r);
	else if (r > 0)
		connected(attempt);
	else if (dial->next < dial->n_addresses)
		loop_arm(&dial->egress->loop, &dial->stagger, clock_monotonic_ns() + STAGGER_NS);
}

static void try_another(struct loop_timer *timer)
{
	try_next(container_of(timer, struct dial, stagger));
}

/* In turn, IPv6 first. */
static void take_addresses(struct dial *dial, const struct network_address *from, size_t n)
{
	size_t v6 = 0, v4 = 0;

	while (dial->n_addresses < n) {
		while (v6 < n && network_address_is_v4(&from[v6]))
			v6++;
		if (v6 < n)
			dial->addresses[dial->n_addresses++] = from[v6++];
		while (v4 < n && !network_address_is_v4(&from[v4]))
			v4++;
		if (v4 < n)
			dial->addresses[dial->n_addresses++] = from[v4++];
	}
}

static void resolved(void *data, const struct network_address *addresses, size_t n, int error,
		     const char *reason)
{
	struct dial *dial = data;

	dial->resolve = NULL;
	if (n == 0) {
		finish(dial, error, reason);
		return;
	}
	take_addresses(dial, addresses, n);
	try_next(dial);
}

/* "http://host:port", perhaps with "user:password@", as the contract's reader has checked. */
static bool split_upstream(const char *url, char name[NETWORK_NAME_MAX],
			   struct network_address *ret_address, uint16_t *ret_port)
{
	const char *host = url + strlen("http://"), *colon;
	unsigned long port;
	char *end;

	if (!starts_with(url, "http://"))
		return false;
	if (strrchr(host, '@'))
		host = strrchr(host, '@') + 1;
	colon = strrchr(host, ':');
	if (!colon)
		return false;
	port = strtoul(colon + 1, &end, 10);
	if (port == 0 || port > 65535 || (*end && !streq(end, "/")))
		return false;
	*ret_port = (uint16_t)port;
	name[0] = '\0';
	return network_address(host, (size_t)(colon - host), ret_address) == 0 ||
	       network_name(host, (size_t)(colon - host), name) == 0;
}

static void start_proxied(struct dial *dial)
{
	char name[NETWORK_NAME_MAX];
	struct network_address address;

	dial->is_proxied = true;
	if (!split_upstream(dial->egress->network.upstream, name, &address, &dial->port)) {
		finish(dial, -EINVAL, "the upstream proxy's address makes no sense");
	} else if (name[0]) {
		dial->resolve = resolve_start(dial->egress, name, 0, resolved, dial);
		if (!dial->resolve)
			finish(dial, -ENOMEM, "out of memory");
	} else {
		take_addresses(dial, &address, 1);
		try_next(dial);
	}
}

static void refuse_name(struct dial *dial, const char *reason)
{
	finish(dial, -EACCES,
	       reason && *reason ? reason
				 : "one of the name's addresses is not allowed, and the upstream "
				   "proxy could choose it");
}

/* What the name means here. Nothing at all is no reason to refuse: where a proxy is needed, names
 * of the outside are often unknown. */
static void checked(void *data, const struct network_address *addresses, size_t n, int error,
		    const char *reason)
{
	struct dial *dial = data;

	(void)addresses;
	dial->resolve = NULL;
	if (error == -EACCES)
		refuse_name(dial, n == 0 ? reason : NULL);
	else
		start_proxied(dial);
}

/* Every resolver has to answer these names by its own loopback (RFC 6761). */
static bool is_localhost(const char *name)
{
	return streq(name, "localhost") || ends_with(name, ".localhost");
}

static void start_checked(struct dial *dial)
{
	struct flow *flow = dial->flow;

	if (is_localhost(flow->name)) {
		refuse_name(dial, "the name leads to an address that is not allowed (loopback)");
		return;
	}
	dial->resolve = resolve_start(dial->egress, flow->name, flow->port, checked, dial);
	if (!dial->resolve || resolve_hurry(dial->resolve, CHECK_NS) < 0)
		finish(dial, -ENOMEM, "out of memory");
}

static void start_direct(struct dial *dial)
{
	struct flow *flow = dial->flow;
	const char *odd;

	if (flow->name[0]) {
		dial->resolve = resolve_start(dial->egress, flow->name, flow->port, resolved, dial);
		if (!dial->resolve)
			finish(dial, -ENOMEM, "out of memory");
		return;
	}
	odd = resolve_refuses(dial->egress, &flow->address, flow->port);
	if (odd) {
		char reason[128];

		snprintf(reason, sizeof reason, "the address is not allowed (%s)", odd);
		finish(dial, -EACCES, reason);
		return;
	}
	take_addresses(dial, &flow->address, 1);
	try_next(dial);
}

struct dial *dial_start(struct flow *flow, dial_fn *done)
{
	struct dial *dial = calloc(1, sizeof *dial);

	if (!dial)
		return NULL;
	dial->egress = flow->egress;
	dial->flow = flow;
	dial->done = done;
	dial->port = flow->port;
	dial->result = -1;
	dial->proxy.fd = -1;
	for (size_t i = 0; i < RESOLVE_MAX; i++)
		dial->attempts[i].watch.fd = -1;
	dial->stagger.fire = try_another;
	dial->total.fire = took_too_long;
	dial->deliver.fire = deliver;
	if (loop_arm(&dial->egress->loop, &dial->total, clock_monotonic_ns() + TOTAL_NS) < 0) {
		free(dial);
		return NULL;
	}
	if (flow->egress->network.upstream && flow->name[0])
		start_checked(dial);
	else
		start_direct(dial);
	return dial;
}

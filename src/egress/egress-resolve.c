/* SPDX-License-Identifier: Apache-2.0 */
#include "base/announce.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "egress/core.h"

#include <ares.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * What a name really means
 *
 * Asked outside, once for each connection, after a rule has allowed it; an answer also serves those
 * that follow, for as long as its time to live says and for a minute at most. c-ares reads
 * resolv.conf when it is made, and nothing later; the hosts file is read here, before egress locks
 * itself in.
 * Of the addresses only those are given back that may be connected to: a name that leads to the
 * host itself, to its neighbours or to a metadata service leads nowhere, unless the contract names
 * that address.
 */

#define TRY_MS	  5000
#define TOTAL_NS  (10 * SECOND_NS)
#define HOSTS_MAX (1024 * 1024)
#define KNOWN_NS  SECOND_NS
#define MEMORIES  64
#define MEMORY_S  60

struct host {
	char *name;
	struct network_address address;
};

/* A socket of c-ares's. */
struct server {
	struct server *next;
	struct resolver *resolver;
	struct loop_watch watch;
};

/* An answer that is still good, as it came: what of it may be used depends on the port. */
struct memory {
	char name[NETWORK_NAME_MAX];
	int64_t until_ns;
	struct network_address addresses[RESOLVE_MAX];
	size_t n;
};

struct resolver {
	struct egress *egress;
	struct memory memories[MEMORIES]; /* by a hash of the name */
	ares_channel channel;
	struct server *servers;
	struct loop_timer timer; /* of c-ares */
	struct host *hosts;
	size_t n_hosts;
	struct network_address *own;
	size_t n_own;
};

struct resolve {
	struct resolver *resolver;
	char name[NETWORK_NAME_MAX];
	uint16_t port;
	resolve_fn *done;
	void *data;
	bool is_waiting;	 /* c-ares will still call */
	bool is_over;		 /* cancelled, or told */
	bool is_hurried;	 /* by resolve_hurry() */
	struct loop_timer timer; /* to tell later, or that it took too long */
	struct network_address addresses[RESOLVE_MAX];
	size_t n;
	const char *oddity; /* of an address that was dropped */
	char reason[128];
};

/* ---- addresses ---- */

void address_to_socket(const struct network_address *address, uint16_t port,
		       struct sockaddr_storage *ret, socklen_t *ret_size)
{
	*ret = (struct sockaddr_storage){0};
	if (network_address_is_v4(address)) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)ret;

		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, address->bytes + 12, 4);
		*ret_size = sizeof *v4;
	} else {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		memcpy(&v6->sin6_addr, address->bytes, 16);
		*ret_size = sizeof *v6;
	}
}

void address_of_socket(const struct sockaddr_storage *from, struct network_address *ret,
		       uint16_t *ret_port)
{
	if (from->ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;

		network_address_of_v4(&v4->sin_addr, ret);
		*ret_port = ntohs(v4->sin_port);
	} else {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

		memcpy(ret->bytes, &v6->sin6_addr, 16);
		*ret_port = ntohs(v6->sin6_port);
	}
}

static bool same(const struct network_address *a, const struct network_address *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* Would the kernel deliver it to this host? Connecting a UDP socket sends nothing, and tells the
 * address that would be used, which for one's own is the same. */
static bool ask_kernel(const struct network_address *address)
{
	struct sockaddr_storage to, from;
	socklen_t size;
	struct network_address local;
	uint16_t port;
	cleanup_fd int fd = -1;

	address_to_socket(address, 9, &to, &size);
	fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, size) < 0)
		return false;
	size = sizeof from;
	if (getsockname(fd, (struct sockaddr *)&from, &size) < 0)
		return false;
	address_of_socket(&from, &local, &port);
	return same(&local, address);
}

/* A host's addresses change seldom, and connections to the same place come in numbers. */
static bool is_delivered_here(const struct network_address *address)
{
	static struct {
		struct network_address address;
		int64_t until_ns;
		bool is_here;
	} known[16];
	const size_t i = (address->bytes[15] ^ address->bytes[11]) % ARRAY_SIZE(known);
	const int64_t now = clock_monotonic_ns();

	if (known[i].until_ns <= now || !same(&known[i].address, address)) {
		known[i].address = *address;
		known[i].is_here = ask_kernel(address);
		known[i].until_ns = now + KNOWN_NS;
	}
	return known[i].is_here;
}

static bool is_own(const struct resolver *resolver, const struct network_address *address)
{
	for (size_t i = 0; i < resolver->n_own; i++)
		if (same(&resolver->own[i], address))
			return true;
	return is_delivered_here(address);
}

static const char *oddity(const struct resolver *resolver, const struct network_address *address)
{
	const char *odd = network_address_oddity(address);

	return !odd && is_own(resolver, address) ? "this host's own" : odd;
}

bool resolve_is_own_listener(struct egress *egress, const struct network_address *address,
			     uint16_t port)
{
	static const struct network_address any_v4 = {{[10] = 0xff, 0xff}}, any_v6 = {{0}};

	/* The unspecified address leads to the loopback. */
	return (network_is_loopback(address) || same(address, &any_v4) || same(address, &any_v6) ||
		is_own(egress->resolver, address)) &&
	       announce_has(egress->announced_fd, port);
}

const char *resolve_refuses(struct egress *egress, const struct network_address *address,
			    uint16_t port)
{
	const struct network_rule *rule;
	const char *odd;

	if (network_judge(&egress->network, NULL, address, port, &rule) == NETWORK_DENIED)
		return "denied";
	odd = oddity(egress->resolver, address);
	return odd && !network_allows_odd(&egress->network, address, port) ? odd : NULL;
}

static void add(struct resolve *resolve, const struct network_address *address)
{
	const char *odd = NULL;

	for (size_t i = 0; i < resolve->n; i++)
		if (same(&resolve->addresses[i], address))
			return;
	if (resolve->port != 0)
		odd = resolve_refuses(resolve->resolver->egress, address, resolve->port);
	if (odd)
		resolve->oddity = odd;
	else if (resolve->n < RESOLVE_MAX)
		resolve->addresses[resolve->n++] = *address;
}

/* ---- the hosts file ---- */

static int add_host(struct resolver *resolver, const char *name,
		    const struct network_address *address)
{
	struct host *hosts;

	if ((resolver->n_hosts & (resolver->n_hosts - 1)) == 0) {
		hosts = reallocarray(resolver->hosts, resolver->n_hosts ? resolver->n_hosts * 2 : 1,
				     sizeof *hosts);
		if (!hosts)
			return -ENOMEM;
		resolver->hosts = hosts;
	}
	resolver->hosts[resolver->n_hosts].address = *address;
	resolver->hosts[resolver->n_hosts].name = strdup(name);
	return resolver->hosts[resolver->n_hosts++].name ? 0 : -ENOMEM;
}

static int read_host_line(struct resolver *resolver, char *line)
{
	char *rest = line, *word;
	struct network_address address;
	char name[NETWORK_NAME_MAX];
	int r = 0;

	line[strcspn(line, "#")] = '\0';
	word = strsep(&rest, " \t\r");
	if (network_address(word, strlen(word), &address) < 0)
		return 0;
	while (r == 0 && (word = strsep(&rest, " \t\r")))
		if (network_name(word, strlen(word), name) == 0)
			r = add_host(resolver, name, &address);
	return r;
}

static int read_hosts(struct resolver *resolver, const char *path, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(HOSTS_MAX);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char *rest, *line;
	int r;

	if (fd < 0 && errno == ENOENT)
		return 0;
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read '%s'", path);
	for (rest = text.data; rest && (line = strsep(&rest, "\n"));)
		if (read_host_line(resolver, line) < 0)
			return error_oom(err);
	return 0;
}

/* ---- c-ares in the loop ---- */

static void rearm(struct resolver *resolver)
{
	struct timeval room, *left = ares_timeout(resolver->channel, NULL, &room);

	loop_disarm(&resolver->egress->loop, &resolver->timer);
	if (left)
		loop_arm(&resolver->egress->loop, &resolver->timer,
			 clock_monotonic_ns() + left->tv_sec * SECOND_NS + left->tv_usec * 1000 +
				 MS_NS);
}

static void server_ready(struct loop_watch *watch, uint32_t events)
{
	struct resolver *resolver = container_of(watch, struct server, watch)->resolver;
	int fd = watch->fd;

	ares_process_fd(resolver->channel,
			events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? fd : ARES_SOCKET_BAD,
			events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
	rearm(resolver);
}

static void ares_late(struct loop_timer *timer)
{
	struct resolver *resolver = container_of(timer, struct resolver, timer);

	ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	rearm(resolver);
}

/* c-ares has a new wish about a socket; none at all just before it closes it. */
static void server_changed(void *data, ares_socket_t fd, int readable, int writable)
{
	struct resolver *resolver = data;
	struct server **place = &resolver->servers, *server;

	while (*place && (*place)->watch.fd != fd)
		place = &(*place)->next;
	server = *place;
	if (!readable && !writable) {
		if (server) {
			loop_unwatch(&resolver->egress->loop, &server->watch);
			*place = server->next;
			free(server);
		}
		return;
	}
	if (!server) {
		server = calloc(1, sizeof *server);
		if (!server)
			return; /* and the question runs into its time-out */
		server->resolver = resolver;
		server->watch = (struct loop_watch){.fd = fd, .ready = server_ready};
		server->next = resolver->servers;
		resolver->servers = server;
	}
	loop_watch(&resolver->egress->loop, &server->watch,
		   (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u));
}

static int open_ares(struct resolver *resolver, const char *resolv, struct atoll_error *err)
{
	char lookups[] = "b"; /* DNS only; the hosts file is ours */
	struct ares_options options = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
		.timeout = TRY_MS,
		.tries = 2,
		.ednspsz = 1232,
		.lookups = lookups,
		.sock_state_cb = server_changed,
		.sock_state_cb_data = resolver,
		.resolvconf_path = (char *)resolv,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
		   ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB;
	int status;

	if (resolv)
		mask |= ARES_OPT_RESOLVCONF;
	status = ares_library_init(ARES_LIB_INIT_ALL);
	if (status == ARES_SUCCESS)
		status = ares_init_options(&resolver->channel, &options, mask);
	if (status != ARES_SUCCESS)
		return error_set(err, ATOLL_FAULT_HOST, 0, "start c-ares: %s",
				 ares_strerror(status));
	return 0;
}

static int read_own(struct resolver *resolver, const struct config *config, struct atoll_error *err)
{
	struct ifaddrs *all = NULL;
	size_t room = config->n_own;

	if (getifaddrs(&all) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read this host's addresses");
	for (struct ifaddrs *one = all; one; one = one->ifa_next)
		room++;
	resolver->own = calloc(room + 1, sizeof *resolver->own);
	if (!resolver->own) {
		freeifaddrs(all);
		return error_oom(err);
	}
	for (size_t i = 0; i < config->n_own; i++)
		resolver->own[resolver->n_own++] = config->own[i];
	for (struct ifaddrs *one = all; one; one = one->ifa_next) {
		struct sockaddr_storage address = {0};
		uint16_t port;

		if (!one->ifa_addr)
			continue;
		if (one->ifa_addr->sa_family == AF_INET)
			memcpy(&address, one->ifa_addr, sizeof(struct sockaddr_in));
		else if (one->ifa_addr->sa_family == AF_INET6)
			memcpy(&address, one->ifa_addr, sizeof(struct sockaddr_in6));
		else
			continue;
		address_of_socket(&address, &resolver->own[resolver->n_own++], &port);
	}
	freeifaddrs(all);
	return 0;
}

int resolver_new(struct egress *egress, const struct config *config, struct resolver **ret,
		 struct atoll_error *err)
{
	struct resolver *resolver = calloc(1, sizeof *resolver);
	int r;

	if (!resolver)
		return error_oom(err);
	resolver->egress = egress;
	resolver->timer.fire = ares_late;
	r = read_own(resolver, config, err);
	if (r == 0 && config->hosts)
		r = read_hosts(resolver, config->hosts, err);
	if (r == 0)
		r = open_ares(resolver, config->resolv, err);
	if (r < 0) {
		resolver_free(resolver);
		return r;
	}
	*ret = resolver;
	return 0;
}

void resolver_free(struct resolver *resolver)
{
	if (!resolver)
		return;
	if (resolver->channel)
		ares_destroy(resolver->channel);
	loop_disarm(&resolver->egress->loop, &resolver->timer);
	for (size_t i = 0; i < resolver->n_hosts; i++)
		free(resolver->hosts[i].name);
	free(resolver->hosts);
	free(resolver->own);
	free(resolver);
}

/* ---- one question ---- */

static void set_reason(struct resolve *resolve, const char *reason)
{
	if (!resolve->reason[0])
		snprintf(resolve->reason, sizeof resolve->reason, "%s", reason);
}

static struct memory *memory_of(struct resolver *resolver, const char *name)
{
	uint32_t hash = 2166136261u;

	for (const char *at = name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 16777619u;
	return &resolver->memories[hash % MEMORIES];
}

static void remember_silence(const struct resolve *resolve)
{
	struct memory *memory = memory_of(resolve->resolver, resolve->name);

	memcpy(memory->name, resolve->name, sizeof memory->name);
	memory->n = 0;
	memory->until_ns = clock_monotonic_ns() + MEMORY_S * SECOND_NS;
}

int resolve_hurry(struct resolve *resolve, int64_t within_ns)
{
	if (!resolve->is_waiting)
		return 0;
	resolve->is_hurried = true;
	return loop_arm(&resolve->resolver->egress->loop, &resolve->timer,
			clock_monotonic_ns() + within_ns);
}

static void tell(struct loop_timer *timer)
{
	struct resolve *resolve = container_of(timer, struct resolve, timer);

	if (resolve->is_waiting)
		set_reason(resolve, "looking the name up took too long");
	if (resolve->is_waiting && resolve->is_hurried)
		remember_silence(resolve);
	if (resolve->n == 0 && resolve->oddity)
		snprintf(resolve->reason, sizeof resolve->reason,
			 "the name leads to an address that is not allowed (%s)", resolve->oddity);
	resolve->is_over = true;
	resolve->done(resolve->data, resolve->addresses, resolve->n,
		      resolve->oddity ? -EACCES : -ENOENT, resolve->reason);
	if (!resolve->is_waiting)
		free(resolve);
}

void resolve_cancel(struct resolve *resolve)
{
	if (!resolve)
		return;
	loop_disarm(&resolve->resolver->egress->loop, &resolve->timer);
	resolve->is_over = true;
	if (!resolve->is_waiting)
		free(resolve);
}

static bool recall(struct resolve *resolve, int64_t now)
{
	const struct memory *memory = memory_of(resolve->resolver, resolve->name);

	if (memory->until_ns <= now || !streq(memory->name, resolve->name))
		return false;
	for (size_t i = 0; i < memory->n; i++)
		add(resolve, &memory->addresses[i]);
	return true;
}

static void remember(struct resolve *resolve, const struct network_address *addresses, size_t n,
		     int ttl)
{
	struct memory *memory = memory_of(resolve->resolver, resolve->name);

	if (n == 0 || n > RESOLVE_MAX || ttl <= 0) /* of more, an odd one would be forgotten */
		return;
	memcpy(memory->name, resolve->name, sizeof memory->name);
	memcpy(memory->addresses, addresses, n * sizeof *addresses);
	memory->n = n;
	memory->until_ns = clock_monotonic_ns() + (ttl < MEMORY_S ? ttl : MEMORY_S) * SECOND_NS;
}

static void take_answer(void *data, int status, int timeouts, struct ares_addrinfo *info)
{
	struct resolve *resolve = data;
	struct network_address all[RESOLVE_MAX];
	int ttl = MEMORY_S;
	size_t n = 0;

	(void)timeouts;
	resolve->is_waiting = false;
	if (resolve->is_over) {
		ares_freeaddrinfo(info);
		free(resolve);
		return;
	}
	for (struct ares_addrinfo_node *node = info ? info->nodes : NULL; node;
	     node = node->ai_next) {
		struct sockaddr_storage socket = {0};
		struct network_address address;
		uint16_t port;

		if (node->ai_addrlen > sizeof socket ||
		    (node->ai_family != AF_INET && node->ai_family != AF_INET6))
			continue;
		memcpy(&socket, node->ai_addr, node->ai_addrlen);
		address_of_socket(&socket, &address, &port);
		add(resolve, &address);
		if (n++ < RESOLVE_MAX)
			all[n - 1] = address;
		ttl = node->ai_ttl < ttl ? node->ai_ttl : ttl;
	}
	ares_freeaddrinfo(info);
	if (status == ARES_SUCCESS)
		remember(resolve, all, n, ttl);
	if (status == ARES_ENOTFOUND || status == ARES_ENODATA)
		set_reason(resolve, "the name does not exist");
	else if (status == ARES_ETIMEOUT)
		set_reason(resolve, "looking the name up took too long");
	else if (status != ARES_SUCCESS)
		set_reason(resolve, ares_strerror(status));
	else
		set_reason(resolve, "the name has no address");
	loop_arm(&resolve->resolver->egress->loop, &resolve->timer, clock_monotonic_ns());
}

static bool find_in_hosts(struct resolve *resolve, const char *name)
{
	const struct resolver *resolver = resolve->resolver;
	bool is_found = false;

	for (size_t i = 0; i < resolver->n_hosts; i++) {
		if (streq(resolver->hosts[i].name, name)) {
			add(resolve, &resolver->hosts[i].address);
			is_found = true;
		}
	}
	return is_found;
}

struct resolve *resolve_start(struct egress *egress, const char *name, uint16_t port,
			      resolve_fn *done, void *data)
{
	static const struct ares_addrinfo_hints hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = ARES_AI_NOSORT, /* sorting would open a socket for each */
	};
	struct resolve *resolve = calloc(1, sizeof *resolve);
	int64_t now = clock_monotonic_ns();

	if (!resolve)
		return NULL;
	resolve->resolver = egress->resolver;
	resolve->port = port;
	resolve->done = done;
	resolve->data = data;
	resolve->timer.fire = tell;
	snprintf(resolve->name, sizeof resolve->name, "%s", name);
	if (find_in_hosts(resolve, name) || recall(resolve, now)) {
		set_reason(resolve, "the name has no address");
		if (loop_arm(&egress->loop, &resolve->timer, now) < 0) {
			free(resolve);
			return NULL;
		}
		return resolve;
	}
	if (loop_arm(&egress->loop, &resolve->timer, now + TOTAL_NS) < 0) {
		free(resolve);
		return NULL;
	}
	resolve->is_waiting = true;
	ares_getaddrinfo(egress->resolver->channel, name, NULL, &hints, take_answer, resolve);
	rearm(egress->resolver);
	return resolve;
}

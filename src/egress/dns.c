/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/str.h"
#include "egress/core.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/*
 * The name server of the sandbox
 *
 * It knows every name that some rule speaks for, and answers with the address that stands for it;
 * nothing is asked outside. Whatever else is asked for does not exist, and is told to the person,
 * names that were refused often as one.
 */

#define QUERIES_A_ROUND 64
#define CLIENTS_MAX	64
#define CLIENT_IDLE_NS	(10 * SECOND_NS)
#define REFUSALS_MAX	256
#define REFUSAL_NS	(300 * MS_NS)

struct refusal {
	uint32_t count;
	uint64_t start_ns;
	char name[256];
};

struct dns {
	struct egress *egress;
	struct loop_watch udp;
	struct dns_client *clients;
	size_t n_clients;
	struct refusal *refusals; /* not yet told */
	size_t n_refusals;
	struct loop_timer tell;
};

/* ---- what was refused ---- */

void dns_flush(struct egress *egress)
{
	struct dns *dns = egress->dns;

	if (!dns)
		return;
	loop_disarm(&egress->loop, &dns->tell);
	for (size_t i = 0; i < dns->n_refusals; i++) {
		struct atoll_connection event = {
			.start_ns = dns->refusals[i].start_ns,
			.verdict = ATOLL_CONN_REFUSED,
			.count = dns->refusals[i].count,
		};

		snprintf(event.name, sizeof event.name, "%s", dns->refusals[i].name);
		snprintf(event.reason, sizeof event.reason, "name is not allowed");
		channel_tell(egress->channel, &event);
	}
	dns->n_refusals = 0;
}

static void tell_refusals(struct loop_timer *timer)
{
	dns_flush(container_of(timer, struct dns, tell)->egress);
}

static void note_refusal(struct dns *dns, const char *name)
{
	struct timespec now;
	struct refusal *refusal;

	for (size_t i = 0; i < dns->n_refusals; i++) {
		if (streq(dns->refusals[i].name, name)) {
			dns->refusals[i].count++;
			return;
		}
	}
	if (!dns->refusals)
		dns->refusals = calloc(REFUSALS_MAX, sizeof *dns->refusals);
	if (!dns->refusals)
		return;
	if (dns->n_refusals == REFUSALS_MAX)
		dns_flush(dns->egress);
	clock_gettime(CLOCK_REALTIME, &now);
	refusal = &dns->refusals[dns->n_refusals++];
	refusal->count = 1;
	refusal->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	snprintf(refusal->name, sizeof refusal->name, "%s", name);
	if (!dns->tell.place)
		loop_arm(&dns->egress->loop, &dns->tell, clock_monotonic_ns() + REFUSAL_NS);
}

/* ---- answers ---- */

/* The sandbox's own: programs look up the host that they are on. */
static bool is_own(const char *name)
{
	return streq(name, "localhost") || ends_with(name, ".localhost") ||
	       streq(name, EGRESS_OWN_NAME);
}

/* The address of a name of ours. */
static size_t address_for(struct dns *dns, const char *name, uint16_t type, uint8_t ret[16])
{
	struct in_addr v4;
	uint32_t number;

	if (type != DNS_A && type != DNS_AAAA)
		return 0;
	if (is_own(name)) {
		memcpy(ret, type == DNS_A ? (const void *)"\x7f\0\0\1" : &in6addr_loopback,
		       type == DNS_A ? 4 : 16);
		return type == DNS_A ? 4 : 16;
	}
	number = names_number(dns->egress->names, name);
	if (number == 0)
		return 0;
	inet_pton(AF_INET, EGRESS_SYNTHETIC_V4, &v4);
	v4.s_addr = htonl(ntohl(v4.s_addr) + number);
	if (type == DNS_A) {
		memcpy(ret, &v4, 4);
		return 4;
	}
	inet_pton(AF_INET6, EGRESS_SYNTHETIC_V6, ret);
	memcpy(ret + 12, &v4, 4);
	return 16;
}

/* Looked up backwards by programs that want to be friendly: not worth a line for a person. */
static bool is_reverse(const char *name)
{
	return ends_with(name, ".in-addr.arpa") || ends_with(name, ".ip6.arpa");
}

/* Returns the answer's size; 0: none. */
static size_t answer(struct dns *dns, const uint8_t *data, size_t size, uint8_t ret[DNS_ANSWER_MAX])
{
	struct dns_query query;
	char name[NETWORK_NAME_MAX];
	uint8_t address[16];
	size_t address_size = 0;
	int code = dns_read(data, size, &query);

	if (code < 0)
		return 0;
	if (code == DNS_NOERROR) {
		bool is_name = network_name(query.text, query.n_text, name) == 0;

		if (is_name && (is_own(name) || network_knows(&dns->egress->network, name))) {
			address_size = address_for(dns, name, query.type, address);
		} else {
			code = DNS_NXDOMAIN;
			query.is_blocked = true;
			if (!is_reverse(is_name ? name : query.text))
				note_refusal(dns, is_name ? name : query.text);
		}
	}
	return dns_write(data, &query, (enum dns_code)code, address, address_size, ret);
}

/* ---- UDP ---- */

/* Back from the address that was asked, else nobody takes it. */
static void reply(int fd, struct msghdr *message, const uint8_t *data, size_t size)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			  CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control;
	struct iovec io = {(void *)data, size};
	struct msghdr out = {
		.msg_name = message->msg_name,
		.msg_namelen = message->msg_namelen,
		.msg_iov = &io,
		.msg_iovlen = 1,
	};

	memset(&control, 0, sizeof control);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof info);
			info.ipi6_ifindex = 0;
			control.header.cmsg_level = IPPROTO_IPV6;
			control.header.cmsg_type = IPV6_PKTINFO;
			control.header.cmsg_len = CMSG_LEN(sizeof info);
			memcpy(CMSG_DATA(&control.header), &info, sizeof info);
			out.msg_controllen = CMSG_SPACE(sizeof info);
			break;
		}
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof info);
			info = (struct in_pktinfo){.ipi_spec_dst = info.ipi_addr};
			control.header.cmsg_level = IPPROTO_IP;
			control.header.cmsg_type = IP_PKTINFO;
			control.header.cmsg_len = CMSG_LEN(sizeof info);
			memcpy(CMSG_DATA(&control.header), &info, sizeof info);
			out.msg_controllen = CMSG_SPACE(sizeof info);
		}
	}
	if (out.msg_controllen)
		out.msg_control = &control;
	/* An answer that does not fit into the client's buffer is lost, as UDP may be. */
	sendmsg(fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void udp_ready(struct loop_watch *watch, uint32_t events)
{
	struct dns *dns = container_of(watch, struct dns, udp);
	uint8_t query[DNS_QUERY_MAX + 1], out[DNS_ANSWER_MAX];

	(void)events;
	for (int i = 0; i < QUERIES_A_ROUND; i++) {
		struct sockaddr_storage from;
		_Alignas(struct cmsghdr) char control[256];
		struct iovec io = {query, sizeof query};
		struct msghdr message = {
			.msg_name = &from,
			.msg_namelen = sizeof from,
			.msg_iov = &io,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof control,
		};
		ssize_t n = recvmsg(watch->fd, &message, MSG_DONTWAIT);
		size_t size;

		if (n < 0)
			return;
		size = answer(dns, query, (size_t)n, out);
		if (size > 0)
			reply(watch->fd, &message, out, size);
	}
}

int dns_serve(struct egress *egress, int udp_fd)
{
	struct dns *dns = egress->dns;
	int yes = 1;

	if (!dns) {
		dns = egress->dns = calloc(1, sizeof *dns);
		if (!dns) {
			if (udp_fd >= 0)
				close(udp_fd);
			return -ENOMEM;
		}
		dns->egress = egress;
		dns->tell.fire = tell_refusals;
	}
	if (udp_fd < 0)
		return 0;
	setsockopt(udp_fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &yes, sizeof yes);
	setsockopt(udp_fd, IPPROTO_IP, IP_PKTINFO, &yes, sizeof yes);
	dns->udp = (struct loop_watch){.fd = udp_fd, .ready = udp_ready};
	return loop_watch(&egress->loop, &dns->udp, EPOLLIN);
}

/* ---- TCP ---- */

struct dns_client {
	struct dns *dns;
	struct dns_client *previous, *next;
	struct loop_watch watch;
	struct loop_timer idle;
	size_t n_in, n_out; /* of messages with their two bytes of length */
	uint8_t in[2 + 512], out[2 + DNS_ANSWER_MAX];
};

static void client_end(struct dns_client *client)
{
	struct dns *dns = client->dns;

	loop_unwatch(&dns->egress->loop, &client->watch);
	loop_disarm(&dns->egress->loop, &client->idle);
	close(client->watch.fd);
	if (client->previous)
		client->previous->next = client->next;
	else
		dns->clients = client->next;
	if (client->next)
		client->next->previous = client->previous;
	dns->n_clients--;
	free(client);
}

static void client_idle(struct loop_timer *timer)
{
	client_end(container_of(timer, struct dns_client, idle));
}

/* False: it is over. */
static bool client_write(struct dns_client *client)
{
	ssize_t n = send(client->watch.fd, client->out, client->n_out, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	client->n_out -= (size_t)n;
	memmove(client->out, client->out + n, client->n_out);
	return true;
}

/* Answer what has arrived in full, one after the other. A query that is longer than any honest one
 * ends it. */
static bool client_answer_queries(struct dns_client *client)
{
	while (client->n_out == 0 && client->n_in >= 2) {
		size_t size = (size_t)client->in[0] << 8 | client->in[1], out;

		if (size > sizeof client->in - 2)
			return false;
		if (client->n_in < 2 + size)
			break;
		out = answer(client->dns, client->in + 2, size, client->out + 2);
		if (out == 0)
			return false;
		client->out[0] = (uint8_t)(out >> 8);
		client->out[1] = (uint8_t)out;
		client->n_out = 2 + out;
		client->n_in -= 2 + size;
		memmove(client->in, client->in + 2 + size, client->n_in);
		if (!client_write(client))
			return false;
	}
	return true;
}

static bool client_go_on(struct dns_client *client, uint32_t events)
{
	if (client->n_out > 0 && (events & EPOLLOUT) && !client_write(client))
		return false;
	if (client->n_out == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
		ssize_t n = recv(client->watch.fd, client->in + client->n_in,
				 sizeof client->in - client->n_in, 0);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (n > 0)
			client->n_in += (size_t)n;
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		return false;
	}
	return client_answer_queries(client);
}

static void client_ready(struct loop_watch *watch, uint32_t events)
{
	struct dns_client *client = container_of(watch, struct dns_client, watch);
	struct loop *loop = &client->dns->egress->loop;

	if (!client_go_on(client, events) ||
	    loop_arm(loop, &client->idle, clock_monotonic_ns() + CLIENT_IDLE_NS) < 0 ||
	    loop_watch(loop, watch, client->n_out > 0 ? EPOLLOUT : EPOLLIN) < 0)
		client_end(client);
}

void dns_take(struct egress *egress, int fd)
{
	struct dns *dns = egress->dns;
	struct dns_client *client = NULL;

	if (dns && dns->n_clients < CLIENTS_MAX)
		client = calloc(1, sizeof *client);
	if (!client) {
		close(fd);
		return;
	}
	client->dns = dns;
	client->idle.fire = client_idle;
	client->watch = (struct loop_watch){.fd = fd, .ready = client_ready};
	client->next = dns->clients;
	if (client->next)
		client->next->previous = client;
	dns->clients = client;
	dns->n_clients++;
	if (loop_watch(&egress->loop, &client->watch, EPOLLIN) < 0 ||
	    loop_arm(&egress->loop, &client->idle, clock_monotonic_ns() + CLIENT_IDLE_NS) < 0)
		client_end(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/fd.h"
#include "egress/egress.h"
#include "spec/spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Connections by address
 *
 * With a network of its own egress is the wall: whatever is connected to arrives there, or nowhere.
 * What the guard adds is a quick no with its reason for an address that no rule allows, so that a
 * program does not find out by a reset, and the name of the program for the record. Without
 * namespaces it is the wall: there is one address.
 */

#define DNS_PORT 53

/* Where to: an address in its one form, and the port; false if it is none. */
static bool read_peer(const struct sockaddr_storage *address, socklen_t size,
		      struct network_address *ret, uint16_t *ret_port)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	if (address->ss_family == AF_INET && size >= sizeof *v4) {
		network_address_of_v4(&v4->sin_addr, ret);
		*ret_port = ntohs(v4->sin_port);
		return true;
	}
	/* The kernel takes one without the last field, too. */
	if (address->ss_family == AF_INET6 &&
	    size >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
		memcpy(ret->bytes, &v6->sin6_addr, 16);
		*ret_port = ntohs(v6->sin6_port);
		return true;
	}
	return false;
}

/* The sandbox's own loopback, by all its names: nobody's address means it, too. */
static bool is_own(const struct network_address *address)
{
	static const struct network_address any4 = {{[10] = 0xff, 0xff}}, any6 = {{0}};

	return network_is_loopback(address) || network_block_has(&any4, 128, address) ||
	       network_block_has(&any6, 128, address);
}

static bool is_permitted(const struct init_config *config, const struct network_address *address,
			 uint16_t port)
{
	static const struct network_address proxy = {{[10] = 0xff, 0xff, 127, 0, 0, 1}};
	const struct network_rule *rule;
	enum network_verdict verdict;

	if (config->is_bare)
		return config->proxy_port && port == config->proxy_port &&
		       network_block_has(&proxy, 128, address);
	/* Without a network the kernel has no way anywhere, and queries are egress's whoever they
	 * are meant for. */
	if (!config->peers || port == DNS_PORT || is_own(address) || network_is_synthetic(address))
		return true;
	verdict = network_judge(&config->spec->network, NULL, address, port, &rule);
	return verdict == NETWORK_ALLOWED || verdict == NETWORK_ASK;
}

int call_permit_peer(struct call *call, const struct sockaddr_storage *address, socklen_t size)
{
	struct network_address peer;
	char text[46];
	uint16_t port;

	/* What is no address the kernel refuses; or it ends a connection, which is harmless. */
	if (!read_peer(address, size, &peer, &port) ||
	    is_permitted(call->guard->config, &peer, port))
		return 0;
	network_address_text(&peer, text);
	snprintf(call->path, sizeof call->path, network_address_is_v4(&peer) ? "%s:%u" : "[%s]:%u",
		 text, port);
	return guard_refuse(call, ECONNREFUSED, "network");
}

static void write_peer(const struct network_address *peer, uint16_t port, char *ret, size_t size)
{
	char text[46];

	network_address_text(peer, text);
	snprintf(ret, size, network_address_is_v4(peer) ? "%s:%u" : "[%s]:%u", text, port);
}

static void refuse_peer(struct call *call, const char *object, const char *remedy)
{
	const struct sense_refusal refusal = {.action = "connect",
					      .rule = "network",
					      .object = object,
					      .flag = "--allow",
					      .path = remedy};

	sense_refused(call, &refusal);
}

/* Whoever asks for a name means the host of that name. */
#define NAME_REMEDY "HOST:PORT"

void call_see_peer(struct call *call, const struct sockaddr_storage *address, socklen_t size,
		   int result)
{
	struct network_address peer;
	char object[64];
	uint16_t port;

	/* With a network egress tells; and what has a rule already is told of by that. */
	if (call->guard->config->peers || call->rule || !tell_is_on(&call->guard->tell) ||
	    !read_peer(address, size, &peer, &port))
		return;
	write_peer(&peer, port, object, sizeof object);
	if (port == DNS_PORT)
		refuse_peer(call, object, NAME_REMEDY);
	else if ((result == -ENETUNREACH || result == -EHOSTUNREACH) && !is_own(&peer))
		refuse_peer(call, object, object);
}

/* The name in a query, as it may be allowed; false if it is none. */
static bool read_query(struct call *call, char *ret, size_t size)
{
	unsigned char query[512];
	uint64_t length = call->args[2] < sizeof query ? call->args[2] : sizeof query;
	size_t at = 12, used = 0;

	if (length <= at || resolve_read_memory(call->tid, call->args[1], query, length) < 0)
		return false;
	while (at < length && query[at]) {
		size_t label = query[at++];

		if (label > 63 || label > length - at || used + label + 2 > size)
			return false;
		if (used)
			ret[used++] = '.';
		for (size_t i = 0; i < label; i++, at++) {
			if (query[at] <= ' ' || query[at] >= 0x7f)
				return false;
			ret[used++] = (char)query[at];
		}
	}
	ret[used] = '\0';
	return used > 0 && at < length;
}

/* A datagram with an address, without a network: only seen. */
int call_send(struct call *call)
{
	struct sockaddr_storage address = {0};
	const uint64_t size = call->args[5];
	char object[64], name[300];
	struct network_address peer;
	uint16_t port;

	if (size && size <= sizeof address &&
	    resolve_read_memory(call->tid, call->args[4], &address, size) == 0 &&
	    read_peer(&address, (socklen_t)size, &peer, &port) &&
	    (port == DNS_PORT || !is_own(&peer))) {
		write_peer(&peer, port, object, sizeof object);
		if (port != DNS_PORT)
			refuse_peer(call, object, object);
		else if (read_query(call, name, sizeof name))
			refuse_peer(call, name, name);
		else
			refuse_peer(call, object, NAME_REMEDY);
	}
	answer_continue(call);
	return 0;
}

void call_note_peer(struct call *call, int fd)
{
	struct init_peer *peers = call->guard->config->peers;
	struct sockaddr_storage here;
	socklen_t size = sizeof here;
	uint16_t port = 0;

	if (!peers || getsockname(fd, (struct sockaddr *)&here, &size) < 0)
		return;
	if (here.ss_family == AF_INET)
		port = ntohs(((struct sockaddr_in *)&here)->sin_port);
	else if (here.ss_family == AF_INET6)
		port = ntohs(((struct sockaddr_in6 *)&here)->sin6_port);
	if (!port)
		return;
	call_read_program(call, peers[port].program);
	peers[port].pid = call->tid;
}

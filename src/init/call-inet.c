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

	memset(ret, 0, sizeof *ret);
	if (address->ss_family == AF_INET && size >= sizeof *v4) {
		ret->bytes[10] = ret->bytes[11] = 0xff;
		memcpy(ret->bytes + 12, &v4->sin_addr, 4);
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

struct block {
	int family;
	const char *base;
	unsigned bits;
	struct network_address address; /* the same, once it was read */
};

/* The sandbox's own loopback, by all its names: nobody's address means it, too. */
static struct block own[] = {
	{AF_INET, "127.0.0.0", 8},
	{AF_INET, "0.0.0.0", 32},
	{AF_INET6, "::1", 128},
	{AF_INET6, "::", 128},
};

/* They stand for names, which egress knows. */
static struct block synthetic[] = {
	{AF_INET, EGRESS_SYNTHETIC_V4, EGRESS_SYNTHETIC_V4_BITS},
	{AF_INET6, EGRESS_SYNTHETIC_V6, EGRESS_SYNTHETIC_V6_BITS},
};

static void read_block(struct block *block)
{
	uint8_t *bytes = block->address.bytes;

	if (block->family == AF_INET) {
		bytes[10] = bytes[11] = 0xff;
		block->bits += 96;
		bytes += 12;
	}
	inet_pton(block->family, block->base, bytes);
	block->base = NULL;
}

static bool is_within(const struct network_address *address, struct block *blocks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct block *block = &blocks[i];
		size_t whole;

		if (block->base)
			read_block(block);
		whole = block->bits / 8;
		if (memcmp(address->bytes, block->address.bytes, whole) == 0 &&
		    (block->bits % 8 == 0 ||
		     (address->bytes[whole] ^ block->address.bytes[whole]) >>
				     (8 - block->bits % 8) ==
			     0))
			return true;
	}
	return false;
}

static bool is_permitted(const struct init_config *config, const struct network_address *address,
			 uint16_t port)
{
	static struct block proxy[] = {{AF_INET, "127.0.0.1", 32}};
	const struct network_rule *rule;
	enum network_verdict verdict;

	if (config->is_bare)
		return config->proxy_port && port == config->proxy_port &&
		       is_within(address, proxy, ARRAY_SIZE(proxy));
	/* Without a network the kernel has no way anywhere, and queries are egress's whoever they
	 * are meant for. */
	if (!config->peers || port == DNS_PORT || is_within(address, own, ARRAY_SIZE(own)) ||
	    is_within(address, synthetic, ARRAY_SIZE(synthetic)))
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

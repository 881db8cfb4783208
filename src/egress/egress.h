/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Whom it talks to
 *
 * A sandbox's network namespace has a loopback and nothing else; there every address is local, and
 * a rule of nftables (tproxy) hands each TCP connection to one listening socket, whatever address
 * and port it was meant for: getsockname() of an accepted connection tells. The sockets were made
 * in that namespace and handed out, so no packet ever leaves it; a connection to the outside
 * exists only if the process `atoll-egress` makes it. DNS queries to any address arrive at a UDP
 * socket, and are answered with addresses that stand for the name (EGRESS_SYNTHETIC_...).
 *
 *	atoll (supervisor)                      atoll-egress
 *	keeps the sockets; at the first
 *	sign of use starts it, with fd 3    →   EGRESS_CONFIG, then it locks itself in
 *	                                    ←   EGRESS_READY, or EGRESS_FAILED and its end
 *	sends the sockets over              →   EGRESS_SOCKETS; from here on it serves
 *	                                    ←   EGRESS_CONNECTION for every attempt at its end
 *	                                    ←   EGRESS_QUESTION;  EGRESS_ANSWER →
 *	                                    ←   EGRESS_WANT;      EGRESS_INSIDE →
 *
 * Fd 3 is a SOCK_SEQPACKET pair, one struct egress_message per packet; its end is the end of
 * egress, which exits with 0 if it has told of every connection before. Egress trusts nothing that
 * comes from the sandbox's sockets, and the supervisor no more than the form of what egress says.
 *
 * Files: see egress-inner.h.
 */

/* The listening socket's port in the sandbox, at which 127.0.0.1 is a proxy (HTTP and SOCKS 5 by
 * the first byte). Below 1024: the command cannot take it first. */
#define EGRESS_PORT 1023

/* The sandbox's host name, which leads to its loopback. */
#define EGRESS_OWN_NAME "atoll"

/* Addresses that stand for names. From blocks that no rule can allow and nobody can reach. */
#define EGRESS_SYNTHETIC_V4	 "198.18.0.0" /* /15 */
#define EGRESS_SYNTHETIC_V4_BITS 15
#define EGRESS_SYNTHETIC_V6	 "64:ff9b:1:a701::" /* /96: the last 32 bits as in IPv4 */
#define EGRESS_SYNTHETIC_V6_BITS 96

enum egress_message_type {
	/* to egress */
	EGRESS_CONFIG,	/* with one descriptor, a memfd: JSON, see egress_config below */
	EGRESS_SOCKETS, /* with descriptors: the listener, and where there is a namespace the UDP
			 * socket of port 53 */
	EGRESS_ANSWER,	/* `question`, `answer` */
	EGRESS_INSIDE,	/* with `count` TCP sockets of the sandbox's namespace, not yet connected,
			 * for connections to published ports */
	/* from egress */
	EGRESS_READY,  /* with one descriptor where TLS is opened: the authority's certificate, PEM;
			* and a second one where `keystore` was said: a key store for Java; the
			* last one for `heir`.
			* `ports`: host ports of `listen`, in its order */
	EGRESS_FAILED, /* `error`, and its end */
	EGRESS_CONNECTION, /* `connection` */
	EGRESS_QUESTION,   /* `question`: may it? Asked once for a name and port */
	EGRESS_WANT,	   /* `count` more sockets, please */
	EGRESS_LIMIT,	   /* a limit of the whole run is used up: `limit`; all is cut */
};

#define EGRESS_LISTEN_MAX 16

struct egress_question {
	uint64_t id;
	uint16_t port;
	uint16_t local_port; /* of the client's socket inside; tells who it was */
	char name[256];	     /* name or address */
};

struct egress_message {
	uint32_t type;
	uint32_t count;
	union {
		struct atoll_error error;
		struct atoll_connection connection;
		struct egress_question question; /* and EGRESS_ANSWER: id */
		uint16_t ports[EGRESS_LISTEN_MAX];
		char limit[16];
	};
	bool is_allowed; /* EGRESS_ANSWER; holds for name and port for the rest of the run */
	bool is_once;	 /* ... or only for what waits now: the next one asks again */
};

/*
 * The configuration, JSON:
 *	network		as of network_write()
 *	uid, gid	whom to become first; left out by an ordinary user
 *	secrets		[{"placeholder": ..., "value": ...}], in the order of the contract's
 *	trust		path of the file with authorities that servers are checked with
 *	keystore	true: the same authorities and the run's are wanted for Java, too
 *	heir		true: key and certificate of the authority are handed out as the last
 *			descriptor, for one who comes after this one in the same sandbox
 *	authority	what such a one gets: the same, as text; else it is left out
 *	token		password that clients of the proxy have to give; "" in an own namespace
 *	resolv		path of resolv.conf; hosts: path of hosts
 *	own		["192.0.2.7", ...]: addresses of this host, refused like private ones;
 *			egress adds those that it sees itself
 */

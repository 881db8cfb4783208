/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of egress share
 *
 *   egress-main.c        configuration, then locking in, then the loop
 *   egress-config.c      reading the configuration
 *   egress-confine.c        what egress takes from itself: ids, files, system calls, memory
 *   channel.c     talk with the supervisor
 *   egress-names.c       names and the addresses that stand for them
 *   dns.c         answering queries: UDP, and TCP to port 53
 *   dns-message.c reading and writing DNS messages (pure)
 *   egress-resolve.c     real resolution by c-ares, odd addresses dropped
 *   dial.c        a connection to the outside: resolve, happy eyeballs, an upstream proxy
 *   front.c       accepting connections, and whom they are for
 *   client.c      a connection until it is known what it is: judge, ask, sniff
 *   egress-ask.c         questions to a person
 *   sniff.c       what the first bytes look like (pure)
 *   flow.c        the beginning and the end of a flow
 *   hello.c       TLS ClientHello (pure)
 *   proxy.c       the proxy at 127.0.0.1: SOCKS, HTTP CONNECT and absolute URIs
 *   socks.c, proxy-head.c  what its clients say (pure)
 *   egress-relay.c       bytes both ways; relay-pipe.c: large pieces, by pages
 *   pace.c        rates, totals, counts
 *   publish.c     the other way: published ports
 *   door.c        the first bytes of a visitor of such a port, until they are judged
 *   visit.c       judging them (pure)
 *   core.h        what the files above share among themselves
 *   egress-stream.c      a socket with or without TLS
 *   authority.c   the certificate authority of this run, certificates for names
 *   keystore.c    the same authorities for Java
 *   http.c        reading HTTP/1 heads, strictly (pure)
 *   body.c        where a body ends (pure)
 *   exchange.c    requests and answers over two streams: judge, rewrite, pass on
 *   exchange-socket.c  WebSocket from a host with secrets
 *   decode.c      compressed answers of such a host
 *   swap.c        placeholders and secrets
 *   secret-screen.c      finding values in answers, in every spelling
 *   unit.c        one character in the ways in which it is spelled (pure)
 *
 * One thread, one loop. A `struct flow` is one connection from the sandbox, from accept() to the
 * event that tells of its end; it is passed on from client.c to egress-relay.c or exchange.c, which
 * end it with flow_end(). Whoever has it owns it.
 */

#include "base/loop.h"
#include "egress/egress.h"
#include "spec/network.h"

#include <openssl/types.h>
#include <sys/socket.h>

struct egress; /* the whole process: see below */
struct pace_share;

/* ---- a socket with or without TLS ---- */

/* Non-blocking. `wants` says for which events a call that returned -EAGAIN waits: a TLS stream may
 * have to write in order to read. */
struct stream {
	struct egress *egress;
	struct loop_watch watch; /* the owner sets watch.ready; watch.fd is the socket */
	SSL *ssl;		 /* NULL: plain */
	uint32_t read_wants, write_wants;
	bool is_read_closed, is_write_closed;
};

#define STREAM_INIT                                                                                \
	{                                                                                          \
		.watch = {.fd = -1 }                                                               \
	}

/* Bytes, 0 at the end, -EAGAIN, or a negative errno (-EPROTO: TLS went wrong). */
ssize_t stream_read(struct stream *stream, void *data, size_t size);
ssize_t stream_write(struct stream *stream, const void *data, size_t size);
/* No more will be written: FIN, or TLS's close_notify and FIN. */
void stream_shut(struct stream *stream);
/* Is there something that was read from the socket and not yet from the stream? */
bool stream_has_pending(const struct stream *stream);
/* Unwatch, close. With `resets` the other side gets a RST, else what was written arrives. */
void stream_done(struct stream *stream, bool resets);

/* ---- one connection from the sandbox ---- */

enum flow_kind {
	FLOW_DIRECT, /* to its own address, by way of tproxy */
	FLOW_SOCKS,
	FLOW_CONNECT,
	FLOW_FORWARD, /* HTTP with an absolute URI: judged request by request */
};

struct flow {
	struct egress *egress;
	struct flow *previous, *next; /* all of egress->flows */
	enum flow_kind kind;
	struct stream client;
	struct loop_watch
		outside; /* connected, or on the way to be; fd -1: none. Of egress-relay.c, and
			  * of client.c before it; exchange.c has a stream instead */
	char name[NETWORK_NAME_MAX];	/* looked up; "" for an address as such */
	bool holds_name;		/* it was found by its address: names_hold() */
	struct network_address address; /* literal target where `name` is "" */
	uint16_t port;
	const struct network_rule *rule; /* NULL: by NETWORK_OPEN, or a person's answer */
	struct pace_share *share;	 /* what the rule's limits count; see pace.c */
	int64_t start_ns;		 /* monotonic */
	struct atoll_connection event;	 /* filled in as things become known */

	/* What was read from the client while finding out what it is; comes before what the stream
	 * still gives. Owned by the flow. */
	uint8_t *early;
	size_t n_early;
	bool has_line; /* its first line is not complete, and is passed on: egress-relay.c watches
			  it */
	bool is_visit; /* of a published port: `outside` was made by another process */
	struct door *door; /* of a visitor of a published port, until it is open; see visit.h */

	struct flow *next_ending; /* see flow_end_soon() */
	bool is_ending;

	void *owner; /* of egress-relay.c, exchange.c: their own part, freed by them */
	/* How egress ends it from outside (a limit, the end of the run): the owner lets go of its
	 * own part, what is connected outside, timers, dials; not of the flow or its client, for
	 * flow_end() follows. Set by whoever takes the flow on. */
	void (*abandon)(struct flow *flow);
};

/* The last that happens to a flow: its event is sent, its client closed, its memory freed. `reason`
 * goes to the event. If there is one and nothing better was said (by writing and stream_shut()) the
 * client gets a RST; after a stream_shut() what the client still sends is read and dropped for a
 * while, so that the answer arrives. Does not call `abandon`. */
void flow_end(struct flow *flow, enum atoll_verdict verdict, const char *reason);
/* The same for one that came to a good end, as soon as there is nothing better to do: its client
 * has nothing more to say and its server neither, and whoever connects next need not wait for it.
 * It counts no more; its owner has let go of it. */
void flow_end_soon(struct flow *flow);
/* Those of flow_end_soon(), now. */
void flow_end_all(struct egress *egress);

/* Count bytes; false once a total is used up, and the flow has to be ended with `*ret_reason`. */
bool flow_count(struct flow *flow, uint64_t sent, uint64_t received, const char **ret_reason);
/* How many bytes may be moved now, by all rates that bind the flow; 0: none before
 * `*ret_again_ns`. */
size_t flow_may_move(struct flow *flow, int64_t *ret_again_ns);
/* May one more request begin now? False: not before `*ret_again_ns`. */
bool flow_may_ask(struct flow *flow, int64_t *ret_again_ns);

/* ---- outside ---- */

struct dial; /* an attempt under way */

/* Connect to what the flow is for: to flow->name and port, or its address. `done` is called once,
 * later, never from within: with a connected non-blocking socket (the callee's), its address; or
 * with a negative errno and a reason for people: -EACCES means that the contract refuses where it
 * leads (ATOLL_CONN_REFUSED), all else that it could not be reached. Cancelling calls nothing. The
 * address is in flow->event.address from then on. NULL: out of memory, and nothing is called. */
typedef void dial_fn(struct flow *flow, int fd_or_error, const char *reason);
struct dial *dial_start(struct flow *flow, dial_fn *done);
void dial_cancel(struct dial *dial); /* takes NULL */

/* ---- who takes a flow on ---- */

/* Bytes both ways, unseen. `outside` is connected. */
void relay_take(struct flow *flow, int outside_fd);

/*
 * HTTP/1 from the client, requests judged one by one. Without TLS (`is_tls` false) to flow->port
 * without TLS outside; with it, the handshake with the client is done first, and the server's
 * certificate is checked before anything is passed on. Dials by itself, and again where the
 * server has closed between requests. FLOW_FORWARD: the first request's head is in `early`, its
 * target an absolute URI whose name and port the flow already has; a later one to somebody else
 * is answered 421 and closed.
 */
void exchange_take(struct flow *flow, bool is_tls);

/* ---- pure parsers ---- */

enum hello_result {
	HELLO_MORE, /* not all there yet; at most 16 KiB are looked at */
	HELLO_NOT_TLS,
	HELLO_BAD, /* begins like TLS and is none */
	HELLO_OK,
};
struct hello {
	char name[NETWORK_NAME_MAX]; /* SNI in its one spelling; "" if there is none */
	bool has_bad_name;	     /* there is one, and it is no host name */
	bool has_ech;		     /* encrypted_client_hello, also if it is GREASE */
};
enum hello_result hello_read(const uint8_t *data, size_t size, struct hello *ret);

/* ---- the process ---- */

struct egress {
	struct loop loop;
	struct network network;
	struct flow *flows;
	struct flow *ending; /* of them, by flow_end_soon() */
	size_t n_flows, n_ending;
	size_t n_visits; /* of the flows, those of published ports: at most half of flows_max */
	struct names *names;
	struct resolver *resolver;
	struct authority *authority; /* NULL where nothing is inspected */
	struct swap *swap;	     /* NULL without secrets */
	struct pace *pace;
	struct channel *channel;
	SSL_CTX *outside; /* for checking servers; NULL where nothing is inspected */
	struct dns *dns;
	struct front *front; /* of front.c: the listener */
	struct asker *asker;
	struct publish *publish; /* NULL where nothing is published */
	size_t flows_max;
	char token[64];
	int announced_fd; /* to ask which ports are atoll's own: base/announce.h */
	bool is_spent;	  /* a limit of the whole run is used up: nothing more */
};

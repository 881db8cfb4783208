/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The structs of the server, for its own files
 *
 * A function that changes something about a connection touches it (connection_touch()). At the end
 * of the event loop's round the server settles all touched connections (connection_settle()): it
 * writes what waits, ends an exchange whose answer was sent, parses bytes that were read too early,
 * and begins the next request. Only there exchanges and connections are freed, so no handler is on
 * the stack then.
 *
 * All connections read into one buffer, server->scratch. A connection has memory of its own only
 * for bytes that could not be used at once (connection->unread). So an idle connection costs a
 * struct connection and nothing else.
 */

#include "base/buf.h"
#include "http/http.h"
#include "httpd/secure.h"
#include "httpd/server.h"

#include <netinet/in.h>

struct inflater;

#define SERVER_CONNECTIONS_MAX 20000
#define SERVER_REFUSED_MAX     256
#define SERVER_HEAD_TIMEOUT_S  30
#define SERVER_IDLE_TIMEOUT_S  75
#define SERVER_STALL_TIMEOUT_S                                                                     \
	120 /* of a body that is wanted, of bytes that the client does not read */
/* For a body that is read as a whole, and one second more for each KiB of it. */
#define SERVER_WHOLE_TIMEOUT_S	60
#define SERVER_LINGER_TIMEOUT_S 2
#define SERVER_DROPPED_MAX	(1 << 20) /* of a body that nobody wants */
#define SERVER_DRAINED		(32 * 1024)
#define SERVER_WAITING_MAX	(64 << 20)
#define SERVER_SCRATCH_SIZE	(256 * 1024) /* more than the longest head */
#define SERVER_BULK		(128 * 1024) /* SO_RCVLOWAT for a body that may come late */
#define SERVER_BULK_WINDOW	(1 << 20)    /* the receive window for such a body */
#define SERVER_LISTENERS_MAX	16

struct listener {
	struct loop_watch watch;
	struct server *server;
	SSL_CTX *tls; /* NULL: none */
	char *path;   /* of a unix socket that the server has made; NULL: none */
	bool is_unix;
	int announced_fd; /* shows egress that the port belongs to a daemon; see base/announce.h */
};

struct server {
	struct server_options options;
	struct loop *loop;
	struct listener *listeners[SERVER_LISTENERS_MAX];
	size_t n_listeners;
	struct connection *connections, *oldest; /* the most recently used one first */
	size_t n_connections, n_exchanges;
	struct tunnel *tunnels;
	size_t n_relays; /* detached connections of port-proxy.c */
	int spare_fd;	 /* closed to accept and refuse one connection at EMFILE */
	bool is_paused;	 /* does not accept */
	bool is_inside;	 /* between server_enter() and server_leave() */
	bool is_stopping;
	int64_t now_ns; /* of this round */
	struct connection *touched, **touched_end;
	struct loop_timer settle_timer, accept_timer, stop_timer;
	struct loop_lane strangers; /* the lane of connections that belong to no tenant */
	void (*stopped)(void *data);
	void *stopped_data;
	unsigned announced_idle_s; /* less than the time-out: a client stops sending before the
				      server closes */
	time_t date_s;
	char date[32];
	struct http_head head;	      /* the one being read */
	char *scratch, *inflated;     /* bytes of the socket; bytes that came out of gzip */
	struct connection *behind_of; /* the connection whose handler runs; NULL: none */
	struct http_slice behind;     /* the bytes behind its head, in `scratch` */
};

enum reading {
	READING_UNASKED, /* the handler has not asked for the body */
	READING_WHOLE,
	READING_PIECES,
	READING_OVER, /* the handler has got all, or the exchange has failed */
};

enum stage {
	STAGE_OPEN,  /* no answer was begun */
	STAGE_BEGUN, /* the head was written */
	STAGE_ENDED, /* the answer is complete; bytes may still wait to be sent */
	STAGE_GONE,  /* the exchange has ended */
};

struct exchange {
	struct server *server;
	struct connection *connection; /* NULL in STAGE_GONE */
	const struct http_head *head;  /* allocated with n_fields fields only: do not copy it */
	char *text;		       /* of the head */
	char *query, *path;	       /* decoded: see query.h; NULL until asked for */
	size_t query_size, path_size;
	char peer[64];
	void *own;
	void (*over)(struct exchange *exchange, bool is_broken, void *own);
	void *over_own;

	enum reading reading;
	bool is_paused, expects_continue;
	bool is_bulk; /* large pieces, which may come late */
	void (*on_content)(struct exchange *exchange, const char *data, size_t size, void *own);
	void *on_content_own;
	struct buf whole;
	size_t *held, held_max; /* see struct exchange_party */
	size_t counted;		/* bytes of *held that are of this exchange */
	size_t n_unread;	/* bytes of the last piece that the handler has not used */
	struct inflater *inflater;
	struct buf again; /* unpacked, and not used by the handler */
	int64_t read_since_ns;

	enum stage stage;
	bool is_head, is_chunked, has_no_body, is_to_end;
	bool is_failed;	   /* answered by the server, not by the handler */
	uint64_t left;	   /* of the announced length */
	struct buf fields; /* of the answer, added by the handler */
	int file_fd;
	uint64_t file_at, file_left;
	void (*drained)(struct exchange *exchange, void *own);
	void *drained_own;
};

/*
 * The life of a connection. A connection only moves forward in this list (connection_move());
 * connection_settle() frees it in the last two phases.
 */
enum connection_phase {
	CONNECTION_HANDSHAKE, /* of TLS */
	CONNECTION_NEW,	      /* no byte came yet */
	CONNECTION_OPEN,      /* requests are read and answered */
	CONNECTION_CLOSING,   /* ends after the present answer: "Connection: close" */
	CONNECTION_LINGERING, /* the answer was sent and our side is shut; the client may still send
			       */
	CONNECTION_BROKEN,    /* the client, the network or a time-out has ended it */
	CONNECTION_CUT,	      /* the handler has cut it, or has detached the socket */
};

/* What the client may still send. Only moves forward. */
enum connection_input {
	INPUT_OPEN,
	INPUT_HALF_CLOSED, /* EPOLLRDHUP: the client sends no more; bytes may wait in the socket */
	INPUT_ENDED,	   /* recv() has returned 0 */
};

struct connection {
	enum connection_phase phase;
	enum connection_input input;
	struct loop_watch watch;
	struct loop_timer timer; /* fires at `deadline_ns` or before, and compares */
	int64_t deadline_ns;
	int64_t since_ns;      /* when the last byte came or left */
	int64_t head_since_ns; /* when the head began, or the connection */
	struct server *server;
	struct connection *next, **link;
	struct connection *next_touched;
	bool is_touched; /* is in server->touched */
	SSL *ssl;
	struct sockaddr_in6 peer; /* or a sockaddr_in */
	bool is_unix;
	struct exchange *exchange;

	/* Reading */
	struct body body; /* of the request; may outlive its exchange */
	size_t content;	  /* the first bytes of `unread` that are known to be content */
	uint64_t dropped; /* bytes of a body that nobody wants */
	char *unread;	  /* read from the socket and not used yet */
	size_t n_unread;
	int low_water;	       /* SO_RCVLOWAT; 0: the default */
	bool ignores_input;    /* EPOLLIN came and nothing could be used: it is not watched for */
	bool may_have_head;    /* `unread` has a new line end: a head may be complete */
	bool has_buffered;     /* TLS may have bytes that it has read from the socket already */
	bool read_wants_write; /* TLS has to write before it can read */

	/* Writing */
	struct buf out;
	size_t out_at;
	bool writes_wait; /* send() returned EAGAIN */
	bool is_stream;	  /* TCP_NOTSENT_LOWAT is set */
	bool resets; /* close by RST, so that the client does not take the end for the body's end */

	/* The party, see exchange_set_party() */
	struct loop_turn piece; /* sends more of a file, reads more of a body, or serves a request
				 * that was sent ahead */
	bool piece_is_due;	/* the lane has reached it: it may be done now */
	struct loop_lane *lane;
	size_t *waiting, counted; /* `counted` bytes of *waiting are of this connection */
};

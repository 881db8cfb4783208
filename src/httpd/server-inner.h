/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the server's files share
 *
 * Whatever changes something about a connection touches it (connection_touch()), and at the end of
 * the loop's round all that were touched are settled: what waits is written, an exchange whose
 * answer has left is over, what was read too early is looked at, the next request begins. That is
 * the one place where an exchange or a connection is freed, and nobody's code is on the stack then.
 *
 * What is read goes to one buffer of the server's; a connection has memory of its own only for what
 * could not be used at once. So one that is idle costs a struct connection and nothing else.
 */

#include "base/buf.h"
#include "httpd/secure.h"
#include "httpd/server.h"

#include <netinet/in.h>

struct inflater;

#define SERVER_CONNECTIONS_MAX 20000
#define SERVER_REFUSED_MAX     256
#define SERVER_HEAD_TIMEOUT_S  30
#define SERVER_IDLE_TIMEOUT_S  75
#define SERVER_STALL_TIMEOUT_S 120 /* of a body that is wanted, of bytes that are not taken */
#define SERVER_WHOLE_TIMEOUT_S                                                                     \
	60 /* of a body that is read as a whole, and a second more                                 \
	    * for each KiB of it */
#define SERVER_LINGER_TIMEOUT_S 2
#define SERVER_DROPPED_MAX	(1 << 20) /* of a body that nobody wants */
#define SERVER_DRAINED		(32 * 1024)
#define SERVER_WAITING_MAX	(64 << 20)
#define SERVER_SCRATCH_SIZE	(256 * 1024) /* holds a whole head, and then some */
#define SERVER_BULK		(128 * 1024) /* of a body that may come late: read from here on */
#define SERVER_BULK_WINDOW	(1 << 20)    /* so much of it may come while we write */
#define SERVER_LISTENERS_MAX	16

struct listener {
	struct loop_watch watch;
	struct server *server;
	SSL_CTX *tls; /* NULL: none */
	char *path;   /* of a unix socket that we made; NULL */
	bool is_unix;
	int announced_fd; /* tells egress that the port is ours; see base/announce.h */
};

struct server {
	struct server_options options;
	struct loop *loop;
	struct listener *listeners[SERVER_LISTENERS_MAX];
	size_t n_listeners;
	struct connection *connections, *oldest; /* the one used last first */
	size_t n_connections, n_exchanges;
	struct tunnel *tunnels;
	int spare_fd;	/* given up to accept one connection when there are no more descriptors */
	bool is_paused; /* does not accept */
	bool is_inside; /* settles before it returns to the loop */
	bool is_stopping;
	int64_t now_ns; /* of this round */
	struct connection *touched, **touched_end;
	struct loop_timer settle_timer, accept_timer, stop_timer;
	struct loop_lane strangers; /* turns of connections that belong to no tenant */
	void (*stopped)(void *data);
	void *stopped_data;
	unsigned
		announced_idle_s; /* a little less than it is, so that no request crosses our end */
	time_t date_s;
	char date[32];
	struct http_head head;	      /* the one being read */
	char *scratch, *inflated;     /* what was read; what was packed in it */
	struct connection *behind_of; /* whose handler runs; NULL: none */
	struct http_slice behind;     /* its head, in what was read */
};

enum reading {
	READING_UNASKED,
	READING_WHOLE,
	READING_PIECES,
	READING_OVER, /* the end was told, or nobody wants it any more */
};

enum stage {
	STAGE_OPEN,  /* nothing was answered */
	STAGE_BEGUN, /* the head was */
	STAGE_ENDED, /* everything; it may still wait to be sent */
	STAGE_GONE,  /* the client left, or it was cut, or taken */
};

struct exchange {
	struct server *server;
	struct connection *connection; /* NULL in STAGE_GONE */
	const struct http_head *head;  /* only as many fields as there are: not to be copied */
	char *text;		       /* what the head points into */
	char *query, *path;	       /* decoded: see query.h; NULL until asked for */
	size_t query_size, path_size;
	char peer[64];
	void *own;
	void (*over)(struct exchange *exchange, bool is_broken, void *own);
	void *over_own;

	enum reading reading;
	bool is_paused, expects_continue;
	bool is_bulk; /* pieces may come late, if they are large */
	void (*on_content)(struct exchange *exchange, const char *data, size_t size, void *own);
	void *on_content_own; /* of pieces, or of the whole */
	struct buf whole;
	size_t *held, held_max,
		counted; /* see struct exchange_party; so much of it is this one's */
	size_t given_back;
	struct inflater *inflater;
	struct buf again; /* unpacked, and given back */
	int64_t read_since_ns;

	enum stage stage;
	bool is_head, is_chunked, has_no_body, is_to_end;
	bool is_failed;	   /* answered by the server, not by whoever serves it */
	uint64_t left;	   /* of the length that was said */
	struct buf fields; /* that were added */
	int file_fd;
	uint64_t file_at, file_left;
	void (*drained)(struct exchange *exchange, void *own);
	void *drained_own;
};

struct connection {
	struct loop_watch watch;
	struct loop_timer timer; /* fires at `deadline_ns` or before, and looks */
	int64_t deadline_ns;
	int64_t since_ns;      /* when the last byte came or left */
	int64_t head_since_ns; /* when the head began, or the connection */
	struct server *server;
	struct connection *next, **link;
	struct connection *next_touched;
	SSL *ssl;
	struct exchange *exchange;
	struct body body; /* of the request; may outlive its exchange */
	size_t content;	  /* so much of what was read and not used yet is known to be content */
	uint64_t dropped;
	char *unread; /* read and not used */
	size_t n_unread;
	int low_water; /* the socket is told to be readable from so many bytes on; 0: as usual */
	struct buf out;
	size_t out_at;
	struct loop_turn turn; /* more of a file is sent in it, or a request sent ahead is served */
	struct loop_lane *lane;
	size_t *waiting, counted; /* see exchange_set_party(); so much of it is this one's */
	struct sockaddr_in6 peer; /* or a sockaddr_in */
	bool is_touched, is_handshaking, is_unix;
	bool is_fresh;	      /* nothing came yet */
	bool is_half_closed;  /* they will say nothing more */
	bool is_at_end;	      /* and all they said was read */
	bool is_deaf;	      /* EPOLLIN was told in vain and is not watched for */
	bool is_new_line;     /* what came may begin a head, or complete it */
	bool has_more;	      /* what TLS has read already, or what a round left over */
	bool closes;	      /* after this answer */
	bool lingers;	      /* the answer has left, and they may still be writing */
	bool is_broken;	      /* to be closed at once */
	bool is_cut;	      /* not by them */
	bool resets;	      /* so that they cannot take it for the end */
	bool writes_wait;     /* the kernel takes no more */
	bool tls_wants_write; /* to be able to read */
	bool has_turn;	      /* that may be done now */
	bool is_stream;	      /* the socket was told */
};

/* ---- server.c ---- */

/* Around everything that the loop calls: what was touched is settled at the end. */
void server_enter(struct server *server);
void server_leave(struct server *server);
/* Whether more may be accepted is looked at anew. */
void server_update_accepting(struct server *server);
void server_exchange_ended(struct server *server);
const char *server_date(struct server *server);

/* ---- listen.c ---- */

void listener_free(struct listener *listener);
void server_accept(struct server *server, bool accepts);

/* ---- connection.c ---- */

/* Takes the descriptor, also on failure. 0 or -ENOMEM. */
int connection_new(struct server *server, struct listener *listener, int fd,
		   const struct sockaddr_in6 *peer);
/* Ends the connection that has done nothing for longest, to make room for another one. False: all
 * of them are at work. */
bool connection_evict(struct server *server);
void connection_touch(struct connection *connection);
void connection_settle(struct connection *connection);
void connection_break(struct connection *connection);
void connection_free(struct connection *connection);

/* ---- request.c ---- */

/* Looks at what was read, a head or a piece of a body. Returns how much of it was used. */
size_t request_feed(struct connection *connection, const char *data, size_t size);
/* Can something be done with what comes next? */
bool request_wants(const struct connection *connection);

/* ---- intake.c ---- */

/* Uses what it can of a body. Returns how much that was; 0: nothing for now. */
size_t intake_feed(struct connection *connection, const char *data, size_t size);
bool intake_wants(const struct connection *connection);
/* Frees the body that was read. */
void intake_drop(struct exchange *exchange);
/* Tells the socket from how many bytes on we want to hear of them. */
void intake_tune(struct connection *connection);

/* ---- server-exchange.c ---- */

/* Of server->head, whose text is copied. NULL: out of memory. */
struct exchange *exchange_new(struct connection *connection, const char *text);
/* Calls `over`, and frees it. */
void exchange_close(struct exchange *exchange, bool is_broken);

/* ---- answer.c ---- */

/* Writes what waits. 0, -EAGAIN if the unread has to wait, or what went wrong. */
int answer_flush(struct connection *connection);
bool answer_waits(const struct connection *connection);
/* The number of bytes that wait for the client has changed. */
void answer_count(struct connection *connection);
/* An answer by the server itself, {"code":..,"message":..}; the connection ends after it. */
void answer_refusal(struct connection *connection, unsigned status, const char *message);
void answer_interim(struct exchange *exchange);
/* The exchange fails by what the client did: an answer if none was begun, or the end. */
void exchange_fail(struct exchange *exchange, unsigned status, const char *message);

/* ---- tunnel.c ---- */

/* Carries between TLS and a socket, whose other end is returned; takes the connection's descriptor
 * and session. -1 on failure. */
int tunnel_new(struct connection *connection);
void tunnel_free_all(struct server *server);

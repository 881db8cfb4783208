/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "egress/decode.h"
#include "egress/egress-inner.h"
#include "egress/swap.h"
#include "egress/tls.h"
#include "http/http.h"

/*
 * What the files of an exchange share
 *
 *   exchange.c        its phases, one after the other, and its end
 *   exchange-pass.c   a request on its way out and its answer on its way in
 *   exchange-head.c   heads: judged, and written anew
 *   exchange-socket.c WebSocket from a host with secrets
 *   lane.c            bytes between streams and lanes
 *
 * Nothing here ends an exchange on the spot: exchange_finish() says that it is over, and the one
 * place that runs the phases does the rest.
 */

/* Bytes on their way: added at the end, taken from the front. */
struct lane {
	struct buf buf;
	size_t start;
};

#define LANE_MAX   (128 * 1024) /* from here on nothing is read that would go there */
#define LANE_LIMIT (4 * LANE_MAX)
#define LANE_SMALL (16 * 1024) /* the same where many lanes are full */
#define LANES_MANY (8 * 1024 * 1024)

#define ANSWER_S 300 /* seconds from the last byte of a request to the head of its answer */

static inline size_t lane_size(const struct lane *lane)
{
	return lane->buf.used - lane->start;
}

static inline char *lane_data(const struct lane *lane)
{
	static char nothing[1];

	return lane->buf.data ? lane->buf.data + lane->start : nothing;
}

void lane_take(struct lane *lane, size_t size);
/* Make place before something is added. */
void lane_tidy(struct lane *lane);
void lane_clear(struct lane *lane, bool wipes);
/* LANE_MAX, or LANE_SMALL while all exchanges together hold LANES_MANY bytes and more. */
size_t lane_max(void);
/* An exchange holds that much now, and held that much before. */
void lane_count(size_t now, size_t before);

struct side {
	struct stream *stream;
	struct lane in;		  /* read from it, and not yet understood */
	struct lane out;	  /* to be written to it */
	bool may_read, may_write; /* nobody said -EAGAIN since the last event */
	bool is_ended;		  /* the other end says no more */
	bool is_write_error;	  /* `error` came from writing */
	int error;		  /* negative errno of what failed; the stream is of no more use */
	bool is_hung;		  /* closed in both ways: no longer watched, or it would not rest */
	bool has_line;		  /* a line's end arrived since the head was last looked at */
};

enum phase {
	PHASE_GREET,  /* TLS with the client */
	PHASE_HEAD,   /* the head of the next request comes in */
	PHASE_TURN,   /* it was judged and waits for its turn */
	PHASE_DIAL,   /* a connection to the server is made */
	PHASE_VERIFY, /* TLS with the server */
	PHASE_PASS,   /* the request goes out, the answer comes in */
	PHASE_OPAQUE, /* WebSocket: bytes both ways */
	PHASE_LAST,   /* one last answer of our own, or the rest of the server's, and the end */
};

/* Reader of the frames that a WebSocket's server sends. */
struct socket_state {
	bool is_in_message, is_in_frame;
	struct ws_frame frame; /* the one at hand */
	uint64_t left;	       /* of it */
	uint8_t opcode;	       /* of the next part that the client gets */
};

struct exchange {
	struct flow *flow;
	struct stream server;
	struct side inner, outer; /* the client, the server */
	enum phase phase;
	bool is_tls;
	char host[NETWORK_NAME_MAX]; /* name, or address as text */
	bool has_secrets;	     /* of this host */
	struct tls_peer peer;
	struct dial *dial;
	struct loop_timer timer;
	int64_t deadline_ns; /* 0: none */
	int64_t again_ns;    /* no bytes before that; 0: now */
	size_t n_kept;	     /* by its lanes: lane_count() */

	/* the request at hand, and its answer */
	struct body request, answer;
	uint64_t n_sent;      /* bytes of it that the server may have */
	unsigned n_interim;   /* answers of 1xx so far */
	bool is_head_request; /* HEAD: the answer has no body */
	bool is_old;	      /* HTTP/1.0 */
	bool wants_websocket;
	bool is_reused;	    /* the connection had a request before */
	bool is_refusing;   /* the server takes no more of the request */
	bool has_answer;    /* the answer's head is passed on */
	bool closes_client; /* after this answer */
	bool closes_server;
	struct swap_filter filter;
	struct decoder *decoder;	  /* NULL: the answer is not compressed */
	struct buf packed;		  /* of a compressed answer: not yet decompressed */
	size_t packed_start;		  /* up to here it was */
	bool is_unpacking;		  /* the decoder has more to give */
	bool is_unpacked;		  /* the client gets it without Content-Encoding */
	enum http_framing client_framing; /* of the answer, as the client gets it */
	bool is_answered;		  /* all of the answer is passed on */
	struct socket_state socket;
	unsigned n_requests;

	bool is_finished;
	enum atoll_verdict verdict;
	char reason[128]; /* "" for none */
};

/* ---- exchange.c ---- */

/* It is over. `reason` NULL: nothing to be said. The first one counts. */
void exchange_finish(struct exchange *ex, enum atoll_verdict verdict, const char *reason);
void exchange_set_deadline(struct exchange *ex, unsigned seconds); /* 0: none */
/* The answer is written: wait for the next request. */
void exchange_next(struct exchange *ex);
/* Make a connection to the server, instead of one that there may be; what is to be sent stays. */
void exchange_connect(struct exchange *ex);
/* Let go of the server's connection, and of what was to be sent. */
void exchange_drop_server(struct exchange *ex, bool resets);

/* ---- lane.c ---- */

/* Read from a side into its lane, write to it from the other one; at most `most` bytes. How many
 * it were; whether the side has ended or failed is said there. */
size_t side_fill(struct side *side, size_t most);
size_t side_flush(struct side *side, size_t most);
/* From one to the other without a lane, where both lanes are empty; what is not taken waits in the
 * other's. How many bytes were read, and how many of them written. */
size_t side_pass(struct side *from, struct side *to, size_t most, size_t *ret_written);

/* ---- exchange-pass.c ---- */

/* Steps of two phases: do what can be done. Whether anything was. */
bool exchange_step_pass(struct exchange *ex);
bool exchange_step_opaque(struct exchange *ex);
/* The filtered piece, in memory that is valid until the next call. */
int exchange_filter(struct exchange *ex, struct http_slice *content, bool is_end);
/* Nothing of the last answer's body is needed any more. */
void exchange_drop_answer(struct exchange *ex);

/* ---- exchange-socket.c ---- */

/* Frames from the server to the client, filtered. Whether anything moved. */
bool exchange_pass_frames(struct exchange *ex);

/* ---- exchange-head.c ---- */

/* A head from the client is whole or bad: judge it, and write what goes to the server. False if
 * it was answered instead. */
bool exchange_take_request(struct exchange *ex, const struct http_head *head);
/* Write the head that the client gets. -EPROTO with a reason if it is not fit to be passed on. */
int exchange_take_answer(struct exchange *ex, const struct http_head *head, const char **ret_why);
/* Answer by ourselves, then end with this verdict. */
void exchange_refuse(struct exchange *ex, unsigned status, enum atoll_verdict verdict,
		     const char *format, ...) __attribute__((format(printf, 4, 5)));

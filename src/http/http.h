/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/*
 * A strict parser of HTTP/1, for egress and the daemon
 *
 *   http.c         heads of requests and answers; http-line.c, fields.c: their lines and fields
 *   body.c         where a body ends
 *   websocket.c    heads of WebSocket frames
 *   host-name.c    names in Host that a foreign web page cannot have
 *   http-secure.c  TLS over a socket
 *
 * If a proxy parses a message differently from the server behind it, an attacker can send a second
 * message that the proxy does not check (request smuggling). So a message that servers parse in
 * different ways is refused: each line ends with CR LF, a name is followed by its colon at once,
 * there is one length in one form. A proxy does not pass the bytes on that it has read; it writes
 * the message anew.
 *
 * Pure functions without memory of their own, apart from http_secure(). Slices point into the text
 * that was given.
 */

#define HTTP_HEAD_MAX	  (64 * 1024)
#define HTTP_FIELDS_MAX	  256
#define HTTP_TRAILERS_MAX (16 * 1024)

struct http_slice {
	const char *at;
	size_t size;
};

struct http_field {
	struct http_slice name, value; /* the value without white space at both ends */
};

enum http_form {
	HTTP_ORIGIN,	/* "/path?query" */
	HTTP_ABSOLUTE,	/* "http://host/path" */
	HTTP_AUTHORITY, /* "host:port", only with CONNECT */
	HTTP_ASTERISK,	/* "*", only with OPTIONS */
};

/* How long the body is. */
enum http_framing {
	HTTP_NONE,
	HTTP_LENGTH,
	HTTP_CHUNKED,
	HTTP_TO_END, /* until the end of the connection; only of an answer */
};

/* The host and port that a request is for. `port` 0: none was given. */
struct http_place {
	char name[NETWORK_NAME_MAX]; /* normalized; "" for an address */
	struct network_address address;
	uint16_t port;
};

struct http_head {
	size_t size;	/* of the head with the empty line */
	unsigned minor; /* of HTTP/1.x: 0 or 1 */

	/* of a request */
	struct http_slice method;
	struct http_slice target; /* as written */
	enum http_form form;
	bool is_https;		     /* of HTTP_ABSOLUTE: https:// */
	struct http_place authority; /* of HTTP_ABSOLUTE and HTTP_AUTHORITY */
	struct http_slice path;	     /* in origin form without the query: "/..." or "*" */
	struct http_slice query;     /* with the question mark; may be empty */
	bool has_host;
	struct http_place host;

	/* of an answer */
	unsigned status;
	struct http_slice reason;

	enum http_framing framing;
	bool has_length; /* also of an answer to HEAD, which has no body */
	uint64_t length;
	bool wants_close;     /* "Connection: close", or HTTP/1.0 */
	bool wants_websocket; /* a request for this upgrade only, or an answer that agrees */

	size_t n_fields;
	struct http_field fields[HTTP_FIELDS_MAX];
};

enum http_result {
	HTTP_OK,
	HTTP_MORE, /* incomplete: call again with more bytes */
	HTTP_BAD,  /* `*ret_why` is the mistake, for a message */
};

/* The head of a request at the start of `text`. A mistake is reported before the head is complete.
 */
enum http_result http_read_request(const char *text, size_t size, struct http_head *ret,
				   const char **ret_why);

/* The head of an answer to a request with that method. */
enum http_result http_read_answer(const char *text, size_t size, struct http_slice method,
				  struct http_head *ret, const char **ret_why);

bool http_slice_is(struct http_slice slice, const char *text);
/* Without regard to ASCII case. */
bool http_slice_is_like(struct http_slice slice, const char *text);
bool http_begins_like(struct http_slice slice, const char *text);

/* "host", "host:port", "192.0.2.1:80", "[2001:db8::1]:80". 0 or -EINVAL. */
int http_place(struct http_slice text, struct http_place *ret);
/* Does `place` have this name (or this address, if `name` is "") and this port? Port 0 of `place`
 * counts as `default_port`. */
bool http_place_is(const struct http_place *place, const char *name,
		   const struct network_address *address, uint16_t port, uint16_t default_port);

/* The value of the first field of that name. False: there is none. */
bool http_find(const struct http_head *head, const char *name, struct http_slice *ret);

/* Is the field about this connection only, or about the framing, so that a proxy does not pass it
 * on? Also true for the names in the Connection fields of the head. */
bool http_is_hop(const struct http_head *head, struct http_slice name);
/* Is `name` the same as `text` (in lower case) for a server that makes variables of fields (CGI,
 * WSGI)? HTTP_CONTENT_LENGTH may come from "Content_Length" or "Content.Length". */
bool http_is_same_variable(struct http_slice name, const char *text);
/* Do some servers read another method or path from this field? In every spelling that makes the
 * same variable. */
bool http_is_override(struct http_slice name);
/* May the field be a trailer of a chunked body? Fields for framing, routing and authentication may
 * not, and no override. */
bool http_is_trailer(struct http_slice name);

/* `text` is the trailers of a chunked body, with the empty line at the end. Writes those that
 * http_is_trailer() allows, without the empty line, to `out`. 0 or -EBADMSG. */
int http_copy_trailers(const char *text, size_t size, struct buf *out);

/*
 * Where a body ends
 *
 * body_step() gets bytes, and returns how many of them it has used and which of these are content.
 * Call it again with the other bytes until it wants more or is done. The size of a chunk and the
 * trailers have to be complete: the caller keeps at most HTTP_TRAILERS_MAX bytes.
 */
struct body {
	enum http_framing framing;
	uint8_t state;
	bool is_done;
	uint64_t left; /* of the body, or of the chunk */
};

struct body_piece {
	size_t used;		    /* of the bytes that were given */
	struct http_slice content;  /* may be empty */
	struct http_slice trailers; /* of the last step of a chunked body: for
				     * http_copy_trailers(); may be empty */
};

void body_init(struct body *body, enum http_framing framing, uint64_t length);
/* 1: call again with the other bytes; 0: more bytes are needed, or `is_done`; -EBADMSG: wrong
 * framing. */
int body_step(struct body *body, const char *data, size_t size, struct body_piece *ret);
/* The connection has ended. 0: the body is complete; -EPIPE: it is not. */
int body_end(struct body *body);

/*
 * Frames of WebSocket (RFC 6455), as a server sends them
 */
enum ws_opcode {
	WS_CONTINUED,
	WS_TEXT,
	WS_BINARY,
	WS_CLOSE = 8,
	WS_PING,
	WS_PONG,
};
#define WS_CONTROL_MAX 125

struct ws_frame {
	uint8_t opcode;
	bool is_final; /* the last one of its message */
	size_t head_size;
	uint64_t size; /* of the content behind the head */
};

/* The head of a frame at the start of `data`. Frames with extensions or masks are refused. */
enum http_result ws_read(const char *data, size_t size, struct ws_frame *ret, const char **ret_why);
void ws_write_head(struct buf *out, uint8_t opcode, bool is_final, uint64_t size);

/*
 * TLS over a socket
 *
 * Connects `ssl` with the socket, without SIGPIPE on writes. `data` was read from the socket
 * before: `ssl` reads it first, and the caller keeps it until then. The socket stays the caller's.
 * 0 or -ENOMEM.
 */
typedef struct ssl_st SSL;
int http_secure(SSL *ssl, int fd, const void *data, size_t size);

#include "http/host-name.h"

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/network.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/*
 * HTTP/1 as strictly as it can be read
 *
 * A proxy that reads a message differently from the server behind it can be made to pass a second
 * message that it never judged. So there is one reading here, and what could be read in two ways
 * is refused: lines end in CRLF and nothing else does, a name and its colon have nothing between
 * them, a length is said once and in one way. What is passed on is not what was read, but is
 * written anew from what was understood.
 *
 * Pure functions; they allocate nothing and keep nothing. Slices point into the text given.
 */

#define HTTP_HEAD_MAX	  (64 * 1024)
#define HTTP_FIELDS_MAX	  256
#define HTTP_TRAILERS_MAX (16 * 1024)

struct http_slice {
	const char *at;
	size_t size;
};

struct http_field {
	struct http_slice name, value; /* the value without white space around it */
};

enum http_form {
	HTTP_ORIGIN,	/* "/path?query" */
	HTTP_ABSOLUTE,	/* "http://host/path" */
	HTTP_AUTHORITY, /* "host:port", of CONNECT and of nothing else */
	HTTP_ASTERISK,	/* "*", of OPTIONS and of nothing else */
};

/* How long the body is. */
enum http_framing {
	HTTP_NONE,
	HTTP_LENGTH,
	HTTP_CHUNKED,
	HTTP_TO_END, /* of the connection; only of an answer */
};

/* Whom a request is for. `port` 0: none was said. */
struct http_place {
	char name[NETWORK_NAME_MAX]; /* in its one spelling; "" for an address */
	struct network_address address;
	uint16_t port;
};

struct http_head {
	size_t size;	/* of all of it, with the empty line */
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
	bool has_length; /* also where there is no body: of an answer to HEAD */
	uint64_t length;
	bool wants_close;     /* "Connection: close", or HTTP/1.0 */
	bool wants_websocket; /* asks for, or agrees to, exactly this upgrade */

	size_t n_fields;
	struct http_field fields[HTTP_FIELDS_MAX];
};

enum http_result {
	HTTP_OK,
	HTTP_MORE, /* not all there yet */
	HTTP_BAD,  /* `*ret_why`, for people */
};

/* The head of a request at the start of `text`. HTTP_BAD as soon as it is certain. */
enum http_result http_read_request(const char *text, size_t size, struct http_head *ret,
				   const char **ret_why);

/* The head of an answer to a request with that method. */
enum http_result http_read_answer(const char *text, size_t size, struct http_slice method,
				  struct http_head *ret, const char **ret_why);

bool http_slice_is(struct http_slice slice, const char *text);	    /* case counts */
bool http_slice_is_like(struct http_slice slice, const char *text); /* ASCII case does not */
bool http_begins_like(struct http_slice slice, const char *text);   /* nor here */

/* "host", "host:port", "192.0.2.1:80", "[2001:db8::1]:80". 0 or -EINVAL. */
int http_place(struct http_slice text, struct http_place *ret);
/* Is it the name (or the address, if `name` is "") and port? A port that was not said is
 * `default_port`. */
bool http_place_is(const struct http_place *place, const char *name,
		   const struct network_address *address, uint16_t port, uint16_t default_port);

/* The value of a field in a head (the first), or false. */
bool http_find(const struct http_head *head, const char *name, struct http_slice *ret);

/* Is it about this connection only, or about how the message is framed, so that it is not passed
 * on as it is? Also true for all that the head's Connection fields name. */
bool http_is_hop(const struct http_head *head, struct http_slice name);
/* The same name (`text` in lower case) for a server that hands fields on as variables (CGI, WSGI)?
 * HTTP_CONTENT_LENGTH may be of "Content_Length" or "Content.Length". */
bool http_is_same_variable(struct http_slice name, const char *text);
/* Do some servers take another method or path from this field? In every spelling that they take
 * for the same name. */
bool http_is_override(struct http_slice name);
/* May it stand behind a chunked body? What frames, routes or authenticates may not, nor an
 * override. */
bool http_is_trailer(struct http_slice name);

/* Fields behind a chunked body: `text` is all of them with the empty line at the end. Writes those
 * that are passed on, without the empty line, to `out`. 0 or -EBADMSG. */
int http_copy_trailers(const char *text, size_t size, struct buf *out);

/*
 * Where a body ends
 *
 * body_step() is given what there is and tells what of it was used up, and which part of that is
 * content; call it again with the rest until it wants more or is done. Sizes of chunks and trailers
 * have to be in one piece: at most HTTP_TRAILERS_MAX bytes wait.
 */
struct body {
	enum http_framing framing;
	uint8_t state;
	bool is_done;
	uint64_t left; /* of the body, or of the chunk */
};

struct body_piece {
	size_t used;		    /* of what was given */
	struct http_slice content;  /* may be empty */
	struct http_slice trailers; /* of the last step of a chunked body: for
				     * http_copy_trailers(); may be empty */
};

void body_init(struct body *body, enum http_framing framing, uint64_t length);
/* 1: call again with what is left; 0: more is wanted, or `is_done`; -EBADMSG: no body like that. */
int body_step(struct body *body, const char *data, size_t size, struct body_piece *ret);
/* The connection ended. 0: that was the end of the body; -EPIPE: it came too early. */
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
	uint64_t size; /* of what follows the head */
};

/* The head of a frame at the start of `data`. No extensions, no masks. */
enum http_result ws_read(const char *data, size_t size, struct ws_frame *ret, const char **ret_why);
void ws_write_head(struct buf *out, uint8_t opcode, bool is_final, uint64_t size);

/*
 * TLS over a socket
 *
 * What `ssl` says is sent so that no SIGPIPE comes of it. `data` was read before, and stands before
 * what comes; it is there until that was read. The socket stays the caller's. 0 or -ENOMEM.
 */
typedef struct ssl_st SSL;
int http_secure(SSL *ssl, int fd, const void *data, size_t size);

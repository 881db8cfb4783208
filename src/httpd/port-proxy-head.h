/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The state of a proxied request, and its heads. */

#include "base/buf.h"
#include "httpd/port-proxy.h"
#include "httpd/server-exchange.h"
#include "httpd/socket-relay.h"

enum proxy_stage {
	PROXY_DIALS,
	PROXY_HEAD, /* waits for the head of the answer */
	PROXY_BODY,
	PROXY_RELAYS, /* a WebSocket */
	PROXY_OVER,
};

struct proxy {
	struct exchange *exchange; /* NULL: it has ended */
	struct server *server;
	struct box *box;   /* NULL: it has ended */
	struct load *load; /* of the tenant of the box: its own, or of visitors */
	uint64_t gone;	   /* of box_on_gone() */
	uint16_t port;
	enum proxy_stage stage;
	bool is_dialing; /* guest_connect() has not called back */
	bool is_chunked; /* the request */

	struct loop *loop;
	struct loop_watch watch; /* of the connection inside */
	struct loop_turn piece;	 /* reads a piece from the connection inside */
	unsigned n_interim;	 /* answers such as "100 Continue" */
	struct buf out;		 /* waits to be sent to the connection inside */
	size_t out_at;
	size_t counted;	  /* bytes of `out` in load->waiting */
	struct buf in;	  /* an incomplete head, or framing */
	struct body body; /* of the answer */
	struct relay *relay;
};

/* ---- port-proxy-head.c ---- */

void proxy_write_head(const struct proxy *proxy, struct buf *out);
/* Begins the answer to the client. */
void proxy_pass_head(struct exchange *exchange, const struct http_head *head);

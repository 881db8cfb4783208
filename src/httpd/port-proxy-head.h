/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the proxy's files share. */

#include "base/buf.h"
#include "httpd/port-proxy.h"
#include "httpd/server-exchange.h"
#include "httpd/socket-relay.h"

enum proxy_stage {
	PROXY_DIALS,
	PROXY_HEAD, /* of the answer is waited for */
	PROXY_BODY,
	PROXY_RELAYS, /* a WebSocket */
	PROXY_OVER,
};

struct proxy {
	struct exchange *exchange; /* NULL when it is over */
	struct box *box;	   /* NULL when it is gone */
	struct tenant *tenant;
	uint64_t gone; /* of box_on_gone() */
	uint16_t port;
	enum proxy_stage stage;
	bool is_dialing; /* guest_connect() has not called back */
	bool is_chunked; /* the request */

	struct loop *loop;
	struct loop_watch watch; /* of the connection inside */
	struct loop_turn turn;	 /* a piece of what it says is read in it */
	unsigned n_interim;	 /* answers such as "100 Continue" */
	struct buf out;		 /* that waits to go there */
	size_t out_at;
	struct buf in;	  /* a head that is not all there, or framing */
	struct body body; /* of the answer */
	struct relay *relay;
};

/* ---- port-proxy-head.c ---- */

void proxy_write_head(const struct proxy *proxy, struct buf *out);
/* Begins the client's answer. */
void proxy_pass_head(struct exchange *exchange, const struct http_head *head);

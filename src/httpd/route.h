/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "httpd/server-exchange.h"

#include <jansson.h>

/*
 * Calls: HTTP requests of tenants
 *
 * A protocol (struct api_protocol) is a component above this one: e2b, v1. The daemon's main lists
 * the protocols; this component includes none of them.
 *
 * A request becomes a call. The router decides in this order:
 *   1. A field that decides about access and occurs twice: 400.
 *   2. A protocol claims the request for its data plane (find_data_plane): the protocol serves it,
 *      and checks the access itself.
 *   3. The first route whose pattern and method match. No pattern matches: 404. A pattern matches,
 *      but no method does: 405 with Allow. Unless the route is API_OPEN, the router first needs a
 *      key (X-API-KEY, or Authorization: Bearer) and sets call->tenant.
 * Before 2 and 3 the router checks Host and Origin (host-check.c).
 *
 * The router uses exchange_own() and exchange_on_over() for itself: exchange_own(exchange) is the
 * call. A handler keeps its data in call->own; call->over is called when the exchange ends.
 */

struct api;
struct api_call;
struct parse;
typedef void api_handler(struct api_call *call);

enum {
	API_OPEN = 1, /* needs no key */
};

struct api_route {
	const char *method;
	const char *pattern; /* "/sandboxes/{id}/timeout": a name in braces is one segment */
	api_handler *handle;
	unsigned flags;
};

/* A request for the inside of a box, as find_data_plane() has read it. */
struct api_data_plane {
	char id[64]; /* of the box, checked: small letters, digits, '-'; "": the request names none
		      */
	uint16_t port; /* inside */
	/* The Host names the box: served under any name, because a foreign web page does not know
	 * the id. */
	bool is_by_host;
	/* A program inside serves the port, and decides itself which origins it accepts. */
	bool is_for_program;
	const char *problem; /* for -1: a text for 400 */
};

/* One protocol. The daemon's main has the list of them. */
struct api_protocol {
	const char *name;
	/* Tables of routes; each table ends with an empty row, the list with NULL. The first row
	 * that matches counts, so "/sandboxes/metrics" stands before "/sandboxes/{id}". */
	const struct api_route *const *routes;
	/* Fields that decide about access: a request that has one of them twice is refused. Ends
	 * with NULL; may be NULL. */
	const char *const *unique_fields;

	/* Opens the state of the protocol, once the boxes of the last daemon are there again. `dir`
	 * is the daemon's directory. *ret may stay NULL. */
	int (*open)(struct api *api, const char *dir, void **ret, struct atoll_error *err);
	/* NULL is fine for `state`. */
	void (*close)(void *state);

	/* Does the path belong to this protocol, so that errors have its form? NULL: never. */
	bool (*is_path)(const struct api_call *call);
	/* Answers with an error in the form of the protocol. NULL: {"code", "message"}. */
	void (*refuse)(struct api_call *call, unsigned status, const char *message);

	/* 1: the request is for the data plane; 0: it is not; -1: it names a box in a wrong way.
	 * NULL: the protocol has no data plane. */
	int (*find_data_plane)(struct exchange *exchange, struct api_data_plane *ret);
	/* Serves such a request: checks the access, charges the tenant, answers. */
	void (*serve_data_plane)(struct api_call *call, const struct api_data_plane *plane);
};

#define API_PROTOCOLS_MAX 4

struct api {
	struct daemon *daemon;
	struct server *server;
	struct loop *loop;
	bool is_stopping; /* /readyz answers by 503 */
	bool logs_requests;
	struct metrics *metrics;
	char *const *names; /* names in Host that are served, see host-check.c */
	size_t n_names;
	const struct api_protocol *const *protocols; /* ends with NULL; at most API_PROTOCOLS_MAX */
	void *states[API_PROTOCOLS_MAX];	     /* one for each of `protocols` */
	char where[128]; /* the first address that the daemon listens at, as a URL without a path */
};

#define API_PARAMETERS 4

struct api_call {
	struct api *api;
	struct exchange *exchange;
	struct tenant *tenant;	       /* NULL: an open route, or the data plane */
	struct box *box;	       /* data plane only; set it to NULL when the box ends */
	const struct api_route *route; /* NULL: data plane */
	const char *parameters[API_PARAMETERS];
	const char *class; /* for metrics: a constant; the pattern, "envd", ... */
	char trace[56];	   /* W3C traceparent, checked; or "" */
	char peer[64];	   /* only where requests are logged */
	int64_t start_ns;
	unsigned status; /* of the answer, for metrics and logs */

	struct tenant *charged; /* see api_charge(); NULL: none */
	struct load *load;	/* of `charged`, to which it counts */
	struct load *stream_of; /* see stream.h; NULL: no stream */

	/* Of the handler: its data, and a callback for the end of the exchange. */
	void *own;
	void (*over)(struct api_call *call, bool is_broken);

	/* Of reply.c. */
	void (*read)(struct api_call *call, json_t *body);
	bool is_body_needed;
	struct parse *parse; /* parses the body on a thread; NULL: none */

	uint64_t scratch; /* bytes of the answer that lie in a file; part of charged->scratch */
};

static inline struct api_call *api_call_of(const struct exchange *exchange)
{
	return exchange_own(exchange);
}

/* Opens all protocols; on failure those that are open stay so until api_close_protocols(). */
int api_open_protocols(struct api *api, const char *dir, struct atoll_error *err);
void api_close_protocols(struct api *api);
/* The state that protocol->open() returned. */
void *api_state(const struct api *api, const struct api_protocol *protocol);
/* A server_handler; `data` is the struct api. */
void api_handle(struct exchange *exchange, void *data);
/* The segment of the path for the n-th name in braces of the pattern; "" if there is none. */
const char *api_parameter(const struct api_call *call, size_t n);
/* Charges the call to a tenant: its memory, its lane, its number of calls. The router does it for
 * calls with a key; the data plane calls it once it knows the box. False: the tenant has too many
 * calls, or too many bytes that wait for its clients; 429 was answered. */
bool api_charge(struct api_call *call, struct tenant *tenant, struct load *load);
/* Frees the call without its `over`; the exchange goes on. The caller may use exchange_on_over()
 * and exchange_set_own() from then on (port-proxy.h). */
void api_detach_exchange(struct api_call *call);

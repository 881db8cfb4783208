/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "box/box.h"
#include "httpd/server.h"

#include <jansson.h>

/*
 * Who asks over HTTP, and what for
 *
 *   route.c    finds out what a request is about, who asks, and who answers; the lists below
 *   reply.c    answers and failures in JSON, bodies in JSON
 *   time.c     times as they are written
 *   metrics.c  what is counted; operations.c shows it
 *   e2b-*.c    E2B's protocol: control, volumes, templates, and the data plane of a box
 *   v1-*.c     our own
 *
 * A request is a call. The order in which it is looked at:
 *   1. E2b-Sandbox-Id with E2b-Sandbox-Port, or a Host like 49983-ID.anything: the data plane of a
 *      box: dataplane_exchange(). An id that nobody has is answered here, by 502.
 *   2. "/files": dataplane_signed(): a signed URL, which names no box.
 *   3. The route whose pattern fits, from the lists. A path that none fits: 404; one that only fits
 *      with another method: 405 with Allow. Unless the route is open, a key is asked for first
 *      (X-API-KEY, or Authorization: Bearer), and whose it is, is call->tenant.
 *
 * The router has exchange_own() and exchange_on_over() for itself: exchange_own(exchange) is the
 * call. What a handler keeps is call->own, and call->over is called when the exchange ends.
 */

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

/* Each ends with an empty row. The first that fits counts, so "/sandboxes/metrics" stands before
 * "/sandboxes/{id}". */
extern const struct api_route e2b_control_routes[], e2b_volume_routes[], e2b_template_routes[],
	e2b_secret_routes[], v1_routes[], ops_routes[];

struct api {
	struct daemon *daemon;
	struct server *server;
	struct loop *loop;
	bool is_stopping; /* no new work: /readyz says so */
	bool logs_requests;
	struct metrics *metrics;
	char *const *names; /* that requests may be for, see host-check.c */
	size_t n_names;
	char where[128]; /* the first place it listens at, as a URL without a path */
};

#define API_PARAMETERS 4

struct api_call {
	struct api *api;
	struct exchange *exchange;
	struct tenant *tenant;	       /* NULL: open, or the data plane */
	struct box *box;	       /* data plane only; NULL it if the box goes */
	const struct api_route *route; /* NULL: data plane */
	const char *parameters[API_PARAMETERS];
	const char *class; /* for metrics: a constant; the pattern, "envd", ... */
	char trace[56];	   /* W3C traceparent, checked; or "" */
	char peer[64];	   /* only where requests are logged */
	int64_t start_ns;
	unsigned status; /* as it was answered, for logs; set by the functions below */

	struct tenant *charged;	  /* whose memory and turns it takes; NULL: nobody's */
	struct tenant *stream_of; /* see stream.h; NULL: no stream */

	/* The handler's. */
	void *own;
	void (*over)(struct api_call *call, bool is_broken);

	/* reply.c's */
	void (*read)(struct api_call *call, json_t *body);
	bool is_body_needed;
	struct parse *parse; /* of the body, on a thread; NULL */

	/* v1.c's */
	uint64_t scratch; /* bytes of the answer, in a file */
};

static inline struct api_call *api_call_of(const struct exchange *exchange)
{
	return exchange_own(exchange);
}

/* ---- route.c ---- */

/* A server_handler; `data` is the struct api. */
void api_handle(struct exchange *exchange, void *data);
/* What stands in the path for the pattern's n-th name in braces. */
const char *api_parameter(const struct api_call *call, size_t n);
/* Whose memory and turns the call takes: for what needs no key, once it is known whose it is.
 * False: so much waits unread for this tenant that it was answered by 429. */
bool api_charge(struct api_call *call, struct tenant *tenant);
/* The call is gone, without its `over`, and the exchange goes on without it: exchange_on_over() and
 * exchange_set_own() are free for whoever serves it from here on (port-proxy.h). */
void api_let_go(struct api_call *call);

/* ---- reply.c ---- */

/* {"code": status, "message": ...}. */
void api_refuse(struct api_call *call, unsigned status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a failure of the library or of box/: 404 for ENOENT, 429 with Retry-After for EDQUOT
 * and EAGAIN, 409 for EALREADY, EBUSY and EEXIST, 507 for ENOSPC, 403 for a policy's, 400 for a
 * request's, else 500. */
void api_fail(struct api_call *call, const struct atoll_error *err);
unsigned api_status(const struct atoll_error *err);
/* Sends what is in `body` as JSON; 500 if that failed. The buffer stays the caller's. */
void api_answer(struct api_call *call, unsigned status, const struct buf *body);
void api_answer_empty(struct api_call *call, unsigned status);
/* The body as JSON: `read` gets an object, also {} for an empty body unless `is_needed`, and may
 * keep a reference. What is no JSON object is answered by 400, more than `max` bytes by 413. */
void api_read_json(struct api_call *call, size_t max, bool is_needed,
		   void (*read)(struct api_call *call, json_t *body));
/* The tenant's box that the pattern's first name names; or NULL, and 404 was answered. */
struct box *api_box(struct api_call *call);

/* ---- time.c ---- */

/* "2026-11-15T19:27:23.749Z". */
void api_time(int64_t ms, char ret[32]);
/* "2026-11-15T19:27:23.749000000Z". */
void api_time_ns(int64_t ns, char ret[32]);
/* Any RFC 3339 time; false: none. */
bool api_read_time(const char *text, int64_t *ret_ms);

/* ---- operations.c ---- */

/* A line on stderr, as JSON. */
void log_call(const struct api_call *call, bool is_broken, int64_t ns);

/* ---- metrics.c ---- */

struct metrics;
struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);
void metrics_observe(struct metrics *metrics, const char *class, unsigned status, int64_t ns);
/* In Prometheus' text form. `of` is whose numbers alone are told of tenants; NULL: all. */
void metrics_write(struct metrics *metrics, struct daemon *daemon, struct server *server,
		   const struct tenant *of, struct buf *out);

/* ---- e2b-dataplane.c ---- */

/* For 49983 (files, processes), 49999 (the code interpreter) and any other port inside. The box
 * runs: one that is paused and `wakes` was woken before, any other that does not run is answered by
 * the router. */
void dataplane_exchange(struct exchange *exchange, struct box *box, uint16_t port);
/* "/files" without a box: whose token has made the signature? */
void dataplane_signed(struct exchange *exchange, struct daemon *daemon);

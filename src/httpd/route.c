/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/held.h"
#include "httpd/api.h"
#include "httpd/host-check.h"
#include "httpd/parse.h"
#include "httpd/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* What a request is about, who asks, and who answers: see api.h for the order. */

static const struct api_route *const families[] = {
	ops_routes,	     e2b_control_routes, e2b_volume_routes,
	e2b_template_routes, e2b_secret_routes,	 v1_routes,
};

/* ---- one call ---- */

static void call_over(struct exchange *exchange, bool is_broken, void *own)
{
	struct api_call *call = own;
	int64_t ns = clock_monotonic_ns() - call->start_ns;

	(void)exchange;
	if (call->over)
		call->over(call, is_broken);
	stream_close(call);
	if (call->parse)
		parse_leave(call->parse);
	if (call->charged) {
		call->charged->scratch -= call->scratch;
		call->charged->n_calls--;
	}
	metrics_observe(call->api->metrics, call->class, call->status, ns);
	if (call->api->logs_requests)
		log_call(call, is_broken, ns);
	free(call);
}

/* "00-" 32 digits "-" 16 digits "-" 2 digits, and not all zero. What is none is not passed on. */
static void take_trace(struct api_call *call)
{
	const char *text = exchange_field(call->exchange, "traceparent");

	if (!text || strlen(text) != 55 || !starts_with(text, "00-") || text[35] != '-' ||
	    text[52] != '-')
		return;
	for (size_t i = 3; i < 55; i++) {
		if (i != 35 && i != 52 && !strchr("0123456789abcdef", text[i]))
			return;
	}
	if (strspn(text + 3, "0") < 32 && strspn(text + 36, "0") < 16)
		memcpy(call->trace, text, sizeof call->trace);
}

static struct api_call *call_new(struct api *api, struct exchange *exchange)
{
	struct api_call *call = calloc(1, sizeof *call);

	if (!call)
		return NULL;
	call->api = api;
	call->exchange = exchange;
	call->class = "none";
	call->start_ns = clock_monotonic_ns();
	take_trace(call);
	if (api->logs_requests)
		snprintf(call->peer, sizeof call->peer, "%s", exchange_peer(exchange));
	exchange_set_own(exchange, call);
	exchange_on_over(exchange, call_over, call);
	return call;
}

static void nothing_over(struct exchange *exchange, bool is_broken, void *own)
{
	(void)exchange;
	(void)is_broken;
	(void)own;
}

void api_let_go(struct api_call *call)
{
	stream_close(call);
	if (call->charged)
		call->charged->n_calls--;
	exchange_set_own(call->exchange, NULL);
	exchange_on_over(call->exchange, nothing_over, NULL);
	metrics_observe(call->api->metrics, call->class, call->status,
			clock_monotonic_ns() - call->start_ns);
	free(call);
}

const char *api_parameter(const struct api_call *call, size_t n)
{
	return n < API_PARAMETERS && call->parameters[n] ? call->parameters[n] : "";
}

/* ---- the data plane ---- */

/* "ID" or "ID-SUFFIX", of small letters and digits. */
static bool is_box_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n > 0 && n < 64 && (!id[n] || id[n] == '-');
}

static bool read_port(const char *text, size_t length, uint16_t *ret)
{
	unsigned value = 0;

	if (length == 0 || length > 5)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	*ret = (uint16_t)value;
	return value > 0 && value < 65536;
}

struct place {
	char id[64];
	uint16_t port;
};

/* 1: it names a box; 0: it does not; -1: it does, and makes no sense. */
static int place_by_fields(struct exchange *exchange, struct place *ret)
{
	const char *id = exchange_field(exchange, "E2b-Sandbox-Id");
	const char *port = exchange_field(exchange, "E2b-Sandbox-Port");

	if (!id && !port)
		return 0;
	if (!id || !port || !is_box_id(id) || !read_port(port, strlen(port), &ret->port))
		return -1;
	snprintf(ret->id, sizeof ret->id, "%s", id);
	return 1;
}

static int place_by_host(struct exchange *exchange, struct place *ret)
{
	const char *host = exchange_field(exchange, "Host");
	const char *dash = host ? strchr(host, '-') : NULL;
	const char *dot = dash ? strchr(dash, '.') : NULL;

	if (!dot || !read_port(host, (size_t)(dash - host), &ret->port) ||
	    (size_t)(dot - dash) > sizeof ret->id)
		return 0;
	snprintf(ret->id, sizeof ret->id, "%.*s", (int)(dot - dash - 1), dash + 1);
	return is_box_id(ret->id);
}

static void answer_unknown_box(struct api_call *call, const char *id)
{
	cleanup_buf struct buf body = BUF_INIT(512);

	/* The id was checked: nothing in it needs to be escaped. */
	buf_addf(&body,
		 "{\"sandboxId\":\"%s\",\"message\":\"The sandbox was not found\",\"code\":502}",
		 id);
	api_answer(call, 502, &body);
}

bool api_charge(struct api_call *call, struct tenant *tenant)
{
	if (!call->charged)
		tenant->n_calls++;
	call->charged = tenant;
	exchange_set_party(call->exchange, &(struct exchange_party){.lane = &tenant->lane,
								    .waiting = &tenant->waiting,
								    .held = &tenant->held,
								    .held_max = TENANT_HELD_MAX});
	if (tenant->n_calls > server_most(call->api->server) / 2) {
		exchange_add(call->exchange, "Retry-After", "5");
		api_refuse(call, 429, "this tenant has as many requests open as it may have");
		return false;
	}
	if (tenant->waiting <= TENANT_WAITING_MAX)
		return true;
	exchange_add(call->exchange, "Retry-After", "5");
	api_refuse(call, 429, "%zu MiB of answers wait for this tenant's clients to read them",
		   tenant->waiting >> 20);
	return false;
}

static void dataplane(struct api_call *call, struct box *box, const struct place *place)
{
	call->box = box;
	call->class = place->port == 49983   ? "envd"
		      : place->port == 49999 ? "code-interpreter"
					     : "port";
	dataplane_exchange(call->exchange, box, place->port);
}

/* A port of a program inside, which decides itself whom it answers. */
static bool is_of_program(uint16_t port)
{
	return port != 49983 && port != 49999;
}

static void route_box(struct api_call *call, const struct place *place)
{
	struct box *box = box_find_any(call->api->daemon, place->id);

	call->class = "unknown sandbox";
	if (!box || (box->state != BOX_RUNNING && box->state != BOX_PAUSED))
		answer_unknown_box(call, place->id);
	else if (api_charge(call, box->tenant))
		dataplane(call, box, place);
}

/* ---- patterns ---- */

/* Does the path fit? What stands for names in braces is put into the call. */
static bool fits(struct api_call *call, const char *pattern)
{
	size_t n = 0, n_parameters = 0;

	while (*pattern == '/') {
		const char *word = ++pattern;
		size_t length = strcspn(word, "/");
		const char *segment = exchange_segment(call->exchange, n++);

		pattern += length;
		if (!segment)
			return length == 0 && !*pattern && n == 1; /* "/" itself */
		if (word[0] == '{') {
			if (!segment[0] || n_parameters == API_PARAMETERS)
				return false;
			call->parameters[n_parameters++] = segment;
		} else if (strlen(segment) != length || strncmp(segment, word, length) != 0) {
			return false;
		}
	}
	return !exchange_segment(call->exchange, n);
}

static void add_method(char *list, size_t size, const char *method)
{
	if (!strstr(list, method))
		snprintf(list + strlen(list), size - strlen(list), "%s%s", list[0] ? ", " : "",
			 method);
}

/* HEAD is GET whose body the server leaves out. */
static bool is_method(struct http_slice method, const char *wanted)
{
	return http_slice_is(method, wanted) ||
	       (http_slice_is(method, "HEAD") && streq(wanted, "GET"));
}

static const struct api_route *find_route(struct api_call *call, char *ret_allow, size_t size)
{
	const struct http_slice method = exchange_head(call->exchange)->method;

	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		for (const struct api_route *route = families[i]; route->method; route++) {
			if (!fits(call, route->pattern))
				continue;
			if (is_method(method, route->method))
				return route;
			add_method(ret_allow, size, route->method);
		}
	}
	return NULL;
}

/* ---- who asks ---- */

static struct tenant *find_tenant(struct api_call *call)
{
	const char *key = exchange_field(call->exchange, "X-API-KEY");
	const char *authorization = exchange_field(call->exchange, "Authorization");

	if (!key && authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
		key = authorization + 7 + strspn(authorization + 7, " ");
	return key && key[0] ? tenant_find_key(call->api->daemon, key, strlen(key)) : NULL;
}

static void route_control(struct api_call *call)
{
	char allow[128] = "";
	const struct api_route *route = find_route(call, allow, sizeof allow);

	/* Who has no key does not even learn which paths there are. */
	if (!route || !(route->flags & API_OPEN)) {
		call->tenant = find_tenant(call);
		if (!call->tenant) {
			exchange_add(call->exchange, "WWW-Authenticate", "Bearer");
			api_refuse(call, 401,
				   "no valid key: send one as X-API-KEY or Authorization: Bearer "
				   "(atoll serve key new makes one)");
			return;
		}
		if (!api_charge(call, call->tenant))
			return;
	}
	if (!route && allow[0]) {
		exchange_add(call->exchange, "Allow", allow);
		api_refuse(call, 405, "this path takes %s", allow);
	} else if (!route) {
		api_refuse(call, 404, "there is nothing at this path");
	} else {
		call->route = route;
		call->class = route->pattern;
		route->handle(call);
	}
}

/* Fields that say who asks, and for what. One that is there twice is read in two ways, by us and by
 * a proxy before us. NULL: none is. */
static const char *find_twice(const struct http_head *head)
{
	static const char *const names[] = {
		"X-API-KEY",	    "Authorization",
		"X-Access-Token",   "E2b-Traffic-Access-Token",
		"E2b-Sandbox-Id",   "E2b-Sandbox-Port",
		"Origin",	    "Content-Type",
		"Content-Encoding",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = 0;

		for (size_t k = 0; k < head->n_fields; k++)
			n += http_slice_is_like(head->fields[k].name, names[i]);
		if (n > 1)
			return names[i];
	}
	return NULL;
}

void api_handle(struct exchange *exchange, void *data)
{
	struct api_call *call = call_new(data, exchange);
	const char *first = exchange_segment(exchange, 0), *twice;
	struct place place;
	bool is_by_host;
	int found;

	if (!call) {
		exchange_answer(exchange, 500, NULL, NULL, 0);
		return;
	}
	twice = find_twice(exchange_head(exchange));
	if (twice) {
		api_refuse(call, 400, "the request has more than one %s", twice);
		return;
	}
	found = place_by_fields(exchange, &place);
	is_by_host = found == 0 && place_by_host(exchange, &place) > 0;
	if (is_by_host)
		found = 1;
	/* PORT-ID.anything is served under any name: a foreign web page does not know the id. */
	if (!is_by_host && !host_is_served(call->api, exchange)) {
		api_refuse(
			call, 421,
			"this daemon does not serve the name in 'Host': add it to 'names' in its "
			"configuration");
	} else if (found >= 0 && !(found && is_of_program(place.port)) &&
		   !host_may_change(call->api, exchange)) {
		api_refuse(
			call, 403,
			"the request comes from a page of another origin: add its name to 'names' "
			"in the daemon's configuration");
	} else if (found < 0) {
		api_refuse(call, 400,
			   "E2b-Sandbox-Id and E2b-Sandbox-Port name a sandbox and a "
			   "port, both or none");
	} else if (found) {
		route_box(call, &place);
	} else if (first && streq(first, "files")) {
		call->class = "signed";
		dataplane_signed(exchange, call->api->daemon);
	} else {
		route_control(call);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/route.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "httpd/answer.h"
#include "httpd/host-check.h"
#include "httpd/metrics.h"
#include "httpd/operations.h"
#include "httpd/parse.h"
#include "httpd/reply.h"
#include "httpd/server.h"
#include "httpd/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Finds the tenant, the protocol and the handler of a request: route.h describes the order. */

/* ---- protocols ---- */

int api_open_protocols(struct api *api, const char *dir, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && api->protocols[i]; i++) {
		if (i == API_PROTOCOLS_MAX)
			return error_set(err, ATOLL_FAULT_BUG, 0, "more than %d protocols",
					 API_PROTOCOLS_MAX);
		if (api->protocols[i]->open)
			r = api->protocols[i]->open(api, dir, &api->states[i], err);
	}
	return r;
}

void api_close_protocols(struct api *api)
{
	for (size_t i = 0; i < API_PROTOCOLS_MAX && api->protocols && api->protocols[i]; i++) {
		if (api->protocols[i]->close)
			api->protocols[i]->close(api->states[i]);
		api->states[i] = NULL;
	}
}

void *api_state(const struct api *api, const struct api_protocol *protocol)
{
	for (size_t i = 0; i < API_PROTOCOLS_MAX && api->protocols[i]; i++) {
		if (api->protocols[i] == protocol)
			return api->states[i];
	}
	return NULL;
}

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
		call->load->n_calls--;
	}
	metrics_observe(call->api->metrics, call->class, call->status, ns);
	if (call->api->logs_requests)
		operations_log_call(call, is_broken, ns);
	free(call);
}

/* "00-" 32 digits "-" 16 digits "-" 2 digits, neither all zero. An invalid traceparent is
 * ignored. */
static void read_trace(struct api_call *call)
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
	read_trace(call);
	if (api->logs_requests)
		snprintf(call->peer, sizeof call->peer, "%s", exchange_peer(exchange));
	exchange_set_own(exchange, call);
	exchange_on_over(exchange, call_over, call);
	return call;
}

static void ignore_over(struct exchange *exchange, bool is_broken, void *own)
{
	(void)exchange;
	(void)is_broken;
	(void)own;
}

void api_detach_exchange(struct api_call *call)
{
	stream_close(call);
	if (call->charged)
		call->load->n_calls--;
	exchange_set_own(call->exchange, NULL);
	exchange_on_over(call->exchange, ignore_over, NULL);
	metrics_observe(call->api->metrics, call->class, call->status,
			clock_monotonic_ns() - call->start_ns);
	free(call);
}

const char *api_parameter(const struct api_call *call, size_t n)
{
	return n < API_PARAMETERS && call->parameters[n] ? call->parameters[n] : "";
}

/* Visitors have a quarter of what the tenant has itself. */
static size_t max_calls(const struct api_call *call)
{
	size_t max = server_max_connections(call->api->server) / 2;

	return call->load == &call->charged->visitors ? max / 4 : max;
}

bool api_charge(struct api_call *call, struct tenant *tenant, struct load *load)
{
	if (!call->charged)
		load->n_calls++;
	call->charged = tenant;
	call->load = load;
	exchange_set_party(call->exchange, &(struct exchange_party){.lane = &load->lane,
								    .waiting = &load->waiting,
								    .held = &tenant->held,
								    .held_max = TENANT_HELD_MAX});
	if (load->n_calls > max_calls(call)) {
		exchange_add(call->exchange, "Retry-After", "5");
		api_refuse(call, 429, "this tenant has as many requests open as it may have");
		return false;
	}
	/* A DELETE is never refused for waiting bytes: a tenant can always end what it has. */
	if (load->waiting <= TENANT_WAITING_MAX ||
	    http_slice_is(exchange_head(call->exchange)->method, "DELETE"))
		return true;
	exchange_add(call->exchange, "Retry-After", "5");
	api_refuse(call, 429, "%zu MiB of answers wait for this tenant's clients to read them",
		   load->waiting >> 20);
	return false;
}

/* ---- patterns ---- */

/* Does the path match? Puts the segments for names in braces into the call. */
static bool matches(struct api_call *call, const char *pattern)
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

/* HEAD is served as GET; the server drops the body. */
static bool is_method(struct http_slice method, const char *wanted)
{
	return http_slice_is(method, wanted) ||
	       (http_slice_is(method, "HEAD") && streq(wanted, "GET"));
}

static const struct api_route *find_in_table(struct api_call *call, const struct api_route *table,
					     char *ret_allow, size_t size)
{
	const struct http_slice method = exchange_head(call->exchange)->method;

	for (const struct api_route *route = table; route->method; route++) {
		if (!matches(call, route->pattern))
			continue;
		if (is_method(method, route->method))
			return route;
		add_method(ret_allow, size, route->method);
	}
	return NULL;
}

/* Writes the methods of the routes that only differ in the method to ret_allow. */
static const struct api_route *find_route(struct api_call *call, char *ret_allow, size_t size)
{
	const struct api_route *found = find_in_table(call, operations_routes, ret_allow, size);

	for (const struct api_protocol *const *protocol = call->api->protocols; *protocol && !found;
	     protocol++) {
		for (const struct api_route *const *table = (*protocol)->routes; *table && !found;
		     table++)
			found = find_in_table(call, *table, ret_allow, size);
	}
	return found;
}

/* ---- tenant and handler ---- */

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

	/* Without a key all paths are answered by 401, so that strangers do not learn which
	 * exist. */
	if (!route || !(route->flags & API_OPEN)) {
		call->tenant = find_tenant(call);
		if (!call->tenant) {
			exchange_add(call->exchange, "WWW-Authenticate", "Bearer");
			api_refuse(call, 401,
				   "no valid key: send one as X-API-KEY or Authorization: Bearer "
				   "(atoll serve key new makes one)");
			return;
		}
		if (!api_charge(call, call->tenant, &call->tenant->own))
			return;
	}
	if (!route && allow[0]) {
		exchange_add(call->exchange, "Allow", allow);
		api_refuse(call, 405, "this path allows %s", allow);
	} else if (!route) {
		api_refuse(call, 404, "there is nothing at this path");
	} else {
		call->route = route;
		call->class = route->pattern;
		route->handle(call);
	}
}

static size_t count_fields(const struct http_head *head, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		n += http_slice_is_like(head->fields[i].name, name);
	return n;
}

static const char *find_repeated(const struct http_head *head, const char *const *names)
{
	while (*names && count_fields(head, *names) < 2)
		names++;
	return *names;
}

/* A field that decides about access and occurs twice: a proxy before the daemon may read the other
 * one. NULL: there is none. */
static const char *find_ambiguous(const struct api_call *call)
{
	static const char *const names[] = {"X-API-KEY",    "Authorization",	"Origin",
					    "Content-Type", "Content-Encoding", NULL};
	const struct http_head *head = exchange_head(call->exchange);
	const char *found = find_repeated(head, names);

	for (const struct api_protocol *const *protocol = call->api->protocols; *protocol && !found;
	     protocol++) {
		if ((*protocol)->unique_fields)
			found = find_repeated(head, (*protocol)->unique_fields);
	}
	return found;
}

/* As find_data_plane() of the first protocol that does not return 0. */
static int find_data_plane(struct exchange *exchange, const struct api *api,
			   const struct api_protocol **ret_protocol, struct api_data_plane *ret)
{
	int found = 0;

	for (const struct api_protocol *const *protocol = api->protocols; *protocol && !found;
	     protocol++) {
		if ((*protocol)->find_data_plane)
			found = (*protocol)->find_data_plane(exchange, ret);
		*ret_protocol = *protocol;
	}
	return found;
}

/* False: Host or Origin is refused, and the call was answered. */
static bool check_names(struct api_call *call, int found, const struct api_data_plane *plane)
{
	if (!plane->is_by_host && !host_is_served(call->api, call->exchange)) {
		api_refuse(call, 421,
			   "this daemon does not serve the name in 'Host': add it to 'names' in "
			   "its configuration");
		return false;
	}
	if (found >= 0 && !plane->is_for_program && !host_may_change(call->api, call->exchange)) {
		api_refuse(call, 403,
			   "the request comes from a page of another origin: add its name to "
			   "'names' in the daemon's configuration");
		return false;
	}
	return true;
}

void api_handle(struct exchange *exchange, void *data)
{
	struct api_call *call = call_new(data, exchange);
	const struct api_protocol *protocol = NULL;
	struct api_data_plane plane = {0};
	const char *ambiguous;
	int found;

	if (!call) {
		exchange_answer(exchange, 500, NULL, NULL, 0);
		return;
	}
	ambiguous = find_ambiguous(call);
	if (ambiguous) {
		api_refuse(call, 400, "the request has more than one %s", ambiguous);
		return;
	}
	found = find_data_plane(exchange, call->api, &protocol, &plane);
	if (!check_names(call, found, &plane))
		return;
	if (found < 0)
		api_refuse(call, 400, "%s", plane.problem);
	else if (found)
		protocol->serve_data_plane(call, &plane);
	else
		route_control(call);
}

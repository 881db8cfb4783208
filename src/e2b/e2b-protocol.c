/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b-protocol.h"

#include "base/error.h"
#include "base/str.h"
#include "e2b/e2b-control.h"
#include "e2b/e2b-dataplane.h"
#include "e2b/e2b-logs.h"
#include "e2b/e2b-secrets.h"
#include "e2b/e2b-template-files.h"
#include "e2b/e2b-templates.h"
#include "e2b/e2b-volumes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * E2B's protocol for the router
 *
 * e2b_protocol stands in the list of the daemon's main. A request is for the data plane if its
 * fields E2b-Sandbox-Id and E2b-Sandbox-Port name a box and a port inside, or if its Host is
 * PORT-ID.anything. A request for "/files" without them has a signature instead (a signed URL), by
 * which e2b-dataplane.c finds the box. All other requests are compared with the routes.
 */

/* "ID" or "ID-SUFFIX", of small letters and digits. */
static bool is_box_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n > 0 && n < 64 && (!id[n] || id[n] == '-');
}

static bool parse_port(const char *text, size_t length, uint16_t *ret)
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

/* 1: the fields name a box; 0: neither field is there; -1: they are incomplete or malformed. */
static int find_by_fields(struct exchange *exchange, struct api_data_plane *ret)
{
	const char *id = exchange_field(exchange, "E2b-Sandbox-Id");
	const char *port = exchange_field(exchange, "E2b-Sandbox-Port");

	if (!id && !port)
		return 0;
	if (!id || !port || !is_box_id(id) || !parse_port(port, strlen(port), &ret->port)) {
		ret->problem =
			"E2b-Sandbox-Id and E2b-Sandbox-Port name a sandbox and a port, both or "
			"none";
		return -1;
	}
	snprintf(ret->id, sizeof ret->id, "%s", id);
	return 1;
}

static bool find_by_host(struct exchange *exchange, struct api_data_plane *ret)
{
	const char *host = exchange_field(exchange, "Host");
	const char *dash = host ? strchr(host, '-') : NULL;
	const char *dot = dash ? strchr(dash, '.') : NULL;
	char id[sizeof ret->id];

	if (!dot || (size_t)(dot - dash) > sizeof id ||
	    !parse_port(host, (size_t)(dash - host), &ret->port))
		return false;
	snprintf(id, sizeof id, "%.*s", (int)(dot - dash - 1), dash + 1);
	if (!is_box_id(id))
		return false;
	memcpy(ret->id, id, sizeof ret->id);
	return true;
}

static int find_data_plane(struct exchange *exchange, struct api_data_plane *ret)
{
	const char *first = exchange_segment(exchange, 0);
	int found = find_by_fields(exchange, ret);

	if (found == 0)
		found = ret->is_by_host = find_by_host(exchange, ret);
	if (found > 0)
		ret->is_for_program =
			ret->port != E2B_PORT_ENVD && ret->port != E2B_PORT_INTERPRETER;
	else if (found == 0 && first && streq(first, "files"))
		found = 1; /* a signed URL: ret->id is "" */
	return found;
}

static const struct api_route *const routes[] = {
	e2b_control_routes, e2b_volume_routes, e2b_template_routes, e2b_secret_routes, NULL,
};

static const char *const unique_fields[] = {
	"X-Access-Token", "E2b-Traffic-Access-Token", "E2b-Sandbox-Id", "E2b-Sandbox-Port", NULL,
};

struct e2b *e2b_of(const struct api_call *call)
{
	return api_state(call->api, &e2b_protocol);
}

static int open_state(struct api *api, const char *dir, void **ret, struct atoll_error *err)
{
	struct e2b *e2b = calloc(1, sizeof *e2b);

	(void)dir;
	if (!e2b)
		return error_oom(err);
	e2b->loop = api->loop;
	*ret = e2b;
	return 0;
}

/* Watchers and interpreters have ended with their boxes. */
static void close_state(void *state)
{
	struct e2b *e2b = state;

	if (!e2b)
		return;
	e2b_logs_done(e2b);
	e2b_tickets_done(e2b);
	loop_drop_lane(e2b->loop, &e2b->searches);
	free(e2b);
}

const struct api_protocol e2b_protocol = {
	.name = "e2b",
	.routes = routes,
	.unique_fields = unique_fields,
	.open = open_state,
	.close = close_state,
	.find_data_plane = find_data_plane,
	.serve_data_plane = e2b_serve_data_plane,
};

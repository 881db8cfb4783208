/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/operations.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "httpd/answer.h"
#include "httpd/metrics.h"
#include "httpd/route.h"
#include "httpd/time.h"

#include <stdio.h>
#include <unistd.h>

/*
 * /healthz, /readyz, /metrics and the request log
 *
 * /healthz and /readyz need no key: load balancers ask them. /metrics needs one, because it names
 * tenants; also on a unix socket and on the loopback, since programs of other users run on this
 * machine. The tenant "default" sees all tenants, any other one only itself.
 */

#define METRICS_MAX (8U << 20)

static void healthz(struct api_call *call)
{
	call->status = 200;
	exchange_answer(call->exchange, 200, "text/plain", "ok\n", 3);
}

static void readyz(struct api_call *call)
{
	const char *why = "the daemon is stopping";
	char text[128];
	int n;

	if (!call->api->is_stopping && daemon_is_ready(call->api->daemon, &why)) {
		healthz(call);
		return;
	}
	n = snprintf(text, sizeof text, "%s\n", why);
	call->status = 503;
	exchange_add(call->exchange, "Retry-After", "2");
	exchange_answer(call->exchange, 503, "text/plain", text, (size_t)n);
}

static void show_metrics(struct api_call *call)
{
	const bool sees_all = call->tenant == tenant_find(call->api->daemon, "default");
	cleanup_buf struct buf text = BUF_INIT(METRICS_MAX);

	metrics_write(call->api->metrics, call->api->daemon, call->api->server,
		      sees_all ? NULL : call->tenant, &text);
	call->status = buf_error(&text) < 0 ? 500 : 200;
	exchange_answer(call->exchange, call->status, "text/plain; version=0.0.4", text.data,
			text.used);
}

/* ---- the request log ---- */

void operations_log_call(const struct api_call *call, bool is_broken, int64_t ns)
{
	cleanup_buf struct buf line = BUF_INIT(16384);
	const struct http_head *head = exchange_head(call->exchange);
	struct json json = {.out = &line};
	char time[32];

	api_time((int64_t)(clock_real_ns() / 1000000), time);
	json_open(&json, NULL, '{');
	json_str(&json, "time", time);
	json_str(&json, "level", "info");
	json_strn(&json, "method", head->method.at, head->method.size);
	/* Without the query, which may contain a signature. */
	json_strn(&json, "path", head->path.at, head->path.size > 1024 ? 1024 : head->path.size);
	json_uint(&json, "status", call->status);
	json_uint(&json, "us", (uint64_t)(ns / 1000));
	json_str(&json, "peer", call->peer);
	if (call->tenant)
		json_str(&json, "tenant", call->tenant->name);
	if (call->trace[0])
		json_str(&json, "trace", call->trace);
	if (is_broken)
		json_bool(&json, "broken", true);
	json_close(&json, '}');
	buf_add_char(&line, '\n');
	if (buf_error(&line) == 0)
		(void)!write(2, line.data, line.used);
}

const struct api_route operations_routes[] = {
	{"GET", "/healthz", healthz, API_OPEN},
	{"GET", "/readyz", readyz, API_OPEN},
	{"GET", "/metrics", show_metrics, 0},
	{0},
};

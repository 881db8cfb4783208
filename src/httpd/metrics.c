/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/metrics.h"

#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "httpd/server.h"

#include <stdlib.h>

/*
 * Counters of requests: the number by class and status, and the latencies
 *
 * A class is the pattern of a route, or a word for the data plane. Classes are constants of the
 * program, so their number is bounded, and addresses are compared before the texts.
 */

#define CLASSES_MAX 256

static const double bounds_s[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
				  0.25,	  0.5,	 1,	 2.5,	5,    10,    60};

struct class
{
	const char *name;
	uint64_t n_by_status[6]; /* 1xx to 5xx; [0]: no answer was sent */
	uint64_t buckets[ARRAY_SIZE(bounds_s) + 1];
	double sum_s;
};

struct metrics {
	struct class classes[CLASSES_MAX];
	size_t n;
};

struct metrics *metrics_new(void)
{
	return calloc(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *metrics)
{
	free(metrics);
}

static struct class *class_of(struct metrics *metrics, const char *name)
{
	for (size_t i = 0; i < metrics->n; i++) {
		if (metrics->classes[i].name == name || streq(metrics->classes[i].name, name))
			return &metrics->classes[i];
	}
	if (metrics->n == CLASSES_MAX)
		return &metrics->classes[CLASSES_MAX - 1];
	metrics->classes[metrics->n].name = name;
	return &metrics->classes[metrics->n++];
}

void metrics_observe(struct metrics *metrics, const char *name, unsigned status, int64_t ns)
{
	struct class *class = class_of(metrics, name);
	double seconds = (double)ns / 1e9;
	size_t i = 0;

	class->n_by_status[status / 100 < 6 ? status / 100 : 0]++;
	class->sum_s += seconds;
	while (i < ARRAY_SIZE(bounds_s) && seconds > bounds_s[i])
		i++;
	class->buckets[i]++;
}

/* ---- as text ---- */

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP atoll_%s %s\n# TYPE atoll_%s %s\n", name, help, name, type);
}

static void write_requests(const struct metrics *metrics, struct buf *out)
{
	head(out, "requests_total", "counter", "Requests by what they asked for, and their status");
	for (size_t i = 0; i < metrics->n; i++) {
		for (size_t k = 0; k < 6; k++) {
			if (metrics->classes[i].n_by_status[k])
				buf_addf(out,
					 "atoll_requests_total{class=\"%s\",status=\"%zuxx\"} "
					 "%llu\n",
					 metrics->classes[i].name, k,
					 (unsigned long long)metrics->classes[i].n_by_status[k]);
		}
	}
}

static void write_latencies(const struct metrics *metrics, struct buf *out)
{
	head(out, "request_seconds", "histogram",
	     "From a request's head to its answer's last byte");
	for (size_t i = 0; i < metrics->n; i++) {
		const struct class *class = &metrics->classes[i];
		unsigned long long n = 0;

		for (size_t k = 0; k < ARRAY_SIZE(bounds_s); k++) {
			n += class->buckets[k];
			buf_addf(out, "atoll_request_seconds_bucket{class=\"%s\",le=\"%g\"} %llu\n",
				 class->name, bounds_s[k], n);
		}
		n += class->buckets[ARRAY_SIZE(bounds_s)];
		buf_addf(out,
			 "atoll_request_seconds_bucket{class=\"%s\",le=\"+Inf\"} %llu\n"
			 "atoll_request_seconds_sum{class=\"%s\"} %.6f\n"
			 "atoll_request_seconds_count{class=\"%s\"} %llu\n",
			 class->name, n, class->name, class->sum_s, class->name, n);
	}
}

static void write_number(struct buf *out, const char *name, const char *type, const char *help,
			 uint64_t value)
{
	head(out, name, type, help);
	buf_addf(out, "atoll_%s %llu\n", name, (unsigned long long)value);
}

static void write_daemon(const struct daemon_counts *counts, struct buf *out)
{
	head(out, "sandboxes", "gauge", "Sandboxes by state");
	buf_addf(
		out,
		"atoll_sandboxes{state=\"running\"} %llu\natoll_sandboxes{state=\"paused\"} %llu\n",
		(unsigned long long)counts->n_running, (unsigned long long)counts->n_paused);
	write_number(out, "pool_parked", "gauge", "Sandboxes that are ready to be handed out",
		     counts->n_parked);
	write_number(out, "removing", "gauge", "Sandboxes that have ended and are being removed",
		     counts->n_removing);
	write_number(out, "created_total", "counter", "Sandboxes made", counts->n_created);
	write_number(out, "created_from_pool_total", "counter", "Of these, handed out parked",
		     counts->n_from_pool);
	write_number(out, "create_failures_total", "counter", "Creations that failed",
		     counts->n_failed);
	head(out, "ended_total", "counter", "Sandboxes that have ended, by cause");
	for (enum box_cause cause = BOX_CAUSE_KILLED; cause < BOX_CAUSES; cause++)
		buf_addf(out, "atoll_ended_total{cause=\"%s\"} %llu\n", box_cause_name(cause),
			 (unsigned long long)counts->ends[cause]);
	write_number(out, "database_failures_total", "counter", "Writes that failed",
		     counts->n_database_failures);
	write_number(out, "database_waiting", "gauge", "Writes that wait",
		     counts->n_database_waiting);
	head(out, "work_waiting", "gauge", "What waits for a thread");
	buf_addf(out,
		 "atoll_work_waiting{rank=\"now\"} %llu\natoll_work_waiting{rank=\"later\"} %llu\n",
		 (unsigned long long)counts->n_waiting[0],
		 (unsigned long long)counts->n_waiting[1]);
}

static void write_tenants(struct daemon *daemon, const struct tenant *of, struct buf *out)
{
	head(out, "tenant_cpu_seconds_total", "counter", "CPU time used by a tenant's sandboxes");
	for (struct tenant *tenant = NULL; (tenant = tenant_next(daemon, tenant));) {
		struct box_usage usage;

		tenant_usage(tenant, &usage);
		if (!of || tenant == of)
			buf_addf(out, "atoll_tenant_cpu_seconds_total{tenant=\"%s\"} %.3f\n",
				 tenant->name, usage.cpu_s);
	}
	head(out, "tenant_sandboxes", "gauge", "Sandboxes of a tenant");
	for (struct tenant *tenant = NULL; (tenant = tenant_next(daemon, tenant));) {
		if (!of || tenant == of)
			buf_addf(out, "atoll_tenant_sandboxes{tenant=\"%s\"} %llu\n", tenant->name,
				 (unsigned long long)tenant->n_boxes);
	}
}

void metrics_write(struct metrics *metrics, struct daemon *daemon, struct server *server,
		   const struct tenant *of, struct buf *out)
{
	struct daemon_counts counts;

	daemon_count(daemon, &counts);
	write_daemon(&counts, out);
	write_tenants(daemon, of, out);
	write_number(out, "connections", "gauge", "Open connections", server_connections(server));
	write_requests(metrics, out);
	write_latencies(metrics, out);
}

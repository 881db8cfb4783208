/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct buf;
struct daemon;
struct metrics;
struct server;
struct tenant;

/* Counters of requests by class and status, and their latencies. */
struct metrics *metrics_new(void); /* NULL: out of memory */
void metrics_free(struct metrics *metrics);
/* `class` is a constant of the program. */
void metrics_observe(struct metrics *metrics, const char *class, unsigned status, int64_t ns);
/* Writes all numbers of the daemon in Prometheus' text form. With `only` the numbers of other
 * tenants are left out; NULL: all tenants. */
void metrics_write(struct metrics *metrics, struct daemon *daemon, struct server *server,
		   const struct tenant *only, struct buf *out);

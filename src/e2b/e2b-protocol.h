/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "e2b/e2b.h"

#define E2B_ENVD_VERSION "0.6.13" /* clients may expect the behaviour of this version of envd */

#define E2B_PORT_ENVD	     49983 /* files and processes */
#define E2B_PORT_INTERPRETER 49999

#define E2B_LOGS_BUCKETS 1024

/* The state of the protocol in one daemon. */
struct e2b {
	struct loop *loop;
	struct box_listener logs_listener;  /* .daemon is NULL before e2b_logs_listen() */
	struct log *logs[E2B_LOGS_BUCKETS]; /* e2b-logs.c; by the hash of the box's id */
	struct ticket *tickets;		    /* e2b-template-files.c; the newest first */
	struct watcher *watchers;	    /* e2b-watch.c; of all boxes */
	struct interpreter *interpreters;   /* interpreter-context.c */
	struct loop_lane searches;	    /* e2b-dataplane.c; requests with a signed URL */
};

struct e2b *e2b_of(const struct api_call *call);

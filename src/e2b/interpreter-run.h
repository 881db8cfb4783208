/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "e2b/interpreter-context.h"

/* Adds an execution to the queue, which owns `request` from then on. NULL: no memory, or the tenant
 * has too many bytes in queues. */
struct run *run_new(struct context *context, struct api_call *call, uint64_t number, char *request,
		    size_t size);
size_t run_count(const struct context *context);
/* The kernel is idle: sends it the next execution. */
void run_next(struct context *context);
/* Reads the lines of the kernel. */
void run_read(struct context *context);
/* The kernel has ended, or could not start: answers all executions. */
void run_fail_all(struct context *context, unsigned status, const char *why);
void run_kernel_gone(struct context *context, const char *why);
/* Cuts the exchanges of all executions. */
void run_cut_all(struct context *context);

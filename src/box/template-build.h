/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <jansson.h>
#include <stddef.h>

struct build;
struct daemon;

/* Begins. `request` is E2B's: fromTemplate or fromImage, steps, startCmd, readyCmd. 0, or a
 * negative errno: it makes no sense (EINVAL), was begun already (EBUSY), or too many are under way
 * (EAGAIN). What fails later is told by its state. */
int build_begin(struct build *build, json_t *request, struct atoll_error *err);
/* Boxes of builds that an earlier daemon had under way. */
void builds_forget_lost(struct daemon *daemon);
/* The n-th argument of the step at hand, or NULL if it is "" or missing. */
const char *build_argument(const struct build *build, size_t n);
/* A build_ran: on to the next one if `status` is 0. */
void build_step_done(struct build *build, int status, const char *why);
/* Its end; `step` NULL: the one at hand. */
void build_fail(struct build *build, const char *step, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

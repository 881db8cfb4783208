/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/step.h>
#include <stddef.h>

struct holder;
struct holder_request;

/* Stop every process inside, until an order INIT_THAW. -EBUSY: some could not be stopped. */
int holder_stop_inside(struct holder *holder, struct atoll_error *err);
/* Handle HOLDER_FREEZE and HOLDER_THAW. */
int holder_freeze(struct holder *holder, struct atoll_error *err);
int holder_thaw(struct holder *holder, struct atoll_error *err);
/* Let pid 1 of an idle sandbox start its template process again, for the next step. */
void holder_wake(struct holder *holder);
/* Handle HOLDER_STAY. */
int holder_stay(struct holder *holder, struct atoll_error *err);
/* The `ask` of holder->net_options: questions wait for HOLDER_ANSWER, at most a minute. */
enum atoll_answer_type holder_ask_later(const struct atoll_question *question, void *data);
/* Fill `ret`, which has room for NETCTL_QUESTIONS_MAX; returns the number. */
size_t holder_questions(const struct holder *holder, struct atoll_pending *ret);
/* Handle HOLDER_ANSWER. */
int holder_answer(struct holder *holder, const struct holder_request *request,
		  struct atoll_error *err);
/* Handle HOLDER_USAGE. */
void holder_read_usage(struct holder *holder, struct atoll_sandbox_usage *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/str.h"
#include "egress/core.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Questions to a person
 *
 * One question for a name and port, however many connections wait for its answer, which then holds
 * for the rest of the run. Only so many are open at the same time: a flood of names is refused
 * rather than shown. Silence means no, for those who wait; the next attempt asks again.
 */

#define ANSWERS_MAX 1024
#define PATIENCE_NS (60 * SECOND_NS)

struct question {
	struct asker *asker;
	struct egress_question asked;
	struct ask_wait *waiting;
	struct loop_timer timer;
};

struct answer {
	struct answer *next;
	bool is_allowed;
	uint16_t port;
	char who[];
};

struct asker {
	struct egress *egress;
	struct question *open[QUESTIONS_MAX];
	struct answer *answers;
	size_t n_answers;
	uint64_t last_id;
};

struct asker *asker_new(struct egress *egress)
{
	struct asker *asker = calloc(1, sizeof *asker);

	if (asker)
		asker->egress = egress;
	return asker;
}

static void close_question(struct question *question, bool is_allowed, const char *reason)
{
	struct asker *asker = question->asker;

	for (size_t i = 0; i < QUESTIONS_MAX; i++)
		if (asker->open[i] == question)
			asker->open[i] = NULL;
	loop_disarm(&asker->egress->loop, &question->timer);
	while (question->waiting) {
		struct ask_wait *wait = question->waiting;

		ask_forget(wait);
		wait->told(wait, is_allowed, reason);
	}
	free(question);
}

void asker_free(struct asker *asker)
{
	struct answer *next;

	if (!asker)
		return;
	for (size_t i = 0; i < QUESTIONS_MAX; i++)
		if (asker->open[i])
			close_question(asker->open[i], false, "the run ended");
	for (struct answer *answer = asker->answers; answer; answer = next) {
		next = answer->next;
		free(answer);
	}
	free(asker);
}

static void nobody_answered(struct loop_timer *timer)
{
	close_question(container_of(timer, struct question, timer), false,
		       "nobody allowed it within 60 seconds");
}

static void remember(struct asker *asker, const struct egress_question *asked, bool is_allowed)
{
	size_t size = strlen(asked->name) + 1;
	struct answer *answer;

	/* Forgotten ones are asked again. */
	if (asker->n_answers >= ANSWERS_MAX)
		return;
	answer = malloc(sizeof *answer + size);
	if (!answer)
		return;
	answer->is_allowed = is_allowed;
	answer->port = asked->port;
	memcpy(answer->who, asked->name, size);
	answer->next = asker->answers;
	asker->answers = answer;
	asker->n_answers++;
}

void ask_answer(struct egress *egress, uint64_t id, bool is_allowed, bool is_once)
{
	struct asker *asker = egress->asker;

	for (size_t i = 0; i < QUESTIONS_MAX; i++) {
		struct question *question = asker->open[i];

		if (!question || question->asked.id != id)
			continue;
		if (!is_once)
			remember(asker, &question->asked, is_allowed);
		close_question(question, is_allowed,
			       is_once ? "nobody was there to allow it" : "a person said no");
		return;
	}
}

static void join(struct question *question, struct ask_wait *wait)
{
	wait->question = question;
	wait->previous = NULL;
	wait->next = question->waiting;
	if (wait->next)
		wait->next->previous = wait;
	question->waiting = wait;
}

/* Nobody waits any more: the question stays open, as its answer may still be of use. */
void ask_forget(struct ask_wait *wait)
{
	if (!wait->question)
		return;
	if (wait->previous)
		wait->previous->next = wait->next;
	else
		wait->question->waiting = wait->next;
	if (wait->next)
		wait->next->previous = wait->previous;
	wait->question = NULL;
}

static struct question *open_question(struct asker *asker, const char *who, uint16_t port,
				      uint16_t local_port)
{
	struct egress_message message = {.type = EGRESS_QUESTION};
	struct question **place = NULL, *question;

	for (size_t i = 0; i < QUESTIONS_MAX && !place; i++)
		if (!asker->open[i])
			place = &asker->open[i];
	question = place ? calloc(1, sizeof *question) : NULL;
	if (!question)
		return NULL;
	question->asker = asker;
	question->timer.fire = nobody_answered;
	question->asked.id = ++asker->last_id;
	question->asked.port = port;
	question->asked.local_port = local_port;
	snprintf(question->asked.name, sizeof question->asked.name, "%s", who);
	if (loop_arm(&asker->egress->loop, &question->timer, clock_monotonic_ns() + PATIENCE_NS) <
	    0) {
		free(question);
		return NULL;
	}
	*place = question;
	message.question = question->asked;
	channel_send(asker->egress->channel, &message);
	return question;
}

enum ask_result ask_person(struct egress *egress, const char *who, uint16_t port,
			   uint16_t local_port, struct ask_wait *wait)
{
	struct asker *asker = egress->asker;
	struct question *question = NULL;

	for (struct answer *answer = asker->answers; answer; answer = answer->next)
		if (answer->port == port && streq(answer->who, who))
			return answer->is_allowed ? ASK_YES : ASK_NO;
	for (size_t i = 0; i < QUESTIONS_MAX && !question; i++)
		if (asker->open[i] && asker->open[i]->asked.port == port &&
		    streq(asker->open[i]->asked.name, who))
			question = asker->open[i];
	if (!question)
		question = open_question(asker, who, port, local_port);
	if (!question)
		return ASK_FLOOD;
	join(question, wait);
	return ASK_WAIT;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/netctl-ask.h"
#include "base/clock.h"
#include "egress/egress.h"
#include "netctl/answers.h"
#include "netctl/netctl-open.h"
#include "netctl/netctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ASK_NS (60 * INT64_C(1000000000))

static void send_answer(struct netctl *net, uint64_t id, bool is_allowed, bool is_once)
{
	const struct egress_message message = {.type = EGRESS_ANSWER,
					       .question.id = id,
					       .is_allowed = is_allowed,
					       .is_once = is_once};

	netctl_send(net, &message, NULL, 0);
}

/* The text goes to a terminal. Names are ASCII here (IDN is encoded). */
static void replace_unprintable(char *text)
{
	for (; *text; text++) {
		if (*text <= 0x20 || *text >= 0x7f)
			*text = '?';
	}
}

void netctl_receive_question(struct netctl *net, const struct egress_question *from)
{
	struct netctl_question *question = &net->questions[net->n_questions];

	/* Too many questions: refuse this one, as if nobody had answered. */
	if (!net->options->ask || net->n_questions == NETCTL_QUESTIONS_MAX) {
		send_answer(net, from->id, false, true);
		return;
	}
	*question = (struct netctl_question){
		.id = from->id, .port = from->port, .until_ns = clock_monotonic_ns() + ASK_NS};
	snprintf(question->name, sizeof question->name, "%.*s", (int)sizeof from->name - 1,
		 from->name);
	replace_unprintable(question->name);
	if (net->find_process && from->local_port)
		question->pid = net->find_process(net->data, from->local_port, question->program);
	replace_unprintable(question->program);
	net->n_questions++;
}

void netctl_read_answer(struct netctl *net)
{
	struct atoll_answer answer;
	ssize_t got = read(net->options->answer_fd, &answer, sizeof answer);

	if (got == sizeof answer)
		netctl_answer(net, answer.id, (enum atoll_answer_type)answer.answer);
	else if (got >= 0 || (errno != EAGAIN && errno != EINTR))
		/* The other end is closed: nobody will answer. */
		while (net->n_questions)
			netctl_answer(net, net->questions[0].id, ATOLL_ASK_NOBODY);
}

struct netctl_question *netctl_next_question(struct netctl *net)
{
	for (size_t i = 0; i < net->n_questions; i++) {
		if (!net->questions[i].is_asked)
			return &net->questions[i];
	}
	return NULL;
}

void netctl_answer(struct netctl *net, uint64_t id, enum atoll_answer_type answer)
{
	struct atoll_error err = {0};
	size_t i = 0;

	while (i < net->n_questions && net->questions[i].id != id)
		i++;
	if (i == net->n_questions || answer == ATOLL_ASK_LATER)
		return;
	if (net->answered)
		net->answered(net->data, &net->questions[i], answer);
	/* If "always" cannot be stored, the answer holds for this run, and the result has a note.
	 */
	if (answer == ATOLL_ASK_ALWAYS &&
	    answers_add(net->spec, net->questions[i].name, net->questions[i].port, &err) < 0)
		netctl_note(net, err.text);
	send_answer(net, id,
		    answer == ATOLL_ASK_ONCE || answer == ATOLL_ASK_RUN ||
			    answer == ATOLL_ASK_ALWAYS,
		    answer == ATOLL_ASK_ONCE || answer == ATOLL_ASK_NOBODY);
	net->n_questions--;
	memmove(&net->questions[i], &net->questions[i + 1],
		(net->n_questions - i) * sizeof *net->questions);
}

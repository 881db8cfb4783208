/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run-messages.h"

#include "base/fd.h"
#include "base/str.h"
#include "job/run.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Messages and notices of pid 1
 *
 * The loop of run.c calls run_read_messages() when the control socket is readable, and notices.c
 * calls run_handle_notice() for each notice. They fill in the result; an end or a limit sets
 * `has_ended` and `is_done`.
 */

static void add_denial(struct run *run, const struct atoll_denial *denial)
{
	struct atoll_result *result = run->result;
	uint32_t n = result->n_denials < ATOLL_DENIALS_MAX ? result->n_denials : ATOLL_DENIALS_MAX;
	struct atoll_denial *last = n ? &result->denials[n - 1] : NULL;

	/* Equal denials are one entry with a count. */
	while (last && !(streq(last->path, denial->path) && streq(last->action, denial->action) &&
			 streq(last->rule, denial->rule)))
		last = last > result->denials ? last - 1 : NULL;
	if (last) {
		last->count += denial->count;
		return;
	}
	if (n < ATOLL_DENIALS_MAX)
		result->denials[n] = *denial;
	result->n_denials++;
}

void run_handle_notice(void *data, const struct parsed_notice *parsed)
{
	struct atoll_denial denial;
	struct run *run = data;

	eventlog_notice(run->recorder, parsed);
	if (parsed->notice->type != NOTICE_DENIAL)
		return;
	notices_fill_denial(parsed, &denial);
	add_denial(run, &denial);
}

/* SIGXFSZ: one file has reached RLIMIT_FSIZE, which is the disk limit of the run. */
static bool is_killed_by_file_size(const struct run *run, int wait_status)
{
	return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXFSZ &&
	       run->spec->limits[SPEC_DISK].value != SPEC_UNLIMITED;
}

static void handle_message(struct run *run, const struct init_message *message)
{
	struct atoll_result *result = run->result;

	/* The first end counts; later ones follow from it. */
	if (message->type == INIT_HELD) {
		run_eventlog_pause(run, &message->error);
		return;
	}
	if (run->has_ended && message->type != INIT_DENIAL) {
		run->is_done |= message->type == INIT_ENDED || message->type == INIT_FAILED;
		return;
	}
	switch (message->type) {
	case INIT_STARTED:
		run->has_started = true;
		if (run->options->started)
			run->options->started(run->handle.pid, run->options->data);
		run_check_terminal(run);
		break;
	case INIT_FAILED:
		run->failure = message->error;
		run->has_failed = message->code < 0;
		result->end = ATOLL_NOT_STARTED;
		result->code = message->code;
		run->has_ended = run->is_done = true;
		break;
	case INIT_ENDED:
		run->is_alone = message->is_alone;
		run->cpu_us = message->cpu_us;
		run->peak_kib = message->peak_kib;
		if (is_killed_by_file_size(run, message->wait_status)) {
			run_end_by_limit(run, ATOLL_OVER_LIMIT, "disk",
					 run->spec->limits[SPEC_DISK].value,
					 run->spec->limits[SPEC_DISK].value);
			snprintf(result->limit_note, sizeof result->limit_note, "by one file");
			break;
		}
		result->end = WIFSIGNALED(message->wait_status) ? ATOLL_SIGNALED : ATOLL_EXITED;
		result->code = WIFSIGNALED(message->wait_status)
				       ? WTERMSIG(message->wait_status)
				       : WEXITSTATUS(message->wait_status);
		run->has_ended = run->is_done = true;
		break;
	case INIT_STOPPED:
		run_suspend(run, true);
		break;
	case INIT_LIMIT:
		run_end_by_limit(run,
				 streq(message->limit, "memory")	 ? ATOLL_OUT_OF_MEMORY
				 : streq(message->limit, EVENTLOG_STUCK) ? ATOLL_UNRECORDED
									 : ATOLL_OVER_LIMIT,
				 message->limit, message->limit_value, message->limit_used);
		snprintf(result->limit_note, sizeof result->limit_note, "%.*s",
			 (int)sizeof message->limit_note - 1, message->limit_note);
		break;
	case INIT_DENIAL:
		add_denial(run, &message->denial);
		eventlog_denial(run->recorder, RUN_STEP, &message->denial);
		break;
	default:
		break;
	}
}

/* Use the descriptors of the two messages that have some; close all others. */
static void handle_fds(struct run *run, const struct init_message *message, const int *fds,
		       size_t n)
{
	if (message->type == INIT_LISTENER && n == 1 && run->backend->keep_listener) {
		run->backend->keep_listener(run->cell, fds[0]);
		return;
	}
	if (message->type == INIT_SOCKETS && n == (size_t)message->code)
		netctl_receive_sockets(&run->net, fds, n);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* Handle all messages of pid 1; false once its end is closed. */
bool run_read_messages(struct run *run)
{
	struct init_message message;
	ssize_t got;

	do {
		int fds[INIT_SOCKETS_MAX];
		size_t n = run->net.state == NETCTL_OFF ? 1 : INIT_SOCKETS_MAX;

		got = fd_receive(run->handle.control_fd, &message, sizeof message, MSG_DONTWAIT,
				 fds, &n);
		if (got > 0)
			handle_fds(run, &message, fds, n);
		if (got == sizeof message)
			handle_message(run, &message);
	} while (got > 0);
	return got == -EAGAIN;
}

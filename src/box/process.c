/* SPDX-License-Identifier: Apache-2.0 */
#include "box/process.h"

#include "base/clock.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/event.h"
#include "box/process-input.h"
#include "box/process-io.h"
#include "box/process-start.h"
#include "box/process-state.h"
#include "sandbox/sandbox.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define MS 1000000

/* ---- finding one ---- */

struct process *process_find_pid(struct box *box, int32_t pid)
{
	struct process *found = NULL;

	/* Numbers come round: the one that lives is meant, else the latest. */
	for (struct process *at = box->processes; at; at = at->next) {
		if (at->pid == pid && (!found || !at->has_ended || found->has_ended))
			found = at;
	}
	return found;
}

struct process *process_find_tag(struct box *box, const char *tag)
{
	struct process *found = NULL;

	for (struct process *at = box->processes; at; at = at->next) {
		if (at->tag && streq(at->tag, tag) &&
		    (!found || !at->has_ended || found->has_ended))
			found = at;
	}
	return found;
}

struct process *process_find_number(struct box *box, uint64_t number)
{
	/* A new one, mostly: of a thousand steps a second many thousands are still known. */
	if (number > box->latest_process)
		return NULL;
	for (struct process *at = box->processes; at; at = at->next) {
		if (at->number == number)
			return at;
	}
	return NULL;
}

/* ---- its struct ---- */

static void free_texts(char **texts)
{
	for (size_t i = 0; texts && texts[i]; i++)
		free(texts[i]);
	free(texts);
}

static void free_own(struct process_own *own)
{
	struct process *process = &own->process;

	loop_unqueue(&own->needs);
	loop_disarm(own->loop, &own->forget);
	loop_disarm(own->loop, &own->signal_again);
	loop_unwatch(own->loop, &own->watch);
	process_drop_input(own);
	atoll_step_detach(own->step);
	free_texts(process->argv);
	free_texts(process->environment);
	free(process->cwd);
	free(process->tag);
	free(process->user);
	free(process->key);
	free(own);
}

static void link_process(struct process_own *own)
{
	struct box *box = own->process.box;

	own->process.next = box->processes;
	own->link = &box->processes;
	if (box->processes)
		process_own(box->processes)->link = &own->process.next;
	box->processes = &own->process;
	if (own->process.number > box->latest_process)
		box->latest_process = own->process.number;
}

static void unlink_process(struct process_own *own)
{
	*own->link = own->process.next;
	if (own->process.next)
		process_own(own->process.next)->link = own->link;
}

static void fire_forget(struct loop_timer *timer)
{
	struct process_own *own = container_of(timer, struct process_own, forget);

	/* Somebody is slow, and has not read all yet. */
	if (own->readers || own->resting || own->inputs) {
		loop_arm(own->loop, timer,
			 clock_monotonic_ns() + PROCESS_FORGET_S * INT64_C(1000000000));
		return;
	}
	unlink_process(own);
	free_own(own);
}

/* Variables that all of the box's processes have are not the process's own. */
static bool is_of_box(const struct box *box, const char *text)
{
	for (size_t i = 0; i < box->environment.n; i++) {
		const struct box_pair *pair = &box->environment.items[i];
		const size_t length = strlen(pair->name);

		if (strncmp(text, pair->name, length) == 0 && text[length] == '=' &&
		    streq(text + length + 1, pair->value))
			return true;
	}
	return false;
}

static char **copy_texts(char *const *texts, const struct box *without)
{
	size_t n = 0, used = 0;
	char **copy;

	while (texts && texts[n])
		n++;
	copy = calloc(n + 1, sizeof *copy);
	for (size_t i = 0; copy && i < n; i++) {
		if (without && is_of_box(without, texts[i]))
			continue;
		copy[used] = strdup(texts[i]);
		if (!copy[used++]) {
			free_texts(copy);
			return NULL;
		}
	}
	return copy;
}

static char *copy_text(const char *text, bool *failed)
{
	char *copy = text && text[0] ? strdup(text) : NULL;

	*failed |= text && text[0] && !copy;
	return copy;
}

static bool fill(struct process *process, const struct atoll_step *step)
{
	const struct atoll_step_info *info = atoll_step_info(step);
	bool failed = false;

	process->number = info->number;
	process->pid = info->pid;
	process->has_stdin = info->has_stdin;
	process->has_terminal = info->has_terminal;
	process->start_ms = info->start_ns / MS;
	process->argv = copy_texts(atoll_step_argv(step), NULL);
	process->environment = copy_texts(atoll_step_env(step), process->box);
	process->cwd = copy_text(atoll_step_cwd(step), &failed);
	process->tag = copy_text(info->label, &failed);
	process->user = copy_text(info->user, &failed);
	process->key = copy_text(info->key, &failed);
	return process->argv && process->environment && !failed;
}

/* ---- its end ---- */

static void name_signal(int number, char *ret, size_t size)
{
	const char *name = strsignal(number);

	snprintf(ret, size, "signal: %s", name ? name : "unknown");
	ret[strlen("signal: ")] = (char)tolower((unsigned char)ret[strlen("signal: ")]);
}

static enum box_cause cause_of(const struct atoll_result *result)
{
	switch (result->end) {
	case ATOLL_TIMED_OUT:
		return BOX_CAUSE_TIME_OUT;
	case ATOLL_OUT_OF_MEMORY:
		return BOX_CAUSE_MEMORY;
	case ATOLL_OVER_LIMIT:
		return streq(result->limit, "disk") || streq(result->limit, "files")
			       ? BOX_CAUSE_DISK
			       : BOX_CAUSE_POLICY;
	case ATOLL_STOPPED:
		return BOX_CAUSE_POLICY;
	case ATOLL_UNRECORDED:
		return BOX_CAUSE_DISK;
	default:
		return BOX_CAUSE_NONE;
	}
}

static void fill_end(const struct atoll_step *step, struct process_end *end)
{
	const struct atoll_step_info *info = atoll_step_info(step);
	const struct atoll_result *result = info->result;

	*end = (struct process_end){.code = SIGKILL};
	if (result) {
		end->cause = cause_of(result);
		end->cpu_ms = result->cpu_ns / MS;
		end->memory_peak = result->peak_memory;
		end->has_exited = result->end == ATOLL_EXITED || result->end == ATOLL_NOT_STARTED;
		if (end->has_exited || result->end == ATOLL_SIGNALED)
			end->code = result->code;
	}
	if (info->state == ATOLL_STEP_LOST && !result)
		end->cause = BOX_CAUSE_INTERNAL;
	if (end->has_exited)
		snprintf(end->text, sizeof end->text, "exit status %d", end->code);
	else if (result && end->cause != BOX_CAUSE_NONE && end->cause != BOX_CAUSE_TIME_OUT)
		snprintf(end->text, sizeof end->text, "limit reached: %s%s%s", result->limit,
			 result->limit_note[0] ? ", " : "", result->limit_note);
	else
		name_signal(end->code, end->text, sizeof end->text);
}

void process_read_news(struct process_own *own)
{
	const struct atoll_step_info *info = atoll_step_info(own->step);
	struct process *process = &own->process;

	if (info->state >= ATOLL_STEP_ENDED && !process->has_ended) {
		loop_unwatch(own->loop, &own->watch);
		process_drop_input(own);
		process->has_ended = true;
		process->end_ms =
			info->end_ns ? info->end_ns / MS : (int64_t)(clock_real_ns() / MS);
		fill_end(own->step, &process->end);
		step_hang_up(own->step);
		step_drop_result(own->step);
		loop_arm(own->loop, &own->forget,
			 clock_monotonic_ns() + PROCESS_FORGET_S * INT64_C(1000000000));
		box_report(process->box, PROCESS_ENDED, process);
	}
}

static void on_step(struct loop_watch *watch, uint32_t events)
{
	struct process_own *own = container_of(watch, struct process_own, watch);
	struct atoll_error err;

	(void)events;
	atoll_step_move(own->step, &err); /* the state tells */
	process_read_news(own);
	process_input_moved(own);
	process_notify_readers(own);
}

/* ---- signals ---- */

/*
 * Input and signals go to the holder through one socket. While the holder has not read the input in
 * it, a signal gets EAGAIN: it waits, and is sent as soon as there is room.
 */
#define SIGNAL_AGAIN_NS (2 * INT64_C(1000000))

static int send_signal(struct process_own *own, int number)
{
	return atoll_step_signal(own->step, number, number == SIGKILL || number == SIGTERM);
}

static void fire_signals(struct loop_timer *timer)
{
	struct process_own *own = container_of(timer, struct process_own, signal_again);

	while (own->signals && !own->process.has_ended) {
		int number = __builtin_ctzll(own->signals) + 1;

		if (send_signal(own, number) == -EAGAIN) {
			loop_arm(own->loop, timer, clock_monotonic_ns() + SIGNAL_AGAIN_NS);
			return;
		}
		own->signals &= own->signals - 1;
	}
}

struct process *process_make(struct box *box, struct atoll_step *step)
{
	struct process_own *own = calloc(1, sizeof *own);

	if (!own)
		return NULL;
	own->loop = daemon_loop(box->daemon);
	own->process.box = box;
	own->needs.run = process_compare_needs;
	for (int i = 0; i < PROCESS_STREAMS; i++)
		own->need[i] = UINT64_MAX;
	own->forget.fire = fire_forget;
	own->signal_again.fire = fire_signals;
	own->watch = (struct loop_watch){.fd = atoll_step_fd(step), .ready = on_step};
	if (!fill(&own->process, step) || (atoll_step_info(step)->state < ATOLL_STEP_ENDED &&
					   loop_watch(own->loop, &own->watch, EPOLLIN) < 0)) {
		free_own(own);
		return NULL;
	}
	own->step = step;
	process_open_input(own);
	link_process(own);
	box_report(box, PROCESS_STARTED, &own->process);
	process_read_news(own);
	return &own->process;
}

int process_signal(struct process *process, int number)
{
	struct process_own *own = process_own(process);
	int r = process->has_ended ? -ESRCH : send_signal(own, number);

	if (r != -EAGAIN)
		return r;
	own->signals |= UINT64_C(1) << (number - 1);
	return loop_arm(own->loop, &own->signal_again, clock_monotonic_ns() + SIGNAL_AGAIN_NS);
}

int process_resize(struct process *process, uint16_t columns, uint16_t rows)
{
	return atoll_step_resize(process_own(process)->step, columns, rows);
}

void process_forget_all(struct box *box)
{
	process_drop_starts(box);
	while (box->processes) {
		struct process_own *own = process_own(box->processes);

		unlink_process(own);
		process_drop_readers(own);
		process_drop_waiters(own);
		free_own(own);
	}
}

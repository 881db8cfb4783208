/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template-start.h"

#include "base/clock.h"
#include "base/error.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/process-io.h"
#include "box/process-start.h"
#include "box/process.h"
#include "box/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A template's own command
 *
 * Whoever makes a box from a template that has one gets it when the command runs and what asks
 * whether it is ready has ended well; without such a question, when it runs. A box whose command
 * is not ready in time is handed out all the same: whoever uses it can see why, and a box that
 * nobody gets could not be looked into.
 */

#define READY_NS (60LL * 1000000000)
#define ASK_NS	 (250LL * 1000000)

struct beginning {
	struct loop_timer timer;
	struct daemon *daemon;
	char box[BOX_ID_SIZE];
	int64_t until_ns;
	uint64_t gone; /* of box_on_gone(); 0: it has gone */
	struct process_reader reader;
	box_done *done;
	void *data;
};

json_t *template_settings(const struct box *box)
{
	const struct kind *kind = kind_find(inner_tenant(box->tenant), box->template_id);

	return kind ? kind->settings : NULL;
}

const char *template_setting(const struct box *box, const char *name)
{
	const char *text = json_string_value(json_object_get(template_settings(box), name));

	return text && text[0] ? text : NULL;
}

static void finish(struct beginning *beginning)
{
	struct box *box = box_find_any(beginning->daemon, beginning->box);
	struct atoll_error err = {0};

	loop_disarm(daemon_loop(beginning->daemon), &beginning->timer);
	process_detach(&beginning->reader);
	if (box && beginning->gone)
		box_forget_gone(box, beginning->gone);
	if (!box)
		error_set(&err, ATOLL_FAULT_REQUEST, ENOENT,
			  "the sandbox has ended before its template's command was ready");
	beginning->done(box, &err, beginning->data);
	free(beginning);
}

/* Readers are not told of that. */
static void box_gone(struct box *box, void *data)
{
	struct beginning *beginning = data;

	(void)box;
	beginning->gone = 0;
	if (beginning->reader.process)
		finish(beginning);
}

static void start_process(struct beginning *beginning, struct box *box, const char *command,
			  process_started *started)
{
	char *argv[] = {(char *)"/bin/bash", (char *)"-l", (char *)"-c", (char *)command, NULL};
	const struct process_request request = {.argv = argv};

	process_start(box, &request, started, beginning);
}

static void ask_later(struct beginning *beginning)
{
	int64_t now = clock_monotonic_ns();

	process_detach(&beginning->reader);
	if (now > beginning->until_ns || !box_find_any(beginning->daemon, beginning->box))
		finish(beginning);
	else
		loop_arm(daemon_loop(beginning->daemon), &beginning->timer, now + ASK_NS);
}

static void answered(struct process_reader *reader)
{
	struct beginning *beginning =
		(struct beginning *)((char *)reader - offsetof(struct beginning, reader));
	char data[16U << 10];
	size_t n = 0;

	for (int i = 0; i < PROCESS_STREAMS; i++)
		n += process_read(reader, (enum process_stream)i, data, sizeof data);
	if (n > 0)
		process_go_on(reader);
	if (!process_is_read(reader))
		return;
	if (reader->process->end.has_exited && reader->process->end.code == 0)
		finish(beginning);
	else
		ask_later(beginning);
}

static void asked(struct process *process, const struct atoll_error *err, void *data)
{
	const uint64_t at[PROCESS_STREAMS] = {0};
	struct beginning *beginning = data;

	(void)err;
	if (!process) {
		ask_later(beginning);
		return;
	}
	beginning->reader.ready = answered;
	process_attach(process, &beginning->reader, at);
	answered(&beginning->reader);
}

static void ask(struct loop_timer *timer)
{
	struct beginning *beginning = (struct beginning *)timer;
	struct box *box = box_find_any(beginning->daemon, beginning->box);
	const char *command = box ? template_setting(box, "ready") : NULL;

	if (!command || box->state != BOX_RUNNING)
		finish(beginning);
	else
		start_process(beginning, box, command, asked);
}

static void started(struct process *process, const struct atoll_error *err, void *data)
{
	struct beginning *beginning = data;

	(void)process;
	(void)err;
	ask(&beginning->timer);
}

void template_start(struct box *box, box_done *done, void *data)
{
	const char *command = template_setting(box, "start");
	struct beginning *beginning;

	if (!command && !template_setting(box, "ready")) {
		done(box, &(struct atoll_error){0}, data);
		return;
	}
	beginning = calloc(1, sizeof *beginning);
	if (!beginning) {
		done(box, &(struct atoll_error){0}, data);
		return;
	}
	beginning->daemon = box->daemon;
	memcpy(beginning->box, box->id, sizeof beginning->box);
	beginning->until_ns = clock_monotonic_ns() + READY_NS;
	beginning->timer.fire = ask;
	beginning->done = done;
	beginning->data = data;
	beginning->gone = box_on_gone(box, box_gone, beginning);
	if (command)
		start_process(beginning, box, command, started);
	else
		loop_arm(daemon_loop(box->daemon), &beginning->timer, clock_monotonic_ns());
}

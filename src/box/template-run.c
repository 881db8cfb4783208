/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template-run.h"

#include "base/buf.h"
#include "base/scope.h"
#include "box/box-types.h"
#include "box/process-io.h"
#include "box/process-start.h"
#include "box/process.h"
#include "box/template-builds.h"
#include "box/template.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * One command of a build
 *
 * What it prints becomes lines of the build's log, cut where they are too long. A build has one at
 * a time; one that is dropped is killed, and tells nothing.
 */

#define ARGUMENTS_MAX 8

struct build_run {
	struct build *build; /* NULL: dropped */
	build_ran *done;
	struct process_reader reader;
	struct buf lines[PROCESS_STREAMS];
};

static void run_free(struct build_run *run)
{
	process_detach(&run->reader);
	for (int i = 0; i < PROCESS_STREAMS; i++)
		buf_done(&run->lines[i]);
	free(run);
}

static void finish(struct build_run *run, int status, const char *why)
{
	struct build *build = run->build;
	build_ran *done = run->done;

	build->run = NULL;
	run_free(run);
	done(build, status, why);
}

/* ---- what it prints ---- */

static void log_lines(struct build_run *run, int stream, bool is_end)
{
	struct buf *buf = &run->lines[stream];
	size_t at = 0;

	while (at < buf->used) {
		const char *line = buf->data + at, *end = memchr(line, '\n', buf->used - at);
		size_t size = end ? (size_t)(end - line) : buf->used - at;

		if (!end && !is_end && size < BUILD_LINE_MAX)
			break;
		if (size > BUILD_LINE_MAX) {
			size = BUILD_LINE_MAX;
			end = NULL;
		}
		build_log_text(run->build, false, line, size);
		at += size + (end ? 1 : 0);
	}
	if (at > 0) {
		memmove(buf->data, buf->data + at, buf->used - at);
		buf->used -= at;
	}
}

static void ready(struct process_reader *reader)
{
	struct build_run *run =
		(struct build_run *)((char *)reader - offsetof(struct build_run, reader));
	const struct process_end *end;
	char data[16U << 10], why[192];
	size_t n;

	for (int i = 0; i < PROCESS_STREAMS; i++) {
		n = process_read(reader, (enum process_stream)i, data, sizeof data);
		if (n == 0)
			continue;
		buf_add(&run->lines[i], data, n);
		log_lines(run, i, false);
		process_go_on(reader);
	}
	if (!process_is_read(reader))
		return;
	for (int i = 0; i < PROCESS_STREAMS; i++)
		log_lines(run, i, true);
	end = &reader->process->end;
	snprintf(why, sizeof why, "%s", end->text);
	finish(run, end->has_exited ? end->code : -1, why);
}

/* ---- its start ---- */

static void started(struct process *process, const struct atoll_error *err, void *data)
{
	const uint64_t at[PROCESS_STREAMS] = {0};
	struct build_run *run = data;

	if (!run->build) {
		if (process)
			process_signal(process, SIGKILL);
		run_free(run);
	} else if (!process) {
		finish(run, -1, err->text);
	} else {
		process_attach(process, &run->reader, at);
		ready(&run->reader);
	}
}

/* An environment from {"NAME": "VALUE"}; names and values stay the object's. */
static void read_pairs(json_t *object, struct box_pairs *ret)
{
	const char *name;
	json_t *value;

	ret->items = calloc(json_object_size(object) + 1, sizeof *ret->items);
	if (!ret->items)
		return;
	json_object_foreach(object, name, value)
	{
		ret->items[ret->n++] =
			(struct box_pair){(char *)name, (char *)json_string_value(value)};
	}
}

void build_run(struct build *build, const char *user, const char *command,
	       const char *const *arguments, build_ran *done)
{
	char *argv[ARGUMENTS_MAX + 6] = {(char *)"/bin/bash", (char *)"-l", (char *)"-c",
					 (char *)command, (char *)"build"};
	struct process_request request = {.argv = argv, .user = user};
	struct build_run *run = calloc(1, sizeof *run);

	if (!run) {
		done(build, -1, "out of memory");
		return;
	}
	for (size_t i = 0; arguments && arguments[i] && i < ARGUMENTS_MAX; i++)
		argv[5 + i] = (char *)arguments[i];
	run->build = build;
	run->done = done;
	run->reader.ready = ready;
	run->reader.holds = true;
	for (int i = 0; i < PROCESS_STREAMS; i++)
		run->lines[i] = (struct buf)BUF_INIT(64U << 10);
	build->run = run;
	request.cwd = json_string_value(json_object_get(build->settings, "workdir"));
	if (!user)
		request.user = json_string_value(json_object_get(build->settings, "user"));
	read_pairs(json_object_get(build->settings, "env"), &request.environment);
	process_start(build->box, &request, started, run);
	free(request.environment.items);
}

void build_run_drop(struct build *build)
{
	struct build_run *run = take_ptr(build->run);

	if (!run)
		return;
	run->build = NULL;
	if (!run->reader.process)
		return; /* started() frees it */
	process_signal(run->reader.process, SIGKILL);
	run_free(run);
}

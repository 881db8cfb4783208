/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/step-read.h"

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/step-client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Reports of the holder, and the output of a step, in the client
 *
 * The holder is trusted: it has the same user. Sizes are checked before anything is copied all the
 * same. A report has the whole state of the step, then the parts that this client has not got yet.
 */

void step_fill_info(const struct step_report *report, struct atoll_step_info *ret)
{
	ret->number = report->number;
	ret->pid = report->pid;
	ret->state = (enum atoll_step_state)report->state;
	ret->start_ns = report->start_ns;
	ret->end_ns = report->end_ns;
	ret->input_taken = report->input_taken;
	ret->input_written = report->input_written;
	ret->is_input_closed = report->is_input_closed;
	ret->has_stdin = report->has_stdin;
	ret->has_terminal = report->has_terminal;
	snprintf(ret->key, sizeof ret->key, "%.*s", (int)sizeof report->key - 1, report->key);
	snprintf(ret->label, sizeof ret->label, "%.*s", (int)sizeof report->label - 1,
		 report->label);
	snprintf(ret->user, sizeof ret->user, "%.*s", (int)sizeof report->user - 1, report->user);
	for (int i = 0; i < STEP_STREAMS; i++) {
		ret->size[i] = report->size[i];
		ret->first[i] = report->first[i];
	}
}

/* ---- parts of a report ---- */

static int read_invocation(struct atoll_step *step, const char *data, size_t size)
{
	struct init_step_head head;
	size_t at = sizeof head, n;

	if (step->invocation || size < sizeof head)
		return step->invocation ? 0 : -EBADMSG;
	memcpy(&head, data, sizeof head);
	n = 1 + (size_t)head.n_argv + head.n_env;
	if (n > size)
		return -EBADMSG;
	step->invocation = malloc(size);
	step->texts = calloc(n + 2, sizeof *step->texts);
	if (!step->invocation || !step->texts)
		return -ENOMEM;
	memcpy(step->invocation, data, size);
	step->n_argv = head.n_argv;
	/* The first text is the directory. A NULL separates arguments and variables. */
	for (size_t i = 0; i < n; i++) {
		char *text = step->invocation + at;
		const char *end = at < size ? memchr(text, '\0', size - at) : NULL;

		if (!end)
			return -EBADMSG;
		at += (size_t)(end - text) + 1;
		if (i > 0)
			step->texts[i <= head.n_argv ? i - 1 : i] = text;
	}
	return 0;
}

/* The latest bytes of a small stream; the earlier ones came in earlier reports. */
static int copy_output(struct atoll_step *step, int i, const struct step_report *report,
		       const char *data)
{
	struct step_stream *stream = &step->streams[i];
	const uint32_t size = report->data_size[i];

	if (size == 0)
		return 0;
	if (report->size[i] > STEP_SMALL_OUTPUT || size > report->size[i])
		return -EBADMSG;
	if (!stream->small)
		stream->small = malloc(STEP_SMALL_OUTPUT);
	if (!stream->small)
		return -ENOMEM;
	memcpy(stream->small + (report->size[i] - size), data, size);
	return 0;
}

static int set_end(struct atoll_step *step, const char *data, size_t size)
{
	struct atoll_result *result = calloc(1, sizeof *result);
	struct step_end end;

	if (!result)
		return -ENOMEM;
	free(step->info.result);
	step->info.result = result;
	if (size < sizeof end)
		return -EBADMSG;
	memcpy(&end, data, sizeof end);
	if (end.n_reported > STEP_DENIALS_MAX || end.n_reported > ATOLL_DENIALS_MAX ||
	    size != sizeof end + end.n_reported * sizeof(struct atoll_denial))
		return -EBADMSG;
	result->end = (enum atoll_end)end.end;
	result->code = end.code;
	memcpy(result->limit, end.limit, sizeof result->limit);
	memcpy(result->limit_note, end.limit_note, sizeof result->limit_note);
	result->limit_value = end.limit_value;
	result->limit_used = end.limit_used;
	result->wall_ns = end.wall_ns;
	result->cpu_ns = end.cpu_ns;
	result->peak_memory = end.peak_memory;
	result->output_bytes = end.output_bytes;
	memcpy(result->usage, end.usage, sizeof result->usage);
	memcpy(result->network_note, end.network_note, sizeof result->network_note);
	memcpy(result->run, end.run, sizeof result->run);
	result->n_denials = end.n_denials;
	memcpy(result->denials, data + sizeof end, end.n_reported * sizeof(struct atoll_denial));
	step->error = end.error;
	step->error.text[sizeof step->error.text - 1] = '\0';
	return 0;
}

/* The kernel drops descriptors beyond RLIMIT_NOFILE, and the holder sends each only once: fail. */
static int store_fds(struct atoll_step *step, const struct step_report *report, int *fds, size_t n)
{
	size_t at = 0;

	if (n != (size_t)report->brings_input + report->brings_file[0] + report->brings_file[1])
		return -EMFILE;
	if (report->brings_input && step->input_fd < 0)
		step->input_fd = take_fd(&fds[at]);
	at += report->brings_input;
	for (int i = 0; i < STEP_STREAMS; i++) {
		if (report->brings_file[i] && step->streams[i].file < 0)
			step->streams[i].file = take_fd(&fds[at]);
		at += report->brings_file[i];
	}
	return 0;
}

static int read_report(struct atoll_step *step, const char *data, size_t size, int *fds, size_t n)
{
	struct step_report report;
	size_t at = sizeof report, parts;
	int r;

	memcpy(&report, data, sizeof report);
	parts = (size_t)report.invocation_size + report.data_size[0] + report.data_size[1] +
		report.end_size;
	if (report.magic != STEP_REPORT_MAGIC || size != sizeof report + parts)
		return -EBADMSG;
	r = store_fds(step, &report, fds, n);
	if (r == 0 && report.invocation_size)
		r = read_invocation(step, data + at, report.invocation_size);
	at += report.invocation_size;
	for (int i = 0; i < STEP_STREAMS && r == 0; i++) {
		r = copy_output(step, i, &report, data + at);
		at += report.data_size[i];
	}
	if (r == 0 && report.end_size)
		r = set_end(step, data + at, report.end_size);
	if (r == 0)
		step_fill_info(&report, &step->info);
	/* A copy of ours would keep the pipe open. */
	if (r == 0 && report.is_input_closed && !report.has_terminal && step->input_fd >= 0)
		close(take_fd(&step->input_fd));
	return r;
}

/* ---- reports ---- */

/* The holder has refused the step or is gone. The descriptor stays open until the step is freed:
 * the caller's loop polls it. */
static int lose(struct atoll_step *step, const struct holder_reply *reply, int errnum,
		struct atoll_error *err)
{
	step->is_over = true;
	if (reply) {
		step->is_refused = true;
		*err = reply->error;
		err->text[sizeof err->text - 1] = '\0';
		return reply->code;
	}
	step->info.state = ATOLL_STEP_LOST;
	if (errnum == EMFILE)
		return error_set(err, ATOLL_FAULT_HOST, errnum,
				 "receive descriptors from the sandbox's holder; the step goes on");
	return error_set(err, ATOLL_FAULT_HOST, errnum,
			 "the sandbox's holder has ended, and everything in it");
}

static int handle_message(struct atoll_step *step, const char *data, size_t size, int *fds,
			  size_t n, struct atoll_error *err)
{
	struct holder_reply reply;
	int r;

	if (size == sizeof reply && !step->invocation) {
		memcpy(&reply, data, sizeof reply);
		if (reply.code < 0)
			return lose(step, &reply, 0, err);
	}
	r = size < sizeof(struct step_report) ? -EBADMSG : read_report(step, data, size, fds, n);
	return r < 0 ? lose(step, NULL, -r, err) : 0;
}

int step_read_reports(struct atoll_step *step, struct atoll_error *err)
{
	cleanup_free char *data = NULL;
	int r = 0;

	if (step->fd < 0 || step->is_over)
		return step->info.state == ATOLL_STEP_ENDED ? 0 : -EPIPE;
	data = malloc(STEP_REPORT_MAX);
	if (!data)
		return error_oom(err);
	while (r == 0 && step->info.state < ATOLL_STEP_ENDED) {
		int fds[1 + STEP_STREAMS] = {-1, -1, -1};
		size_t n = 1 + STEP_STREAMS;
		ssize_t got = fd_receive(step->fd, data, STEP_REPORT_MAX, MSG_DONTWAIT, fds, &n);

		/* ECONNRESET is reported once, before queued data: receive again. */
		if (got == -ECONNRESET && !step->was_reset) {
			step->was_reset = true;
			continue;
		}
		if (got == -EAGAIN && !step->was_reset)
			return 0;
		r = got > 0 ? handle_message(step, data, (size_t)got, fds, n, err)
			    : lose(step, NULL, got < 0 ? (int)-got : EPIPE, err);
		for (size_t i = 0; got > 0 && i < n; i++) {
			if (fds[i] >= 0)
				close(fds[i]);
		}
	}
	return r;
}

/* ---- output ---- */

/* Bytes below `first` may have been punched out during the read, and read as zeros: compare
 * afterwards. */
static ssize_t read_file(struct atoll_step *step, int i, uint64_t at, void *data, size_t size)
{
	const int fd = step->streams[i].file;
	uint64_t first;
	ssize_t got = pread(fd, data, size, (off_t)(STEP_OUTPUT_HEAD + at));

	if (got < 0)
		return -errno;
	if (pread(fd, &first, sizeof first, 0) != sizeof first)
		return -EIO;
	step->info.first[i] = first;
	return at < first ? -ESPIPE : got;
}

ssize_t atoll_step_read(struct atoll_step *step, int stream, uint64_t at, void *data, size_t size)
{
	const int i = stream - 1;
	uint64_t left;

	if (stream != 1 && stream != 2)
		return -EINVAL;
	if (at >= step->info.size[i] || size == 0)
		return 0;
	left = step->info.size[i] - at;
	if (size > left)
		size = (size_t)left;
	if (step->streams[i].file >= 0)
		return read_file(step, i, at, data, size);
	if (!step->streams[i].small || at + size > STEP_SMALL_OUTPUT)
		return -EIO;
	memcpy(data, step->streams[i].small + at, size);
	return (ssize_t)size;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/step-client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * What the holder tells of a step
 *
 * It is ours, and is believed; but sizes are checked before anything is copied.
 */

void step_fill_info(const struct hold_told *told, struct atoll_step_info *ret)
{
	ret->number = told->number;
	ret->pid = told->pid;
	ret->state = (enum atoll_step_state)told->state;
	ret->start_ns = told->start_ns;
	ret->end_ns = told->end_ns;
	ret->input_taken = told->input_taken;
	ret->input_written = told->input_written;
	ret->is_input_closed = told->is_input_closed;
	ret->has_stdin = told->has_stdin;
	ret->has_terminal = told->has_terminal;
	snprintf(ret->key, sizeof ret->key, "%.*s", (int)sizeof told->key - 1, told->key);
	snprintf(ret->label, sizeof ret->label, "%.*s", (int)sizeof told->label - 1, told->label);
	snprintf(ret->user, sizeof ret->user, "%.*s", (int)sizeof told->user - 1, told->user);
	for (int i = 0; i < HOLD_STREAMS; i++) {
		ret->size[i] = told->size[i];
		ret->first[i] = told->first[i];
	}
}

/* ---- the parts of a message ---- */

static int take_words(struct atoll_step *step, const char *data, size_t size)
{
	struct init_step_head head;
	size_t at = sizeof head, n;

	if (step->words || size < sizeof head)
		return step->words ? 0 : -EBADMSG;
	memcpy(&head, data, sizeof head);
	n = 1 + (size_t)head.n_argv + head.n_env;
	if (n > size)
		return -EBADMSG;
	step->words = malloc(size);
	step->texts = calloc(n + 2, sizeof *step->texts);
	if (!step->words || !step->texts)
		return -ENOMEM;
	memcpy(step->words, data, size);
	step->n_argv = head.n_argv;
	/* The first is the directory. Between arguments and variables there is a NULL. */
	for (size_t i = 0; i < n; i++) {
		char *text = step->words + at;
		const char *end = at < size ? memchr(text, '\0', size - at) : NULL;

		if (!end)
			return -EBADMSG;
		at += (size_t)(end - text) + 1;
		if (i > 0)
			step->texts[i <= head.n_argv ? i - 1 : i] = text;
	}
	return 0;
}

/* The latest bytes of a short stream, of which the rest is here. */
static int take_data(struct atoll_step *step, int i, const struct hold_told *told, const char *data)
{
	struct step_stream *stream = &step->streams[i];
	const uint32_t size = told->data_size[i];

	if (size == 0)
		return 0;
	if (told->size[i] > HOLD_SMALL || size > told->size[i])
		return -EBADMSG;
	if (!stream->small)
		stream->small = malloc(HOLD_SMALL);
	if (!stream->small)
		return -ENOMEM;
	memcpy(stream->small + (told->size[i] - size), data, size);
	return 0;
}

static int take_end(struct atoll_step *step, const char *data, size_t size)
{
	struct atoll_result *result = calloc(1, sizeof *result);
	struct hold_end end;

	if (!result)
		return -ENOMEM;
	free(step->info.result);
	step->info.result = result;
	if (size < sizeof end)
		return -EBADMSG;
	memcpy(&end, data, sizeof end);
	if (end.n_told > HOLD_DENIALS_MAX || end.n_told > ATOLL_DENIALS_MAX ||
	    size != sizeof end + end.n_told * sizeof(struct atoll_denial))
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
	memcpy(result->denials, data + sizeof end, end.n_told * sizeof(struct atoll_denial));
	step->error = end.error;
	step->error.text[sizeof step->error.text - 1] = '\0';
	return 0;
}

/* The kernel leaves out those that we have no room for, and it comes only once. */
static int take_fds(struct atoll_step *step, const struct hold_told *told, int *fds, size_t n)
{
	size_t at = 0;

	if (n != (size_t)told->brings_input + told->brings_file[0] + told->brings_file[1])
		return -EMFILE;
	if (told->brings_input && step->input_fd < 0)
		step->input_fd = take_fd(&fds[at]);
	at += told->brings_input;
	for (int i = 0; i < HOLD_STREAMS; i++) {
		if (told->brings_file[i] && step->streams[i].file < 0)
			step->streams[i].file = take_fd(&fds[at]);
		at += told->brings_file[i];
	}
	return 0;
}

static int take_told(struct atoll_step *step, const char *data, size_t size, int *fds, size_t n)
{
	struct hold_told told;
	size_t at = sizeof told, parts;
	int r;

	memcpy(&told, data, sizeof told);
	parts = (size_t)told.words_size + told.data_size[0] + told.data_size[1] + told.end_size;
	if (told.magic != HOLD_TOLD || size != sizeof told + parts)
		return -EBADMSG;
	r = take_fds(step, &told, fds, n);
	if (r == 0 && told.words_size)
		r = take_words(step, data + at, told.words_size);
	at += told.words_size;
	for (int i = 0; i < HOLD_STREAMS && r == 0; i++) {
		r = take_data(step, i, &told, data + at);
		at += told.data_size[i];
	}
	if (r == 0 && told.end_size)
		r = take_end(step, data + at, told.end_size);
	if (r == 0)
		step_fill_info(&told, &step->info);
	/* A copy of ours would keep the pipe open. */
	if (r == 0 && told.is_input_closed && !told.has_terminal && step->input_fd >= 0)
		close(take_fd(&step->input_fd));
	return r;
}

/* ---- messages ---- */

/* Refused in the beginning, or gone: nothing more comes. Its descriptor stays until the step is
 * freed: somebody's loop watches it. */
static int lose(struct atoll_step *step, const struct hold_reply *reply, int errnum,
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
				 "take what the sandbox's holder hands over; the step goes on");
	return error_set(err, ATOLL_FAULT_HOST, errnum,
			 "the sandbox's holder has ended, and everything in it");
}

static int take_message(struct atoll_step *step, const char *data, size_t size, int *fds, size_t n,
			struct atoll_error *err)
{
	struct hold_reply reply;
	int r;

	if (size == sizeof reply && !step->words) {
		memcpy(&reply, data, sizeof reply);
		if (reply.code < 0)
			return lose(step, &reply, 0, err);
	}
	r = size < sizeof(struct hold_told) ? -EBADMSG : take_told(step, data, size, fds, n);
	return r < 0 ? lose(step, NULL, -r, err) : 0;
}

int step_take(struct atoll_step *step, struct atoll_error *err)
{
	cleanup_free char *data = NULL;
	int r = 0;

	if (step->fd < 0 || step->is_over)
		return step->info.state == ATOLL_STEP_ENDED ? 0 : -EPIPE;
	data = malloc(HOLD_TOLD_MAX);
	if (!data)
		return error_oom(err);
	while (r == 0 && step->info.state < ATOLL_STEP_ENDED) {
		int fds[1 + HOLD_STREAMS] = {-1, -1, -1};
		size_t n = 1 + HOLD_STREAMS;
		ssize_t got = fd_receive(step->fd, data, HOLD_TOLD_MAX, MSG_DONTWAIT, fds, &n);

		/* It has closed its side without reading all of ours, which is told before what it
		 * said, and once. */
		if (got == -ECONNRESET && !step->was_reset) {
			step->was_reset = true;
			continue;
		}
		if (got == -EAGAIN && !step->was_reset)
			return 0;
		r = got > 0 ? take_message(step, data, (size_t)got, fds, n, err)
			    : lose(step, NULL, got < 0 ? (int)-got : EPIPE, err);
		for (size_t i = 0; got > 0 && i < n; i++) {
			if (fds[i] >= 0)
				close(fds[i]);
		}
	}
	return r;
}

/* ---- the output ---- */

/* What is not kept any more may have become so while it was read: then it was zeros. */
static ssize_t read_file(struct atoll_step *step, int i, uint64_t at, void *data, size_t size)
{
	const int fd = step->streams[i].file;
	uint64_t first;
	ssize_t got = pread(fd, data, size, (off_t)(HOLD_FILE_HEAD + at));

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
	if (!step->streams[i].small || at + size > HOLD_SMALL)
		return -EIO;
	memcpy(data, step->streams[i].small + at, size);
	return (ssize_t)size;
}

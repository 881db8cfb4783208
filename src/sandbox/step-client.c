/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/step-client.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/sandbox.h"
#include "sandbox/step-read.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>

/*
 * Detached steps, in the client (atoll/step.h)
 *
 * atoll_step_start() sends HOLDER_STEP and atoll_step_attach() HOLDER_ATTACH; both return before
 * the holder answers. The caller polls atoll_step_fd() and calls atoll_step_move(), which reads the
 * reports (step-read.c). Signals, input and needs are sent as struct step_call.
 */

/* How often to connect again while one holder after the other is just ending. */
#define TRIES 100

/* ---- start, attach ---- */

static struct atoll_step *new_step(void)
{
	struct atoll_step *step = calloc(1, sizeof *step);

	if (!step)
		return NULL;
	step->fd = step->input_fd = step->streams[0].file = step->streams[1].file = -1;
	for (int i = 0; i < STEP_STREAMS; i++)
		step->need[i] = step->needed[i] = UINT64_MAX;
	return step;
}

static void free_step(struct atoll_step *step)
{
	if (!step)
		return;
	if (step->fd >= 0)
		close(step->fd);
	if (step->input_fd >= 0)
		close(step->input_fd);
	for (int i = 0; i < STEP_STREAMS; i++) {
		if (step->streams[i].file >= 0)
			close(step->streams[i].file);
		free(step->streams[i].small);
	}
	free(step->info.result);
	free(step->invocation);
	free(step->texts);
	free(step);
}

static void add_invocation(struct buf *out, const struct atoll_step_options *options)
{
	struct init_step_head head = {0};

	while (options->argv[head.n_argv])
		head.n_argv++;
	while (options->env && options->env[head.n_env])
		head.n_env++;
	buf_add(out, &head, sizeof head);
	buf_add(out, options->cwd ? options->cwd : "", options->cwd ? strlen(options->cwd) + 1 : 1);
	for (uint32_t i = 0; i < head.n_argv; i++)
		buf_add(out, options->argv[i], strlen(options->argv[i]) + 1);
	for (uint32_t i = 0; i < head.n_env; i++)
		buf_add(out, options->env[i], strlen(options->env[i]) + 1);
}

static int check_options(const struct atoll_step_options *options, struct atoll_error *err)
{
	if (!options->argv || !options->argv[0])
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "no command");
	if (options->cwd && strlen(options->cwd) >= PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "the directory '%.40s...'",
				 options->cwd);
	if (options->key && strlen(options->key) >= ATOLL_STEP_KEY)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "the key of a step has at most %d characters", ATOLL_STEP_KEY - 1);
	if (options->label && strlen(options->label) >= ATOLL_STEP_LABEL)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "the label of a step has at most %d bytes", ATOLL_STEP_LABEL - 1);
	if (options->user && strlen(options->user) >= sizeof((struct step_start_request *)0)->user)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "user '%.40s'", options->user);
	return 0;
}

static int write_invocation(const struct buf *out, struct atoll_error *err)
{
	cleanup_fd int fd = memfd_create("atoll-step", MFD_CLOEXEC);
	const size_t head = sizeof(struct step_start_request);
	int r = fd < 0 ? -errno : fd_write_all(fd, out->data + head, out->used - head);

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "store the step's invocation")
		     : take_fd(&fd);
}

/* The request and, if it does not fit into a message, a descriptor with the invocation. */
static int make_request(const struct atoll_step_options *options, struct buf *out, int *ret_words,
			struct atoll_error *err)
{
	struct step_start_request start = {.version = HOLDER_VERSION,
					   .type = HOLDER_STEP,
					   .has_stdin = options->has_stdin,
					   .has_terminal = options->has_terminal,
					   .has_channel = options->channel_fd > 0,
					   .columns = options->columns,
					   .rows = options->rows,
					   .timeout_ms = options->timeout_ms};

	snprintf(start.key, sizeof start.key, "%s", options->key ? options->key : "");
	snprintf(start.label, sizeof start.label, "%s", options->label ? options->label : "");
	snprintf(start.user, sizeof start.user, "%s", options->user ? options->user : "");
	buf_add(out, &start, sizeof start);
	add_invocation(out, options);
	if (buf_error(out) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -buf_error(out), "the command");
	if (out->used <= sizeof start + STEP_INVOCATION_MAX)
		return 0;
	*ret_words = write_invocation(out, err);
	if (*ret_words < 0)
		return *ret_words;
	start.has_invocation_fd = true;
	memcpy(out->data, &start, sizeof start);
	out->used = sizeof start;
	return 0;
}

/* Connect to the holder, and start one unless `needs_holder`. */
static int connect_to(const char *id, bool needs_holder, bool waits, struct atoll_error *err)
{
	struct layer_record *record = NULL;
	int r = holder_connect_id(id, waits, err);

	if (r != -ENOENT)
		return r;
	r = sandbox_open(id, &record, err);
	if (r == 0 && needs_holder)
		r = holder_connect(record, err);
	else if (r == 0)
		r = holder_connect_or_start(record, err);
	layer_record_close(record);
	if (r == -ENOENT && !err->text[0])
		error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "sandbox '%s' has no holder", id);
	return r;
}

static int send_start(const char *id, const struct atoll_step_options *options,
		      struct atoll_step *step, struct atoll_error *err)
{
	cleanup_buf struct buf out = BUF_INIT(sizeof(struct step_start_request) + INIT_STEP_MAX);
	cleanup_fd int invocation = -1;
	int fds[2], n = 0, r = make_request(options, &out, &invocation, err);

	if (r < 0)
		return r;
	if (invocation >= 0)
		fds[n++] = invocation;
	if (options->channel_fd > 0)
		fds[n++] = options->channel_fd;
	/* -EPIPE, -ECONNRESET: the holder was ending and has not read the request. */
	for (int i = 0; i < TRIES; i++) {
		step->fd = connect_to(id, options->needs_holder, !options->needs_holder, err);
		if (step->fd < 0)
			return step->fd;
		r = fd_send(step->fd, out.data, out.used, fds, (size_t)n);
		if (r == 0)
			return 0;
		close(take_fd(&step->fd));
		if (r != -EPIPE && r != -ECONNRESET)
			break;
	}
	return error_set(err, ATOLL_FAULT_HOST, -r, "ask the sandbox's holder");
}

int atoll_step_start(const char *id, const struct atoll_step_options *options,
		     struct atoll_step **ret, struct atoll_error *err)
{
	struct atoll_error ignored;
	struct atoll_step *step;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	r = check_options(options, err);
	if (r < 0)
		return r;
	step = new_step();
	if (!step)
		return error_oom(err);
	r = send_start(id, options, step, err);
	if (r < 0) {
		free_step(step);
		return r;
	}
	step->info.has_stdin = options->has_stdin;
	step->info.has_terminal = options->has_terminal;
	*ret = step;
	return 0;
}

int atoll_step_attach(const char *id, uint32_t number, struct atoll_step **ret,
		      struct atoll_error *err)
{
	const struct holder_request request = {
		.version = HOLDER_VERSION, .type = HOLDER_ATTACH, .number = number};
	struct atoll_step *step = new_step();
	struct atoll_error ignored;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	if (!step)
		return error_oom(err);
	step->info.number = number;
	step->fd = connect_to(id, true, false, err);
	r = step->fd < 0 ? step->fd : fd_send(step->fd, &request, sizeof request, NULL, 0);
	if (r < 0 && step->fd >= 0)
		error_set(err, ATOLL_FAULT_HOST, -r, "ask the sandbox's holder");
	if (r < 0)
		free_step(step);
	else
		*ret = step;
	return r;
}

void atoll_step_detach(struct atoll_step *step)
{
	const struct step_call call = {.type = STEP_CALL_DETACH};

	if (step && step->fd >= 0)
		send(step->fd, &call, sizeof call, MSG_NOSIGNAL | MSG_DONTWAIT);
	free_step(step);
}

void step_drop_result(struct atoll_step *step)
{
	free(step->info.result);
	step->info.result = NULL;
}

void step_hang_up(struct atoll_step *step)
{
	const struct step_call what = {.type = STEP_CALL_DETACH};

	if (step->fd < 0 || step->info.state < ATOLL_STEP_ENDED)
		return;
	send(step->fd, &what, sizeof what, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(take_fd(&step->fd));
	if (step->input_fd >= 0)
		close(take_fd(&step->input_fd));
}

/* ---- list ---- */

static int receive_list(int fd, struct atoll_step_info **ret, size_t *ret_n,
			struct atoll_error *err)
{
	const size_t room =
		sizeof(struct holder_reply) + STEP_LIST_MAX * sizeof(struct step_report);
	cleanup_free char *data = malloc(room);
	const struct step_report *report;
	struct holder_reply reply;
	size_t none = 0, n;
	ssize_t got = data ? fd_receive(fd, data, room, 0, NULL, &none) : -ENOMEM;

	if (got < (ssize_t)sizeof reply)
		return error_set(err, ATOLL_FAULT_HOST, got < 0 ? (int)-got : EPIPE,
				 "the sandbox's holder has ended, and everything in it");
	memcpy(&reply, data, sizeof reply);
	if (reply.code < 0) {
		*err = reply.error;
		err->text[sizeof err->text - 1] = '\0';
		return reply.code;
	}
	n = ((size_t)got - sizeof reply) / sizeof *report;
	*ret = calloc(n + 1, sizeof **ret);
	if (!*ret)
		return error_oom(err);
	report = (const struct step_report *)(const void *)(data + sizeof reply);
	for (size_t i = 0; i < n; i++)
		step_fill_info(&report[i], &(*ret)[i]);
	*ret_n = n;
	return 0;
}

int atoll_steps_list(const char *id, struct atoll_step_info **ret, size_t *ret_n,
		     struct atoll_error *err)
{
	const struct holder_request request = {.version = HOLDER_VERSION, .type = HOLDER_LIST};
	struct atoll_error ignored;
	cleanup_fd int fd = -1;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	fd = connect_to(id, true, true, err);
	if (fd < 0)
		return fd;
	r = fd_send(fd, &request, sizeof request, NULL, 0);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "ask the sandbox's holder");
	return receive_list(fd, ret, ret_n, err);
}

/* ---- state ---- */

int atoll_step_fd(const struct atoll_step *step)
{
	return step->fd;
}

int atoll_step_move(struct atoll_step *step, struct atoll_error *err)
{
	struct atoll_error ignored;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	return step_read_reports(step, err);
}

const struct atoll_step_info *atoll_step_info(const struct atoll_step *step)
{
	return &step->info;
}

const struct atoll_error *atoll_step_error(const struct atoll_step *step)
{
	return &step->error;
}

char *const *atoll_step_argv(const struct atoll_step *step)
{
	return step->texts;
}

char *const *atoll_step_env(const struct atoll_step *step)
{
	return step->texts ? step->texts + step->n_argv + 1 : NULL;
}

const char *atoll_step_cwd(const struct atoll_step *step)
{
	return step->invocation ? step->invocation + sizeof(struct init_step_head) : NULL;
}

/* ---- calls ---- */

static int call(struct atoll_step *step, const struct step_call *what)
{
	if (step->fd < 0 || step->is_over || step->info.state >= ATOLL_STEP_ENDED)
		return -ESRCH;
	if (send(step->fd, what, sizeof *what, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return errno == EPIPE || errno == ECONNRESET ? -ESRCH : -errno;
	return 0;
}

int atoll_step_signal(struct atoll_step *step, int number, bool is_all)
{
	const struct step_call what = {
		.type = STEP_CALL_SIGNAL, .signal = number, .is_all = is_all};

	return number < 1 || number >= NSIG ? -EINVAL : call(step, &what);
}

void atoll_step_need(struct atoll_step *step, int stream, uint64_t at)
{
	struct step_call what = {.type = STEP_CALL_NEED};
	uint64_t *need = &step->need[stream == 2], *needed = &step->needed[stream == 2];

	if (stream != 1 && stream != 2)
		return;
	*need = at;
	/* Send it at most once per STEP_NEED_INTERVAL bytes. */
	if (at == *needed || (at != UINT64_MAX && *needed != UINT64_MAX && at > *needed &&
			      at - *needed < STEP_NEED_INTERVAL))
		return;
	memcpy(what.need, step->need, sizeof what.need);
	if (call(step, &what) == 0)
		memcpy(step->needed, step->need, sizeof step->needed);
}

ssize_t atoll_step_input(struct atoll_step *step, uint64_t at, const void *data, size_t size)
{
	const uint64_t most = step->info.input_written + STEP_INPUT_MAX;
	struct step_call what = {.type = STEP_CALL_INPUT, .at = at};
	struct iovec parts[] = {{&what, sizeof what}, {(void *)data, 0}};
	const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	if (step->fd < 0 || step->is_over || step->info.state >= ATOLL_STEP_ENDED ||
	    step->info.is_input_closed || (!step->info.has_stdin && !step->info.has_terminal))
		return -EPIPE;
	if (at >= most)
		return 0;
	if (size > most - at)
		size = (size_t)(most - at);
	if (size > STEP_INPUT_PIECE)
		size = STEP_INPUT_PIECE;
	parts[1].iov_len = size;
	if (sendmsg(step->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return (ssize_t)size;
}

int atoll_step_input_fd(const struct atoll_step *step)
{
	return step->input_fd;
}

void atoll_step_close_input(struct atoll_step *step)
{
	const struct step_call what = {.type = STEP_CALL_CLOSE_INPUT};

	if (step->info.has_terminal)
		return;
	if (step->input_fd >= 0)
		close(take_fd(&step->input_fd));
	call(step, &what);
}

int atoll_step_resize(struct atoll_step *step, uint16_t columns, uint16_t rows)
{
	const struct winsize size = {.ws_row = rows, .ws_col = columns};

	if (!step->info.has_terminal)
		return -ENOTTY;
	if (step->input_fd < 0)
		return -ESRCH;
	return ioctl(step->input_fd, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

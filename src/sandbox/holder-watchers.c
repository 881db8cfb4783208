/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-watchers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-input.h"
#include "sandbox/holder-output.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/*
 * Reports about detached steps, and calls from their watchers
 *
 * A report contains the step's whole state and the parts that this watcher has not got yet. So a
 * slow watcher gets fewer reports and misses nothing. Reports are sent at the end of a round of the
 * loop: output, its end and the end of the command become one message. A watcher sends struct
 * step_call: signals, input, needed offsets.
 */

/* Retry a report that failed with ENOBUFS, ENOMEM or the like. */
#define RETRY_NS (10 * INT64_C(1000000))

/* How long the output that a lost watcher needed is kept for its return. */
#define RETURN_NS (60 * INT64_C(1000000000))

int watcher_add(struct holder *holder, struct detached_step *step, int fd, struct atoll_error *err)
{
	struct step_watcher *watcher;

	if (holder->n_watchers >= HOLDER_WATCHERS_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "more than %d connections watch steps of this sandbox",
				 HOLDER_WATCHERS_MAX);
	watcher = calloc(1, sizeof *watcher);
	if (!watcher)
		return error_oom(err);
	/* Read the calls of broken connections first: the new watcher's first report must say how
	 * much input was accepted. */
	for (struct step_watcher *at = step->watchers; at; at = at->next) {
		if (at->fd >= 0)
			watcher_serve(holder, step, at, false);
	}
	watcher->fd = fd;
	watcher->need[0] = watcher->need[1] = UINT64_MAX;
	watcher->next = step->watchers;
	step->watchers = watcher;
	holder->n_watchers++;
	/* A step that is just starting reports when pid 1 has started it. */
	watcher->is_behind = step->state != ATOLL_STEP_STARTING;
	return 0;
}

void watcher_fill_report(const struct detached_step *step, struct step_report *ret)
{
	*ret = (struct step_report){.magic = STEP_REPORT_MAGIC,
				    .number = step->number,
				    .pid = step->pid,
				    .state = step->state,
				    .start_ns = step->start_ns,
				    .end_ns = step->end_ns,
				    .input_taken = step->input_taken,
				    .input_written = step->input_written,
				    .is_input_closed = step->closes_input,
				    .has_stdin = step->has_stdin,
				    .has_terminal = step->has_terminal};
	memcpy(ret->key, step->key, sizeof ret->key);
	memcpy(ret->label, step->label, sizeof ret->label);
	memcpy(ret->user, step->user, sizeof ret->user);
	for (int i = 0; i < STEP_STREAMS; i++) {
		ret->size[i] = step->streams[i].size;
		ret->first[i] = step->streams[i].first;
	}
}

/* ---- reports ---- */

struct outgoing_report {
	struct step_report head;
	struct iovec parts[5];
	size_t n_parts;
	int fds[1 + STEP_STREAMS];
	size_t n_fds;
};

static void add_part(struct outgoing_report *out, const void *data, size_t size)
{
	if (size)
		out->parts[out->n_parts++] =
			(struct iovec){.iov_base = (void *)data, .iov_len = size};
}

static void add_stream(struct outgoing_report *out, const struct detached_step *step,
		       const struct step_watcher *watcher, int i)
{
	const struct output_stream *stream = &step->streams[i];

	if (stream->file >= 0) {
		out->head.brings_file[i] = !watcher->has_file[i];
		if (out->head.brings_file[i])
			out->fds[out->n_fds++] = stream->file;
		return;
	}
	out->head.data_size[i] = (uint32_t)(stream->size - watcher->sent[i]);
	if (stream->small) /* no output yet */
		add_part(out, stream->small + watcher->sent[i], out->head.data_size[i]);
}

static size_t end_size(const struct detached_step *step)
{
	return sizeof *step->end + step->end->n_reported * sizeof(struct atoll_denial);
}

static void fill_outgoing(const struct detached_step *step, const struct step_watcher *watcher,
			  struct outgoing_report *ret)
{
	ret->n_parts = ret->n_fds = 0;
	watcher_fill_report(step, &ret->head);
	add_part(ret, &ret->head, sizeof ret->head);
	if (!watcher->has_invocation) {
		ret->head.invocation_size = (uint32_t)step->invocation_size;
		add_part(ret, step->invocation, step->invocation_size);
	}
	if (!watcher->has_input_fd && step->input_fd >= 0 && !step->closes_input) {
		ret->head.brings_input = true;
		ret->fds[ret->n_fds++] = step->input_fd;
	}
	for (int i = 0; i < STEP_STREAMS; i++)
		add_stream(ret, step, watcher, i);
	if (step->end) {
		ret->head.end_size = (uint32_t)end_size(step);
		add_part(ret, step->end, end_size(step));
	}
}

static int send_outgoing(int fd, struct outgoing_report *out)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof out->fds)];
	} control;
	struct msghdr message = {.msg_iov = out->parts, .msg_iovlen = out->n_parts};

	if (out->n_fds) {
		memset(&control, 0, sizeof control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(out->n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), out->fds, out->n_fds * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(out->n_fds * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void close_watcher(struct holder *holder, struct detached_step *step,
			  struct step_watcher *watcher)
{
	(void)holder;
	close(take_fd(&watcher->fd));
	holder_output_needs(step);
}

/* False: sending failed and is tried again. */
static bool send_report(struct holder *holder, struct detached_step *step,
			struct step_watcher *watcher)
{
	struct outgoing_report out;
	int r;

	fill_outgoing(step, watcher, &out);
	r = send_outgoing(watcher->fd, &out);
	watcher->is_full = r == -EAGAIN;
	if (r == -EAGAIN)
		return true; /* POLLOUT comes when there is room */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return false;
	watcher->is_behind = false;
	/* EPIPE: the loop reads the end of the connection from the socket. */
	watcher->has_invocation = true;
	watcher->has_input_fd |= out.head.brings_input;
	watcher->has_end |= out.head.end_size > 0;
	step->is_end_sent |= r == 0 && watcher->has_end;
	for (int i = 0; i < STEP_STREAMS; i++) {
		watcher->has_file[i] |= out.head.brings_file[i];
		watcher->sent[i] = step->streams[i].size;
	}
	if (watcher->has_end)
		close_watcher(holder, step, watcher);
	return true;
}

void watchers_send_reports(struct holder *holder)
{
	int64_t now_ns = 0;

	for (struct detached_step *step = holder->detached; step; step = step->next) {
		bool has_failed = false;

		/* The end of the command is expected within report_ns: wait and send one report. */
		if (step->has_changed && step->report_ns) {
			now_ns = now_ns ? now_ns : clock_monotonic_ns();
			if (now_ns < step->report_ns && !step->end)
				continue;
		}
		for (struct step_watcher *at = step->watchers; at; at = at->next) {
			at->is_behind |= step->has_changed;
			if (at->fd >= 0 && at->is_behind && !at->is_full)
				has_failed |= !send_report(holder, step, at);
		}
		step->has_changed = has_failed;
		step->report_ns = has_failed ? clock_monotonic_ns() + RETRY_NS : 0;
	}
}

/* ---- calls ---- */

static void send_signal(struct holder *holder, struct detached_step *step,
			const struct step_call *call)
{
	if (!step->client || call->signal < 1 || call->signal >= NSIG)
		return;
	step->is_forced |= call->signal == SIGKILL || call->signal == SIGTERM;
	if (step->client->state == CLIENT_ENDED)
		return; /* the command has ended; is_forced ends the wait for its output */
	holder_send_order(holder, call->is_all ? INIT_SIGNAL_ALL : INIT_SIGNAL_COMMAND,
			  step->client->step_id, call->signal);
}

/* The connection broke: the client or its successor may come back and read on. Keep what it needs.
 */
static void handle_lost_watcher(struct holder *holder, struct detached_step *step,
				struct step_watcher *watcher)
{
	for (int i = 0; i < STEP_STREAMS; i++) {
		if (watcher->need[i] < step->streams[i].left)
			step->streams[i].left = watcher->need[i];
	}
	step->lost_until_ns = clock_monotonic_ns() + RETURN_NS;
	close_watcher(holder, step, watcher);
}

static void set_needs(struct detached_step *step, struct step_watcher *watcher,
		      const struct step_call *call)
{
	memcpy(watcher->need, call->need, sizeof watcher->need);
	/* A lost watcher is back if the need is at or a little behind the lost one's. Otherwise
	 * another watcher may still come back. */
	for (int i = 0; i < STEP_STREAMS; i++) {
		uint64_t *left = &step->streams[i].left;

		if (call->need[i] <= *left || call->need[i] - *left <= STEP_NEED_SLACK)
			*left = UINT64_MAX;
	}
	holder_output_needs(step);
}

/* `data` is the text behind the call. */
static void handle_call(struct holder *holder, struct detached_step *step,
			struct step_watcher *watcher, const struct step_call *call,
			const char *data, size_t size)
{
	switch (call->type) {
	case STEP_CALL_SIGNAL:
		send_signal(holder, step, call);
		break;
	case STEP_CALL_CLOSE_INPUT:
		holder_input_end(step);
		break;
	case STEP_CALL_INPUT:
		holder_input_add(step, call->at, data, size);
		break;
	case STEP_CALL_NEED:
		set_needs(step, watcher, call);
		break;
	case STEP_CALL_DETACH:
		close_watcher(holder, step, watcher);
		break;
	default:
		break;
	}
}

void watcher_serve(struct holder *holder, struct detached_step *step, struct step_watcher *watcher,
		   bool can_send)
{
	static struct {
		struct step_call call;
		char data[STEP_INPUT_PIECE];
	} room;
	ssize_t got;

	if (can_send)
		watcher->is_full = false;
	do {
		got = recv(watcher->fd, &room, sizeof room, MSG_DONTWAIT);
		/* ECONNRESET is reported before queued data: receive again. */
		if (got < 0 && errno == ECONNRESET)
			got = recv(watcher->fd, &room, sizeof room, MSG_DONTWAIT);
		if (got >= (ssize_t)sizeof room.call)
			handle_call(holder, step, watcher, &room.call, room.data,
				    (size_t)got - sizeof room.call);
	} while (got >= (ssize_t)sizeof room.call && watcher->fd >= 0);
	if (watcher->fd >= 0 && (got >= 0 || (errno != EAGAIN && errno != EINTR)))
		handle_lost_watcher(holder, step, watcher);
}

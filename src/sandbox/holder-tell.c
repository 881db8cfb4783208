/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-inner.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/*
 * Who is told of a kept step
 *
 * One message says how things stand, and brings what this watcher does not have yet. So it does not
 * matter how many there were: whoever is slow gets fewer of them. They are sent at the end of a
 * round of the loop, which makes one of output, end of output and end of the command.
 */

/* When it is tried again what failed for want of memory, or the like. */
#define RETRY_NS (10 * INT64_C(1000000))

/* How long what was needed by one who was killed is kept for him. */
#define RETURN_NS (60 * INT64_C(1000000000))

int hold_watch_step(struct holder *holder, struct hold_kept *kept, int fd, struct atoll_error *err)
{
	struct hold_watcher *watcher;

	if (holder->n_watchers >= HOLD_WATCHERS_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "more than %d are told of steps of the same sandbox",
				 HOLD_WATCHERS_MAX);
	watcher = calloc(1, sizeof *watcher);
	if (!watcher)
		return error_oom(err);
	/* What somebody has said who is dead by now counts before what his successor hears: he is
	 * told how far the step's input was taken. */
	for (struct hold_watcher *at = kept->watchers; at; at = at->next) {
		if (at->fd >= 0)
			hold_serve_watcher(holder, kept, at, false);
	}
	watcher->fd = fd;
	watcher->need[0] = watcher->need[1] = UINT64_MAX;
	watcher->next = kept->watchers;
	kept->watchers = watcher;
	holder->n_watchers++;
	/* Of one that is just starting there is nothing to be told yet. */
	watcher->is_behind = kept->state != ATOLL_STEP_STARTING;
	return 0;
}

void hold_fill_told(const struct hold_kept *kept, struct hold_told *ret)
{
	*ret = (struct hold_told){.magic = HOLD_TOLD,
				  .number = kept->number,
				  .pid = kept->pid,
				  .state = kept->state,
				  .start_ns = kept->start_ns,
				  .end_ns = kept->end_ns,
				  .input_taken = kept->input_taken,
				  .input_written = kept->input_written,
				  .is_input_closed = kept->closes_input,
				  .has_stdin = kept->has_stdin,
				  .has_terminal = kept->has_terminal};
	memcpy(ret->key, kept->key, sizeof ret->key);
	memcpy(ret->label, kept->label, sizeof ret->label);
	memcpy(ret->user, kept->user, sizeof ret->user);
	for (int i = 0; i < HOLD_STREAMS; i++) {
		ret->size[i] = kept->streams[i].size;
		ret->first[i] = kept->streams[i].first;
	}
}

/* ---- a message ---- */

struct parcel {
	struct hold_told told;
	struct iovec parts[5];
	size_t n_parts;
	int fds[1 + HOLD_STREAMS];
	size_t n_fds;
};

static void add_part(struct parcel *parcel, const void *data, size_t size)
{
	if (size)
		parcel->parts[parcel->n_parts++] =
			(struct iovec){.iov_base = (void *)data, .iov_len = size};
}

static void add_stream(struct parcel *parcel, const struct hold_kept *kept,
		       const struct hold_watcher *watcher, int i)
{
	const struct hold_stream *stream = &kept->streams[i];

	if (stream->file >= 0) {
		parcel->told.brings_file[i] = !watcher->knows_file[i];
		if (parcel->told.brings_file[i])
			parcel->fds[parcel->n_fds++] = stream->file;
		return;
	}
	parcel->told.data_size[i] = (uint32_t)(stream->size - watcher->told[i]);
	if (stream->small) /* nothing came yet */
		add_part(parcel, stream->small + watcher->told[i], parcel->told.data_size[i]);
}

static size_t end_size(const struct hold_kept *kept)
{
	return sizeof *kept->end + kept->end->n_told * sizeof(struct atoll_denial);
}

static void pack(const struct hold_kept *kept, const struct hold_watcher *watcher,
		 struct parcel *ret)
{
	ret->n_parts = ret->n_fds = 0;
	hold_fill_told(kept, &ret->told);
	add_part(ret, &ret->told, sizeof ret->told);
	if (!watcher->knows_step) {
		ret->told.words_size = (uint32_t)kept->words_size;
		add_part(ret, kept->words, kept->words_size);
	}
	if (!watcher->knows_input && kept->input_fd >= 0 && !kept->closes_input) {
		ret->told.brings_input = true;
		ret->fds[ret->n_fds++] = kept->input_fd;
	}
	for (int i = 0; i < HOLD_STREAMS; i++)
		add_stream(ret, kept, watcher, i);
	if (kept->end) {
		ret->told.end_size = (uint32_t)end_size(kept);
		add_part(ret, kept->end, end_size(kept));
	}
}

static int send_parcel(int fd, struct parcel *parcel)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof parcel->fds)];
	} control;
	struct msghdr message = {.msg_iov = parcel->parts, .msg_iovlen = parcel->n_parts};

	if (parcel->n_fds) {
		memset(&control, 0, sizeof control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(parcel->n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), parcel->fds, parcel->n_fds * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(parcel->n_fds * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void drop(struct holder *holder, struct hold_kept *kept, struct hold_watcher *watcher)
{
	(void)holder;
	close(take_fd(&watcher->fd));
	hold_output_needs(kept);
}

/* False: it could not be sent, and he is behind. */
static bool tell(struct holder *holder, struct hold_kept *kept, struct hold_watcher *watcher)
{
	struct parcel parcel;
	int r;

	pack(kept, watcher, &parcel);
	r = send_parcel(watcher->fd, &parcel);
	watcher->is_full = r == -EAGAIN;
	if (r == -EAGAIN)
		return true; /* his socket says when */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return false;
	watcher->is_behind = false;
	/* One that is gone is noticed when his socket is looked at. */
	watcher->knows_step = true;
	watcher->knows_input |= parcel.told.brings_input;
	watcher->knows_end |= parcel.told.end_size > 0;
	kept->was_heard |= r == 0 && watcher->knows_end;
	for (int i = 0; i < HOLD_STREAMS; i++) {
		watcher->knows_file[i] |= parcel.told.brings_file[i];
		watcher->told[i] = kept->streams[i].size;
	}
	if (watcher->knows_end)
		drop(holder, kept, watcher);
	return true;
}

void hold_tell_all(struct holder *holder)
{
	int64_t now_ns = 0;

	for (struct hold_kept *kept = holder->kept; kept; kept = kept->next) {
		bool has_failed = false;

		/* Its end is about to come, and is told with it. */
		if (kept->has_news && kept->tell_ns) {
			now_ns = now_ns ? now_ns : clock_monotonic_ns();
			if (now_ns < kept->tell_ns && !kept->end)
				continue;
		}
		for (struct hold_watcher *at = kept->watchers; at; at = at->next) {
			at->is_behind |= kept->has_news;
			if (at->fd >= 0 && at->is_behind && !at->is_full)
				has_failed |= !tell(holder, kept, at);
		}
		kept->has_news = has_failed;
		kept->tell_ns = has_failed ? clock_monotonic_ns() + RETRY_NS : 0;
	}
}

/* ---- what he says ---- */

static void send_signal(struct holder *holder, struct hold_kept *kept, const struct hold_call *call)
{
	if (!kept->client || call->signal < 1 || call->signal >= NSIG)
		return;
	kept->is_forced |= call->signal == SIGKILL || call->signal == SIGTERM;
	if (kept->client->has_end)
		return; /* it has ended, and what holds its output open is not waited for now */
	hold_order(holder, call->is_all ? INIT_SIGNAL_ALL : INIT_SIGNAL_COMMAND, kept->client->step,
		   call->signal);
}

/* Killed, perhaps: he or his successor will be back, and wants to go on where he was. */
static void lose(struct holder *holder, struct hold_kept *kept, struct hold_watcher *watcher)
{
	for (int i = 0; i < HOLD_STREAMS; i++) {
		if (watcher->need[i] < kept->streams[i].left)
			kept->streams[i].left = watcher->need[i];
	}
	kept->left_until_ns = clock_monotonic_ns() + RETURN_NS;
	drop(holder, kept, watcher);
}

static void take_needs(struct hold_kept *kept, struct hold_watcher *watcher,
		       const struct hold_call *call)
{
	memcpy(watcher->need, call->need, sizeof watcher->need);
	/* Somebody is back who says himself what he needs: who was as far as that, or a little
	 * further than he had said. Another one may still come for more. */
	for (int i = 0; i < HOLD_STREAMS; i++) {
		uint64_t *left = &kept->streams[i].left;

		if (call->need[i] <= *left || call->need[i] - *left <= HOLD_NEED_SLACK)
			*left = UINT64_MAX;
	}
	hold_output_needs(kept);
}

/* `data` is what follows the call. */
static void take_call(struct holder *holder, struct hold_kept *kept, struct hold_watcher *watcher,
		      const struct hold_call *call, const char *data, size_t size)
{
	switch (call->type) {
	case HOLD_CALL_SIGNAL:
		send_signal(holder, kept, call);
		break;
	case HOLD_CALL_CLOSE_INPUT:
		hold_input_end(kept);
		break;
	case HOLD_CALL_INPUT:
		hold_input_take(kept, call->at, data, size);
		break;
	case HOLD_CALL_NEED:
		take_needs(kept, watcher, call);
		break;
	case HOLD_CALL_DETACH:
		drop(holder, kept, watcher);
		break;
	default:
		break;
	}
}

void hold_serve_watcher(struct holder *holder, struct hold_kept *kept, struct hold_watcher *watcher,
			bool can_send)
{
	static struct {
		struct hold_call call;
		char data[HOLD_INPUT_PIECE];
	} room;
	ssize_t got;

	if (can_send)
		watcher->is_full = false;
	do {
		got = recv(watcher->fd, &room, sizeof room, MSG_DONTWAIT);
		/* He has left without reading all, which is told before what he said last. */
		if (got < 0 && errno == ECONNRESET)
			got = recv(watcher->fd, &room, sizeof room, MSG_DONTWAIT);
		if (got >= (ssize_t)sizeof room.call)
			take_call(holder, kept, watcher, &room.call, room.data,
				  (size_t)got - sizeof room.call);
	} while (got >= (ssize_t)sizeof room.call && watcher->fd >= 0);
	if (watcher->fd >= 0 && (got >= 0 || (errno != EAGAIN && errno != EINTR)))
		lose(holder, kept, watcher);
}

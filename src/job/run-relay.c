/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run-relay.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "eventlog/eventlog.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <termios.h>

/* Time for a terminal to show the last bytes. */
#define RESET_MS 500

static int make_pipe(int *ret_read, int *ret_write, struct atoll_error *err)
{
	int made[2], r;

	if (pipe2(made, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	/* The new descriptors are never 0, 1 or 2, even if the caller has closed these. */
	*ret_read = fd_above_stdio(made[0]);
	*ret_write = fd_above_stdio(made[1]);
	r = *ret_read < 0 ? *ret_read : *ret_write;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "make a pipe") : 0;
}

static bool is_open(int fd)
{
	return fd >= 0 && fcntl(fd, F_GETFD) >= 0;
}

/* write() to a terminal that was stopped (Ctrl-S) blocks for ever. A newly opened file description
 * can be non-blocking without an effect on the caller's. */
static void show(struct stream *stream, bool is_interactive)
{
	char path[32];
	int fd;

	stream->is_shown = true;
	vt_init(&stream->vt, is_interactive);
	snprintf(path, sizeof path, "/proc/self/fd/%d", stream->to);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return;
	stream->to = fd;
	stream->closes_to = true;
}

static int open_stream(struct relay *relay, int i, int there, int *ret_child,
		       struct atoll_error *err)
{
	struct stream *stream = &relay->streams[i];
	bool has_pipe = !relay->has_terminal || (i == RELAY_ERR && !stream->is_terminal);
	struct stat st;
	int r = 0;

	if (i == RELAY_IN) {
		stream->from = there;
		if (has_pipe)
			r = make_pipe(ret_child, &stream->to, err);
		if (r == 0 && has_pipe)
			fcntl(stream->to, F_SETFL, O_NONBLOCK);
		return r;
	}
	if (stream->is_terminal && i == RELAY_ERR)
		return 0; /* comes out of the same terminal */
	if (has_pipe)
		r = make_pipe(&stream->from, ret_child, err);
	if (r == 0 && has_pipe)
		fcntl(stream->from, F_SETFL, O_NONBLOCK);
	stream->to = there;
	stream->is_big = there >= 0 && fstat(there, &st) == 0 && S_ISREG(st.st_mode);
	if (there >= 0 && !stream->is_big && isatty(there))
		show(stream, relay->has_terminal);
	return r;
}

int relay_open(struct relay *relay, const int caller[3], const bool is_terminal[3],
	       uint64_t output_limit, int ret_child[3], struct atoll_error *err)
{
	int r = 0;

	relay->output_bytes = 0;
	relay->output_limit = output_limit;
	relay->is_over = relay->is_held = relay->is_input_held = relay->has_others = false;
	relay->output = NULL;
	relay->has_terminal = is_terminal[RELAY_IN];
	relay->ends_with_line = true;
	for (int i = 0; i < RELAY_COUNT; i++) {
		struct stream *stream = &relay->streams[i];

		stream->from = stream->to = ret_child[i] = -1;
		stream->data = relay->rooms[i];
		stream->used = stream->sent = 0;
		stream->closes_to = i == RELAY_IN;
		stream->closes_from = i != RELAY_IN;
		stream->is_big = stream->is_shown = false;
		stream->is_terminal = is_terminal[i];
	}
	for (int i = 0; r == 0 && i < RELAY_COUNT; i++)
		r = open_stream(relay, i, is_open(caller[i]) ? caller[i] : -1, &ret_child[i], err);
	return r;
}

int relay_attach(struct relay *relay, int master_fd, struct atoll_error *err)
{
	int in = fcntl(master_fd, F_DUPFD_CLOEXEC, 3), out = fcntl(master_fd, F_DUPFD_CLOEXEC, 3);

	relay->streams[RELAY_IN].to = in;
	relay->streams[RELAY_OUT].from = out;
	if (in < 0 || out < 0 || fcntl(master_fd, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "take the terminal");
	return 0;
}

static void end_from(struct stream *stream)
{
	if (stream->from >= 0 && stream->closes_from)
		close(stream->from);
	stream->from = -1;
}

static void end_to(struct stream *stream)
{
	if (stream->to >= 0 && stream->closes_to)
		close(stream->to);
	stream->to = -1;
}

void relay_close(struct relay *relay)
{
	for (int i = 0; i < RELAY_COUNT; i++) {
		end_from(&relay->streams[i]);
		end_to(&relay->streams[i]);
	}
}

/* Two streams on one terminal: a piece of one stream inside a piece of the other could form an
 * escape sequence from two harmless halves. So a stream with unsent bytes goes first. */
static bool has_to_wait(const struct relay *relay, int i)
{
	for (int j = RELAY_OUT; relay->streams[i].is_shown && j < RELAY_COUNT; j++) {
		const struct stream *other = &relay->streams[j];

		if (j != i && other->is_shown && other->to >= 0 && other->sent > 0 &&
		    other->sent < other->used)
			return true;
	}
	return false;
}

void relay_want(const struct relay *relay, struct pollfd *fds)
{
	for (int i = 0; i < RELAY_COUNT; i++) {
		const struct stream *stream = &relay->streams[i];
		bool is_full = stream->sent < stream->used;
		bool is_held = relay->is_held || (i == RELAY_IN && relay->is_input_held);

		fds[2 * i] = (struct pollfd){.fd = is_full || is_held ? -1 : stream->from,
					     .events = POLLIN};
		fds[2 * i + 1] =
			(struct pollfd){.fd = is_full && !has_to_wait(relay, i) ? stream->to : -1,
					.events = POLLOUT};
	}
	/* A command that has closed its input must be noticed, or a caller that never ends would
	 * be read for nobody. */
	if (relay->streams[RELAY_IN].to >= 0 && fds[1].fd < 0 && !relay->has_terminal)
		fds[1] = (struct pollfd){.fd = relay->streams[RELAY_IN].to, .events = 0};
}

/* Read the available bytes. False at the end of the stream. */
static bool fill(struct stream *stream)
{
	/* The filter may put withheld bytes in front: leave room for them. */
	size_t room = stream->is_shown ? VT_HELD_MAX : 0;
	ssize_t got = read(stream->from, stream->data + room, RELAY_ROOM - room);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	stream->used = (size_t)got;
	stream->sent = 0;
	return got > 0;
}

/* Write a piece that does not block. */
static void flush(struct stream *stream)
{
	size_t left = stream->used - stream->sent;
	ssize_t done;

	if (stream->to < 0) {
		stream->sent = stream->used; /* no reader: the bytes count as output all the same */
		return;
	}
	if (!stream->is_big && !stream->closes_to && left > PIPE_BUF) /* it might block */
		left = PIPE_BUF;
	done = write(stream->to, stream->data + stream->sent, left);
	if (done >= 0)
		stream->sent += (size_t)done;
	else if (errno != EAGAIN && errno != EINTR) {
		end_to(stream);
		stream->sent = stream->used;
	}
}

static bool count(struct relay *relay, int i)
{
	struct stream *stream = &relay->streams[i];

	if (i == RELAY_IN || stream->used == 0)
		return true;
	if (stream->used > relay->output_limit - relay->output_bytes) {
		stream->used = (size_t)(relay->output_limit - relay->output_bytes);
		relay->output_bytes = relay->output_limit;
		relay->is_over = true;
		return false;
	}
	relay->output_bytes += stream->used;
	return true;
}

/* Count, hash and filter new output. False if it exceeds the limit. */
static bool pass(struct relay *relay, int i)
{
	struct stream *stream = &relay->streams[i];
	bool is_within = count(relay, i);

	/* The hash is over the bytes of the command, not over the filtered ones. */
	if (i != RELAY_IN && relay->output)
		eventlog_output_add(
			relay->output, i == RELAY_ERR ? EVENTLOG_STDERR : EVENTLOG_STDOUT,
			stream->data + (stream->is_shown ? VT_HELD_MAX : 0), stream->used);

	if (stream->is_shown)
		stream->used = vt_filter(&stream->vt, stream->data + VT_HELD_MAX, stream->used,
					 stream->data);
	if (i == RELAY_IN && stream->used)
		relay->ends_with_line = stream->data[stream->used - 1] == '\n';
	return is_within;
}

void relay_idle(struct relay *relay)
{
	for (int i = 0; i < RELAY_COUNT; i++) {
		struct stream *stream = &relay->streams[i];

		if (stream->sent == stream->used)
			program_drop(stream->data, RELAY_ROOM);
	}
}

/* The caller's input has ended. A terminal cannot be closed for reading alone: write its
 * end-of-file character, twice after an incomplete line. */
static void type_end(struct relay *relay)
{
	struct stream *stream = &relay->streams[RELAY_IN];
	struct termios modes;

	if (stream->to < 0 || tcgetattr(stream->to, &modes) < 0 || !(modes.c_lflag & ICANON))
		return;
	stream->data[0] = stream->data[1] = (char)modes.c_cc[VEOF];
	stream->sent = 0;
	stream->used = relay->ends_with_line ? 1 : 2;
}

bool relay_move(struct relay *relay, const struct pollfd *fds)
{
	bool is_within = true;

	for (int i = 0; i < RELAY_COUNT; i++) {
		struct stream *stream = &relay->streams[i];
		const struct pollfd *from = &fds[2 * i], *to = &fds[2 * i + 1];

		if (to->fd >= 0 && to->revents & POLLOUT && !has_to_wait(relay, i))
			flush(stream);
		else if (to->fd >= 0 && to->revents & ~POLLOUT)
			end_to(stream);
		if (i == RELAY_IN && relay->is_input_held)
			continue; /* closed since the poll */
		if (from->fd >= 0 && from->revents && stream->from >= 0) {
			if (!fill(stream)) {
				end_from(stream);
				if (i == RELAY_IN && relay->has_terminal)
					type_end(relay);
			} else if (stream->used > stream->sent) {
				is_within = pass(relay, i) && is_within;
			}
			if (stream->to < 0)
				flush(stream);
		}
		/* Close the other end: a reader sees the end of file, a writer gets SIGPIPE. */
		if (stream->from < 0 && stream->sent == stream->used && !stream->is_shown)
			end_to(stream);
		if (stream->to < 0 && (i == RELAY_IN || stream->closes_from))
			end_from(stream);
	}
	/* The caller's terminal is gone: close the command's, and the kernel sends SIGHUP. */
	if (relay->has_terminal && relay->streams[RELAY_OUT].from < 0)
		end_to(&relay->streams[RELAY_IN]);
	return is_within;
}

/* If other processes of the sandbox may write on, read only what is in the pipes now. */
static bool end_empty(struct relay *relay, const struct pollfd *fds)
{
	bool has_ended = false;

	for (int i = RELAY_OUT; relay->has_others && i < RELAY_COUNT; i++) {
		if (fds[2 * i].fd < 0 || poll((struct pollfd *)&fds[2 * i], 1, 0) != 0)
			continue;
		end_from(&relay->streams[i]);
		has_ended = true;
	}
	return has_ended;
}

bool relay_drain(struct relay *relay, int64_t until_ns, int stop_fd)
{
	end_from(&relay->streams[RELAY_IN]);
	end_to(&relay->streams[RELAY_IN]);
	for (;;) {
		struct pollfd fds[2 * RELAY_COUNT + 1];
		int64_t left_ms = (until_ns - clock_monotonic_ns()) / 1000000;
		bool is_empty = true;

		relay_want(relay, fds);
		if (end_empty(relay, fds))
			continue;
		for (int i = 0; i < 2 * RELAY_COUNT; i++)
			is_empty = is_empty && fds[i].fd < 0;
		if (is_empty || left_ms <= 0)
			return true;
		fds[2 * RELAY_COUNT] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
		if (poll(fds, ARRAY_SIZE(fds), left_ms > 1000 ? 1000 : (int)left_ms) < 0 &&
		    errno != EINTR)
			return true;
		if (fds[2 * RELAY_COUNT].revents)
			return false;
		if (relay_move(relay, fds))
			continue;
		/* Beyond the limit nothing more is read; bytes that were read before are written.
		 */
		for (int i = RELAY_OUT; i < RELAY_COUNT; i++)
			end_from(&relay->streams[i]);
	}
}

bool relay_reports(const struct relay *relay)
{
	return relay->streams[RELAY_OUT].is_shown && vt_reports(&relay->streams[RELAY_OUT].vt);
}

bool relay_reset(struct relay *relay)
{
	bool is_mid_line = false;

	for (int i = RELAY_OUT; i < RELAY_COUNT; i++) {
		struct stream *stream = &relay->streams[i];
		struct pollfd room = {.fd = stream->to, .events = POLLOUT};
		char bytes[VT_RESET_MAX + 1];
		size_t n = 0;

		if (!stream->is_shown || stream->to < 0)
			continue;
		is_mid_line = is_mid_line || stream->vt.is_mid_line;
		/* The output may have been cut within an escape sequence. */
		if (stream->sent < stream->used)
			bytes[n++] = 0x18;
		stream->sent = stream->used;
		n += vt_reset(&stream->vt, bytes + n);
		if (n > 0 && poll(&room, 1, RESET_MS) > 0)
			fd_write_all(stream->to, bytes, n);
	}
	return is_mid_line;
}

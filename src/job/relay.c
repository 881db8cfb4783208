/* SPDX-License-Identifier: Apache-2.0 */
#include "job/relay.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

static int make_pipe(int *ret_read, int *ret_write, struct atoll_error *err)
{
	int made[2];

	if (pipe2(made, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	/* Not 0, 1 or 2, even if the caller has closed them. */
	*ret_read = fcntl(made[0], F_DUPFD_CLOEXEC, 3);
	*ret_write = fcntl(made[1], F_DUPFD_CLOEXEC, 3);
	close(made[0]);
	close(made[1]);
	return *ret_read < 0 || *ret_write < 0
		       ? error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe")
		       : 0;
}

static bool is_open(int fd)
{
	return fd >= 0 && fcntl(fd, F_GETFD) >= 0;
}

int relay_open(struct relay *relay, const int caller[3], uint64_t output_limit, int ret_child[3],
	       struct atoll_error *err)
{
	struct stat st;
	int r = 0;

	relay->output_bytes = 0;
	relay->output_limit = output_limit;
	relay->is_over = false;
	for (int i = 0; i < RELAY_COUNT; i++) {
		struct stream *stream = &relay->streams[i];

		stream->from = stream->to = ret_child[i] = -1;
		stream->used = stream->sent = 0;
		stream->closes_to = i == RELAY_IN;
		stream->closes_from = i != RELAY_IN;
		stream->is_big = false;
	}
	for (int i = 0; r == 0 && i < RELAY_COUNT; i++) {
		struct stream *stream = &relay->streams[i];
		int there = is_open(caller[i]) ? caller[i] : -1;

		if (i == RELAY_IN) {
			r = make_pipe(&ret_child[i], &stream->to, err);
			stream->from = there;
			if (r == 0)
				fcntl(stream->to, F_SETFL, O_NONBLOCK);
		} else {
			r = make_pipe(&stream->from, &ret_child[i], err);
			stream->to = there;
			if (r == 0)
				fcntl(stream->from, F_SETFL, O_NONBLOCK);
			stream->is_big =
				there >= 0 && fstat(there, &st) == 0 && S_ISREG(st.st_mode);
		}
	}
	return r;
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

void relay_want(const struct relay *relay, struct pollfd *fds)
{
	for (int i = 0; i < RELAY_COUNT; i++) {
		const struct stream *stream = &relay->streams[i];
		bool is_full = stream->sent < stream->used;

		fds[2 * i] = (struct pollfd){.fd = is_full ? -1 : stream->from, .events = POLLIN};
		fds[2 * i + 1] =
			(struct pollfd){.fd = is_full ? stream->to : -1, .events = POLLOUT};
	}
	/* A command that has closed its input must be noticed, or a caller that never ends would
	 * be read for nobody. */
	if (relay->streams[RELAY_IN].to >= 0 && fds[1].fd < 0)
		fds[1] = (struct pollfd){.fd = relay->streams[RELAY_IN].to, .events = 0};
}

/* Take what has come. False at the end of the stream. */
static bool fill(struct stream *stream)
{
	ssize_t got = read(stream->from, stream->data, sizeof stream->data);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	stream->used = (size_t)got;
	stream->sent = 0;
	return got > 0;
}

/* Hand on a piece that fits. */
static void flush(struct stream *stream)
{
	size_t left = stream->used - stream->sent;
	ssize_t done;

	if (stream->to < 0) {
		stream->sent = stream->used; /* nobody reads: it has still been produced */
		return;
	}
	if (!stream->is_big && !stream->closes_to && left > PIPE_BUF)
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

bool relay_move(struct relay *relay, const struct pollfd *fds)
{
	bool is_within = true;

	for (int i = 0; i < RELAY_COUNT; i++) {
		struct stream *stream = &relay->streams[i];
		const struct pollfd *from = &fds[2 * i], *to = &fds[2 * i + 1];

		if (to->fd >= 0 && to->revents & POLLOUT)
			flush(stream);
		else if (to->fd >= 0 && to->revents)
			end_to(stream);
		if (from->fd >= 0 && from->revents && stream->from >= 0) {
			if (!fill(stream))
				end_from(stream);
			else if (stream->used > stream->sent)
				is_within = count(relay, i) && is_within;
			if (stream->to < 0)
				flush(stream);
		}
		/* Whoever reads must see the end; and what nobody takes is not read on. */
		if (stream->from < 0 && stream->sent == stream->used)
			end_to(stream);
		if (stream->to < 0 && (i == RELAY_IN || stream->closes_from))
			end_from(stream);
	}
	return is_within;
}

bool relay_drain(struct relay *relay, int64_t until_ns)
{
	bool is_within = true;

	end_from(&relay->streams[RELAY_IN]);
	end_to(&relay->streams[RELAY_IN]);
	for (;;) {
		struct pollfd fds[2 * RELAY_COUNT];
		int64_t left_ms = (until_ns - clock_monotonic_ns()) / 1000000;
		bool is_empty = true;

		relay_want(relay, fds);
		for (int i = 0; i < 2 * RELAY_COUNT; i++)
			is_empty = is_empty && fds[i].fd < 0;
		if (is_empty || left_ms <= 0 || !is_within)
			return is_within;
		if (poll(fds, 2 * RELAY_COUNT, left_ms > 1000 ? 1000 : (int)left_ms) < 0 &&
		    errno != EINTR)
			return is_within;
		is_within = relay_move(relay, fds);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/vfs.h>

/* ---- to be read ---- */

/* O_NONBLOCK: a FIFO is opened whether or not somebody writes to it. */
static int open_to_read(const struct question *question, const char *path, struct stat *ret)
{
	cleanup_fd int fd = -1;
	struct location place;
	int r = location_find(question, path, LOCATION_TELLS, &place);

	if (r == 0)
		r = fd = location_open(&place, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	location_done(&place);
	if (r < 0)
		return r == -ENXIO ? -EINVAL : r;
	if (fstat(fd, ret) < 0)
		return -errno;
	if (S_ISDIR(ret->st_mode))
		return -EISDIR;
	return take_fd(&fd);
}

/* A plain file whose size says how much there is. Of those without one an empty file is told from
 * one that is made while it is read by reading. */
static bool is_plain(int fd, const struct stat *st)
{
	struct statfs fs;
	char byte;

	if (!S_ISREG(st->st_mode) || fstatfs(fd, &fs) < 0 || guest_is_unreal((long)fs.f_type))
		return false;
	return st->st_size > 0 || pread(fd, &byte, 1, 0) == 0;
}

static void answer_opened(const struct question *question, const char *path, uint32_t flags, int fd)
{
	cleanup_buf struct buf body = BUF_INIT(GUEST_PACKET_MAX - sizeof(struct guest_head));
	struct guest_head head = {.id = question->id, .kind = GUEST_SAYS_DONE, .flags = flags};
	int r;

	guest_put(&body, path);
	r = put_entry(&body, path, path, NULL, NULL);
	if (r < 0) {
		if (fd >= 0)
			close(fd);
		answer(question->server, question->id, -r, path, NULL, 0, -1);
		return;
	}
	head.n = 1;
	say(question->server, &head, &body, fd);
}

void ask_open(struct question *question)
{
	char path[PATH_SIZE];
	struct stat st;
	int fd = -1, r = path_of(question, question->args[0], path);

	if (r < 0) {
		answer(question->server, question->id, -r, question->args[0], NULL, 0, -1);
		return;
	}
	fd = open_to_read(question, path, &st);
	if (fd < 0) {
		answer(question->server, question->id, -fd, path, NULL, 0, -1);
	} else if (is_plain(fd, &st)) {
		answer_opened(question, path, 0, fd);
	} else {
		close(fd);
		answer_opened(question, path, GUEST_NEEDS_STREAM, -1);
	}
}

/* ---- what has no size: into a pipe of the daemon's ---- */

#define RELAYS_MAX    64
#define ROUNDS_A_TURN 8

struct relay {
	struct server *server;
	struct loop_watch in, out;
	bool is_pollable; /* files of /proc are not, and need not be */
	size_t at, used;
	char data[16384];
};

static void relay_free(struct relay *relay)
{
	relay->server->n_relays--;
	loop_unwatch(&relay->server->loop, &relay->in);
	loop_unwatch(&relay->server->loop, &relay->out);
	close(relay->in.fd);
	close(relay->out.fd);
	free(relay);
}

/* 1: go on when the reader has room; 2: when there is more to read; 0: it is over. */
static int relay_round(struct relay *relay)
{
	ssize_t n;

	if (relay->at == relay->used) {
		n = read(relay->in.fd, relay->data, sizeof relay->data);
		if (n < 0 && errno == EAGAIN && relay->is_pollable)
			return 2;
		if (n <= 0)
			return 0;
		relay->at = 0;
		relay->used = (size_t)n;
	}
	n = write(relay->out.fd, relay->data + relay->at, relay->used - relay->at);
	if (n < 0)
		return errno == EAGAIN ? 1 : 0;
	relay->at += (size_t)n;
	return 1;
}

static void relay_go_on(struct relay *relay)
{
	struct loop *loop = &relay->server->loop;
	int r = 1;

	for (int i = 0; r == 1 && i < ROUNDS_A_TURN; i++)
		r = relay_round(relay);
	/* Watched for nothing, the pipe still tells that its reader has gone. */
	if (r == 0 || loop_watch(loop, &relay->out, r == 1 ? EPOLLOUT : 0) < 0 ||
	    (relay->is_pollable && loop_watch(loop, &relay->in, r == 2 ? EPOLLIN : 0) < 0))
		relay_free(relay);
}

static void on_in(struct loop_watch *watch, uint32_t events)
{
	struct relay *relay = (struct relay *)(void *)((char *)watch - offsetof(struct relay, in));

	/* A FIFO's writer went away while the reader's side is full: to be read to its end later,
	 * and until then not told again and again. */
	if (!(events & EPOLLIN) && relay->at < relay->used) {
		loop_unwatch(&relay->server->loop, &relay->in);
		relay->is_pollable = false;
		return;
	}
	relay_go_on(relay);
}

static void on_out(struct loop_watch *watch, uint32_t events)
{
	struct relay *relay = (struct relay *)(void *)((char *)watch - offsetof(struct relay, out));

	if (events & EPOLLERR)
		relay_free(relay);
	else
		relay_go_on(relay);
}

static int relay_new(struct server *server, int in_fd, int out_fd)
{
	struct relay *relay = server->n_relays < RELAYS_MAX ? calloc(1, sizeof *relay) : NULL;

	if (!relay)
		return -EMFILE;
	relay->server = server;
	relay->in = (struct loop_watch){.fd = in_fd, .ready = on_in};
	relay->out = (struct loop_watch){.fd = out_fd, .ready = on_out};
	fcntl(out_fd, F_SETFL, O_NONBLOCK);
	relay->is_pollable = loop_watch(&server->loop, &relay->in, 0) == 0;
	if (loop_watch(&server->loop, &relay->out, EPOLLOUT) < 0) {
		loop_unwatch(&server->loop, &relay->in);
		free(relay);
		return -EINVAL;
	}
	server->n_relays++;
	return 0;
}

void ask_stream(struct question *question)
{
	char path[PATH_SIZE];
	cleanup_fd int fd = -1;
	struct stat st;
	int r = question->fd < 0 ? -EBADF : path_of(question, question->args[0], path);

	if (r < 0) {
		answer(question->server, question->id, -r, question->args[0], NULL, 0, -1);
		return;
	}
	fd = open_to_read(question, path, &st);
	r = fd < 0 ? fd : relay_new(question->server, fd, question->fd);
	if (r < 0) {
		answer(question->server, question->id, -r, path, NULL, 0, -1);
		return;
	}
	/* The relay's from here on. */
	take_fd(&fd);
	take_fd(&question->fd);
	answer_opened(question, path, 0, -1);
}

/* ---- to be written ---- */

/* O_TRUNC at once: of a file in a lower layer nothing is copied then. Not as root, who looks at
 * what is there first: a second name of a file may be one that somebody else gave it. */
static int open_existing(const struct location *place)
{
	const int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY;
	cleanup_fd int fd = location_open(place, place->is_strict ? flags : flags | O_TRUNC, 0);
	struct stat st;

	if (fd < 0)
		return fd == -ENXIO ? -EINVAL : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (place->is_strict && !place->follows && st.st_nlink > 1)
		return -EACCES;
	if (place->is_strict && st.st_size > 0 && ftruncate(fd, 0) < 0)
		return -errno;
	return take_fd(&fd);
}

/* A new file is the owner's; one that is there keeps its own. */
static int open_place(struct location *place)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NONBLOCK | O_NOCTTY;
	int fd = location_open(place, flags, 0666);

	/* A link that leads to a file that is not there yet. */
	if (fd == -EEXIST && !place->is_strict) {
		fd = open_existing(place);
		return fd == -ENOENT ? location_open(place, flags & ~O_EXCL, 0666) : fd;
	}
	if (fd == -EEXIST)
		return open_existing(place);
	/* May fail where the contract has only one user; then it stays ours. */
	if (fd >= 0 && place->owner.is_other && fchown(fd, place->owner.uid, place->owner.gid) < 0)
		return fd;
	return fd;
}

static int open_to_write(const struct question *question, const char *path)
{
	struct location place;
	int r = location_find(question, path, LOCATION_MAKES, &place);

	if (r == 0)
		r = open_place(&place);
	if (r >= 0)
		location_give(&place);
	location_done(&place);
	return r;
}

void ask_write(struct question *question)
{
	char path[PATH_SIZE];
	int fd = -1, r = path_of(question, question->args[0], path);

	if (r < 0) {
		answer(question->server, question->id, -r, question->args[0], NULL, 0, -1);
		return;
	}
	r = fd = open_to_write(question, path);
	if (r >= 0)
		r = set_metadata(fd, question->args + 1, question->n_args - 1);
	if (r >= 0) {
		answer_opened(question, path, 0, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	answer(question->server, question->id, -r, path, NULL, 0, -1);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Of one kind of packets, in one turn of the loop: watches and work are to have theirs. */
#define QUESTIONS_A_TURN 32

struct out {
	struct out *next;
	int fd;
	size_t size;
	char data[];
};

/* ---- packets out ---- */

static void free_out(struct out *out)
{
	if (out->fd >= 0)
		close(out->fd);
	free(out);
}

/* So many descriptors of this user's are on their way already that the kernel takes no more. */
static void send_instead(struct out *out)
{
	struct guest_head head;

	close(out->fd);
	out->fd = -1;
	memcpy(&head, out->data, sizeof head);
	head.number = EMFILE;
	memcpy(out->data, &head, sizeof head);
}

/* Whoever reads may be slow: then it waits, and with it all work that makes more. */
static void flush(struct server *server)
{
	struct out *out;

	while ((out = server->first)) {
		int r = fd_send(server->socket.fd, out->data, out->size, &out->fd, out->fd >= 0);

		if (r == -EAGAIN)
			break;
		if (r == -ETOOMANYREFS) {
			send_instead(out);
			continue;
		}
		/* Nobody is there any more; the next reading will find out, too. */
		if (r < 0)
			loop_stop(&server->loop);
		server->first = out->next;
		server->n_waiting -= out->size;
		free_out(out);
	}
	if (!server->first)
		server->last = &server->first;
}

static void await(struct server *server)
{
	uint32_t events = server->first ? EPOLLOUT : 0;

	if (server->n_waiting < 4 * WAITING_MAX)
		events |= EPOLLIN;
	if (loop_watch(&server->loop, &server->socket, events) < 0)
		loop_stop(&server->loop);
}

void say(struct server *server, const struct guest_head *head, struct buf *body, int fd)
{
	size_t size = sizeof *head + (body ? body->used : 0);
	struct guest_head whole = *head;
	struct out *out = NULL;

	if (!body || buf_error(body) == 0)
		out = malloc(sizeof *out + size);
	if (!out) {
		/* Not to answer at all would be worse: the daemon starts another one. */
		loop_stop(&server->loop);
		if (fd >= 0)
			close(fd);
		return;
	}
	whole.size = (uint32_t)size;
	*out = (struct out){.fd = fd, .size = size};
	memcpy(out->data, &whole, sizeof whole);
	if (body && body->used) {
		memcpy(out->data + sizeof whole, body->data, body->used);
		body->used = 0;
	}
	if (!server->first)
		server->last = &server->first;
	*server->last = out;
	server->last = &out->next;
	server->n_waiting += size;
	flush(server);
	await(server);
}

void answer(struct server *server, uint64_t id, int errnum, const char *path, struct buf *packet,
	    size_t n, int fd)
{
	cleanup_buf struct buf body = BUF_INIT(GUEST_PACKET_MAX - sizeof(struct guest_head));
	struct guest_head head = {
		.id = id, .kind = GUEST_SAYS_DONE, .number = (uint32_t)errnum, .n = (uint16_t)n};

	guest_put(&body, path);
	if (packet && packet->used)
		buf_add(&body, packet->data, packet->used);
	say(server, &head, &body, fd);
}

void answer_entry(struct server *server, uint64_t id, const char *path)
{
	cleanup_buf struct buf packet = BUF_INIT(GUEST_PACKET_MAX / 2);
	int r = put_entry(&packet, path, path, NULL, NULL);

	answer(server, id, -r, path, &packet, r == 0, -1);
}

/* ---- questions in ---- */

static void ask_alive(struct question *question)
{
	answer(question->server, question->id, 0, "", NULL, 0, -1);
}

static const struct {
	void (*ask)(struct question *question);
	size_t least_args;
} questions[GUEST_QUESTIONS_END] = {
	[GUEST_ASK_STAT] = {ask_stat, 1},	  [GUEST_ASK_LIST] = {ask_list, 1},
	[GUEST_ASK_MAKE_DIR] = {ask_make_dir, 1}, [GUEST_ASK_MOVE] = {ask_move, 2},
	[GUEST_ASK_REMOVE] = {ask_remove, 1},	  [GUEST_ASK_OPEN] = {ask_open, 1},
	[GUEST_ASK_STREAM] = {ask_stream, 1},	  [GUEST_ASK_WRITE] = {ask_write, 1},
	[GUEST_ASK_COMPOSE] = {ask_compose, 1},	  [GUEST_ASK_CONNECT] = {ask_connect, 0},
	[GUEST_ASK_WATCH] = {ask_watch, 1},	  [GUEST_ASK_UNWATCH] = {ask_unwatch, 0},
	[GUEST_ASK_ALIVE] = {ask_alive, 0},
};

/* A question that makes no sense comes from no daemon of ours: better to end than to guess. */
static bool read_question(const char *packet, size_t size, struct question *ret)
{
	struct guest_cursor cursor;
	struct guest_head head;

	if (!guest_get_head(packet, size, &head, &cursor) || head.kind >= GUEST_QUESTIONS_END ||
	    !questions[head.kind].ask || head.n < 2 || head.n > GUEST_STRINGS_MAX)
		return false;
	ret->id = head.id;
	ret->kind = head.kind;
	ret->number = head.number;
	ret->flags = head.flags;
	ret->home = guest_get(&cursor);
	ret->owner = guest_get(&cursor);
	ret->n_args = head.n - 2U;
	for (size_t i = 0; i < ret->n_args; i++)
		ret->args[i] = guest_get(&cursor);
	return !cursor.is_bad && cursor.at == cursor.end &&
	       ret->n_args >= questions[head.kind].least_args;
}

/* false: nothing more comes now. */
static bool take_question(struct server *server)
{
	static char packet[GUEST_PACKET_MAX];
	static struct question question;
	int fd = -1;
	size_t n = 1;
	ssize_t size = fd_receive(server->socket.fd, packet, sizeof packet, MSG_DONTWAIT, &fd, &n);

	if (size == -EAGAIN)
		return false;
	question = (struct question){.server = server, .fd = size > 0 && n == 1 ? fd : -1};
	if (size <= 0 || !read_question(packet, (size_t)size, &question)) {
		loop_stop(&server->loop);
		return false;
	}
	owners_refresh();
	questions[question.kind].ask(&question);
	if (question.fd >= 0)
		close(question.fd);
	return true;
}

static void on_socket(struct loop_watch *watch, uint32_t events)
{
	struct server *server =
		(struct server *)(void *)((char *)watch - offsetof(struct server, socket));

	if (events & EPOLLOUT)
		flush(server);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		for (int i = 0; i < QUESTIONS_A_TURN && take_question(server); i++)
			;
	await(server);
	work_resume(server);
	watcher_resume(server);
}

int serve(struct server *server, int socket_fd)
{
	int r = loop_init(&server->loop);

	if (r < 0)
		return r;
	server->socket = (struct loop_watch){.fd = socket_fd, .ready = on_socket};
	server->last = &server->first;
	server->last_work = &server->works;
	/* Once, so that its place in the heap is there. */
	r = loop_arm(&server->loop, &server->turn, 0);
	loop_disarm(&server->loop, &server->turn);
	if (r == 0)
		r = loop_watch(&server->loop, &server->socket, EPOLLIN);
	if (r == 0)
		r = loop_run(&server->loop);
	/* Everything else goes with the process. */
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest-link.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/guest-call.h"
#include "box/guest-reply.h"
#include "box/guest-start.h"
#include "box/guest-types.h"
#include "box/guest-watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define SECOND INT64_C(1000000000)
/* An idle box is to cost little: then its guest ends. */
#define IDLE_NS (20 * SECOND)
/* Whoever is inside can stop the guest, or keep it busy: after a silence it is asked for a sign of
 * life, which it gives also in the middle of long work, and not to get one is its end. */
#define SILENCE_NS (10 * SECOND)
#define SIGN_NS	   (30 * SECOND)
#define GUESTS_MAX 4 /* of one box: users */

/* Of one guest in one turn of its tenant: whoever has got hold of many guests, and lets them talk
 * without end, keeps no other tenant waiting for more. */
#define PACKETS_A_TURN 8
/* Packets that wait in a socket: what a buffer has room for if they are empty, and more. */
#define QUEUE_MAX 512

static struct loop *loop_of(const struct guest *guest)
{
	return daemon_loop(guest->box->daemon);
}

/* One thread, and what is kept of it is copied. */
static char received[GUEST_PACKET_MAX];

/* As fd_receive(), with one descriptor or -1. What a guest of ours sends has one at most; all are
 * fetched, because those that are not the kernel would close for us, and wait where we would not
 * (see fd_close_strange()). */
static ssize_t receive_packet(int socket_fd, int *ret_fd)
{
	int fds[FD_RECEIVE_MAX];
	size_t n = FD_RECEIVE_MAX;
	ssize_t size = fd_receive(socket_fd, received, sizeof received, MSG_DONTWAIT, fds, &n);

	*ret_fd = size > 0 && n == 1 ? fds[0] : -1;
	for (size_t i = 0; size >= 0 && *ret_fd < 0 && i < n; i++)
		fd_close_strange(fds[i]);
	return size;
}

/* ---- its end ---- */

/* What it has sent and nobody has read goes with the socket: descriptors, too. An empty packet and
 * the end look the same, so it is read for as often as the longest queue has packets. */
static void close_socket(struct guest *guest)
{
	shutdown(guest->socket.fd, SHUT_RDWR);
	for (int i = 0; i < QUEUE_MAX; i++) {
		int fd;

		if (receive_packet(guest->socket.fd, &fd) < 0)
			break;
		fd_close_strange(fd);
	}
	close(guest->socket.fd);
	guest->socket.fd = -1;
}

static void unlink_guest(struct guest *guest)
{
	struct guest **place = &guest->box->guests[0];

	while (*place && *place != guest)
		place = &(*place)->next;
	if (*place)
		*place = guest->next;
}

static void free_guest(struct guest *guest)
{
	free(guest->user);
	free(guest);
}

void guest_remove_call(struct guest_call *call)
{
	struct guest *guest = call->guest;
	struct guest_call **place = &guest->calls;

	while (*place != call)
		place = &(*place)->next;
	*place = call->next;
	if (guest->last_call == &call->next)
		guest->last_call = place;
	if (guest->unsent == call)
		guest->unsent = call->next;
	guest->n_calls--;
	call->next = NULL;
}

/* What is called back may ask anew, and gets a new guest; or end the box. */
static void fail_all(struct guest *guest, const struct atoll_error *err)
{
	while (guest->calls) {
		struct guest_call *call = guest->calls;

		guest_remove_call(call);
		call_finish(call, err, -1);
	}
	while (guest->watches) {
		struct guest_watch *watch = guest->watches;

		guest->watches = watch->next;
		watch_lost(watch);
	}
}

static void drop(struct guest *guest, const char *text)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_HOST, 0, "%s", text);
	err.errnum = ENOTCONN;
	guest_drop(guest, &err);
}

void guest_drop(struct guest *guest, const struct atoll_error *err)
{
	bool was_busy = guest->is_busy;

	if (guest->is_gone)
		return;
	guest->is_gone = true;
	guest->is_busy = true;
	unlink_guest(guest);
	guest_leave_step(guest);
	loop_unwatch(loop_of(guest), &guest->socket);
	loop_disarm(loop_of(guest), &guest->timer);
	loop_unqueue(&guest->turn);
	close_socket(guest);
	fail_all(guest, err);
	guest->is_busy = was_busy;
	if (!was_busy)
		free_guest(guest);
}

/* It said what no guest of ours says, or nothing: somebody inside has got hold of it. */
static void kill_guest(struct guest *guest, const char *text)
{
	if (!guest->is_gone)
		guest_kill(guest);
	drop(guest, text);
}

void guest_end(struct box *box)
{
	while (box->guests[0])
		drop(box->guests[0], "the sandbox has ended");
}

/* The first that holds something. */
static struct guest_call *find_holder(const struct box *box)
{
	for (struct guest *guest = box->guests[0]; guest; guest = guest->next) {
		for (struct guest_call *call = guest->calls; call; call = call->next) {
			if (call->n_bytes > 0)
				return call;
		}
	}
	return NULL;
}

void guest_freeze(struct box *box)
{
	struct atoll_error err = {0};
	struct guest_call *call;

	error_set(&err, ATOLL_FAULT_HOST, 0, "the sandbox was paused");
	err.errnum = ENOTCONN;
	/* From the start each time: who is told may have done anything. */
	while ((call = find_holder(box)))
		call_mute(call, &err);
}

/* ---- time ---- */

static void set_timer(struct guest *guest)
{
	bool is_idle = !guest->calls && !guest->watches;
	int64_t now = clock_monotonic_ns();
	int64_t at = is_idle ? guest->heard_ns + IDLE_NS : now + SILENCE_NS;

	/* Moving it at each packet would be work for nothing: it looks at the times itself. */
	if (!guest->timer.place || guest->timer.at_ns > at)
		loop_arm(loop_of(guest), &guest->timer, at);
}

static void ask_for_sign(struct guest *guest, int64_t now)
{
	struct guest_call *call = call_new(guest->box, guest->user, GUEST_ASK_ALIVE);

	guest->asked_ns = now;
	if (call)
		call_ask(call, 0, 0, (const char *const[]){NULL});
}

static void on_timer(struct loop_timer *timer)
{
	struct guest *guest =
		(struct guest *)(void *)((char *)timer - offsetof(struct guest, timer));
	int64_t now = clock_monotonic_ns();
	bool is_idle = !guest->calls && !guest->watches;

	/* What is frozen says nothing, and has all the time. */
	if (guest->box->state != BOX_RUNNING)
		guest->heard_ns = guest->asked_ns = now;
	if (is_idle && now - guest->heard_ns >= IDLE_NS) {
		drop(guest, "it was idle");
		return;
	}
	if (guest->calls && guest->asked_ns > guest->heard_ns && now - guest->asked_ns > SIGN_NS) {
		kill_guest(guest, "the sandbox does not answer");
		return;
	}
	if (guest->calls && now - guest->heard_ns > SILENCE_NS &&
	    guest->asked_ns <= guest->heard_ns)
		ask_for_sign(guest, now);
	set_timer(guest);
}

/* ---- packets in ---- */

static bool receive_answer(struct guest *guest, const struct guest_head *head, const char *packet,
			   int fd)
{
	struct guest_call **place = &guest->calls, *call;
	bool is_over = false;

	while (*place && (*place)->id != head->id)
		place = &(*place)->next;
	call = *place;
	if (!call || !call->is_sent) {
		fd_close_strange(fd);
		return false;
	}
	/* The list may be another one when this returns. */
	return call_receive(call, head, packet, fd, &is_over);
}

/* Takes the descriptor. */
static bool receive(struct guest *guest, const char *packet, size_t size, int fd)
{
	struct guest_cursor cursor;
	struct guest_head head;

	if (guest_get_head(packet, size, &head, &cursor)) {
		if (head.kind == GUEST_SAYS_DONE || head.kind == GUEST_SAYS_ENTRIES)
			return receive_answer(guest, &head, packet, fd);
		if (head.kind == GUEST_SAYS_EVENT && fd < 0)
			return watch_event(guest, &head, packet);
	}
	fd_close_strange(fd);
	return false;
}

static uint32_t wanted_events(const struct guest *guest)
{
	return (guest->turn.lane ? 0 : EPOLLIN) | (guest->unsent ? EPOLLOUT : 0);
}

/* False: nothing more is there now. */
static bool read_packets(struct guest *guest)
{
	for (int i = 0; i < PACKETS_A_TURN && !guest->is_gone; i++) {
		int fd = -1;
		ssize_t size = receive_packet(guest->socket.fd, &fd);

		if (size == -EAGAIN)
			return false;
		/* It may never have run; the step says why. */
		if (size <= 0 && guest->step) {
			loop_unwatch(loop_of(guest), &guest->socket);
			return false;
		}
		if (size <= 0) {
			drop(guest, guest->has_answered
					    ? "the helper program in the sandbox has ended"
					    : "the helper program does not run in the sandbox");
			return false;
		}
		guest->heard_ns = clock_monotonic_ns();
		guest->has_answered = true;
		if (!receive(guest, received, (size_t)size, fd))
			kill_guest(guest, "the helper program in the sandbox made no sense");
		/* Here, where nothing depends on a call: whoever is told may do anything. */
		calls_make_room();
	}
	return !guest->is_gone;
}

/* ---- packets out ---- */

/* It is about this one only: no memory, or too many descriptors on their way. */
static void fail_unsent(struct guest_call *call, int errnum)
{
	struct atoll_error err = {0};

	guest_remove_call(call);
	if (call->kind == GUEST_ASK_UNWATCH) {
		call_free(call);
		return;
	}
	error_set(&err, ATOLL_FAULT_HOST, errnum, "ask the sandbox");
	call_fail_later(call, &err);
}

static void flush(struct guest *guest)
{
	struct guest_call *call;

	while ((call = guest->unsent)) {
		int r = fd_send(guest->socket.fd, call->packet.data, call->packet.used,
				&call->pipe[1], call->pipe[1] >= 0);

		if (r == -EAGAIN)
			break;
		if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
			fail_unsent(call, -r);
			continue;
		}
		/* Its end will be read; until then nothing can be sent. */
		guest->unsent = call->next;
		call->is_sent = true;
		if (call->pipe[1] >= 0)
			close(take_fd(&call->pipe[1]));
		buf_done(&call->packet);
		if (call->kind == GUEST_ASK_UNWATCH) {
			guest_remove_call(call);
			call_free(call);
		}
	}
	/* Cannot fail: it only changes what is watched for. */
	loop_watch(loop_of(guest), &guest->socket, wanted_events(guest));
}

static void read_later(struct guest *guest)
{
	/* Without a tenant, in tests, at once. */
	if (!guest->box->tenant) {
		read_packets(guest);
		return;
	}
	loop_queue(loop_of(guest), &guest->box->tenant->own.lane, &guest->turn);
	if (guest->socket.is_watched)
		loop_watch(loop_of(guest), &guest->socket, wanted_events(guest));
}

static void on_turn(struct loop_turn *turn)
{
	struct guest *guest = (struct guest *)(void *)((char *)turn - offsetof(struct guest, turn));

	guest->is_busy = true;
	if (read_packets(guest))
		read_later(guest);
	else if (!guest->is_gone && guest->socket.is_watched)
		loop_watch(loop_of(guest), &guest->socket, wanted_events(guest));
	guest->is_busy = false;
	if (guest->is_gone)
		free_guest(guest);
	else
		set_timer(guest);
}

static void on_socket(struct loop_watch *watch, uint32_t events)
{
	struct guest *guest =
		(struct guest *)(void *)((char *)watch - offsetof(struct guest, socket));

	guest->is_busy = true;
	if (events & EPOLLOUT)
		flush(guest);
	if (!guest->is_gone && (events & ~(uint32_t)EPOLLOUT))
		read_later(guest);
	guest->is_busy = false;
	if (guest->is_gone)
		free_guest(guest);
	else
		set_timer(guest);
}

/* ---- its start ---- */

static int start(struct guest *guest, struct atoll_error *err)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket");
	guest->socket.fd = pair[0];
	r = fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0
		    ? error_set(err, ATOLL_FAULT_HOST, errno, "fcntl")
		    : 0;
	if (r == 0)
		r = guest_start(guest, pair[1], err);
	close(pair[1]);
	if (r == 0 && loop_watch(loop_of(guest), &guest->socket, EPOLLIN) < 0)
		r = error_oom(err);
	return r;
}

static int new_guest(struct box *box, const char *user, struct guest **ret, struct atoll_error *err)
{
	struct guest *guest = calloc(1, sizeof *guest);
	int r;

	if (!guest || !(guest->user = strdup(user))) {
		free(guest);
		return error_oom(err);
	}
	guest->box = box;
	guest->socket = (struct loop_watch){.fd = -1, .ready = on_socket};
	guest->timer.fire = on_timer;
	guest->turn.run = on_turn;
	guest->next_id = 1;
	guest->last_call = &guest->calls;
	guest->heard_ns = clock_monotonic_ns();
	r = start(guest, err);
	if (r < 0) {
		guest_leave_step(guest);
		if (guest->socket.fd >= 0)
			close(guest->socket.fd);
		free_guest(guest);
		return r;
	}
	guest->next = box->guests[0];
	box->guests[0] = guest;
	*ret = guest;
	return 0;
}

static int find_guest(struct box *box, const char *user, struct guest **ret,
		      struct atoll_error *err)
{
	size_t n = 0;

	if (box->state != BOX_RUNNING) {
		error_set(err, ATOLL_FAULT_HOST, 0, "the sandbox does not run");
		err->errnum = ENOTCONN;
		return -ENOTCONN;
	}
	for (struct guest *guest = box->guests[0]; guest; guest = guest->next, n++) {
		if (streq(guest->user, user)) {
			*ret = guest;
			return 0;
		}
	}
	/* Names come from requests. */
	if (n >= GUESTS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ESRCH, "user '%s'", user);
	return new_guest(box, user, ret, err);
}

static int make_packet(struct guest_call *call)
{
	struct guest_head head = {.id = call->id,
				  .kind = (uint16_t)call->kind,
				  .n = 2,
				  .number = call->number,
				  .flags = call->flags};
	const char *user = call->user[0] ? call->user : "user";
	char home[128] = "";

	call->packet = (struct buf)BUF_INIT(GUEST_PACKET_MAX);
	buf_add(&call->packet, &head, sizeof head);
	/* Each knows its own home; who acts for another is told his. */
	if (call->is_second)
		snprintf(home, sizeof home, "/home/%s", user);
	guest_put(&call->packet, home);
	guest_put(&call->packet, call->is_second ? user : "");
	for (size_t i = 0; call->words[i]; i++, head.n++) {
		if (strlen(call->words[i]) > GUEST_STRING_MAX || head.n >= GUEST_STRINGS_MAX)
			return -ENAMETOOLONG;
		guest_put(&call->packet, call->words[i]);
	}
	head.size = (uint32_t)call->packet.used;
	if (buf_error(&call->packet) < 0)
		return buf_error(&call->packet) == -E2BIG ? -ENAMETOOLONG : -ENOMEM;
	memcpy(call->packet.data, &head, sizeof head);
	return 0;
}

/* Behind the others; sent as soon as it can be. */
static void enqueue(struct guest *guest, struct guest_call *call)
{
	call->guest = guest;
	call->next = NULL;
	*guest->last_call = call;
	guest->last_call = &call->next;
	if (!guest->unsent)
		guest->unsent = call;
	guest->n_calls++;
	flush(guest);
	set_timer(guest);
}

void guest_ask(struct guest_call *call)
{
	struct atoll_error err = {0};
	struct guest *guest = NULL;
	int r = find_guest(call->box, call->is_second ? "root" : call->user, &guest, &err);

	if (r == 0 && guest->n_calls >= GUEST_CALLS_MAX)
		r = error_set(&err, ATOLL_FAULT_HOST, EAGAIN, "%d requests to the sandbox wait",
			      GUEST_CALLS_MAX);
	if (r == 0) {
		call->id = guest->next_id++;
		r = make_packet(call);
		if (r < 0)
			reply_error(-r, call->words[0] ? call->words[0] : "", &err);
	}
	if (r < 0) {
		buf_done(&call->packet);
		call_fail_later(call, call->is_second ? &call->first : &err);
		return;
	}
	enqueue(guest, call);
}

void guest_send_unwatch(struct guest *guest, uint64_t id)
{
	struct guest_call *call =
		guest->is_gone ? NULL : call_new(guest->box, guest->user, GUEST_ASK_UNWATCH);

	if (!call)
		return;
	call->words = calloc(1, sizeof *call->words);
	call->id = id;
	if (!call->words || make_packet(call) < 0)
		call_free(call);
	else
		enqueue(guest, call);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "egress/core.h"
#include "egress/relay-pipe.h"
#include "egress/sniff.h"
#include "egress/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * Bytes both ways
 *
 * What is read goes out at once, from one piece of memory that all connections share; only what the
 * other side does not take is kept, and then nothing more is read until it has gone. So an idle
 * connection holds nothing. When many are stuck at the same time, bytes are looked at in the socket
 * (MSG_PEEK) and taken out only as far as they were passed on, which costs a call more and no
 * memory.
 *
 * Where much comes at a time it goes over a pipe (splice), which passes pages on instead of copying
 * them twice: on two CPUs, which sender and receiver keep busy already, that is what counts. One
 * pipe serves all, for it is empty again before anybody else has a turn.
 *
 * The end of one direction is passed on as such, a reset as a reset.
 *
 * What a visitor of a published port says goes by its door (door.c) until that is open. A client
 * whose first line was not complete when it was handed on (flow->has_line) is watched until that
 * line's end: if it is a request of HTTP after all, which would have been judged, it is cut before
 * the end of the line is passed on.
 */

#define IDLE_NS	     (3600 * SECOND_NS)
#define HALF_IDLE_NS (300 * SECOND_NS)
#define PIECE	     (256 * 1024)
#define KEPT_MAX     (64 * 1024 * 1024) /* of all connections together */
#define KEPT_MANY    (8 * 1024 * 1024)	/* from here on pieces are small ones */
#define TURN	     (4 * 1024 * 1024)	/* bytes before others have theirs */
#define BULK	     (32 * 1024)	/* from here on a pipe is worth its calls */
#define HTTP_LATE    "a request of HTTP whose first line did not begin like one"

struct way {
	uint8_t *kept; /* read, not yet written */
	size_t n_kept, sent;
	bool is_bulk;  /* the last piece was a large one */
	bool is_ended; /* nothing more to read */
	bool is_shut;  /* and the other side knows */
};

struct relay {
	struct flow *flow;
	struct loop_timer timer;
	int64_t used_ns;   /* last time anything moved */
	int64_t resume_ns; /* a rate says not before; 0: none does */
	bool is_kept_alive;
	struct way out, in;
	uint8_t *early; /* what the client had said before: goes out first */
	size_t n_early, early_sent;
	struct sniff_line line; /* while flow->has_line */
};

/* From the client to the outside, and back. */
#define WAY_OUT	  1U
#define WAY_IN	  2U
#define BOTH_WAYS 3U

static uint8_t piece[PIECE];
static size_t n_kept_all;

static void relay_release(struct flow *flow)
{
	struct relay *relay = flow->owner;
	struct loop *loop = &flow->egress->loop;

	flow->owner = NULL;
	flow->abandon = NULL;
	loop_disarm(loop, &relay->timer);
	/* The supervisor, which made the socket inside, may still have it open: then close()
	 * does not end the watch. */
	if (flow->is_visit)
		loop_unwatch(loop, &flow->outside);
	else
		loop_forget(loop, &flow->outside);
	close(take_fd(&flow->outside.fd));
	n_kept_all -=
		(relay->out.kept ? relay->out.n_kept : 0) + (relay->in.kept ? relay->in.n_kept : 0);
	free(relay->out.kept);
	free(relay->in.kept);
	free(relay->early);
	free(relay);
}

/* What the relay had of it is gone; whoever calls it ends the flow at once, which closes the
 * client's. */
static void abandon(struct flow *flow)
{
	relay_release(flow);
	loop_forget(&flow->egress->loop, &flow->client.watch);
}

static void relay_cut_as(struct relay *relay, enum atoll_verdict verdict, const char *reason)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	struct flow *flow = relay->flow;

	setsockopt(flow->outside.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	flow->client.is_write_closed = false; /* whatever was said */
	abandon(flow);
	flow_end(flow, verdict, reason);
}

static void relay_cut(struct relay *relay, const char *reason)
{
	relay_cut_as(relay, ATOLL_CONN_ALLOWED, reason);
}

/* Closing tells the client that it was all, if it does not know yet. */
static void relay_done(struct relay *relay)
{
	struct flow *flow = relay->flow;

	flow->client.is_read_closed = flow->client.is_write_closed = true;
	relay_release(flow);
	flow_end_soon(flow);
}

/* A visitor's request is answered here; a server that was told a part of it gets a reset. */
static void relay_refuse(struct relay *relay)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	struct flow *flow = relay->flow;
	char answer[1024];
	size_t n = door_answer(flow->door, answer, sizeof answer);

	/* In the middle of what a server has said it would be no answer. */
	if (flow->event.received == 0 && stream_write(&flow->client, answer, n) == (ssize_t)n)
		stream_shut(&flow->client);
	if (flow->event.sent > 0)
		setsockopt(flow->outside.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	relay_release(flow);
	/* flow_end() may keep another descriptor of the socket: loop_forget() would not do. */
	loop_unwatch(&flow->egress->loop, &flow->client.watch);
	flow_end(flow, ATOLL_CONN_REFUSED, door_reason(flow->door));
}

/* ---- moving ---- */

enum moved {
	MOVED_SOME,
	MOVED_NOTHING, /* until a socket is ready */
	MOVED_LATER,   /* until a rate allows */
	MOVED_FAILED_FROM,
	MOVED_FAILED_TO,
	MOVED_OVER,    /* a total is used up */
	MOVED_REFUSED, /* by the door */
	MOVED_HTTP,    /* a request where none was expected */
};

static bool is_passing(int errnum)
{
	return errnum == EAGAIN || errnum == EINTR;
}

static bool keep(struct way *way, const uint8_t *data, size_t size)
{
	way->kept = malloc(size);
	if (!way->kept)
		return false;
	memcpy(way->kept, data, size);
	way->n_kept = size;
	way->sent = 0;
	n_kept_all += size;
	return true;
}

static void drop_kept(struct way *way)
{
	n_kept_all -= way->n_kept;
	free(way->kept);
	way->kept = NULL;
	way->n_kept = way->sent = 0;
}

static enum moved write_kept(struct way *way, int to)
{
	ssize_t n = send(to, way->kept + way->sent, way->n_kept - way->sent, MSG_NOSIGNAL);

	if (n < 0)
		return is_passing(errno) ? MOVED_NOTHING : MOVED_FAILED_TO;
	way->sent += (size_t)n;
	if (way->sent < way->n_kept)
		return MOVED_NOTHING;
	drop_kept(way);
	return MOVED_SOME;
}

static bool count(struct relay *relay, const struct way *way, size_t n, const char **ret_reason)
{
	bool is_out = way == &relay->out;

	return flow_count(relay->flow, is_out ? n : 0, is_out ? 0 : n, ret_reason);
}

/* Bytes of the client that are about to be passed on. False: they end a line that is a request. */
static bool line_permits(struct relay *relay, const struct way *way, const uint8_t *data,
			 size_t size)
{
	struct flow *flow = relay->flow;
	enum sniff sniff;

	if (!flow->has_line || way != &relay->out)
		return true;
	sniff = sniff_line_add(&relay->line, data, size);
	flow->has_line = sniff == SNIFF_MORE;
	return sniff != SNIFF_HTTP;
}

/* The same as move_piece(), by pages. */
static enum moved splice_piece(struct relay *relay, struct way *way, int from, int to, size_t most,
			       const char **ret_reason)
{
	struct piped piped;
	int r = relay_pipe_move(from, to, most, &piped);

	if (r < 0)
		return is_passing(-r) ? MOVED_NOTHING : MOVED_FAILED_FROM;
	way->is_ended = piped.got == 0;
	way->is_bulk = piped.got >= BULK;
	way->kept = piped.left;
	way->n_kept = piped.n_left;
	way->sent = 0;
	n_kept_all += piped.n_left;
	if (piped.is_failed)
		return MOVED_FAILED_TO;
	if (!count(relay, way, piped.got, ret_reason))
		return MOVED_OVER;
	return piped.got > 0 && !way->kept ? MOVED_SOME : MOVED_NOTHING;
}

/* One piece from one socket to the other. */
static enum moved move_piece(struct relay *relay, struct way *way, int from, int to,
			     const char **ret_reason)
{
	int64_t again = 0;
	size_t most = flow_may_move(relay->flow, &again);
	bool has_line = relay->flow->has_line && way == &relay->out;
	bool peeks = n_kept_all > KEPT_MAX && !has_line;
	ssize_t got, sent;

	if (most == 0) {
		relay->resume_ns = again;
		return MOVED_LATER;
	}
	if (most > PIECE && (!way->is_bulk || n_kept_all > KEPT_MANY || !relay_pipe_exists()))
		most = PIECE;
	if (most > PIECE && has_line)
		most = PIECE;
	if (way->is_bulk && !peeks && !has_line && relay_pipe_exists() && most >= BULK)
		return splice_piece(relay, way, from, to, most, ret_reason);
	got = recv(from, piece, most, peeks ? MSG_PEEK : 0);
	if (got < 0)
		return is_passing(errno) ? MOVED_NOTHING : MOVED_FAILED_FROM;
	if (got == 0) {
		way->is_ended = true;
		return MOVED_NOTHING;
	}
	way->is_bulk = got >= BULK;
	if (!line_permits(relay, way, piece, (size_t)got))
		return MOVED_HTTP;
	sent = send(to, piece, (size_t)got, MSG_NOSIGNAL);
	if (sent < 0 && !is_passing(errno))
		return MOVED_FAILED_TO;
	if (sent < 0)
		sent = 0;
	if (peeks) {
		if (sent > 0)
			recv(from, NULL, (size_t)sent, MSG_TRUNC); /* TCP: taken out, not copied */
		/* One byte waits with us, for without any we would wait for reading. */
		if (sent < got) {
			if (recv(from, piece, 1, 0) != 1 || !keep(way, piece, 1))
				return MOVED_FAILED_FROM;
			got = sent + 1;
		}
	} else if (sent < got && !keep(way, piece + sent, (size_t)(got - sent))) {
		return MOVED_FAILED_TO;
	}
	if (!count(relay, way, (size_t)got, ret_reason))
		return MOVED_OVER;
	/* So little was all that there was; should there be more, it is told. */
	return sent == got && way->is_bulk ? MOVED_SOME : MOVED_NOTHING;
}

/* By the same limits as what is read. */
static enum moved move_early(struct relay *relay, int to, const char **ret_reason)
{
	int64_t again = 0;
	size_t most = flow_may_move(relay->flow, &again), left = relay->n_early - relay->early_sent;
	ssize_t n;

	if (most == 0) {
		relay->resume_ns = again;
		return MOVED_LATER;
	}
	n = send(to, relay->early + relay->early_sent, left < most ? left : most, MSG_NOSIGNAL);
	if (n < 0)
		return is_passing(errno) ? MOVED_NOTHING : MOVED_FAILED_TO;
	relay->early_sent += (size_t)n;
	if (!count(relay, &relay->out, (size_t)n, ret_reason))
		return MOVED_OVER;
	if (relay->early_sent == relay->n_early) {
		free(relay->early);
		relay->early = NULL;
	}
	return MOVED_SOME;
}

/* Do as the door says: what it passes on becomes `early`. */
static enum moved obey_door(struct relay *relay, enum door_state state)
{
	struct flow *flow = relay->flow;
	size_t n;

	if (state == DOOR_WAITS)
		return MOVED_NOTHING;
	if (state == DOOR_REFUSES)
		return MOVED_REFUSED;
	relay->early = door_take(flow->door, &n);
	if (n > 0 && !relay->early)
		return MOVED_FAILED_TO;
	relay->n_early = n;
	relay->early_sent = 0;
	if (state == DOOR_OPEN) {
		door_free(flow->door);
		flow->door = NULL;
	}
	return MOVED_SOME;
}

/* All that there is, before anything of it is passed on. */
static enum moved read_for_door(struct relay *relay, int from)
{
	struct door *door = relay->flow->door;
	enum door_state state = DOOR_WAITS;
	size_t size;
	ssize_t got;

	do {
		char *room = door_room(door, &size);

		if (!room)
			return MOVED_REFUSED;
		got = recv(from, room, size, 0);
		if (got < 0 && !is_passing(errno))
			return MOVED_FAILED_FROM;
		/* The end of the stream is read once more when the door is open. */
		if (got >= 0)
			state = door_add(door, (size_t)got, relay->used_ns);
	} while (got == (ssize_t)size && state < DOOR_OPEN && !door_is_full(door));
	return obey_door(relay, state);
}

static bool is_done(const struct relay *relay)
{
	return relay->out.is_shut && relay->in.is_shut;
}

static uint64_t moved_by(const struct flow *flow)
{
	return flow->event.sent + flow->event.received;
}

static enum moved move(struct relay *relay, struct way *way, int from, int to,
		       const char **ret_reason)
{
	const uint64_t before = moved_by(relay->flow);
	enum moved moved = MOVED_NOTHING;

	if (way == &relay->out && relay->flow->door && !relay->early) {
		moved = read_for_door(relay, from);
		if (moved != MOVED_SOME)
			return moved;
	}
	while (way == &relay->out && relay->early) {
		moved = move_early(relay, to, ret_reason);
		/* What the client says after that is told. */
		if (moved != MOVED_SOME || !relay->early)
			return moved;
	}
	if (way == &relay->out && relay->flow->door)
		return moved;

	if (way->kept) {
		moved = write_kept(way, to);
		if (moved != MOVED_SOME)
			return moved;
	}
	while (!way->is_ended && moved_by(relay->flow) - before < TURN) {
		moved = move_piece(relay, way, from, to, ret_reason);
		if (moved != MOVED_SOME)
			break;
	}
	if (way->is_ended && !way->kept && !way->is_shut) {
		way->is_shut = true;
		if (!is_done(relay)) /* else both are closed next, which says the same */
			shutdown(to, SHUT_WR);
	}
	return moved;
}

/* ---- waiting ---- */

static int64_t idle_ns(const struct relay *relay)
{
	return relay->out.is_ended || relay->in.is_ended ? HALF_IDLE_NS : IDLE_NS;
}

/* What a socket is waited for: `from` is the way that is read from it, `to` the one written. */
static int wait_for(struct relay *relay, struct loop_watch *watch, const struct way *from,
		    const struct way *to)
{
	struct loop *loop = &relay->flow->egress->loop;
	bool has_early = relay->early && !relay->resume_ns;
	uint32_t events = 0;

	/* Both of its ways are over: only its hang-up would be told, again and again. */
	if (from->is_ended && to->is_shut) {
		loop_unwatch(loop, watch);
		return 0;
	}
	if (!from->is_ended && !from->kept && !relay->resume_ns &&
	    !(has_early && from == &relay->out))
		events |= EPOLLIN;
	if (to->kept || (has_early && to == &relay->out))
		events |= EPOLLOUT;
	return loop_watch(loop, watch, events);
}

static int wait(struct relay *relay)
{
	struct flow *flow = relay->flow;
	int64_t at = relay->used_ns + idle_ns(relay);
	int r = 0;

	if (!relay->is_kept_alive)
		at = flow->start_ns + DIAL_LASTS_NS;
	if (relay->resume_ns && (relay->is_kept_alive || relay->resume_ns < at))
		at = relay->resume_ns;
	if (flow->door && door_due(flow->door) && door_due(flow->door) < at)
		at = door_due(flow->door);
	/* An idle time-out that fires early looks at the clock and waits on; so it need not be
	 * moved with every byte. */
	if (!relay->timer.place || relay->timer.at_ns > at)
		r = loop_arm(&flow->egress->loop, &relay->timer, at);
	if (r == 0)
		r = wait_for(relay, &flow->client.watch, &relay->out, &relay->in);
	if (r == 0)
		r = wait_for(relay, &flow->outside, &relay->in, &relay->out);
	return r;
}

static const char *failure(const struct relay *relay, const struct way *way, enum moved moved)
{
	bool is_client = (way == &relay->out) == (moved == MOVED_FAILED_FROM);

	return is_client ? "reset by the client" : "reset by the server";
}

/* Move what can be moved on these ways; false: the relay is gone. */
static bool go_on(struct relay *relay, unsigned which)
{
	struct flow *flow = relay->flow;
	int client = flow->client.watch.fd, outside = flow->outside.fd;
	struct way *ways[] = {&relay->out, &relay->in};
	const char *reason = NULL;

	relay->resume_ns = 0;
	relay->used_ns = clock_monotonic_ns();
	for (int i = 0; i < 2; i++) {
		enum moved moved;

		if (!(which & 1U << i))
			continue;
		moved = move(relay, ways[i], i == 0 ? client : outside, i == 0 ? outside : client,
			     &reason);

		if (moved == MOVED_REFUSED) {
			relay_refuse(relay);
			return false;
		}
		if (moved == MOVED_HTTP) {
			relay_cut_as(relay, ATOLL_CONN_REFUSED, HTTP_LATE);
			return false;
		}
		if (moved == MOVED_FAILED_FROM || moved == MOVED_FAILED_TO)
			reason = failure(relay, ways[i], moved);
		if (reason) {
			relay_cut(relay, reason);
			return false;
		}
	}
	if (is_done(relay)) {
		relay_done(relay);
		return false;
	}
	if (wait(relay) < 0) {
		relay_cut(relay, "out of memory");
		return false;
	}
	return true;
}

/* A reset shows even where nothing is read at the moment. */
static bool has_failed(int fd)
{
	int errnum = 0;
	socklen_t size = sizeof errnum;

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &size) == 0 && errnum != 0;
}

/* `read` is the way that is read from this socket, `written` the other one. */
static void ready(struct relay *relay, struct loop_watch *watch, uint32_t events, unsigned read,
		  unsigned written, const char *reset_reason)
{
	if ((events & (EPOLLERR | EPOLLHUP)) && !(watch->events & EPOLLIN)) {
		if (has_failed(watch->fd)) {
			relay_cut(relay, reset_reason);
			return;
		}
		/* Closed in both directions, and something is still to be read from it. That will
		 * be told until it is; the other socket or the timer goes on. */
		if (!(events & EPOLLOUT)) {
			loop_unwatch(&relay->flow->egress->loop, watch);
			return;
		}
	}
	if (events & (EPOLLERR | EPOLLHUP))
		go_on(relay, BOTH_WAYS);
	else
		go_on(relay, (events & EPOLLIN ? read : 0) | (events & EPOLLOUT ? written : 0));
}

static void client_ready(struct loop_watch *watch, uint32_t events)
{
	struct flow *flow = container_of(watch, struct flow, client.watch);

	ready(flow->owner, watch, events, WAY_OUT, WAY_IN, "reset by the client");
}

static void outside_ready(struct loop_watch *watch, uint32_t events)
{
	struct flow *flow = container_of(watch, struct flow, outside);

	ready(flow->owner, watch, events, WAY_IN, WAY_OUT, "reset by the server");
}

static void timer_fired(struct loop_timer *timer)
{
	struct relay *relay = container_of(timer, struct relay, timer);
	int64_t now = clock_monotonic_ns();

	if (!relay->is_kept_alive && now >= relay->flow->start_ns + DIAL_LASTS_NS) {
		relay->is_kept_alive = true;
		dial_keep_alive(relay->flow->outside.fd);
	}
	if (relay->flow->door && !relay->early) {
		enum moved moved = obey_door(relay, door_fire(relay->flow->door, now));

		if (moved == MOVED_REFUSED) {
			relay_refuse(relay);
			return;
		}
		if (moved == MOVED_FAILED_TO) {
			relay_cut(relay, "out of memory");
			return;
		}
		if (moved == MOVED_SOME) {
			go_on(relay, WAY_OUT);
			return;
		}
	}
	if (relay->resume_ns && relay->resume_ns <= now)
		go_on(relay, BOTH_WAYS);
	else if (now >= relay->used_ns + idle_ns(relay))
		relay_cut(relay, relay->out.is_ended || relay->in.is_ended
					 ? "half closed and idle for too long"
					 : "idle for too long");
	else if (wait(relay) < 0)
		relay_cut(relay, "out of memory");
}

void relay_take(struct flow *flow, int outside_fd)
{
	struct relay *relay = calloc(1, sizeof *relay);

	flow->outside.fd = outside_fd; /* and perhaps watched already */
	if (!relay) {
		loop_unwatch(&flow->egress->loop, &flow->outside);
		close(take_fd(&flow->outside.fd));
		flow_end(flow, ATOLL_CONN_FAILED, "out of memory");
		return;
	}
	relay->flow = flow;
	flow->outside.ready = outside_ready;
	relay->timer.fire = timer_fired;
	flow->client.watch.ready = client_ready;
	flow->owner = relay;
	flow->abandon = abandon;
	if (flow->n_early > 0) {
		relay->early = flow->early;
		relay->n_early = flow->n_early;
		flow->early = NULL;
		flow->n_early = 0;
	}
	if (relay->early && !line_permits(relay, &relay->out, relay->early, relay->n_early)) {
		relay_cut_as(relay, ATOLL_CONN_REFUSED, HTTP_LATE);
		return;
	}
	go_on(relay, relay->early ? WAY_OUT : 0);
}

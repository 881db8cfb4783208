/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/exchange.h"
#include "base/clock.h"
#include "base/scope.h"
#include "egress/core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/*
 * Requests and answers, one after the other
 *
 * A request is read, judged and written anew before a byte of it goes out; its body is taken apart
 * and put together again on the way, and so is the answer. The next one is not looked at before the
 * answer is written: what a client sends ahead waits in its lane. Nothing is read for a lane that
 * is full, which holds the sender back.
 *
 *   PHASE_GREET → HEAD → TURN → DIAL → VERIFY → PASS → HEAD ...
 *
 * A connection to the server that is still good skips DIAL and VERIFY. run() calls the phase's
 * step until nothing moves; then it says to the loop what to wait for.
 */

#define GREET_S	 60  /* TLS with the client */
#define HEAD_S	 60  /* a head that has begun */
#define IDLE_S	 300 /* between requests */
#define VERIFY_S 30
#define TURNS	 32 /* before others have theirs */

static void run(struct exchange *ex);

void exchange_finish(struct exchange *ex, enum atoll_verdict verdict, const char *reason)
{
	if (ex->is_finished)
		return;
	ex->is_finished = true;
	ex->verdict = verdict;
	if (reason != ex->reason)
		snprintf(ex->reason, sizeof ex->reason, "%s", reason ? reason : "");
}

void exchange_set_deadline(struct exchange *ex, unsigned seconds)
{
	ex->deadline_ns = seconds ? clock_monotonic_ns() + seconds * SECOND_NS : 0;
}

static void side_reset(struct side *side, struct stream *stream, bool wipes)
{
	lane_clear(&side->in, wipes);
	lane_clear(&side->out, wipes);
	*side = (struct side){.stream = stream, .may_read = true, .may_write = true};
	side->in.buf.limit = side->out.buf.limit = LANE_LIMIT;
}

/* What was not sent stays: it may go to the next connection. */
static void disconnect(struct exchange *ex, bool resets)
{
	struct lane out = ex->outer.out;

	dial_cancel(ex->dial);
	ex->dial = NULL;
	stream_done(&ex->server, resets);
	ex->server = (struct stream)STREAM_INIT;
	ex->outer.out = (struct lane){0};
	side_reset(&ex->outer, &ex->server, ex->has_secrets);
	ex->outer.out = out;
	ex->is_reused = false;
}

void exchange_drop_server(struct exchange *ex, bool resets)
{
	disconnect(ex, resets);
	lane_clear(&ex->outer.out, ex->has_secrets);
}

/* ---- the client ---- */

static bool step_greet(struct exchange *ex)
{
	int r = stream_handshake(&ex->flow->client, &ex->peer);

	if (r == -EAGAIN)
		return false;
	if (r < 0) {
		exchange_finish(ex, ex->peer.is_refused ? ATOLL_CONN_REFUSED : ATOLL_CONN_FAILED,
				ex->peer.reason);
		/* The alert says it better than a reset. */
		stream_shut(&ex->flow->client);
		return true;
	}
	ex->phase = PHASE_HEAD;
	exchange_set_deadline(ex, HEAD_S);
	return true;
}

/* Between requests a server may close, and may not speak. */
static void check_idle_server(struct exchange *ex)
{
	if (ex->server.watch.fd < 0 || !ex->outer.may_read)
		return;
	side_fill(&ex->outer, 1);
	if (lane_size(&ex->outer.in) > 0 || ex->outer.is_ended || ex->outer.error)
		exchange_drop_server(ex, false);
}

void exchange_next(struct exchange *ex)
{
	ex->phase = PHASE_HEAD;
	ex->has_answer = ex->closes_client = ex->closes_server = false;
	ex->is_refusing = ex->is_head_request = ex->is_answered = false;
	exchange_drop_answer(ex);
	ex->n_sent = ex->n_interim = 0;
	ex->is_reused = ex->server.watch.fd >= 0;
	/* What was sent ahead may be a whole head. */
	ex->inner.has_line = lane_size(&ex->inner.in) > 0;
	exchange_set_deadline(ex, ex->inner.has_line ? HEAD_S : IDLE_S);
}

static bool read_head(struct exchange *ex)
{
	struct lane *in = &ex->inner.in;
	struct http_head head;
	const char *why;

	ex->inner.has_line = false;
	switch (http_read_request(lane_data(in), lane_size(in), &head, &why)) {
	case HTTP_MORE:
		return false;
	case HTTP_BAD:
		exchange_refuse(ex, 400, ATOLL_CONN_REFUSED, "%s", why);
		return true;
	case HTTP_OK:
		break;
	}
	if (!exchange_take_request(ex, &head))
		return true;
	lane_take(in, head.size);
	ex->n_requests++;
	ex->phase = PHASE_TURN;
	exchange_set_deadline(ex, 0);
	return true;
}

static void client_ended(struct exchange *ex)
{
	if (lane_size(&ex->inner.in) > 0)
		exchange_finish(ex, ATOLL_CONN_FAILED, "the program closed within a request");
	else if (ex->n_requests == 0)
		exchange_finish(ex, ATOLL_CONN_FAILED,
				"the program closed before it asked for anything");
	else
		exchange_finish(ex, ATOLL_CONN_ALLOWED, NULL);
}

static bool step_head(struct exchange *ex)
{
	bool was_empty = lane_size(&ex->inner.in) == 0;

	check_idle_server(ex);
	/* One after the other: first the answer before is gone. */
	if (side_flush(&ex->inner, SIZE_MAX) > 0)
		return true;
	if (ex->inner.error) {
		client_ended(ex);
		return true;
	}
	if (lane_size(&ex->inner.out) > 0)
		return false;
	if (ex->inner.has_line || lane_size(&ex->inner.in) >= HTTP_HEAD_MAX)
		if (read_head(ex))
			return true;
	if (side_fill(&ex->inner, SIZE_MAX) > 0) {
		if (was_empty && ex->n_requests > 0)
			exchange_set_deadline(ex, HEAD_S);
		return true;
	}
	if (ex->inner.is_ended || ex->inner.error)
		client_ended(ex);
	return ex->is_finished;
}

/* ---- the server ---- */

static void begin_pass(struct exchange *ex)
{
	ex->phase = PHASE_PASS;
	exchange_set_deadline(ex, ANSWER_S);
}

static void connected(struct flow *flow, int fd, const char *reason)
{
	struct exchange *ex = flow->owner;

	ex->dial = NULL;
	if (fd < 0) {
		bool is_refused = fd == -EACCES;

		exchange_refuse(ex, is_refused ? 403 : 502,
				is_refused ? ATOLL_CONN_REFUSED : ATOLL_CONN_FAILED, "%s",
				reason ? reason : strerror(-fd));
		run(ex);
		return;
	}
	ex->server.watch.fd = fd;
	dial_keep_alive(fd);
	if (!ex->is_tls) {
		begin_pass(ex);
	} else if (stream_verify(&ex->server, flow->egress->outside, &ex->peer) < 0) {
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
	} else {
		ex->phase = PHASE_VERIFY;
		exchange_set_deadline(ex, VERIFY_S);
	}
	run(ex);
}

static void server_ready(struct loop_watch *watch, uint32_t events);

void exchange_connect(struct exchange *ex)
{
	disconnect(ex, false);
	ex->phase = PHASE_DIAL;
	exchange_set_deadline(ex, 0);
	ex->server.egress = ex->flow->egress;
	ex->server.watch.ready = server_ready;
	ex->dial = dial_start(ex->flow, connected);
	if (!ex->dial)
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
}

static bool step_turn(struct exchange *ex)
{
	if (!flow_may_ask(ex->flow, &ex->again_ns))
		return false;
	check_idle_server(ex);
	if (ex->server.watch.fd >= 0)
		begin_pass(ex);
	else
		exchange_connect(ex);
	return true;
}

static bool step_dial(struct exchange *ex)
{
	(void)ex;
	return false;
}

static bool step_verify(struct exchange *ex)
{
	int r = stream_handshake(&ex->server, &ex->peer);

	if (r == -EAGAIN)
		return false;
	if (r < 0)
		exchange_refuse(ex, 502, ATOLL_CONN_FAILED, "%s", ex->peer.reason);
	else
		begin_pass(ex);
	return true;
}

/* ---- the end ---- */

static bool step_last(struct exchange *ex)
{
	bool moved = side_flush(&ex->inner, SIZE_MAX) > 0;

	if (lane_size(&ex->inner.out) == 0)
		stream_shut(&ex->flow->client);
	if (lane_size(&ex->inner.out) == 0 || ex->inner.error)
		exchange_finish(ex, ex->verdict, ex->reason);
	return moved;
}

/* ---- waiting ---- */

static bool (*const steps[])(struct exchange *) = {
	[PHASE_GREET] = step_greet,
	[PHASE_HEAD] = step_head,
	[PHASE_TURN] = step_turn,
	[PHASE_DIAL] = step_dial,
	[PHASE_VERIFY] = step_verify,
	[PHASE_PASS] = exchange_step_pass,
	[PHASE_OPAQUE] = exchange_step_opaque,
	[PHASE_LAST] = step_last,
};

static uint32_t wanted_of_client(const struct exchange *ex)
{
	const struct stream *stream = ex->inner.stream;
	uint32_t events = lane_size(&ex->inner.out) > 0 ? stream->write_wants ?: EPOLLOUT : 0;
	uint32_t reads = ex->inner.is_ended ? 0 : stream->read_wants ?: EPOLLIN;
	bool has_room = lane_size(&ex->inner.in) < HTTP_HEAD_MAX;

	switch (ex->phase) {
	case PHASE_GREET:
		return reads;
	case PHASE_HEAD:
		return events ?: reads;
	case PHASE_PASS:
		if (ex->request.is_done || ex->is_refusing)
			has_room = lane_size(&ex->inner.in) == 0 && !ex->is_refusing;
		else if (lane_size(&ex->outer.out) >= lane_max())
			has_room = false;
		return events | (has_room ? reads : 0);
	case PHASE_OPAQUE:
		return events | (has_room && lane_size(&ex->outer.out) < lane_max() ? reads : 0);
	default:
		return events;
	}
}

static uint32_t wanted_of_server(const struct exchange *ex)
{
	const struct stream *stream = &ex->server;
	uint32_t reads = ex->outer.is_ended ? 0 : stream->read_wants ?: EPOLLIN;
	uint32_t events = 0;

	switch (ex->phase) {
	case PHASE_HEAD:
	case PHASE_VERIFY:
		return reads;
	case PHASE_PASS:
	case PHASE_OPAQUE:
		if (ex->again_ns)
			return 0;
		if (lane_size(&ex->outer.out) > 0)
			events |= stream->write_wants ?: EPOLLOUT;
		if (lane_size(&ex->inner.out) < lane_max())
			events |= reads;
		return events;
	default:
		return 0;
	}
}

static void watch_side(struct exchange *ex, struct side *side, uint32_t events)
{
	if (side->stream->watch.fd < 0 || side->is_hung)
		return;
	if (loop_watch(&ex->flow->egress->loop, &side->stream->watch, events) < 0)
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
}

static void tidy_lanes(struct exchange *ex)
{
	struct lane *lanes[] = {&ex->inner.in, &ex->inner.out, &ex->outer.in, &ex->outer.out};
	size_t kept = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lanes); i++) {
		if (lane_size(lanes[i]) == 0 && lanes[i]->buf.data)
			lane_clear(lanes[i], ex->has_secrets);
		kept += lanes[i]->buf.room;
	}
	lane_count(kept, ex->n_kept);
	ex->n_kept = kept;
}

static void settle(struct exchange *ex)
{
	struct loop *loop = &ex->flow->egress->loop;
	int64_t at = ex->deadline_ns;

	tidy_lanes(ex);
	watch_side(ex, &ex->inner, wanted_of_client(ex));
	watch_side(ex, &ex->outer, wanted_of_server(ex));
	if (ex->again_ns && (!at || ex->again_ns < at))
		at = ex->again_ns;
	if (!at)
		loop_disarm(loop, &ex->timer);
	else if (loop_arm(loop, &ex->timer, at) < 0)
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
}

/* ---- the whole ---- */

static void release(struct flow *flow)
{
	struct exchange *ex = flow->owner;

	flow->owner = NULL;
	flow->abandon = NULL;
	loop_disarm(&flow->egress->loop, &ex->timer);
	loop_unwatch(&flow->egress->loop, &flow->client.watch);
	exchange_drop_server(ex, ex->phase != PHASE_HEAD && !ex->server.is_write_closed);
	lane_clear(&ex->inner.in, ex->has_secrets);
	lane_clear(&ex->inner.out, ex->has_secrets);
	exchange_drop_answer(ex);
	lane_count(0, ex->n_kept);
	free(ex);
}

static void end(struct exchange *ex)
{
	struct flow *flow = ex->flow;
	enum atoll_verdict verdict = ex->verdict;
	char reason[sizeof ex->reason];

	memcpy(reason, ex->reason, sizeof reason);
	release(flow);
	flow_end(flow, verdict, *reason ? reason : NULL);
}

static void run(struct exchange *ex)
{
	int turn = 0;

	ex->again_ns = 0;
	while (!ex->is_finished && steps[ex->phase](ex))
		if (++turn == TURNS) {
			ex->again_ns = clock_monotonic_ns();
			break;
		}
	if (!ex->is_finished)
		settle(ex);
	if (ex->is_finished)
		end(ex);
}

static void side_woken(struct exchange *ex, struct side *side, uint32_t events)
{
	side->may_read = side->may_write = true;
	if (events & (EPOLLHUP | EPOLLERR)) {
		side->is_hung = true;
		loop_unwatch(&ex->flow->egress->loop, &side->stream->watch);
	}
}

static void client_ready(struct loop_watch *watch, uint32_t events)
{
	struct flow *flow = container_of(watch, struct flow, client.watch);
	struct exchange *ex = flow->owner;

	side_woken(ex, &ex->inner, events);
	if (ex->inner.is_hung && ex->phase != PHASE_OPAQUE && ex->phase != PHASE_GREET)
		exchange_finish(ex, *ex->reason ? ex->verdict : ATOLL_CONN_ALLOWED, ex->reason);
	run(ex);
}

static void server_ready(struct loop_watch *watch, uint32_t events)
{
	struct exchange *ex = container_of(watch, struct exchange, server.watch);

	side_woken(ex, &ex->outer, events);
	run(ex);
}

static void time_is_up(struct exchange *ex)
{
	switch (ex->phase) {
	case PHASE_GREET:
		exchange_finish(ex, ATOLL_CONN_FAILED, "the program did not finish its handshake");
		break;
	case PHASE_HEAD:
		if (lane_size(&ex->inner.in) > 0 || ex->n_requests == 0)
			exchange_finish(ex, ATOLL_CONN_FAILED,
					"the program did not finish its request");
		else
			exchange_finish(ex, ATOLL_CONN_ALLOWED, NULL);
		break;
	case PHASE_LAST:
		exchange_finish(ex, ex->verdict, ex->reason);
		break;
	case PHASE_OPAQUE:
		exchange_finish(ex, ATOLL_CONN_ALLOWED, "idle for too long");
		break;
	default:
		exchange_refuse(ex, 504, ex->has_answer ? ATOLL_CONN_ALLOWED : ATOLL_CONN_FAILED,
				ex->has_answer ? "nothing moved for 15 minutes"
					       : "the server did not answer in time");
	}
}

static void timer_fired(struct loop_timer *timer)
{
	struct exchange *ex = container_of(timer, struct exchange, timer);

	if (ex->deadline_ns && clock_monotonic_ns() >= ex->deadline_ns)
		time_is_up(ex);
	run(ex);
}

static bool begin(struct exchange *ex, bool is_tls)
{
	struct flow *flow = ex->flow;

	ex->phase = is_tls ? PHASE_GREET : PHASE_HEAD;
	exchange_set_deadline(ex, GREET_S);
	if (!is_tls) {
		buf_add(&ex->inner.in.buf, flow->early, flow->n_early);
		ex->inner.has_line = flow->n_early > 0;
		return buf_error(&ex->inner.in.buf) == 0;
	}
	return stream_serve(&flow->client, flow->egress->authority, &ex->peer, flow->early,
			    flow->n_early) == 0;
}

void exchange_take(struct flow *flow, bool is_tls)
{
	struct exchange *ex = calloc(1, sizeof *ex);

	if (!ex) {
		flow_end(flow, ATOLL_CONN_FAILED, "out of memory");
		return;
	}
	ex->flow = flow;
	ex->is_tls = is_tls;
	ex->server = (struct stream)STREAM_INIT;
	ex->timer.fire = timer_fired;
	side_reset(&ex->inner, &flow->client, false);
	side_reset(&ex->outer, &ex->server, false);
	if (*flow->name)
		snprintf(ex->host, sizeof ex->host, "%s", flow->name);
	else
		network_address_text(&flow->address, ex->host);
	ex->has_secrets = swap_concerns(flow->egress->swap, ex->host);
	ex->peer = (struct tls_peer){.name = flow->name,
				     .address = &flow->address,
				     .needs_name = *flow->name && flow->port == 443};
	flow->owner = ex;
	flow->abandon = release;
	flow->client.watch.ready = client_ready;
	if (!begin(ex, is_tls))
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
	run(ex);
}

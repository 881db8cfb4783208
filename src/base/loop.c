/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define FETCH_MAX   256
#define PUT_OFF_MAX 16 /* rounds */

int loop_init(struct loop *loop)
{
	*loop = (struct loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	if (loop->epoll_fd < 0)
		return -errno;
	return 0;
}

void loop_done(struct loop *loop)
{
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	free(loop->heap);
	*loop = (struct loop){.epoll_fd = -1};
}

/* ---- descriptors ---- */

int loop_watch(struct loop *loop, struct loop_watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	int call = watch->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (watch->is_watched && watch->events == events)
		return 0;
	if (epoll_ctl(loop->epoll_fd, call, watch->fd, &event) < 0)
		return -errno;
	watch->is_watched = true;
	watch->events = events;
	return 0;
}

void loop_unwatch(struct loop *loop, struct loop_watch *watch)
{
	if (!watch->is_watched)
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	loop_forget(loop, watch);
}

void loop_forget(struct loop *loop, struct loop_watch *watch)
{
	watch->is_watched = false;
	watch->events = 0;
	for (int i = 0; i < loop->n_fetched; i++)
		if (loop->fetched[i].data.ptr == watch)
			loop->fetched[i].data.ptr = NULL;
}

/* ---- timers: a binary heap, the earliest at place 1 ---- */

static void put(struct loop *loop, struct loop_timer *timer, size_t place)
{
	loop->heap[place - 1] = timer;
	timer->place = place;
}

static void sift(struct loop *loop, struct loop_timer *timer, size_t place)
{
	while (place > 1 && loop->heap[place / 2 - 1]->at_ns > timer->at_ns) {
		put(loop, loop->heap[place / 2 - 1], place);
		place /= 2;
	}
	for (;;) {
		size_t child = 2 * place;

		if (child > loop->n_timers)
			break;
		if (child < loop->n_timers &&
		    loop->heap[child]->at_ns < loop->heap[child - 1]->at_ns)
			child++;
		if (loop->heap[child - 1]->at_ns >= timer->at_ns)
			break;
		put(loop, loop->heap[child - 1], place);
		place = child;
	}
	put(loop, timer, place);
}

int loop_arm(struct loop *loop, struct loop_timer *timer, int64_t at_ns)
{
	if (!timer->place && loop->n_timers == loop->room) {
		size_t room = loop->room ? 2 * loop->room : 64;
		struct loop_timer **heap = reallocarray(loop->heap, room, sizeof *heap);

		if (!heap)
			return -ENOMEM;
		loop->heap = heap;
		loop->room = room;
	}
	timer->at_ns = at_ns;
	sift(loop, timer, timer->place ? timer->place : ++loop->n_timers);
	return 0;
}

void loop_disarm(struct loop *loop, struct loop_timer *timer)
{
	size_t place = timer->place;
	struct loop_timer *last;

	if (!place)
		return;
	timer->place = 0;
	last = loop->heap[--loop->n_timers];
	if (last != timer)
		sift(loop, last, place);
}

/* Only what was due when the round began: a timer that arms itself for now does not keep others
 * waiting. */
static void fire_due(struct loop *loop)
{
	int64_t now = clock_monotonic_ns();

	while (loop->n_timers > 0 && loop->heap[0]->at_ns <= now && !loop->is_stopped) {
		struct loop_timer *timer = loop->heap[0];

		loop_disarm(loop, timer);
		timer->fire(timer);
	}
}

/* ---- turns ---- */

static void queue_lane(struct loop *loop, struct loop_lane *lane)
{
	if (lane->is_queued)
		return;
	lane->is_queued = true;
	lane->next = NULL;
	if (!loop->lanes)
		loop->lanes_end = &loop->lanes;
	*loop->lanes_end = lane;
	loop->lanes_end = &lane->next;
}

void loop_queue(struct loop *loop, struct loop_lane *lane, struct loop_turn *turn)
{
	if (turn->lane)
		return;
	if (!lane->first)
		lane->end = &lane->first;
	turn->lane = lane;
	turn->next = NULL;
	turn->link = lane->end;
	*lane->end = turn;
	lane->end = &turn->next;
	queue_lane(loop, lane);
}

void loop_unqueue(struct loop_turn *turn)
{
	if (!turn->lane)
		return;
	*turn->link = turn->next;
	if (turn->next)
		turn->next->link = turn->link;
	else
		turn->lane->end = turn->link;
	turn->lane = NULL;
}

void loop_drop_lane(struct loop *loop, struct loop_lane *lane)
{
	while (lane->first)
		loop_unqueue(lane->first);
	for (struct loop_lane **at = &loop->lanes; *at; at = &(*at)->next) {
		if (*at != lane)
			continue;
		*at = lane->next;
		if (!*at)
			loop->lanes_end = at;
		lane->is_queued = false;
		return;
	}
}

/* A lane stays in the loop's list when its turns are unqueued, so it may be empty here. */
static void run_turn(struct loop *loop)
{
	struct loop_turn *turn = NULL;

	while (!turn && loop->lanes) {
		struct loop_lane *lane = loop->lanes;

		loop->lanes = lane->next;
		lane->is_queued = false;
		turn = lane->first;
		if (turn)
			loop_unqueue(turn);
		if (lane->first)
			queue_lane(loop, lane);
	}
	if (turn)
		turn->run(turn);
}

/* ---- */

static int wait_ms(struct loop *loop)
{
	int64_t left, now;

	if (loop->rest || loop->lanes)
		return 0;
	if (loop->n_timers == 0 && !loop->awake_ns)
		return -1;
	now = clock_monotonic_ns();
	if (loop->awake_ns > now)
		return 0;
	loop->awake_ns = 0;
	if (loop->n_timers == 0)
		return -1;
	left = loop->heap[0]->at_ns - now;
	if (left <= 0)
		return 0;
	if (left > 3600 * INT64_C(1000000000))
		return 3600 * 1000;
	return (int)((left + 999999) / 1000000);
}

void loop_stay_awake(struct loop *loop, int64_t until_ns)
{
	loop->awake_ns = until_ns;
}

void loop_rest(struct loop *loop, void (*rest)(struct loop *loop))
{
	loop->rest = rest;
}

/* Behind whatever is ready. */
static void do_rest(struct loop *loop, bool is_quiet)
{
	void (*rest)(struct loop * loop) = loop->rest;

	if (!rest || (!is_quiet && ++loop->n_put_off < PUT_OFF_MAX))
		return;
	loop->rest = NULL;
	loop->n_put_off = 0;
	rest(loop);
}

int loop_run(struct loop *loop)
{
	struct epoll_event fetched[FETCH_MAX];
	int r = 0;

	loop->fetched = fetched;
	while (!loop->is_stopped) {
		int n = epoll_wait(loop->epoll_fd, fetched, FETCH_MAX, wait_ms(loop));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			r = -errno;
			break;
		}
		loop->n_fetched = n;
		for (int i = 0; i < n && !loop->is_stopped; i++) {
			struct loop_watch *watch = fetched[i].data.ptr;

			if (watch)
				watch->ready(watch, fetched[i].events);
		}
		loop->n_fetched = 0;
		fire_due(loop);
		if (!loop->is_stopped)
			run_turn(loop);
		do_rest(loop, n == 0);
		if (n == 0 && loop->awake_ns)
			sched_yield();
	}
	loop->fetched = NULL;
	loop->is_stopped = false;
	return r;
}

void loop_stop(struct loop *loop)
{
	loop->is_stopped = true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/clock.h"

#include <errno.h>

/* One piece of work after the other gets a slice. Those beyond the first ACTIVE_MAX wait, because
 * each that has begun has a descriptor or two. */
#define SLICE_NS   2000000
#define ACTIVE_MAX 16
#define WORKS_MAX  1024

static void end_work(struct server *server, struct work **place)
{
	struct work *work = *place;

	*place = work->next;
	if (server->last_work == &work->next)
		server->last_work = place;
	server->n_works--;
	work->end(work);
}

/* A step is a few system calls; the clock is looked at after each. */
static enum work_state slice(struct server *server, struct work *work)
{
	int64_t until = clock_monotonic_ns() + SLICE_NS;

	do {
		if (work->step(work) == WORK_DONE)
			return WORK_DONE;
	} while (server->n_waiting < WAITING_MAX && clock_monotonic_ns() < until);
	return WORK_ON;
}

static void take_turn(struct loop_timer *timer)
{
	struct server *server =
		(struct server *)(void *)((char *)timer - offsetof(struct server, turn));
	struct work **place = &server->works;

	for (int i = 0; *place && i < ACTIVE_MAX && server->n_waiting < WAITING_MAX; i++) {
		if (slice(server, *place) == WORK_DONE)
			end_work(server, place);
		else
			place = &(*place)->next;
	}
	work_resume(server);
}

void work_resume(struct server *server)
{
	if (server->works && server->n_waiting < WAITING_MAX && !server->turn.place) {
		server->turn.fire = take_turn;
		/* Cannot fail: the heap has had room for this one since the start. */
		loop_arm(&server->loop, &server->turn, 0);
	}
}

bool work_start(struct server *server, struct work *work)
{
	if (server->n_works >= WORKS_MAX) {
		if (work->is_question)
			answer(server, work->id, EAGAIN, "", NULL, 0, -1);
		work->end(work);
		return false;
	}
	if (!server->last_work)
		server->last_work = &server->works;
	work->server = server;
	work->next = NULL;
	if (server->n_works == 0 && slice(server, work) == WORK_DONE) {
		work->end(work);
		return true;
	}
	*server->last_work = work;
	server->last_work = &work->next;
	server->n_works++;
	work_resume(server);
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/loop.h"
#include "base/scope.h"
#include "base/test.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct probe {
	struct loop *loop;
	struct loop_watch watch;
	struct loop_timer timer;
	struct probe *victim;
	int n;
};

static int order[1000], n_order;
static struct probe *survivor;

#define MS 1000000

static struct probe *of_timer(struct loop_timer *timer)
{
	return (struct probe *)((char *)timer - offsetof(struct probe, timer));
}

static struct probe *of_watch(struct loop_watch *watch)
{
	return (struct probe *)((char *)watch - offsetof(struct probe, watch));
}

static void note(struct loop_timer *timer)
{
	order[n_order++] = of_timer(timer)->n;
}

static void stop(struct loop_timer *timer)
{
	loop_stop(of_timer(timer)->loop);
}

TEST(timers_fire_in_order_and_disarmed_ones_never)
{
	struct loop loop;
	struct probe probes[500] = {0}, last = {.loop = &loop, .timer.fire = stop};
	int64_t now = clock_monotonic_ns();

	CHECK(loop_init(&loop) == 0);
	srandom(7);
	for (int i = 0; i < 500; i++) {
		probes[i].n = (int)(random() % 5000);
		probes[i].timer.fire = note;
		CHECK(loop_arm(&loop, &probes[i].timer, now + random() % MS) == 0);
		/* Arming again moves. */
		CHECK(loop_arm(&loop, &probes[i].timer, now + probes[i].n * 1000) == 0);
	}
	for (int i = 0; i < 500; i += 3)
		loop_disarm(&loop, &probes[i].timer);
	CHECK(loop_arm(&loop, &last.timer, now + 6 * MS) == 0);
	n_order = 0;
	CHECK(loop_run(&loop) == 0);
	CHECK_INT(n_order, 500 - 167);
	for (int i = 1; i < n_order; i++)
		CHECK(order[i - 1] <= order[i]);
	CHECK_INT(loop.n_timers, 0);
	CHECK(clock_monotonic_ns() >= now + 6 * MS);
	loop_done(&loop);
}

/* Frees the other one, for which an event may already have been fetched. */
static void end_other(struct loop_watch *watch, uint32_t events)
{
	struct probe *probe = of_watch(watch);

	(void)events;
	probe->n++;
	survivor = probe;
	if (probe->victim) {
		loop_unwatch(probe->loop, &probe->victim->watch);
		probe->victim->victim = NULL;
		free(probe->victim);
		probe->victim = NULL;
	}
	loop_stop(probe->loop);
	loop_unwatch(probe->loop, watch);
}

TEST(an_event_for_what_was_ended_meanwhile_is_dropped)
{
	struct loop loop;
	struct probe *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
	int pipes[2][2];

	CHECK(loop_init(&loop) == 0 && a && b);
	CHECK(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
	*a = (struct probe){&loop, {.fd = pipes[0][0], .ready = end_other}, .victim = b};
	*b = (struct probe){&loop, {.fd = pipes[1][0], .ready = end_other}, .victim = a};
	CHECK(loop_watch(&loop, &a->watch, EPOLLIN) == 0);
	CHECK(loop_watch(&loop, &b->watch, EPOLLIN) == 0);
	CHECK(write(pipes[0][1], "x", 1) == 1 && write(pipes[1][1], "x", 1) == 1);
	CHECK(loop_run(&loop) == 0);
	/* Whichever came first has ended the other. */
	CHECK_INT(survivor->n, 1);
	free(survivor);
	loop_done(&loop);
	for (int i = 0; i < 4; i++)
		close(pipes[i / 2][i % 2]);
}

TEST(what_is_watched_for_can_be_changed)
{
	struct loop loop;
	struct probe probe = {.loop = &loop};
	struct probe last = {.loop = &loop, .timer.fire = stop};
	int ends[2];

	CHECK(loop_init(&loop) == 0 && pipe(ends) == 0);
	probe.watch = (struct loop_watch){.fd = ends[0], .ready = end_other};
	CHECK(write(ends[1], "x", 1) == 1);
	CHECK(loop_watch(&loop, &probe.watch, EPOLLIN) == 0);
	CHECK(loop_watch(&loop, &probe.watch, 0) == 0);
	CHECK(loop_arm(&loop, &last.timer, clock_monotonic_ns() + 5 * MS) == 0);
	CHECK(loop_run(&loop) == 0);
	CHECK_INT(probe.n, 0);
	CHECK(loop_watch(&loop, &probe.watch, EPOLLIN) == 0);
	CHECK(loop_run(&loop) == 0);
	CHECK_INT(probe.n, 1);
	CHECK(!probe.watch.is_watched);
	loop_unwatch(&loop, &probe.watch);
	loop_done(&loop);
	close(ends[0]);
	close(ends[1]);
}

static int n_rests;

static void rest(struct loop *loop)
{
	(void)loop;
	order[n_order++] = -1;
	n_rests++;
}

static void note_and_stop(struct loop_timer *timer)
{
	note(timer);
	stop(timer);
}

TEST(what_can_wait_comes_after_what_is_ready_and_once)
{
	struct loop loop;
	struct probe first = {.loop = &loop, .timer.fire = note, .n = 1};
	struct probe last = {.loop = &loop, .timer.fire = note_and_stop, .n = 2};
	int64_t now = clock_monotonic_ns();

	CHECK(loop_init(&loop) == 0);
	n_order = n_rests = 0;
	loop_rest(&loop, rest);
	CHECK(loop_arm(&loop, &first.timer, now) == 0);
	CHECK(loop_arm(&loop, &last.timer, now + 20 * MS) == 0);
	CHECK(loop_run(&loop) == 0);
	CHECK_INT(n_order, 3);
	CHECK_INT(order[0], 1);
	CHECK_INT(order[1], -1);
	CHECK_INT(order[2], 2);
	CHECK_INT(n_rests, 1);
	loop_done(&loop);
}

static void ready_again(struct loop_watch *watch, uint32_t events)
{
	struct probe *probe = of_watch(watch);

	(void)events;
	if (n_rests > 0 || ++probe->n > 1000)
		loop_stop(probe->loop);
}

TEST(what_can_wait_does_not_wait_for_ever)
{
	struct loop loop;
	struct probe probe = {.loop = &loop};
	int ends[2];

	CHECK(loop_init(&loop) == 0 && pipe(ends) == 0);
	probe.watch = (struct loop_watch){.fd = ends[0], .ready = ready_again};
	CHECK(write(ends[1], "x", 1) == 1); /* and never read: always ready */
	CHECK(loop_watch(&loop, &probe.watch, EPOLLIN) == 0);
	n_order = n_rests = 0;
	loop_rest(&loop, rest);
	CHECK(loop_run(&loop) == 0);
	CHECK_INT(n_rests, 1);
	CHECK(probe.n < 100);
	loop_unwatch(&loop, &probe.watch);
	loop_done(&loop);
	close(ends[0]);
	close(ends[1]);
}

TEST(who_stays_awake_still_sleeps_in_the_end)
{
	struct loop loop;
	struct probe last = {.loop = &loop, .timer.fire = stop};
	struct timespec before, after;
	int64_t now = clock_monotonic_ns();

	CHECK(loop_init(&loop) == 0);
	loop_stay_awake(&loop, now + 2 * MS);
	CHECK(loop_arm(&loop, &last.timer, now + 200 * MS) == 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	CHECK(loop_run(&loop) == 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	CHECK(clock_monotonic_ns() >= now + 200 * MS);
	CHECK(after.tv_sec == before.tv_sec
		      ? after.tv_nsec - before.tv_nsec < 100 * MS
		      : after.tv_nsec + 1000 * MS - before.tv_nsec < 100 * MS);
	CHECK(loop.awake_ns == 0);
	loop_done(&loop);
}

/* ---- turns ---- */

struct work {
	struct loop *loop;
	struct loop_lane *lane;
	struct loop_turn turn;
	struct loop_timer timer;
	int n, left;
};

static struct work *of_turn(struct loop_turn *turn)
{
	return (struct work *)((char *)turn - offsetof(struct work, turn));
}

static void do_some(struct loop_turn *turn)
{
	struct work *work = of_turn(turn);

	order[n_order++] = work->n;
	if (--work->left > 0)
		loop_queue(work->loop, work->lane, turn);
}

static void count_turns(struct loop_timer *timer)
{
	struct work *work = (struct work *)((char *)timer - offsetof(struct work, timer));

	if (n_order < 300)
		loop_arm(work->loop, timer, clock_monotonic_ns());
	else
		loop_stop(work->loop);
	work->n++;
}

TEST(lanes_alternate_and_each_round_of_the_loop_runs_one_turn)
{
	struct loop loop;
	struct loop_lane many = {0}, one = {0}, dropped = {0};
	struct work works[100] = {0}, single, never, rounds = {.timer.fire = count_turns};

	CHECK(loop_init(&loop) == 0);
	n_order = 0;
	for (int i = 0; i < 100; i++) {
		works[i] = (struct work){&loop, &many, {.run = do_some}, {0}, 1, 3};
		loop_queue(&loop, &many, &works[i].turn);
		loop_queue(&loop, &many, &works[i].turn); /* changes nothing */
	}
	single = (struct work){&loop, &one, {.run = do_some}, {0}, 2, 10};
	loop_queue(&loop, &one, &single.turn);
	never = (struct work){&loop, &dropped, {.run = do_some}, {0}, 3, 1};
	loop_queue(&loop, &dropped, &never.turn);
	loop_drop_lane(&loop, &dropped);
	loop_unqueue(&works[99].turn);
	loop_unqueue(&works[99].turn);
	rounds.loop = &loop;
	loop_arm(&loop, &rounds.timer, 0);
	CHECK(loop_run(&loop) == 0);
	/* The one has every second turn until it is done, and each turn was a round of its own. */
	for (int i = 0; i < 20; i++)
		CHECK(order[i] == 1 + i % 2);
	CHECK(n_order >= 300 && n_order <= 307);
	CHECK(rounds.n >= n_order);
	CHECK(!never.turn.lane && !works[99].turn.lane);
	loop_done(&loop);
}

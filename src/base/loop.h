/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Waiting for many things at once: epoll, and timers in a heap
 *
 * Watches and timers are embedded in what they belong to; the loop owns nothing. Either may be
 * ended, and what it lies in freed, from any callback: an event that was already fetched for it is
 * dropped.
 */

struct loop_watch {
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT, ...; 0: registered, and only errors are told */
	void (*ready)(struct loop_watch *watch, uint32_t events);
	bool is_watched;
};

struct loop_timer {
	int64_t at_ns;				/* of clock_monotonic_ns() */
	void (*fire)(struct loop_timer *timer); /* once; may arm itself anew */
	size_t place;				/* in the heap, from 1; 0: not armed */
};

/* A piece of a long work, such as one piece of a stream. Embedded. */
struct loop_turn {
	void (*run)(struct loop_turn *turn); /* once; may queue itself again */
	struct loop_lane *lane;		     /* NULL: not queued */
	struct loop_turn *next, **link;
};

/* The turns of one party, such as a tenant. Zeroed is empty. */
struct loop_lane {
	struct loop_turn *first, **end;
	struct loop_lane *next;
	bool is_queued;
};

struct loop {
	int epoll_fd;
	struct loop_timer **heap;
	size_t n_timers, room;
	struct epoll_event *fetched; /* of the round at hand */
	int n_fetched;
	void (*rest)(struct loop *loop); /* see loop_rest() */
	int n_put_off;
	struct loop_lane *lanes, **lanes_end; /* with turns, the next one first */
	int64_t awake_ns;		      /* see loop_stay_awake() */
	bool is_stopped;
};

/* 0 or a negative errno. */
int loop_init(struct loop *loop);
void loop_done(struct loop *loop);

/* Begin to watch `watch->fd`, or change what is watched for. 0 or a negative errno. */
int loop_watch(struct loop *loop, struct loop_watch *watch, uint32_t events);
/* Does not close the descriptor; call it before that is closed. Fine if it is not watched. */
void loop_unwatch(struct loop *loop, struct loop_watch *watch);
/* The same for a descriptor that is closed next, if nobody has another one of that file: the kernel
 * forgets it then by itself. */
void loop_forget(struct loop *loop, struct loop_watch *watch);

/* 0, or -ENOMEM. Arming an armed one moves it. */
int loop_arm(struct loop *loop, struct loop_timer *timer, int64_t at_ns);
void loop_disarm(struct loop *loop, struct loop_timer *timer);

/* Work that can wait: `rest` is called once, when nothing is ready, or after a few rounds in which
 * something always was. One at a time. */
void loop_rest(struct loop *loop, void (*rest)(struct loop *loop));

/* One turn is run in each round of the loop, after the round's events, and lanes alternate: however
 * many turns one lane has, events wait for one turn, and another lane for one turn of each. Queuing
 * a queued turn changes nothing. */
void loop_queue(struct loop *loop, struct loop_lane *lane, struct loop_turn *turn);
/* Fine if it is not queued. */
void loop_unqueue(struct loop_turn *turn);
/* Before what the lane lies in is freed; its turns are unqueued. Fine if nothing is queued. */
void loop_drop_lane(struct loop *loop, struct loop_lane *lane);

/* Until then look again and again instead of sleeping, and let others have the CPU in between: for
 * the short while in which the next event is known to be near. Being woken costs tens of
 * microseconds on a virtual machine. */
void loop_stay_awake(struct loop *loop, int64_t until_ns);

/* Until loop_stop() or a failure of epoll_wait(2). */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

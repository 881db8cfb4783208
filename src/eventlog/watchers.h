/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct atoll_error;

/*
 * Programs that are sent the record's lines while they are written
 *
 *   fd:N       a descriptor that the caller has open
 *   unix:PATH  a stream socket that somebody listens at
 *   exec:CMD   the input of a shell's command line, run outside with the caller's rights
 *
 * Each has a buffer of 1 MiB. When half of it is full the supervisor is to read less from inside,
 * so that whoever makes events waits; but for no longer than two seconds at a time. A reader that
 * was not faster by then is a slow one: nobody waits for it until it has caught up, and what does
 * not fit is left out. Where lines were left out it gets {"kind":"lost",...} in their place, and
 * the record is told. A reader that goes away is done without.
 */

#define WATCHERS_MAX	 4 /* three of the caller's, and a monitor */
#define WATCHERS_BUFFER	 ((size_t)1 << 20)
#define WATCHERS_WAIT_NS (2 * INT64_C(1000000000))

struct watcher {
	char name[64];
	int fd;	   /* -1: gone */
	pid_t pid; /* of exec:, or 0 */
	char *data;
	size_t start, used; /* what waits lies at `start` */
	bool is_partial;    /* a line is half written */
	int64_t full_ns;    /* since when it has been half full, or 0 */
	bool is_slow;	    /* nobody waits for it */
	uint64_t lost;	    /* lines left out, not told of yet */
	uint64_t lost_in_all;
	bool has_gone; /* before the end */
};

struct watchers {
	struct watcher items[WATCHERS_MAX];
	size_t n;
	/* A reader has lost lines, or is gone (count 0). May be NULL. */
	void (*missed)(void *data, const struct watcher *watcher, uint64_t count, const char *why);
	void *data;
};

/* One reader more. Fails if there is none. */
int watchers_add(struct watchers *watchers, const char *target, struct atoll_error *err);
/* A stream socket that is open already, which becomes theirs. */
int watchers_add_socket(struct watchers *watchers, int fd, const char *name,
			struct atoll_error *err);
/* One line, without its end. */
void watchers_send(struct watchers *watchers, const char *line, size_t size);
/* Should whoever makes events wait? */
bool watchers_hold(struct watchers *watchers);

/* In a loop: WATCHERS_MAX entries. */
void watchers_want(const struct watchers *watchers, struct pollfd *fds);
void watchers_move(struct watchers *watchers, const struct pollfd *fds);
/* When watchers_hold() may say something else; INT64_MAX: never. */
int64_t watchers_deadline_ns(const struct watchers *watchers);

/* The rest, within two seconds; then all are let go, and what was started for them ended. */
void watchers_close(struct watchers *watchers);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct atoll_error;

/*
 * Readers of events (--events): each gets the lines of the event log while the run goes on
 *
 *   fd:N       a descriptor that the caller has open
 *   unix:PATH  a listening stream socket
 *   exec:CMD   the standard input of a shell command, run outside with the caller's rights
 *
 * Each reader has a buffer of 1 MiB. While more than half of it is full, the supervisor does not
 * read notices, so that processes inside wait; for at most two seconds at a time. A reader that is
 * still behind then is slow: the sandbox goes on, and lines that do not fit are left out. The
 * reader gets {"kind":"lost",...} in their place, and the event log gets a line as well. A run goes
 * on without a reader that has closed its end.
 */

#define WATCHERS_MAX	 4 /* three of the caller's, and a monitor */
#define WATCHERS_BUFFER	 ((size_t)1 << 20)
#define WATCHERS_WAIT_NS (2 * INT64_C(1000000000))

struct watcher {
	char name[64];
	int fd;	   /* -1: gone */
	pid_t pid; /* of exec:, or 0 */
	char *data;
	size_t start, used; /* the waiting bytes in `data` */
	int64_t full_ns;    /* since when it has been half full, or 0 */
	bool is_slow;	    /* the sandbox does not wait for it */
	uint64_t lost;	    /* lines left out and not reported yet */
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

/* Add the reader that `target` names. */
int watchers_add(struct watchers *watchers, const char *target, struct atoll_error *err);
/* Add a connected stream socket, which watchers_close() closes. */
int watchers_add_socket(struct watchers *watchers, int fd, const char *name,
			struct atoll_error *err);
/* Send a line, which has no newline. */
void watchers_send(struct watchers *watchers, const char *line, size_t size);
/* Should the supervisor stop reading notices? */
bool watchers_should_pause(struct watchers *watchers);

/* For the caller's poll(): WATCHERS_MAX entries. */
void watchers_want(const struct watchers *watchers, struct pollfd *fds);
void watchers_move(struct watchers *watchers, const struct pollfd *fds);
/* When watchers_should_pause() may change; INT64_MAX: never. */
int64_t watchers_deadline_ns(const struct watchers *watchers);

/* Send the waiting lines, for at most two seconds; then close all readers and end their commands.
 */
void watchers_close(struct watchers *watchers);

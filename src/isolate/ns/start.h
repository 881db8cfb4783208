/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "isolate/ns/cell.h"

#include <errno.h>

/*
 * A start, for its own files; what others use of it stands in cell.h
 *
 *   start.c        the parent, and how it all goes
 *   start-child.c  the child, until it is the sandbox's first process
 *   start-setup.c  what the two say to each other
 *   start-ids.c    the maps of ids, and taking one
 */

#define START_READY_FDS 5

static inline int start_fail(struct atoll_error *err, const char *what)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s", what);
}

/* ---- start-child.c ---- */

_Noreturn void start_child(struct cell *cell);

/* ---- start-setup.c ---- */

/* What the child waits for first: the trees that the parent has copied for it, or none. */
int start_send_trees(struct cell *cell, int socket_fd, int userns_fd, struct atoll_error *err);
int start_send_go(int socket_fd, struct atoll_error *err);
int start_receive_trees(struct cell *cell, struct atoll_error *err);
int start_send_contract(struct cell *cell, int socket_fd, struct atoll_error *err);
int start_send_leave(const struct cell *cell, int socket_fd, struct atoll_error *err);
int start_receive_leave(const struct cell *cell, struct atoll_error *err);
/* The parent hears it by start_wait_ready(), and takes what came with it. */
int start_say_ready(struct cell *cell, const struct init_command *command, struct atoll_error *err);
int start_take_ready(struct cell *cell, const int *fds, size_t n, struct cell_handle *ret,
		     struct atoll_error *err);

/* ---- start-ids.c ---- */

/* Of the user namespace of `pid`; 0: our own. */
int start_map_ids(pid_t pid, const struct ns_ids *ids, struct atoll_error *err);
int start_map_self(const struct ns_ids *ids, struct atoll_error *err);

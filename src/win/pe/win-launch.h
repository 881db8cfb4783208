/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/pe/pe.h"

/*
 * Processes with pipes
 *
 * The command never gets the launcher's console: a process that shares a console can type into it.
 * Its three streams are pipes, and one thread per pipe copies. Only the pipes' ends are inherited
 * (PROC_THREAD_ATTRIBUTE_HANDLE_LIST), and the process is in its job from its first instruction on
 * (PROC_THREAD_ATTRIBUTE_JOB_LIST).
 */

struct win_pump {
	HANDLE from, to, thread;
	bool closes_to; /* the end of the input closes the output: standard input */
	struct win_host *host;
	volatile LONG64 *n_bytes; /* of all output pumps together, or NULL */
	volatile LONG64 own;
};

struct win_pipes {
	HANDLE child[3];  /* inherited by the process */
	HANDLE parent[3]; /* our ends */
};

int win_pipes_open(struct win_pipes *ret, struct atoll_error *err);
void win_pipes_close_child(struct win_pipes *pipes);
void win_pipes_close_parent(struct win_pipes *pipes);

/* Start a process suspended. `token` NULL: with the caller's own. */
int win_process_start(const struct win_launch *launch, const char *command_line,
		      const HANDLE inherited[3], PROCESS_INFORMATION *ret, struct atoll_error *err);

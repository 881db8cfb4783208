/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder.h"

/*
 * A step, for the files of the library that serve it
 *
 *   step-client.c       starting, attaching, what can be asked of it
 *   step-read.c  what the holder tells, and the output
 */

struct step_stream {
	char *small; /* all of it, while it is short */
	int file;    /* the holder's memory, once it is not; else -1 */
};

struct atoll_step {
	int fd; /* the holder's */
	struct atoll_step_info info;
	struct atoll_error error; /* why it has not started */
	bool is_refused, was_reset;
	bool is_over; /* nothing more comes */
	char *words;
	char **texts; /* argv, NULL, env, NULL */
	size_t n_argv;
	struct step_stream streams[HOLD_STREAMS];
	int input_fd;
	uint64_t need[HOLD_STREAMS], needed[HOLD_STREAMS]; /* and what the holder knows of it */
};

/* Everything that the holder has said. 0, or the failure that ended it. */
int step_take(struct atoll_step *step, struct atoll_error *err);
void step_fill_info(const struct hold_told *told, struct atoll_step_info *ret);
/* Once it is known how it ended: the struct is large, and steps are kept for a while. */
void step_drop_result(struct atoll_step *step);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-protocol.h"
#include "sandbox/sandbox.h"

/*
 * A detached step in a client (atoll/step.h)
 *
 *   step-client.c  starts and attaches, sends calls
 *   step-read.c    reads the holder's reports and the output
 */

struct step_stream {
	char *small; /* all bytes, while the stream is small */
	int file;    /* the holder's memory file of a longer stream; else -1 */
};

struct atoll_step {
	int fd; /* the connection to the holder */
	struct atoll_step_info info;
	struct atoll_error error; /* why the step has not started */
	bool is_refused, was_reset;
	bool is_over; /* no more reports come */
	char *invocation;
	char **texts; /* argv, NULL, env, NULL */
	size_t n_argv;
	struct step_stream streams[STEP_STREAMS];
	int input_fd;
	uint64_t need[STEP_STREAMS], needed[STEP_STREAMS]; /* `needed`: as sent to the holder */
};

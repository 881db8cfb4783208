/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_result;
struct atoll_run_options;

/*
 * Signals, and the person at the terminal
 *
 * Until the command runs, signals do what they do to any program: set-up can be interrupted, also
 * where it waits in the kernel, and everything inside dies with us. From then on they are passed on
 * (see atoll.h). Those that whoever started us had ignored (nohup) stay ignored.
 */

/* Fill in the options' signals and functions. */
void interact_begin(struct atoll_run_options *options);

/* The run is over, or there was none. */
void interact_end(void);

/* If a signal to us has ended the command, end by it ourselves: a shell then knows that its loop
 * was interrupted, too. Else returns. */
void interact_die(const struct atoll_result *result);

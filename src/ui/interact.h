/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_result;
struct atoll_run_options;

/*
 * Signals, progress and the terminal during a run
 *
 * Until the command runs, signals have their default effect: the set-up of a sandbox can be
 * interrupted, even while it blocks in the kernel, and the sandbox ends with this process. From
 * then on signals are passed on to the command (see atoll.h). Signals that the caller had ignored
 * (nohup) stay ignored.
 */

/* Fills in the signals and callbacks of the options. */
void interact_begin(struct atoll_run_options *options);

/* Ends the progress output; after a run, or after a failed start. */
void interact_end(void);

/* If a signal to this process has ended the command, ends this process by the same signal, so
 * that a shell stops its loop, too. Otherwise returns. */
void interact_die(const struct atoll_result *result);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;

/*
 * Commands for a daemon: `atoll --host URL [--key KEY] COMMAND ...`
 *
 * atoll-remote (src/remote/) executes them, because it links an HTTP client. With $ATOLL_HOST the
 * commands that a daemon can execute go to that daemon without --host; all others are executed
 * here.
 */

/* Reads --host and --key at the front of `*args` and advances `*args`. If the command is for a
 * daemon, executes atoll-remote and returns only on failure, a negative errno. Otherwise returns
 * 0. */
int remote_dispatch(char ***args, struct atoll_error *err);

/* Executes atoll-remote; `args` are the arguments after the command's name. */
int remote_execute(const char *host, const char *command, char **args, struct atoll_error *err);

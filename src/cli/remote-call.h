/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;

/*
 * Commands that are meant for a daemon elsewhere
 *
 *	atoll --host URL [--key KEY] COMMAND ...
 *
 * Another program does them (src/remote/), because of what it links. With $ATOLL_HOST those that
 * have a meaning there go there by themselves, and all others stay here.
 */

/* Takes --host and --key from the front of `*args`. If the command is for somewhere else it is
 * executed, and only a failure returns: a negative errno. Else 0. */
int remote_dispatch(char ***args, struct atoll_error *err);

/* Execute the other program; `args` stand behind the command's name in main()'s list. */
int remote_execute(const char *host, const char *command, char **args, struct atoll_error *err);

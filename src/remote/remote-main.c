/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/str.h"
#include "remote/remote-address.h"
#include "remote/remote.h"
#include "ui/ui.h"

#include <atoll/atoll.h>
#include <stdio.h>

/* clang-format off */
const struct command *const remote_commands[] = {
	&remote_create,
	&remote_exec,
	&remote_checkpoint,
	&remote_rollback,
	&remote_fork,
	&remote_history,
	&remote_rm,
	&remote_ls,
	&remote_pause,
	&remote_resume,
	&remote_diff,
	&remote_apply,
	&remote_undo,
	&remote_export,
	&remote_log,
	&remote_top,
	NULL,
};
/* clang-format on */

static const struct command *find(const char *name, struct atoll_error *err)
{
	for (size_t i = 0; remote_commands[i]; i++) {
		if (streq(remote_commands[i]->name, name))
			return remote_commands[i];
	}
	error_set(err, ATOLL_FAULT_REQUEST, 0,
		  "'%s' has no meaning in a daemon elsewhere; these do: create, exec, checkpoint, "
		  "rollback, fork, history, rm, ls, pause, resume, diff, apply, undo, export, log, "
		  "top",
		  name);
	return NULL;
}

static bool wants_help(char **args)
{
	for (; *args && !streq(*args, "--"); args++) {
		if (streq(*args, "--help") || streq(*args, "-h"))
			return true;
	}
	return false;
}

/* atoll-remote HOST COMMAND ARGUMENT...; an empty HOST means the default. The key is in
 * ATOLL_KEY. */
int main(int argc, char **argv)
{
	struct atoll_error err = {0};
	const struct command *command = argc > 2 ? find(argv[2], &err) : NULL;
	int r = -1;

	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	if (argc < 3)
		error_set(&err, ATOLL_FAULT_REQUEST, 0,
			  "this is a part of atoll: atoll --host URL");
	if (command && !wants_help(argv + 3))
		r = remote_open(argv[1], &remote, &err);
	else if (command)
		r = 0;
	if (command && r == 0)
		r = command->run(argv + 3, &err);
	remote_close(&remote);
	if (r >= 0)
		return r;
	print_problem(err.text);
	return remote_exit_status ? remote_exit_status : atoll_error_status(&err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote-call.h"

#include "base/error.h"
#include "base/program.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

/* The commands that a daemon can execute. Keep in step with remote_commands[] in src/remote/. */
static const char *const commands_there[] = {
	"create", "exec", "checkpoint", "rollback", "fork",   "history", "rm",	"ls", "pause",
	"resume", "diff", "apply",	"undo",	    "export", "log",	 "top", NULL,
};

static bool is_there(const char *name)
{
	for (size_t i = 0; commands_there[i]; i++) {
		if (streq(commands_there[i], name))
			return true;
	}
	return false;
}

int remote_execute(const char *host, const char *command, char **args, struct atoll_error *err)
{
	char path[PATH_MAX], **argv;
	size_t n = 0;
	int r = program_find("atoll-remote", path, sizeof path);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find the program 'atoll-remote', which belongs to atoll");
	while (args[n])
		n++;
	argv = calloc(n + 4, sizeof *argv);
	if (!argv)
		return error_oom(err);
	argv[0] = path;
	argv[1] = (char *)(uintptr_t)(host ? host : "");
	argv[2] = (char *)(uintptr_t)command;
	memcpy(argv + 3, args, n * sizeof *args);
	execv(path, argv);
	return error_set(err, ATOLL_FAULT_HOST, errno, "execute '%s'", path);
}

/* Reads "--NAME VALUE" or "--NAME=VALUE" at the front of the arguments: 1, or 0 if there is
 * something else. */
static int read_value(char ***args, const char *name, const char **ret, struct atoll_error *err)
{
	const char *word = **args;
	size_t length = strlen(name);

	if (!word || strncmp(word, name, length) != 0 || (word[length] && word[length] != '='))
		return 0;
	if (word[length] == '=') {
		*ret = word + length + 1;
		*args += 1;
	} else {
		*ret = (*args)[1];
		*args += *ret ? 2 : 1;
	}
	if (!*ret || !(*ret)[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s needs a value", name);
	return 1;
}

int remote_dispatch(char ***args, struct atoll_error *err)
{
	const char *host = NULL, *key = NULL;
	int r;

	while ((r = read_value(args, "--host", &host, err)) > 0 ||
	       (r == 0 && (r = read_value(args, "--key", &key, err)) > 0))
		;
	if (r < 0)
		return r;
	/* By the environment: every user can read a command line. */
	if (key)
		setenv("ATOLL_KEY", key, 1);
	if (host && !**args)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "usage: atoll --host URL [--key KEY] COMMAND ...");
	if (!host && !**args)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "--key is for --host URL");
	if (!host && is_there(**args))
		host = getenv("ATOLL_HOST");
	if (!host || !host[0])
		return 0;
	return remote_execute(host, **args, *args + 1, err);
}

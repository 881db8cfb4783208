/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run-receipt.h"

#include "base/error.h"
#include "base/program.h"

#include <atoll/atoll.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts atoll-audit as a child and waits for it, because this process still has to return the
 * exit status of the run. */
int receipt_after(const char *path, const struct atoll_result *result, struct atoll_error *err)
{
	char program[PATH_MAX], output[PATH_MAX + 16];
	char *argv[] = {program, (char[]){"attest"}, output, (char[]){"--"}, NULL, NULL};
	char run[sizeof result->run];
	int status, r = program_find("atoll-audit", program, sizeof program);
	pid_t pid;

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find the program 'atoll-audit', which belongs to atoll");
	snprintf(run, sizeof run, "%s", result->run);
	argv[4] = run;
	if ((size_t)snprintf(output, sizeof output, "--output=%s", path) >= sizeof output)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "--receipt");
	r = posix_spawn(&pid, program, NULL, NULL, argv, environ);
	if (r != 0)
		return error_set(err, ATOLL_FAULT_HOST, r, "execute '%s'", program);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, ATOLL_FAULT_HOST, errno, "wait for the receipt");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

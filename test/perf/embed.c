/* SPDX-License-Identifier: Apache-2.0 */
#include "floor.h"

#include <atoll/atoll.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * The same question as in spawn.c, for a program that is running already and uses the library
 *
 *	embed ROUNDS COMMAND...
 *
 * Starts the command by posix_spawn(), by floor_run() and by atoll_job_run() in turn; prints one
 * line per round, nanoseconds for each. Making the job is part of it: a program that runs different
 * commands cannot keep one.
 */

#define WARM_UP 5

extern char **environ;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t time_plain(char **argv)
{
	int64_t start = now_ns();
	int status;
	pid_t pid;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0)
		exit(2);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			exit(2);
	if (status != 0)
		exit(2);
	return now_ns() - start;
}

static int64_t time_floor(char **argv)
{
	int64_t start = now_ns();

	if (floor_run(argv, false) != 0)
		exit(2);
	return now_ns() - start;
}

static int64_t time_atoll(char **argv)
{
	const struct atoll_run_options options = {.stdin_fd = -1, .stdout_fd = 1, .stderr_fd = 2};
	struct atoll_error err = {0};
	struct atoll_result result;
	int64_t start = now_ns();
	struct atoll_job *job = atoll_job_new(&err);

	if (!job || atoll_job_command(job, argv, &err) < 0 ||
	    atoll_job_set(job, "mode", "direct", &err) < 0 ||
	    atoll_job_run(job, &options, &result, &err) < 0) {
		fprintf(stderr, "embed: %s\n", err.text);
		exit(2);
	}
	if (atoll_result_status(&result) != 0)
		exit(2);
	atoll_job_free(job);
	return now_ns() - start;
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 0;

	if (rounds <= 0) {
		fprintf(stderr, "usage: embed ROUNDS COMMAND...\n");
		return 2;
	}
	for (int round = -WARM_UP; round < rounds; round++) {
		int64_t plain = time_plain(argv + 2), least = time_floor(argv + 2),
			sandboxed = time_atoll(argv + 2);

		if (round >= 0)
			printf("%lld %lld %lld\n", (long long)plain, (long long)least,
			       (long long)sandboxed);
		fflush(stdout);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * How long does it take to start a command and see its end?
 *
 *	spawn ROUNDS COMMAND... :: COMMAND... :: ...
 *
 * Runs the commands in turn, ROUNDS times, after a few rounds that are not counted. Prints one line
 * per round: a column per command, nanoseconds from before posix_spawn() to after waitpid(). In
 * turn, so that whatever else the machine does hits all alike. Each round has another order,
 *because a command is quicker after one that used the same parts of the kernel, by up to 3 percent.
 * posix_spawn() does not copy this process, so what is measured is the command.
 */

#define COMMANDS_MAX 32
#define WARM_UP	     5

extern char **environ;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t time_one(char **argv, const posix_spawn_file_actions_t *actions)
{
	int64_t start = now_ns();
	int status, r;
	pid_t pid;

	r = posix_spawn(&pid, argv[0], actions, NULL, argv, environ);
	if (r != 0) {
		fprintf(stderr, "spawn: %s: %s\n", argv[0], strerror(r));
		exit(2);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			exit(2);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "spawn: %s: ended with %d\n", argv[0], status);
		exit(2);
	}
	return now_ns() - start;
}

static int split_commands(char **argv, char **commands[COMMANDS_MAX])
{
	int n = 0;

	commands[n++] = argv;
	for (; *argv; argv++)
		if (strcmp(*argv, "::") == 0 && n < COMMANDS_MAX) {
			*argv = NULL;
			commands[n++] = argv + 1;
		}
	return n;
}

/* Every order is as likely as any other, and a second call of this program has the same orders. */
static void shuffle(int *order, int n)
{
	static unsigned seed = 1;

	for (int i = n - 1; i > 0; i--) {
		int k = rand_r(&seed) % (i + 1), was = order[i];

		order[i] = order[k];
		order[k] = was;
	}
}

int main(int argc, char **argv)
{
	char **commands[COMMANDS_MAX];
	posix_spawn_file_actions_t actions;
	int order[COMMANDS_MAX], n, rounds;
	int64_t took[COMMANDS_MAX];

	if (argc < 3) {
		fprintf(stderr, "usage: spawn ROUNDS COMMAND... [:: COMMAND...]...\n");
		return 2;
	}
	rounds = atoi(argv[1]);
	n = split_commands(argv + 2, commands);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int round = -WARM_UP; round < rounds; round++) {
		shuffle(order, n);
		for (int i = 0; i < n; i++)
			took[order[i]] = time_one(commands[order[i]], &actions);
		for (int i = 0; i < n && round >= 0; i++)
			printf("%lld%c", (long long)took[i], i + 1 < n ? ' ' : '\n');
	}
	posix_spawn_file_actions_destroy(&actions);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "cli/cli.h"
#include "cli/cmd-help.h"
#include "cli/remote-call.h"

#include <atoll/atoll.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * main() of atoll: finds the command, runs it, prints its error
 *
 * The start-up time dominates a short run. So main() prepares nothing that a command might not
 * need: no locale, no tables built at run time.
 */

/* The caller may have closed descriptor 0, 1 or 2. Open /dev/null there, so that no other file
 * gets the number. */
static void fill_standard_fds(void)
{
	int fd;

	for (int i = 0; i < 3; i++)
		while (fcntl(i, F_GETFD) < 0) {
			fd = open("/dev/null", O_RDWR);
			if (fd < 0 || fd > i)
				_exit(246);
		}
}

/* Maps --help and --version to commands. */
static const char *command_name(const char *word)
{
	if (streq(word, "--help") || streq(word, "-h"))
		return "help";
	if (streq(word, "--version") || streq(word, "-V"))
		return "version";
	return word;
}

static int run_command(char **args, struct atoll_error *err)
{
	const struct command *command;

	if (remote_dispatch(&args, err) < 0)
		return -1;
	command = find_command(command_name(args[0]), err);
	return command ? command->run(args + 1, err) : -1;
}

int main(int argc, char **argv)
{
	struct atoll_error err = {0};
	int status;

	fill_standard_fds();
	/* Buffer stderr by lines, so that lines of several programs do not mix. */
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	if (argc < 2) {
		/* Not a success: a script with an empty variable must notice that nothing ran. */
		help_overview(stdout);
		return 240;
	}
	status = run_command(argv + 1, &err);
	if (status >= 0)
		return status;
	print_problem(err.text);
	return atoll_error_status(&err);
}

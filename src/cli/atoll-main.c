/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "cli/cli.h"
#include "cli/cmd-help.h"
#include "cli/remote-call.h"

#include <atoll/atoll.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * The front door: find the command, run it, print its failure
 *
 * Start-up time is most of what a short run costs, so nothing is set up here that a command might
 * not need: no locale, no tables built at run time.
 */

/* A caller may have closed 0, 1 or 2; the next file that we open must not become one of them. */
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

/* Options in place of a command's name. */
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
	/* Line by line, not character by character: lines of several programs must not mix. */
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	if (argc < 2) {
		/* Not a success: a script whose variable was empty must not believe that something
		 * ran. */
		help_overview(stdout);
		return 240;
	}
	status = run_command(argv + 1, &err);
	if (status >= 0)
		return status;
	print_problem(err.text);
	return atoll_error_status(&err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/cli.h"

#include <atoll/atoll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum {
	OPTION_DIGEST,
};

static const struct option trust_options[] = {
	{"digest", 0, "SHA256",
	 "approve without a question, if the content has this SHA-256: the digest of the text that "
	 "you have read",
	 OPTION_DIGEST},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row trust_examples[] = {
	{"atoll trust job.yaml", "read it and approve it; then 'atoll run -f job.yaml' works"},
	{"atoll trust --digest 5891b5b522... job.yaml",
	 "in a script, for content that was read before"},
	{0},
};

/* Prints the file line by line, escaped for the terminal. */
static void print_content(const char *text, size_t size)
{
	cleanup_free char *copy = strdup(text);
	char *at = copy, *line;

	if (strlen(text) < size)
		puts("(what follows a NUL byte is not shown)");
	while (at && (line = strsep(&at, "\n"))) {
		if (!at && !line[0])
			break;
		fputs("  ", stdout);
		print_escaped(stdout, line);
		putchar('\n');
	}
}

/* The approval is for the bytes that were read and shown. The file is not opened again. */
static int show_and_ask(const char *text, size_t size, const char *hex, void *data)
{
	char answer[16] = "";

	print_content(text, size);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return 1;
	printf("Trust this content of ");
	print_escaped(stdout, data);
	printf(" (sha256 %s)? [y/N] ", hex);
	fflush(stdout);
	/* Drop input that was typed before the question appeared. */
	tcflush(STDIN_FILENO, TCIFLUSH);
	return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static bool is_digest(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static int run_trust(char **args, struct atoll_error *err)
{
	struct command_values words;
	const char *expected;
	char digest[65];
	int r = command_read_values(&command_trust, args, 1, 1, &words, err);

	if (r != 0)
		return r < 0 ? r : 0;
	expected = words.values[OPTION_DIGEST];
	if (expected && !is_digest(expected))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--digest %s: a SHA-256 is 64 digits of 0-9 and a-f", expected);
	r = atoll_trust_content(words.args[0], expected, expected ? NULL : show_and_ask,
				words.args[0], digest, err);
	if (r < 0)
		return r;
	fputs("trusted ", stdout);
	print_escaped(stdout, words.args[0]);
	printf(" as it is now (sha256 %s)\n", digest);
	return command_flush(err);
}

const struct command command_trust = {
	.name = "trust",
	.usage = "[OPTION]... FILE",
	.summary = "approve a job file that a run could have written",
	.description =
		(const char *const[]){
			"Shows the job file FILE and records that you approve it. At a terminal "
			"you are asked; otherwise it is recorded at once. Exactly the content that "
			"was shown is recorded, even if a run writes the file at the same time.",
			"An earlier run or another user could have written a job file. Such a file "
			"may narrow the default contract without approval, but not widen it. "
			"Approval is needed if the file, or a directory or link in its path, is in "
			"a git tree, in the current directory, or in a workspace or writable "
			"directory of this job or an earlier run; or if another user than you and "
			"root can write it.",
			"An approval is for the exact content at this path: a changed file, a "
			"copy, and a link to it need a new approval. Other job files need none.",
			NULL},
	.options = trust_options,
	.sections = (const struct command_section[]){{"Examples", trust_examples}, {0}},
	.run = run_trust,
};

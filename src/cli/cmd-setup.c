/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/program.h"
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* Executes atoll-setup (src/setup/), a separate program because its libraries would slow down
 * the start of every run. */

enum {
	OPTION_PLAN,
	OPTION_UNDO,
	OPTION_RESTORE,
	OPTION_STATUS,
	OPTION_JSON,
};

static const struct option setup_options[] = {
	{"plan", 0, NULL, "show each change, and change nothing", OPTION_PLAN},
	{"undo", 0, NULL, "reverse all changes in the ledger", OPTION_UNDO},
	{"restore", 0, NULL, "create again what a reboot removes: firewall table, control groups",
	 OPTION_RESTORE},
	{"status", 0, NULL, "print one word: absent, complete or damaged", OPTION_STATUS},
	{"json", 0, NULL, "print JSON", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row setup_changes[] = {
	{"accounts", "atoll-offline and atoll-online, without a login, ids below 1000"},
	{"ids", "their blocks of host ids in /etc/subuid and /etc/subgid"},
	{"groups", "a control group 'atoll' with memory, pids, cpu and io"},
	{"firewall", "the nftables table 'inet atoll': offline ids can reach nothing, online ids "
		     "no loopback, private or metadata address"},
	{"boot", "a systemd unit that creates groups and table again after a reboot"},
	{0},
};

static const struct command_row setup_examples[] = {
	{"atoll setup --plan", "show the changes; needs no root"},
	{"sudo atoll setup", "make the changes; a second call changes nothing"},
	{"sudo atoll setup --undo", "restore the machine"},
	{0},
};

static const struct command_row setup_statuses[] = {
	{"0", "done, or nothing to do"},
	{"241", "you are not root"},
	{"242", "this host cannot do it, or something could not be undone; the output says what"},
	{0},
};

static const struct command_row setup_files[] = {
	{"/var/lib/atoll/setup.json", "the ledger: each change, with the state before"},
	{"/var/lib/atoll/setup.lock", "locked during changes; for root only"},
	{0},
};

static int run_setup(char **args, struct atoll_error *err)
{
	struct command_line line;
	char path[PATH_MAX];
	int r = command_read_switches(&command_setup, args, 0, 0, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = program_find("atoll-setup", path, sizeof path);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find 'atoll-setup', which is installed beside atoll");
	/* args[-1] is the name of the command in main()'s argument list; atoll-setup gets the
	 * list from there. */
	args[-1] = path;
	execv(path, args - 1);
	return error_set(err, ATOLL_FAULT_HOST, errno, "execute '%s'", path);
}

const struct command command_setup = {
	.name = "setup",
	.usage = "[--plan] [--undo] [--json]",
	.summary = "prepare the machine for runs by root, or undo that",
	.description =
		(const char *const[]){
			"Prepares the machine once, as root: dedicated identities for sandboxes, a "
			"firewall that refuses their packets by user id, a control group. Runs "
			"work without it, also those of root; it is a second line of defence for "
			"runs by root.",
			"Each change is written to a ledger before it is made. --undo reverses the "
			"changes in the ledger, except for things that somebody else has changed "
			"since. The command can be killed at any moment: run it again, or undo.",
			NULL},
	.options = setup_options,
	.sections =
		(const struct command_section[]){
			{"What is changed", setup_changes},
			{"Examples", setup_examples},
			{"Exit status", setup_statuses},
			{"Files", setup_files},
			{0},
		},
	.run = run_setup,
};

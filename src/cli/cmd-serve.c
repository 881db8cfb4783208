/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/program.h"
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Executes atoll-daemon (src/daemon/), a separate program because its libraries would slow down
 * the start of every run. */

enum {
	OPTION_LISTEN,
	OPTION_CONFIG,
	OPTION_CERTIFICATE,
	OPTION_KEY,
	OPTION_STATE,
	OPTION_END,
	OPTION_LOG,
	OPTION_TENANT,
	OPTION_LABEL,
	OPTION_MAX_BOXES,
	OPTION_MAX_MEMORY,
	OPTION_MAX_DISK,
	OPTION_MAX_CPUS,
};

static const struct option serve_options[] = {
	{"listen", 0, "WHERE",
	 "127.0.0.1:PORT (0: any free port), [::1]:PORT or unix:PATH; may be repeated; other "
	 "addresses need TLS",
	 OPTION_LISTEN},
	{"config", 0, "FILE", "configuration in YAML, see doc/daemon.md", OPTION_CONFIG},
	{"tls-cert", 0, "FILE", "certificate with its chain, PEM", OPTION_CERTIFICATE},
	{"tls-key", 0, "FILE", "its private key, PEM", OPTION_KEY},
	{"state", 0, "DIR", "the state directory (default: ~/.local/state/atoll/daemon)",
	 OPTION_STATE},
	{"end-sandboxes", 0, NULL,
	 "end all sandboxes when the daemon stops (default: they live on)", OPTION_END},
	{"log-requests", 0, NULL, "print a line of JSON to standard error for each request",
	 OPTION_LOG},
	{"tenant", 0, "NAME", "key new: the tenant (default: 'default')", OPTION_TENANT},
	{"label", 0, "TEXT", "key new: a note for 'key ls'", OPTION_LABEL},
	{"max-sandboxes", 0, "N", "tenant add: sandboxes at the same time", OPTION_MAX_BOXES},
	{"max-memory", 0, "SIZE", "tenant add: sum of the memory limits of its sandboxes",
	 OPTION_MAX_MEMORY},
	{"max-disk", 0, "SIZE", "tenant add: likewise", OPTION_MAX_DISK},
	{"max-cpus", 0, "N", "tenant add: likewise", OPTION_MAX_CPUS},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row serve_commands[] = {
	{"key new [--tenant NAME] [--label TEXT]",
	 "create a key and print it; only its hash is stored"},
	{"key ls", "list the keys, by their first characters"},
	{"key rm KEY", "refuse this key from now on"},
	{"tenant add NAME [--max-...]", "add a tenant, or change its quotas"},
	{"tenant ls", "list the tenants with quotas and used CPU time"},
	{"tenant rm NAME", "remove a tenant that has no sandboxes and snapshots"},
	{0},
};

static const struct command_row serve_examples[] = {
	{"atoll serve", "listen on 127.0.0.1:8642, and print the variables for E2B programs"},
	{"atoll serve --listen 0.0.0.0:8443 --tls-cert c.pem --tls-key k.pem",
	 "for other machines"},
	{"atoll serve key new --tenant ci", "works while the daemon runs, too"},
	{0},
};

static const struct command_row serve_files[] = {
	{"~/.local/state/atoll/daemon/state.db", "tenants, keys (hashed), sandboxes, usage"},
	{"~/.local/state/atoll/daemon/atoll/", "the layers of the sandboxes"},
	{0},
};

static int run_serve(char **args, struct atoll_error *err)
{
	struct command_values line;
	char path[PATH_MAX], **copy;
	size_t n = 0;
	int r;

	/* Read a copy: reading reorders the arguments, and atoll-daemon reads them again. */
	while (args[n])
		n++;
	copy = calloc(n + 2, sizeof *copy);
	if (!copy)
		return error_oom(err);
	for (size_t i = 0; i < n; i++)
		copy[i + 1] = args[i];
	r = command_read_values(&command_serve, args, 0, 4, &line, err);
	if (r == 0)
		r = program_find("atoll-daemon", path, sizeof path);
	else
		goto free_copy;
	if (r < 0) {
		r = error_set(err, ATOLL_FAULT_HOST, -r,
			      "find 'atoll-daemon', which is installed beside atoll");
		goto free_copy;
	}
	copy[0] = path;
	execv(path, copy);
	r = error_set(err, ATOLL_FAULT_HOST, errno, "execute '%s'", path);
free_copy:
	free(copy);
	return r < 0 ? r : 0;
}

const struct command command_serve = {
	.name = "serve",
	.usage = "[--listen WHERE]... [--config FILE] | key ... | tenant ...",
	.summary = "serve sandboxes over HTTP: E2B's protocol and atoll's own",
	.description =
		(const char *const[]){
			"Serves sandboxes on one machine, as an ordinary user or as root. It "
			"speaks E2B's protocol, so E2B's clients work after a change of three "
			"environment variables, which are printed at the start. It also has an API "
			"of its own under /v1.",
			"Sandboxes do not depend on the daemon: if it is stopped or killed, their "
			"processes go on, and the next daemon manages them again.",
			"Each key belongs to a tenant. Tenants cannot see each other. The first "
			"start creates a key for the tenant 'default'.",
			NULL},
	.options = serve_options,
	.sections =
		(const struct command_section[]){
			{"Tenants and keys", serve_commands},
			{"Examples", serve_examples},
			{"Files", serve_files},
			{0},
		},
	.run = run_serve,
};

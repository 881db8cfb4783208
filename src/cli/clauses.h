/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ui/ui.h"

struct atoll_job;

/*
 * Options that say what a contract is, for every command that takes one
 *
 * A command puts these rows into its table, between its own; ids of its own begin at OPTION_OWN.
 */
enum {
	OPTION_CLAUSE, /* the option's name is the clause's: atoll_job_set() */
	OPTION_DIRECT,
	OPTION_ASK,
	OPTION_NO_PROXY,
	OPTION_KEEP_OUTPUT,
	OPTION_FILE,
	OPTION_OWN,
};

/* clang-format off */
#define CLAUSES_START \
	{"file", 'f', "FILE", "take command and contract from a job file ('-': standard input)", \
	 OPTION_FILE}, \
	{"workspace", 'C', "DIR", \
	 "the workspace, where the command works and may write; the current " \
	 "directory unless said otherwise"}, \
	{"workspace-at", 0, "PATH", "where the workspace is seen inside; as on the host unless said"}, \
	{"chdir", 0, "DIR", "start the command here, in or beneath the workspace"}, \
	{"env", 0, "NAME[=VALUE]", "give the command a variable; without a value, the caller's"}

#define CLAUSES_CONTRACT \
	{.help = "Files (the most specific line wins; at a tie hide, then read, then write)"}, \
	{"read", 0, "PATH", "may be read"}, \
	{"write", 0, "PATH", "may be read and written"}, \
	{"read-at", 0, "INSIDE=PATH", "may be read, and is seen at another place inside"}, \
	{"write-at", 0, "INSIDE=PATH", "likewise, and written"}, \
	{"hide", 0, "PATH", "is not there; a pattern such as '**/.env' hides at any depth"}, \
	{"protect", 0, "PATH", \
	 "may be read and never written, inside what may be written; in a layer it is held back when " \
	 "the rest is applied"}, \
	{"mode", 0, "WORD", \
	 "how the workspace is written: 'layer', to be seen and applied later; 'direct', at once; " \
	 "'read-only'"}, \
	{"direct", 0, NULL, "the same as --mode direct", OPTION_DIRECT}, \
	{"root", 0, "WORD", \
	 "'read-only' system directories, or a 'layer' over them that can be written, for root to " \
	 "install packages, and is gone at the end"}, \
	{"socket", 0, "PATH", "may connect to this unix socket of the host"}, \
	{"accept-broad", 0, "PATH", \
	 "yes, a grant as wide as this home or system directory is meant"}, \
	{.help = "Network (none unless something is allowed; deny beats allow)"}, \
	{"allow", 0, "HOST[:PORT,...]", \
	 "may be talked to, on ports 80 and 443 unless said; '*.d' is below d, '**.d' d and below; " \
	 "an address or a block of them only as such"}, \
	{"deny", 0, "HOST[:PORT,...]", "may not, whatever is allowed"}, \
	{"net", 0, "WORD", \
	 "'off'; 'rules': what is allowed by name; 'open': every public address as well"}, \
	{"ask", 0, NULL, "ask at the terminal about a name that is not listed", OPTION_ASK}, \
	{"secret", 0, "NAME=HOST[/HEADER]", \
	 "keep the caller's variable NAME outside: inside it is a placeholder, which becomes the " \
	 "value on its way to HOST, in that header (authorization) and over TLS"}, \
	{"listen", 0, "PORT[=HOSTPORT][/NAME,...]", \
	 "the command's PORT can be reached on the host's 127.0.0.1; where is printed. HTTP requests " \
	 "there are for localhost or an address, or for NAME"}, \
	{"rate", 0, "SIZE", "bytes a second, all connections together"}, \
	{"net-bytes", 0, "SIZE", "bytes in all; then connections are cut and the command goes on"}, \
	{"connections", 0, "N", "connections at the same time"}, \
	{"requests", 0, "N", "requests a second"}, \
	{"no-proxy", 0, NULL, "do not set HTTP_PROXY and its like; connections work without", \
	 OPTION_NO_PROXY}, \
	{"upstream", 0, "URL", "go through this proxy, http://HOST:PORT; 'env': the caller's"}, \
	{.help = "Limits ('unlimited' lifts one; --plan shows what holds)"}, \
	{"timeout", 0, "TIME", "from start to end: 90s, 10m, 1h30m"}, \
	{"cpu-time", 0, "TIME", "CPU time of all processes together"}, \
	{"cpus", 0, "N", "CPUs used at the same time: 1.5"}, \
	{"memory", 0, "SIZE", "memory of all processes together: 512M, 4G"}, \
	{"pids", 0, "N", "processes and threads"}, \
	{"disk", 0, "SIZE", "bytes written to disk"}, \
	{"files", 0, "N", "files created"}, \
	{"open-files", 0, "N", "descriptors of one process"}, \
	{"output", 0, "SIZE", "bytes on standard output and error together"}, \
	{"grace", 0, "TIME", "from being asked to end (SIGTERM) to being killed; 2s unless said"}, \
	{.help = "Record (see doc/record.md)"}, \
	{"record", 0, "WORD", \
	 "what is written down: 'full', also what happens inside; 'steps'; 'off', nothing"}, \
	{"keep-output", 0, NULL, "the content of output as well, not only its hash", \
	 OPTION_KEEP_OUTPUT}, \
	{"log-size", 0, "SIZE", \
	 "so much is written about what happens inside, then it is only counted; 16M unless said"}, \
	{"rule", 0, "NAME=WHAT", \
	 "what follows when a built-in rule finds something: 'flag' (a line in the record and at " \
	 "the end; the default), 'ask', 'pause', 'kill' or 'off'. Rules: credentials, " \
	 "download-and-execute, mass-deletion, encoded-exfiltration, crypto-miners; or 'all'"}, \
	{"hold", 0, "TIME", "how long a pause waits for somebody before everything is ended; 5m unless said"}, \
	{.help = "Strength"}, \
	{"identity", 0, "WORD", \
	 "which unprivileged identity runs it: 'offline', or 'online' with a network"}, \
	{"accept-weaker", 0, "CLAUSE", \
	 "run although this host keeps CLAUSE only by a weaker mechanism; " \
	 "the plan tells which"}

/* For what lives on between steps. */
#define CLAUSES_SANDBOX \
	{"checkpoints", 0, "WORD", \
	 "'manual': when 'atoll checkpoint' says so; 'every-step': also after each 'atoll exec'"}
/* clang-format on */

/* The job file, if `path` is not NULL, then the options of `args` that are clauses: options win
 * over the file wherever they stand. */
int clauses_fill(struct atoll_job *job, const char *path, const struct command *command,
		 char **args, struct atoll_error *err);

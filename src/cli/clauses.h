/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ui/ui.h"

struct atoll_job;

/*
 * The options that state a contract, for run and create
 *
 * A command puts these rows into its option table. Its own ids begin at OPTION_OWN.
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
	{"file", 'f', "FILE", "read command and contract from a job file ('-': standard input)", \
	 OPTION_FILE}, \
	{"workspace", 'C', "DIR", \
	 "the workspace: the directory that the command works in (default: the current directory)"}, \
	{"workspace-at", 0, "PATH", \
	 "the path of the workspace in the sandbox (default: the same as on the host)"}, \
	{"chdir", 0, "DIR", "the directory to start in, the workspace or below it"}, \
	{"env", 0, "NAME[=VALUE]", "set an environment variable; without a value, copy yours"}

#define CLAUSES_CONTRACT \
	{.help = "Files (the most specific path wins; at a tie hide, then read, then write)"}, \
	{"read", 0, "PATH", "make PATH readable"}, \
	{"write", 0, "PATH", "make PATH readable and writable"}, \
	{"read-at", 0, "INSIDE=PATH", "make PATH readable, at the path INSIDE in the sandbox"}, \
	{"write-at", 0, "INSIDE=PATH", "make PATH writable, at the path INSIDE in the sandbox"}, \
	{"hide", 0, "PATH", "hide PATH; a pattern such as '**/.env' hides at any depth"}, \
	{"protect", 0, "PATH", \
	 "make PATH read-only below a writable path; in a layer, 'atoll apply' holds its changes back"}, \
	{"mode", 0, "WORD", \
	 "how the workspace is written: 'layer', to be applied later (the default); 'direct'; " \
	 "'read-only'"}, \
	{"direct", 0, NULL, "the same as --mode direct", OPTION_DIRECT}, \
	{"root", 0, "WORD", \
	 "system directories: 'read-only', or a writable 'layer' over them that is deleted at the " \
	 "end, for root to install packages"}, \
	{"socket", 0, "PATH", "allow connections to this unix socket of the host"}, \
	{"accept-broad", 0, "PATH", \
	 "confirm a grant that is as wide as a home or system directory"}, \
	{.help = "Network (off unless something is allowed; deny beats allow)"}, \
	{"allow", 0, "HOST[:PORT,...]", \
	 "allow connections to HOST (default ports: 80 and 443); '*.d' means names below d, '**.d' d " \
	 "and names below; an address or address block must be given as such"}, \
	{"deny", 0, "HOST[:PORT,...]", "refuse connections to HOST, even if allowed elsewhere"}, \
	{"net", 0, "WORD", \
	 "'off'; 'rules': only what --allow names; 'open': also every public address"}, \
	{"ask", 0, NULL, "ask at the terminal about a name that is not listed", OPTION_ASK}, \
	{"secret", 0, "NAME=HOST[/HEADER]", \
	 "keep the value of your variable NAME out of the sandbox: there NAME is a placeholder, which " \
	 "is replaced by the value in requests to HOST, in that header (default: authorization), " \
	 "over TLS only"}, \
	{"listen", 0, "PORT[=HOSTPORT][/NAME,...]", \
	 "make PORT of the sandbox reachable on 127.0.0.1 of the host, and print the address. HTTP " \
	 "requests must be for localhost, an address, or NAME"}, \
	{"rate", 0, "SIZE", "bytes per second, all connections together"}, \
	{"net-bytes", 0, "SIZE", "bytes in total; then connections are cut, and the command goes on"}, \
	{"connections", 0, "N", "connections at the same time"}, \
	{"requests", 0, "N", "requests per second"}, \
	{"no-proxy", 0, NULL, "do not set HTTP_PROXY and the like; connections work without them", \
	 OPTION_NO_PROXY}, \
	{"upstream", 0, "URL", "connect through this proxy, http://HOST:PORT; 'env': yours"}, \
	{.help = "Limits ('unlimited' removes one; --plan shows the limits)"}, \
	{"timeout", 0, "TIME", "time from start to end: 90s, 10m, 1h30m"}, \
	{"cpu-time", 0, "TIME", "CPU time of all processes together"}, \
	{"cpus", 0, "N", "CPUs used at the same time: 1.5"}, \
	{"memory", 0, "SIZE", "memory of all processes together: 512M, 4G"}, \
	{"pids", 0, "N", "processes and threads"}, \
	{"disk", 0, "SIZE", "bytes written to disk"}, \
	{"files", 0, "N", "files created"}, \
	{"open-files", 0, "N", "open descriptors of one process"}, \
	{"output", 0, "SIZE", "bytes on standard output and error together"}, \
	{"grace", 0, "TIME", "time between SIGTERM and SIGKILL (default: 2s)"}, \
	{.help = "Event log (see doc/record.md)"}, \
	{"record", 0, "WORD", \
	 "what to log: 'full', also events in the sandbox; 'steps', only start and end; 'off'"}, \
	{"keep-output", 0, NULL, "store the output, not only its hash", OPTION_KEEP_OUTPUT}, \
	{"log-size", 0, "SIZE", \
	 "the size of the log of events in the sandbox; later events are only counted (default: 16M)"}, \
	{"rule", 0, "NAME=WHAT", \
	 "what to do if an event rule finds something: 'flag' it in the event log and the summary " \
	 "(the default), 'ask', 'pause', 'kill' or 'off'. Rules: credentials, " \
	 "download-and-execute, mass-deletion, encoded-exfiltration, crypto-miners; or 'all'"}, \
	{"hold", 0, "TIME", \
	 "how long a pause waits for an answer before everything is killed (default: 5m)"}, \
	{.help = "Strength"}, \
	{"identity", 0, "WORD", \
	 "the unprivileged identity that runs the command: 'offline', or 'online' with a network"}, \
	{"accept-weaker", 0, "CLAUSE", \
	 "run even if this host can enforce CLAUSE only by a weaker mechanism; see --plan"}

/* For sandboxes with steps. */
#define CLAUSES_SANDBOX \
	{"checkpoints", 0, "WORD", \
	 "'manual': only by 'atoll checkpoint'; 'every-step': also after each 'atoll exec'"}
/* clang-format on */

/* Fills in a job: from the job file `path`, if that is not NULL, then from the options in `args`.
 * Options override the file, wherever they stand. */
int clauses_fill(struct atoll_job *job, const char *path, const struct command *command,
		 char **args, struct atoll_error *err);

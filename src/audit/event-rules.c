/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules.h"

#include "audit/event-rules-line.h"
#include "audit/event-rules-shared.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Feeds the lines of a log to the rules
 *
 * rules_look() parses a line, adds an execution to the recent executions, and calls each rule that
 * is switched on. The callers are in src/eventlog/.
 */

static const struct rule *const all_rules[RULE_COUNT] = {
	[RULE_CREDENTIALS] = &rule_credentials,
	[RULE_DOWNLOAD] = &rule_download,
	[RULE_DELETION] = &rule_deletion,
	[RULE_ENCODED] = &rule_encoded,
	[RULE_MINER] = &rule_miner,
};

/* ---- recent executions ---- */

/* Does the interpreter read its program from standard input? It does if no program is named, or
 * "-". */
static bool reads_program(const struct line *line, const char *base)
{
	if (!rules_is_interpreter(base))
		return false;
	for (size_t i = 1; i < line->argc; i++) {
		const char *arg = line->argv[i];

		if (streq(arg, "-") || streq(arg, "-s") || starts_with(arg, "/dev/fd/") ||
		    starts_with(arg, "/proc/self/fd/") || streq(arg, "/dev/stdin"))
			return true;
		if (arg[0] != '-' || streq(arg, "-c") || streq(arg, "-m") ||
		    (rules_is_shell(base) ? arg[1] != '-' && strchr(arg, 'c') : streq(arg, "-e")) ||
		    streq(arg, "--version") || streq(arg, "-V") || streq(arg, "-v"))
			return false;
	}
	return true;
}

static bool has_arg(const struct line *line, const char *const *starts)
{
	for (size_t i = 1; i < line->argc; i++)
		for (size_t k = 0; starts[k]; k++)
			if (starts_with(line->argv[i], starts[k]))
				return true;
	return false;
}

/* Does it write to standard output, as far as the arguments show? curl by default, wget with -O -.
 */
static bool fetches_to_output(const struct line *line, const char *base)
{
	bool is_wget = starts_with(base, "wget");

	if (!rules_is_fetcher(base))
		return false;
	for (size_t i = 1; i < line->argc; i++) {
		const char *arg = line->argv[i];

		if (streq(arg, "--remote-name") || starts_with(arg, "--output"))
			return ends_with(arg, "=-");
		if (arg[0] != '-' || arg[1] == '-')
			continue;
		if (is_wget && strchr(arg, 'O'))
			return ends_with(arg, "O-") ||
			       (i + 1 < line->argc && streq(line->argv[i + 1], "-"));
		if (!is_wget && (strchr(arg, 'O') || strchr(arg, 'o')))
			return false;
	}
	return !is_wget;
}

static bool encodes(const struct line *line, const char *base)
{
	static const char *const names[] = {"base64", "base32",	 "xxd",	    "uuencode", "basenc",
					    "od",     "hexdump", "openssl", NULL};
	static const char *const decode[] = {"-d", "-D", "--decode", "-r", NULL};
	static const char *const ciphers[] = {"enc", "base64", "aes", "smime", "cms", NULL};

	return rules_is_among(base, names) && !has_arg(line, decode) &&
	       (!streq(base, "openssl") || has_arg(line, ciphers));
}

static bool sends(const struct line *line, const char *base)
{
	static const char *const names[] = {"nc",   "ncat",	"netcat", "socat", "telnet", "dig",
					    "host", "nslookup", "drill",  "mail",  "xargs",  NULL};
	static const char *const body[] = {"-d",	  "--data", "-T",     "--upload-file",
					   "-F",	  "--form", "--json", "--post-data",
					   "--post-file", "--body", NULL};

	if (streq(base, "xargs"))
		return line->argc > 1 && has_arg(line, (const char *const[]){"dig", "curl", "host",
									     "nslookup", NULL});
	return rules_is_among(base, names) || (rules_is_fetcher(base) && has_arg(line, body));
}

static void add_recent(struct rules *rules, const struct line *line)
{
	struct recent *recent = &rules->recents[rules->n_recents % RECENT_MAX];
	const char *base = line_base(line->argc ? line->argv[0] : line->path);

	*recent = (struct recent){.pid = line->pid, .parent = line->parent, .seq = line->seq};
	if (fetches_to_output(line, base))
		recent->what |= PROGRAM_FETCHES;
	if (reads_program(line, base))
		recent->what |= PROGRAM_READS_PROGRAM;
	if (encodes(line, base))
		recent->what |= PROGRAM_ENCODES;
	if (sends(line, base))
		recent->what |= PROGRAM_SENDS;
	rules->n_recents++;
}

/* A connection event is logged when the connection ends. A program whose connection has ended is
 * not part of a pipe with a program that starts later. */
static void note_connection(struct rules *rules, const struct line *line)
{
	if (line->pid <= 0)
		return;
	rules->talkers[rules->n_talkers++ % RECENT_MAX] = line->pid;
	for (size_t i = 0; i < RECENT_MAX; i++)
		if (rules->recents[i].pid == line->pid)
			rules->recents[i].what &= ~(unsigned)PROGRAM_FETCHES;
}

/* ---- calling the rules ---- */

struct rules *rules_new(const enum rule_verdict verdicts[RULE_COUNT])
{
	struct rules *rules = calloc(1, sizeof *rules);

	if (rules)
		memcpy(rules->verdicts, verdicts, sizeof rules->verdicts);
	return rules;
}

void rules_free(struct rules *rules)
{
	free(rules);
}

/* False after RULE_HITS_MAX hits and one more hit that announces the silence. */
static bool count_hit(struct rules *rules, struct rule_hit *hit)
{
	unsigned n = ++rules->hits[hit->rule];

	if (n == RULE_HITS_MAX + 1)
		snprintf(hit->why, sizeof hit->why,
			 "again; further findings of this rule are not reported in this run");
	return n <= RULE_HITS_MAX + 1;
}

size_t rules_look(struct rules *rules, const char *text, size_t size,
		  struct rule_hit ret[RULE_COUNT])
{
	struct line *line = &rules->line;
	size_t n = 0;

	if (!line_parse(text, size, line))
		return 0;
	if (line->kind == LINE_EXEC)
		add_recent(rules, line);
	for (int i = 0; i < RULE_COUNT; i++) {
		struct rule_hit *hit = &ret[n];

		if (rules->verdicts[i] == RULE_OFF ||
		    !all_rules[i]->look(rules, line, hit->why, sizeof hit->why))
			continue;
		hit->rule = (enum rule_id)i;
		hit->seq = line->seq;
		hit->step = line->step;
		n += count_hit(rules, hit);
	}
	if (line->kind == LINE_CONNECTION)
		note_connection(rules, line);
	return n;
}

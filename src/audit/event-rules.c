/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules.h"

#include "audit/event-rules-inner.h"

#include <stdio.h>
#include <stdlib.h>

static bool (*const looks[RULE_COUNT])(struct rules *rules, const struct line *line, char *why,
				       size_t size) = {
	[RULE_CREDENTIALS] = rule_credentials,
	[RULE_DOWNLOAD] = rule_download,
	[RULE_DELETION] = rule_deletion,
	[RULE_ENCODED] = rule_encoded,
	[RULE_MINER] = rule_miner,
};

/* ---- what the rules share ---- */

bool rules_is_among(const char *word, const char *const *list)
{
	/* Most differ in their first letter: a call less for each. */
	for (; *list; list++)
		if (**list == *word && streq(word, *list))
			return true;
	return false;
}

/* FNV-1a: these are no secrets, and a collision is a line too many. */
uint64_t rules_hash(const char *text, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
	return hash | 1;
}

const struct recent *rules_neighbour(const struct rules *rules, const struct line *line,
				     unsigned what)
{
	size_t n = rules->n_recents < 6 ? rules->n_recents : 6;

	for (size_t i = 1; i <= n; i++) {
		const struct recent *recent = &rules->recents[(rules->n_recents - i) % RECENT_MAX];

		if ((recent->what & what) && recent->pid != line->pid &&
		    recent->parent == line->parent && line->seq - recent->seq < 12)
			return recent;
	}
	return NULL;
}

bool rules_is_shell(const char *base)
{
	static const char *const shells[] = {"sh",  "bash", "dash", "zsh",  "ksh",
					     "ash", "mksh", "fish", "yash", NULL};

	return rules_is_among(base, shells);
}

bool rules_is_interpreter(const char *base)
{
	static const char *const others[] = {"perl", "ruby", "node", "nodejs", "php",
					     "deno", "bun",  "lua",  NULL};

	return rules_is_shell(base) || starts_with(base, "python") || rules_is_among(base, others);
}

bool rules_is_fetcher(const char *base)
{
	static const char *const names[] = {"curl",  "wget",	     "wget2", "aria2c",
					    "fetch", "http",	     "https", "xh",
					    "axel",  "lwp-download", NULL};

	return rules_is_among(base, names);
}

/* ---- what is remembered ---- */

/* From its input: no program is named, or "-" is; options of a shell alone say nothing. */
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

/* To its output, as far as can be seen: curl unless told otherwise, wget if told so. */
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

static void remember(struct rules *rules, const struct line *line)
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

/* Who has ended a connection is no neighbour in a pipe of what comes later. */
static void note_connection(struct rules *rules, const struct line *line)
{
	if (line->pid <= 0)
		return;
	rules->talkers[rules->n_talkers++ % RECENT_MAX] = line->pid;
	for (size_t i = 0; i < RECENT_MAX; i++)
		if (rules->recents[i].pid == line->pid)
			rules->recents[i].what &= ~(unsigned)PROGRAM_FETCHES;
}

/* ---- looking ---- */

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

/* A rule that has spoken often enough says so, and is silent. */
static bool count_hit(struct rules *rules, struct rule_hit *hit)
{
	unsigned n = ++rules->hits[hit->rule];

	if (n == RULE_HITS_MAX + 1)
		snprintf(hit->why, sizeof hit->why, "again, and more will not be told in this run");
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
		remember(rules, line);
	for (int i = 0; i < RULE_COUNT; i++) {
		struct rule_hit *hit = &ret[n];

		if (rules->verdicts[i] == RULE_OFF ||
		    !looks[i](rules, line, hit->why, sizeof hit->why))
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-shared.h"

#include <stdio.h>

/*
 * Fetched, then executed
 *
 * Three forms. A pipe: curl beside a shell that takes its program from its input. A file: what curl
 * or wget was told to write is executed, or handed to an interpreter. And anything else that talks
 * to the network itself, and executes a file of this run from a directory for temporary ones.
 * Package managers fetch and execute as well; they are not meant, and what they do has none of
 * these forms: they unpack into places of their own, and execute from there.
 */

static void note_fetched(struct rules *rules, const char *path)
{
	const char *base = line_base(path);
	size_t size = strcspn(base, "?#");

	if (size == 0 || streq(base, "-"))
		return;
	rules->fetched[rules->n_fetched++ % FETCHED_MAX] = rules_hash(base, size);
}

static bool was_fetched(const struct rules *rules, const char *path)
{
	const char *base = line_base(path);
	uint64_t hash = rules_hash(base, strlen(base));

	for (size_t i = 0; i < FETCHED_MAX && i < rules->n_fetched; i++)
		if (rules->fetched[i] == hash)
			return true;
	return false;
}

/* "-o", "-fsSLo": combined short options; the last one has the next argument as its value. */
static bool is_output_flag(const char *base, const char *arg)
{
	char letter = starts_with(base, "wget") ? 'O' : 'o';
	size_t size = strlen(arg);

	if (streq(arg, "--output") || streq(arg, "--output-document") || streq(arg, "--out"))
		return true;
	return arg[0] == '-' && arg[1] != '-' && size >= 2 && arg[size - 1] == letter;
}

static void note_fetch(struct rules *rules, const struct line *line, const char *base)
{
	bool by_url = starts_with(base, "wget") || streq(base, "aria2c") || streq(base, "axel");
	bool has_output = false;

	for (size_t i = 1; i < line->argc; i++) {
		const char *arg = line->argv[i];

		if (is_output_flag(base, arg) && i + 1 < line->argc) {
			note_fetched(rules, line->argv[++i]);
			has_output = true;
		} else if (starts_with(arg, "--output=") ||
			   starts_with(arg, "--output-document=")) {
			note_fetched(rules, strchr(arg, '=') + 1);
			has_output = true;
		} else if (streq(base, "curl") &&
			   (streq(arg, "--remote-name") ||
			    (arg[0] == '-' && arg[1] != '-' && strchr(arg, 'O')))) {
			by_url = true;
		}
	}
	for (size_t i = 1; by_url && !has_output && i < line->argc; i++)
		if (strstr(line->argv[i], "://"))
			note_fetched(rules, line->argv[i]);
}

/* The script of `sh -x script`; NULL if none is named. */
static const char *script_of(const struct line *line, bool is_shell)
{
	for (size_t i = 1; i < line->argc; i++) {
		if (line->argv[i][0] != '-')
			return line->argv[i];
		if (streq(line->argv[i], "-c") || streq(line->argv[i], "-m") ||
		    (!is_shell && streq(line->argv[i], "-e")))
			return NULL;
	}
	return NULL;
}

static bool is_temporary(const char *path)
{
	return (starts_with(path, "/tmp/") || starts_with(path, "/var/tmp/") ||
		starts_with(path, "/dev/shm/")) &&
	       !strstr(path, "/go-build");
}

static bool has_talked(const struct rules *rules, int32_t pid)
{
	for (size_t i = 0; pid > 0 && i < RECENT_MAX; i++)
		if (rules->talkers[i] == pid)
			return true;
	return false;
}

/* The two sides of a pipe may be executed in any order. The left side is forked first, with few
 * events between. */
static bool is_piped(const struct rules *rules, const struct line *line)
{
	const struct recent *self = &rules->recents[(rules->n_recents - 1) % RECENT_MAX];
	const struct recent *other;

	if (self->what & PROGRAM_READS_PROGRAM) {
		other = rules_neighbour(rules, line, PROGRAM_FETCHES);
		return other && other->pid < self->pid && self->pid - other->pid < 8;
	}
	if (!(self->what & PROGRAM_FETCHES))
		return false;
	other = rules_neighbour(rules, line, PROGRAM_READS_PROGRAM);
	return other && self->pid < other->pid && other->pid - self->pid < 8;
}

/* bash -c "$(curl ...)" fetches before bash is executed. Only the arguments of the outer shell
 * show it. */
static bool is_evaluated(const struct line *line)
{
	static const char *const forms[] = {"eval \"$(curl", "eval \"$(wget", "eval $(curl",
					    "eval $(wget",   "-c \"$(curl",   "-c \"$(wget",
					    "-c \"`curl",    "-c $(curl",     "<(curl",
					    "<(wget",	     "source <(curl", NULL};

	for (size_t i = 1; i < line->argc; i++)
		for (size_t k = 0; forms[k]; k++)
			if (strstr(line->argv[i], forms[k]))
				return true;
	return false;
}

static bool look(struct rules *rules, const struct line *line, char *why, size_t size)
{
	const char *base, *script;

	if (line->kind != LINE_EXEC)
		return false;
	base = line_base(line->argc ? line->argv[0] : line->path);
	if (rules_is_fetcher(base))
		note_fetch(rules, line, base);
	if (is_piped(rules, line)) {
		snprintf(why, size, "what is fetched goes straight into an interpreter (%s)",
			 shown(base));
		return true;
	}
	if (rules_is_shell(base) && is_evaluated(line)) {
		snprintf(why, size, "%s is told to evaluate what is fetched", shown(base));
		return true;
	}
	script = rules_is_interpreter(base) ? script_of(line, rules_is_shell(base)) : NULL;
	if (was_fetched(rules, line->path) || (script && was_fetched(rules, script))) {
		snprintf(why, size, "%s was fetched in this run, and is executed",
			 shown(script ? script : line->path));
		return true;
	}
	if (line->is_fresh && is_temporary(line->path) &&
	    (has_talked(rules, line->parent) || has_talked(rules, line->pid))) {
		snprintf(why, size,
			 "%s was made in this run, and is executed by what talked to the "
			 "network",
			 shown(line->path));
		return true;
	}
	return false;
}

const struct rule rule_download = {look};

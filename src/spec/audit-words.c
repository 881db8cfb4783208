/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/audit-section.h"

#include "spec/spec-inner.h"

#include <stdlib.h>

static const struct {
	const char *name, *summary;
} rules[RULE_COUNT] = {
	[RULE_CREDENTIALS] = {"credentials", "paths of keys and tokens are read, or named"},
	[RULE_DOWNLOAD] = {"download-and-execute", "what was fetched in this run is executed"},
	[RULE_DELETION] = {"mass-deletion", "much that the run did not make is removed"},
	[RULE_ENCODED] = {"encoded-exfiltration",
			  "encoded data in arguments, addresses or names, or on its way out"},
	[RULE_MINER] = {"crypto-miners", "miners of coins and their pools"},
};

static const char *const verdicts[RULE_VERDICTS + 1] = {
	[RULE_OFF] = "off",	[RULE_FLAG] = "flag", [RULE_ASK] = "ask",
	[RULE_PAUSE] = "pause", [RULE_KILL] = "kill",
};

/* How long a pause waits, in the form that limits have. */
static const struct spec_limit_info hold_info = {"hold",       "--hold", "ms",	     1000,
						 7 * 86400000, 300000,	 "1s to 7d", "10m"};

static const struct spec_limit_info size_info = {
	"size",		"--log-size", "bytes", UINT64_C(64) << 10, UINT64_C(1) << 40,
	SPEC_LOG_BYTES, "64K to 1T",  "16M"};

const char *rule_name(enum rule_id rule)
{
	return rules[rule].name;
}

const char *rule_summary(enum rule_id rule)
{
	return rules[rule].summary;
}

int rule_find(const char *name)
{
	for (int i = 0; i < RULE_COUNT; i++)
		if (streq(name, rules[i].name))
			return i;
	return -1;
}

const char *rule_verdict_word(enum rule_verdict verdict)
{
	return verdicts[verdict];
}

int rule_find_verdict(const char *word)
{
	for (int i = 0; i < RULE_VERDICTS; i++)
		if (streq(word, verdicts[i]))
			return i;
	return -1;
}

void spec_watch_init(struct spec_watch *watch)
{
	for (int i = 0; i < RULE_COUNT; i++)
		watch->rules[i] = RULE_FLAG;
	watch->hold_ms = hold_info.preset;
	watch->log_bytes = size_info.preset;
}

void spec_watch_done(struct spec_watch *watch)
{
	for (int i = 0; i < RULE_COUNT; i++)
		free(watch->rule_origins[i]);
	free(watch->monitor.url);
	free(watch->monitor.model);
	free(watch->monitor.prompt);
	free(watch->monitor.key);
	free(watch->monitor.origin);
	free(watch->hold_origin);
	free(watch->log_origin);
}

static int no_rule(const char *name, const char *origin, struct atoll_error *err)
{
	const char *names[RULE_COUNT + 2] = {0};
	char hint[192];

	for (int i = 0; i < RULE_COUNT; i++)
		names[i] = rules[i].name;
	names[RULE_COUNT] = "all";
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: no rule '%s'; %s", origin, shown(name),
			 words_hint(name, names, hint, sizeof hint));
}

int spec_add_rule_verdict(struct spec *spec, const char *text, const char *origin,
			  struct atoll_error *err)
{
	const char *what = strchr(text, '=');
	cleanup_free char *name = strndup(text, what ? (size_t)(what - text) : strlen(text));
	int rule, verdict, r = 0;
	bool is_all;

	if (!name)
		return error_oom(err);
	if (!what)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' does not say what follows; write NAME=WHAT, for example "
				 "credentials=kill",
				 origin, shown(text));
	is_all = streq(name, "all");
	rule = is_all ? 0 : rule_find(name);
	if (rule < 0)
		return no_rule(name, origin, err);
	verdict = rule_find_verdict(what + 1);
	if (verdict < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: nothing is called '%s'; %s",
				 origin, shown(what + 1),
				 words_hint(what + 1, verdicts, (char[192]){0}, 192));
	for (int i = 0; r == 0 && i < RULE_COUNT; i++) {
		if (!is_all && i != rule)
			continue;
		spec->watch.rules[i] = (enum rule_verdict)verdict;
		r = spec_set_text(&spec->watch.rule_origins[i], origin, err);
	}
	return r;
}

int spec_set_hold(struct spec *spec, const char *text, const char *origin, struct atoll_error *err)
{
	int r = values_parse(&hold_info, false, text, &spec->watch.hold_ms, err);

	if (r < 0)
		return error_context(err, r, "%s", origin);
	return spec_set_text(&spec->watch.hold_origin, origin, err);
}

int spec_set_log_size(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err)
{
	int r = values_parse(&size_info, false, text, &spec->watch.log_bytes, err);

	if (r < 0)
		return error_context(err, r, "%s", origin);
	return spec_set_text(&spec->watch.log_origin, origin, err);
}

bool spec_watch_has_rules(const struct spec_watch *watch)
{
	for (int i = 0; i < RULE_COUNT; i++)
		if (watch->rules[i] != RULE_OFF)
			return true;
	return false;
}

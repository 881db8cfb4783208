/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Event rules: built-in checks of recorded events
 *
 * Each rule examines the lines of an event log as they are written, and reports a line that looks
 * like something an honest command seldom does. Rules see what the event log contains, after the
 * fact and without the content of files. They find careless commands; a command that knows the
 * rules can avoid them. What must not happen has to be forbidden by the contract.
 *
 *   rule-credentials.c  paths of keys and tokens, in denials and in arguments
 *   rule-download.c     fetched, then executed
 *   rule-deletion.c     many files that the run did not create are gone
 *   rule-encoded.c      data in arguments, addresses and names; an encoder before a sender
 *   rule-miner.c        miners of coins, and their pools
 *
 * A rule only reports; the supervisor decides what follows (eventlog/watchers.h). The state of all
 * rules for one run has a fixed size.
 */

struct rule_hit {
	enum rule_id rule;
	uint64_t seq;
	uint32_t step;
	char why[240]; /* for people; text from the sandbox in it went through str_show() */
};

/* The number of hits that a rule reports in one run, before a last one that says so. */
#define RULE_HITS_MAX 16

struct rules;

/* A rule whose verdict is RULE_OFF is not called. NULL: no memory. */
struct rules *rules_new(const enum rule_verdict verdicts[RULE_COUNT]);
void rules_free(struct rules *rules);

/* Examines one line of the event log, without its newline. Returns the number of hits. */
size_t rules_look(struct rules *rules, const char *line, size_t size,
		  struct rule_hit ret[RULE_COUNT]);

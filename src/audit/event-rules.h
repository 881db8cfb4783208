/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/event-rules-line.h"
#include "spec/audit-section.h"

/*
 * Rules that watch a run
 *
 * Each looks at the record's lines as they come, and says something when they have the form of
 * something that an honest command seldom does. They see what the record sees, after the fact and
 * without the content of anything: they find what is careless, and whoever knows them can go round
 * them. What must not happen is for the contract to forbid.
 *
 *   rule-credentials.c  paths of keys and tokens, in what was refused and in arguments
 *   rule-download.c     fetched, then executed
 *   rule-deletion.c     much that the run did not make is gone
 *   rule-encoded.c      data in arguments, addresses and names; an encoder before a sender
 *   rule-miner.c        miners of coins, and their pools
 *
 * No rule does anything; what follows from a hit is the supervisor's (eventlog/watchers.h). What is
 * remembered of a run is of fixed size.
 */

struct rule_hit {
	enum rule_id rule;
	uint64_t seq;
	uint32_t step;
	char why[240]; /* fit for people: strangers' words in it went through str_show() */
};

/* As often a rule speaks up in one run; then once more, to say that it stops. */
#define RULE_HITS_MAX 16

struct rules;

/* `verdicts`: those that are RULE_OFF are not asked. NULL: no memory. */
struct rules *rules_new(const enum rule_verdict verdicts[RULE_COUNT]);
void rules_free(struct rules *rules);

/* One line of the record, without its end. Returns how many hits it is. */
size_t rules_look(struct rules *rules, const char *line, size_t size,
		  struct rule_hit ret[RULE_COUNT]);
/* A name of the host's was removed at once (direct mode), of which a line tells only at the end. */
bool rules_removed(struct rules *rules, const char *path, uint32_t step, struct rule_hit *ret);

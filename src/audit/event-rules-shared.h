/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/event-rules-line.h"
#include "audit/event-rules.h"
#include "base/scope.h"
#include "base/str.h"

/* The interface of a rule, the state of all rules for one run, and functions that rules share. All
 * state has a fixed size. */

/* Flags of an execution. */
enum {
	PROGRAM_FETCHES = 1,	   /* curl, wget: to standard output, as far as arguments show */
	PROGRAM_READS_PROGRAM = 2, /* a shell or interpreter that reads its program from stdin */
	PROGRAM_ENCODES = 4,	   /* base64, xxd */
	PROGRAM_SENDS = 8,	   /* can send data to another host */
};

struct recent {
	int32_t pid, parent;
	unsigned what; /* PROGRAM_... */
	uint64_t seq;
};

#define RECENT_MAX  32
#define FETCHED_MAX 64
#define ZONES_MAX   16

struct rules {
	enum rule_verdict verdicts[RULE_COUNT];
	unsigned hits[RULE_COUNT];
	struct line line;
	/* The last executions, to find the other members of a pipe. */
	struct recent recents[RECENT_MAX];
	size_t n_recents;
	/* Hashes of the names of fetched files; pids that had a connection. */
	uint64_t fetched[FETCHED_MAX];
	size_t n_fetched;
	int32_t talkers[RECENT_MAX];
	size_t n_talkers;
	/* Deleted and other changed files, to tell a change of branch from a loss. */
	uint64_t n_deleted, n_existing;
	bool has_reported_deletion;
	/* The number of unusual names that were requested below one domain. */
	struct zone {
		uint64_t domain, last;
		unsigned n;
	} zones[ZONES_MAX];
	size_t n_zones;
};

/* A rule; at the foot of its file, and one row of the list in event-rules.c. */
struct rule {
	/* Examines one event. True for a hit, with the reason in `why`. */
	bool (*look)(struct rules *rules, const struct line *line, char *why, size_t size);
};
extern const struct rule rule_credentials, rule_download, rule_deletion, rule_encoded, rule_miner;

#define shown(text) str_show((text), (char[100]){0}, 100)

bool rules_is_among(const char *word, const char *const *list); /* ends with NULL */
uint64_t rules_hash(const char *text, size_t size);
/* A recent execution by the same parent that has the flag `what`, within the last 6 executions and
 * 12 lines; NULL if there is none. */
const struct recent *rules_neighbour(const struct rules *rules, const struct line *line,
				     unsigned what);
/* sh, bash, ...: programs that accept a program as `-c TEXT`. */
bool rules_is_shell(const char *base);
/* python3.11, node, ...; also the shells. */
bool rules_is_interpreter(const char *base);
bool rules_is_fetcher(const char *base);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/event-rules.h"
#include "base/scope.h"
#include "base/str.h"

/* What the rules share, and remember of a run; all of fixed size */

enum {
	PROGRAM_FETCHES = 1, /* curl, wget: to standard output, as far as can be seen */
	PROGRAM_READS_PROGRAM =
		2,	     /* a shell or interpreter that takes its program from its input */
	PROGRAM_ENCODES = 4, /* base64, xxd */
	PROGRAM_SENDS = 8,   /* what carries data out */
};

struct recent {
	int32_t pid, parent;
	unsigned what;
	uint64_t seq;
};

#define RECENT_MAX  32
#define FETCHED_MAX 64
#define ZONES_MAX   16

struct rules {
	enum rule_verdict verdicts[RULE_COUNT];
	unsigned hits[RULE_COUNT];
	struct line line;
	/* The last executions, for what stands beside each other in a pipe. */
	struct recent recents[RECENT_MAX];
	size_t n_recents;
	/* Names of files that were fetched, hashed; and who talked to somebody. */
	uint64_t fetched[FETCHED_MAX];
	size_t n_fetched;
	int32_t talkers[RECENT_MAX];
	size_t n_talkers;
	/* Changes, to tell a tidy-up from a loss. */
	uint64_t n_deleted, n_existing, n_removed;
	bool has_told_deletion;
	/* Names asked for beneath one domain. */
	struct zone {
		uint64_t domain, last;
		unsigned n;
	} zones[ZONES_MAX];
	size_t n_zones;
};

/* Each looks at one event, and fills in `why` if it is a hit. */
bool rule_credentials(struct rules *rules, const struct line *line, char *why, size_t size);
bool rule_download(struct rules *rules, const struct line *line, char *why, size_t size);
bool rule_deletion(struct rules *rules, const struct line *line, char *why, size_t size);
bool rule_encoded(struct rules *rules, const struct line *line, char *why, size_t size);
bool rule_miner(struct rules *rules, const struct line *line, char *why, size_t size);

/* ---- event-rules.c ---- */

#define shown(text) str_show((text), (char[100]){0}, 100)

bool rules_is_among(const char *word, const char *const *list); /* ends with NULL */
uint64_t rules_hash(const char *text, size_t size);
/* An execution of the same parent, as near as the members of a pipe are, that did `what`. */
const struct recent *rules_neighbour(const struct rules *rules, const struct line *line,
				     unsigned what);
/* sh, bash, ...: what takes programs as `-c TEXT`. */
bool rules_is_shell(const char *base);
/* python3.11, node, ...: the shells as well. */
bool rules_is_interpreter(const char *base);
bool rules_is_fetcher(const char *base);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/checked.h"
#include "auditcmd/receipt.h"

/*
 * What a log tells about one of its steps, or all
 *
 * Only of what a signed head stands for. What happened later to the same thing counts: a file that
 * was changed twice has its last hash, one that was deleted again has none.
 */
struct account {
	struct checked_log log;
	char path[PATH_MAX]; /* the log's */
	uint32_t step;	     /* 0: all */
	json_t *open;	     /* the first line */
	json_t *head;	     /* the latest head */
	json_t *starts;	     /* lists of events */
	json_t *ends;
	json_t *recipe;	 /* of the latest step, or NULL */
	json_t *changes; /* by path */
	json_t *outputs;
	json_t *denials, *connections, *approvals, *limits, *flags;
	uint64_t n_lost;
	uint64_t n_left_out; /* of the lists above, because of their length */
};

/* `word` as for events_open(). The log is checked first, and one that does not verify is no ground
 * for a receipt. `head`, if it is not 0, is how many lines the head has that is to be the last. */
int account_read(const char *word, uint32_t step, uint64_t head, const struct checked_keys *keys,
		 struct account *ret, struct atoll_error *err);
void account_done(struct account *account);
#define cleanup_account cleanup_with(account_done)

/* ---- statement.c ---- */

/* The subjects: a list of resource descriptors. */
json_t *statement_subjects(const struct account *account);

struct statement_hardware {
	const char *root;  /* "none", "swtpm", "tpm", "sev-snp", "tdx" */
	json_t *tpm, *tsm; /* or NULL */
};

/* The two statements. NULL: no memory. */
json_t *statement_provenance(const struct account *account,
			     const struct statement_hardware *hardware);
json_t *statement_receipt(const struct account *account, const struct statement_hardware *hardware);

/* A copy without what is in every line, and whose texts other programs can read: bytes that are not
 * UTF-8 as \xNN. */
json_t *statement_plain(const json_t *value);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt.h"
#include "win/calls.h"

/*
 * The ledger while the engine works
 *
 * The text is read once. After every line that is appended the file is read again and must be the
 * text before and that line: a change is never made on the word of a line that is not there.
 */
struct engine_ledger {
	const struct win_calls *calls;
	char *text;
	size_t size;
	struct nt_ledger parsed;
};

int engine_ledger_open(const struct win_calls *calls, struct engine_ledger *ret,
		       struct atoll_error *err);
void engine_ledger_close(struct engine_ledger *ledger);

/* Append a line; `parsed` is as new afterwards. `b` and `c` may be NULL. */
int engine_ledger_add(struct engine_ledger *ledger, const char *kind, const char *a, const char *b,
		      const char *c, struct atoll_error *err);

/* The SID of a root: from the ledger, or a new one that is in the ledger afterwards. */
int engine_ledger_sid(struct engine_ledger *ledger, const char *path, struct nt_sid *ret,
		      struct atoll_error *err);

/* Change the state of a root: "changing", "granted", "returned". */
int engine_ledger_state(struct engine_ledger *ledger, const char *path, const char *state,
			struct atoll_error *err);

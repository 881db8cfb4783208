/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt.h"
#include "win/calls.h"

struct buf;

/*
 * The engine of an unelevated Windows run: plan → apply → attest → launch
 *
 *	plan     the job becomes a request and a plan (src/nt); nothing has changed yet
 *	apply    a root that has no entries yet gets them: the ledger says "changing", protected
 *		 paths are denied, the root is granted, the tree beneath is walked once, the ledger
 *		 says "granted". A later start reads the roots and protected paths only.
 *	attest   token, job object and desktop are read back; a canary child under the final token
 *		 must fail at every attempt outside and on protected paths, and manage them inside
 *	launch   the command starts suspended in the job; its token is read once more; it runs
 *
 * Any step that fails, or whose result reads back differently, ends the run before the command
 * runs: the error begins with the name of the check, and everything that this run changed is taken
 * back. What cannot be taken back is said, stays in the ledger, and is ended by engine_repair().
 *
 * At the end of a run the entries on the roots stay (the next start is quick, and the SID of a root
 * is in no other token); placeholders are removed.
 */

struct engine_options {
	const struct nt_job *job;
	const char *home, *caller, *store;
	const char *const *environment; /* the caller's, NAME=VALUE, NULL at the end */
	bool is_terminal;
};

struct engine_result {
	bool has_run;	 /* the command was let run */
	bool timed_out;	 /* and ended by the wall limit */
	uint32_t status; /* its exit status */
	unsigned weaker; /* NT_WEAKER_... */
	char check[64];	 /* the name of the check that failed, or "" */
	bool is_dirty;	 /* something could not be taken back: engine_repair() ends it */
};

/* Make the plan and write it: text, or JSON. Changes nothing but the ledger, where a root that is
 * new gets its SID. Returns 0, or -EPERM where a clause is missing. */
int engine_plan(const struct win_calls *calls, const struct engine_options *options, bool is_json,
		struct buf *out, struct atoll_error *err);

/* Run the command. Returns 0 if it ran, whatever its status; else a negative errno. */
int engine_run(const struct win_calls *calls, const struct engine_options *options,
	       struct engine_result *ret, struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes back what runs left behind. Called by `atoll doctor --repair` and `--uninstall`. Order:
 * placeholders and canaries, then roots, then a path that the ledger does not know.
 */
#include "win/engine-repair.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt.h"
#include "win/engine-things.h"
#include "win/engine-tree.h"

#include <string.h>

static int repair_things(const struct win_calls *calls, struct engine_ledger *ledger,
			 struct engine_repair_result *result, struct atoll_error *err)
{
	int first = 0;

	/* The last first: a canary before the placeholder that it lies in. */
	for (size_t i = ledger->parsed.n_things; i-- > 0;) {
		const struct nt_ledger_thing *thing = &ledger->parsed.things[i];
		cleanup_free char *path = strdup(thing->name);
		int r;

		if (!streq(thing->kind, "made"))
			continue; /* of the elevated set-up: `setup --undo` */
		r = path ? thing_remove(calls, ledger, path, err) : error_oom(err);
		result->n_things += r == 0;
		if (r < 0 && first == 0) {
			first = r;
			err = NULL;
		}
	}
	return first;
}

static int repair_roots(const struct win_calls *calls, struct engine_ledger *ledger,
			bool everything, struct engine_repair_result *result,
			struct atoll_error *err)
{
	int first = 0;

	for (size_t i = 0; i < ledger->parsed.n_roots; i++) {
		const struct nt_ledger_root *root = &ledger->parsed.roots[i];
		cleanup_free char *path = strdup(root->path);
		int64_t r;

		if (root->state == NT_ROOT_FREE || (root->state == NT_ROOT_GRANTED && !everything))
			continue;
		r = path ? 0 : error_oom(err);
		/* A root that is gone has no entries. */
		if (r == 0 && calls->kind(calls->context, path) != NT_NOTHING)
			r = tree_revoke(calls, path, &root->sid, err);
		result->n_files += r > 0 ? (size_t)r : 0;
		if (r >= 0)
			r = engine_ledger_state(ledger, path, "returned", err);
		result->n_roots += r >= 0;
		if (r < 0 && first == 0) {
			first = (int)r;
			err = NULL;
		}
	}
	return first;
}

int engine_repair(const struct win_calls *calls, const char *path, bool everything,
		  struct engine_repair_result *ret, struct atoll_error *err)
{
	struct engine_ledger ledger = {0};
	int64_t r;
	int again;

	*ret = (struct engine_repair_result){0};
	r = calls->lock(calls->context, err);
	if (r < 0)
		return (int)r;
	r = engine_ledger_open(calls, &ledger, err);
	if (r == 0) {
		ret->n_damaged = ledger.parsed.n_damaged;
		r = repair_things(calls, &ledger, ret, err);
		again = repair_roots(calls, &ledger, everything, ret, r < 0 ? NULL : err);
		r = r < 0 ? r : again;
	}
	if (r == 0 && path) {
		r = tree_revoke(calls, path, NULL, err);
		ret->n_files += r > 0 ? (size_t)r : 0;
	}
	engine_ledger_close(&ledger);
	calls->unlock(calls->context);
	return r < 0 ? (int)r : 0;
}

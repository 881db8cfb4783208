/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes canaries, has the canary child try them, and judges its answers. Called by the engine when
 * token, job object and desktop exist.
 */
#include "win/engine-canary.h"

#include "base/error.h"
#include "base/scope.h"
#include "win/engine-probe.h"
#include "win/engine-things.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int add_canary(struct engine_canaries *set, const char *directory, enum canary_zone zone,
		      struct atoll_error *err)
{
	const struct win_calls *calls = set->calls;
	cleanup_free char *file = NULL;
	char name[WIN_NAME_SIZE];
	char **path = &set->paths[set->n];
	int r = thing_name(calls, "atoll-canary-", name, sizeof name, err);

	if (r < 0)
		return r;
	if (asprintf(path, "%s\\%s", directory, name) < 0 || asprintf(&file, "%s\\file", *path) < 0)
		return error_oom(err);
	set->zones[set->n++] = zone;
	r = thing_make(calls, set->ledger, *path, err);
	if (r == 0)
		r = calls->make_file(calls->context, file, err);
	if (r == 0 && calls->kind(calls->context, file) != NT_IS_FILE)
		r = error_set(err, ATOLL_FAULT_HOST, EIO,
			      "file.made: a canary's file was not made");
	return r;
}

/* A protected file has no place for a canary: its list was read back. */
static int add_protected_canary(struct engine_canaries *set, const char *path,
				struct atoll_error *err)
{
	int kind = set->calls->kind(set->calls->context, path);

	if (kind == NT_IS_FILE)
		return 0;
	if (kind != NT_IS_DIRECTORY)
		return error_set(err, ATOLL_FAULT_HOST, EIO,
				 "protect.gone: a protected path is not there any more");
	return add_canary(set, path, ZONE_PROTECTED, err);
}

int engine_canaries_make(struct engine_canaries *set, const char *store,
			 const struct nt_request *request, struct atoll_error *err)
{
	int r = add_canary(set, store, ZONE_OUTSIDE, err);

	for (size_t i = 0; r == 0 && i < request->n_roots; i++)
		r = add_canary(set, request->roots[i].path, ZONE_INSIDE, err);
	for (size_t i = 0; r == 0 && i < request->n_protected; i++)
		if (request->protected[i].exists)
			r = add_protected_canary(set, request->protected[i].path, err);
	for (size_t i = 0; r == 0 && i < request->n_placeholders; i++)
		r = add_canary(set, request->placeholders[i], ZONE_PROTECTED, err);
	return r;
}

static int judge_canary(const struct win_canary *canary, enum canary_zone zone, bool is_strong,
			struct atoll_error *err)
{
	static const char *const names[] = {[ZONE_OUTSIDE] = "canary.outside",
					    [ZONE_PROTECTED] = "canary.protected",
					    [ZONE_INSIDE] = "canary.inside"};
	unsigned must = zone == ZONE_INSIDE ? ENGINE_NEEDED_INSIDE : 0;
	unsigned may = must;

	if (zone == ZONE_INSIDE && !is_strong)
		may |= 1U << NT_TRY_DACL | 1U << NT_TRY_OWNER;
	for (unsigned i = 0; i < NT_ATTEMPTS; i++) {
		bool is_granted = canary->granted & 1U << i;

		if ((is_granted && (may & 1U << i)) || (!is_granted && !(must & 1U << i)))
			continue;
		return error_set(err, ATOLL_FAULT_HOST, EIO,
				 "%s: the canary child could %s'%s' in '%s'", names[zone],
				 is_granted ? "" : "not ", nt_attempt_name(i), canary->path);
	}
	return 0;
}

int engine_canaries_run(struct engine_canaries *set, const struct win_launch *launch,
			bool is_strong, struct atoll_error *err)
{
	const struct win_calls *calls = set->calls;
	struct win_canary canaries[ENGINE_CANARIES_MAX];
	int r;

	for (size_t i = 0; i < set->n; i++)
		canaries[i] = (struct win_canary){.path = set->paths[i]};
	r = calls->run_canary(calls->context, launch, canaries, set->n, err);
	for (size_t i = 0; r == 0 && i < set->n; i++)
		r = judge_canary(&canaries[i], set->zones[i], is_strong, err);
	return r;
}

/* One that cannot be removed stays in the list for the next try. */
int engine_canaries_remove(struct engine_canaries *set, struct atoll_error *err)
{
	size_t n_left = 0;
	int first = 0;

	for (size_t i = 0; i < set->n; i++) {
		char *path = set->paths[i];
		int r = thing_remove(set->calls, set->ledger, path, err);

		if (r < 0) {
			set->paths[n_left++] = path;
			first = first ? first : r;
			err = NULL; /* the first reason stays */
		} else {
			free(path);
		}
	}
	set->n = n_left;
	return first;
}

void engine_canaries_done(struct engine_canaries *set)
{
	for (size_t i = 0; i < set->n; i++)
		free(set->paths[i]);
	set->n = 0;
}

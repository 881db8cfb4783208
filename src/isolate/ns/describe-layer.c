/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/names.h"
#include "spec/spec.h"

#include <stdio.h>

/*
 * What the host trusts, and how it is kept: written directly, the guard refuses by name; in a layer
 * nothing is refused, because nothing is on the host, and what is marked is applied only if
 * somebody names it. Both may occur in one contract.
 */

bool layer_is_memory(const struct cell *cell)
{
	return cell->extra->layer ? !cell->extra->layer->top : cell->extra->layer_is_memory;
}

const char *describe_layer(const struct cell *cell)
{
	const bool is_mapped = cell->ids.is_shifted && !cell->ids.is_unmapped;

	if (layer_is_memory(cell))
		return is_mapped ? "overlay on tmpfs, bounded by disk and memory; ids mapped"
				 : "overlay on tmpfs, bounded by disk and memory";
	return is_mapped ? "overlay, changes in the store; ids mapped"
			 : "overlay, changes in the store";
}

void describe_root(const struct cell *cell, struct plan *plan)
{
	if (!cell->spec->root_is_layer)
		return;
	plan_add(
		plan, cell->ids.has_many ? PLAN_NOTE : PLAN_WEAKER, "filesystem.root", "layer",
		cell->ids.has_many ? "none: each tree has a line of its own"
				   : "private tmpfs at /var, layer over /opt; the rest read-only",
		cell->ids.has_many
			? "of /etc, /opt and /usr/local only what everybody may read; files with "
			  "set-id bits cannot be made; never applied; checkpoints and forks of a "
			  "sandbox hold what is written, but for /run and /dev"
			: "an ordinary user has one id, which owns nothing of the system: packages "
			  "install into the home directory only; no checkpoint or fork holds what "
			  "is written outside the workspace",
		cell->spec->root_origin);
}

static bool has_guarded_root(const struct cell *cell)
{
	for (size_t i = 0; i < cell->n_zones; i++) {
		if (cell->zones[i].kind == INIT_ZONE_GUARDED)
			return true;
	}
	return false;
}

/* Is this place shown by the layer, and by nothing else on top of it? */
static bool is_in_layer(const struct cell *cell, const char *path)
{
	const struct spec_rule *rule = spec_rule_for(cell->spec, path);
	const struct ns_mount *spot = layer_spot(cell);

	return spot && path_is_within(path, spot->path) &&
	       (!rule || rule->access != SPEC_WRITE || streq(rule->path, spot->path));
}

void describe_protect(const struct cell *cell, const struct spec_rule *rule, struct plan *plan)
{
	if (is_in_layer(cell, rule->path))
		plan_add(plan, PLAN_ENFORCED, "filesystem.protect", rule->path,
			 "marked in the layer: applied only if it is named", NULL, rule->origin);
	else
		plan_add(plan, PLAN_ENFORCED, "filesystem.protect", rule->path,
			 "guard, by name, present or not", NULL, rule->origin);
}

void describe_pattern(const struct cell *cell, const struct spec_rule *rule, struct plan *plan)
{
	const struct ns_mount *spot = layer_spot(cell);
	char base[4200];

	snprintf(base, sizeof base, "%.*s", (int)path_literal_length(rule->path), rule->path);
	if (spot && (path_is_within(base, spot->path) || path_is_within(spot->path, base)))
		plan_add(plan, PLAN_ENFORCED, "filesystem.hide", rule->path,
			 "layer over the workspace: every match at the start",
			 "names that appear on the host later are not hidden", rule->origin);
	if (!spot || ns_needs_keeper(cell, rule))
		plan_add(plan, PLAN_ENFORCED, "filesystem.hide", rule->path,
			 "empty mounts over every match at the start, and a watcher",
			 "what appears later is hidden as soon as the watcher has run; names are "
			 "listed",
			 rule->origin);
}

static void join_names(const char *const *names, char *ret, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; names[i] && used < size - 64; i++)
		used += (size_t)snprintf(ret + used, size - used, "%s%s", i ? " " : "", names[i]);
	snprintf(ret + used, size - used, "%s", used >= size - 64 ? " ..." : "");
}

void describe_trusted(const struct cell *cell, struct plan *plan)
{
	const bool is_marked = layer_spot(cell);
	const bool is_guarded = !is_marked || has_guarded_root(cell);

	/* In brief the names are left out, and without them all groups say the same. */
	for (size_t i = 0; i < (plan->is_brief ? 1 : names_group_count); i++) {
		char subject[512];

		subject[0] = '\0';
		if (!plan->is_brief)
			join_names(names_groups[i].names, subject, sizeof subject);
		if (is_guarded)
			plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", subject,
				 "guard, by name, at any depth, present or not",
				 names_groups[i].what, "default");
		if (is_marked)
			plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", subject,
				 "marked in the layer: applied only if it is named",
				 names_groups[i].what, "default");
	}
	if (is_guarded)
		plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", ".git",
			 "guard: hooks, commondir, alternates refused; config vetted key by key",
			 "commits, checkouts, worktrees and submodules work", "default");
	if (is_marked)
		plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", ".git",
			 "marked in the layer: hooks and settings that run programs are applied "
			 "only if they are named",
			 NULL, "default");
}

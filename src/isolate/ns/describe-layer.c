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

/* The plan's line about files that the host keeps from others, with `root: layer`. */
static void describe_private(const struct cell *cell, struct plan *plan)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (!cell->ids.has_many || cell->spec->image || !mount->is_ephemeral)
			continue;
		if (mount->is_public)
			plan_add(plan, PLAN_ENFORCED, "filesystem.private-files", mount->path,
				 "overlay mounted under an id that owns nothing: the kernel "
				 "refuses what others may not read on the host",
				 "also what is made or closed there later; such a file can be "
				 "removed and replaced inside, not changed or renamed",
				 cell->spec->root_origin);
		else
			plan_add(plan, PLAN_MISSING, "filesystem.private-files", mount->path,
				 "none: it lies on an overlay itself, and the kernel stacks two at "
				 "most",
				 "run atoll as an ordinary user, or outside of the container",
				 cell->spec->root_origin);
	}
}

void describe_root(const struct cell *cell, struct plan *plan)
{
	if (!cell->spec->root_is_layer)
		return;
	describe_private(cell, plan);
	plan_add(
		plan, cell->ids.has_many ? PLAN_NOTE : PLAN_WEAKER, "filesystem.root", "layer",
		cell->ids.has_many ? "none: each tree has a line of its own"
				   : "private tmpfs at /var, layer over /opt; the rest read-only",
		cell->ids.has_many
			? "files with set-id bits cannot be made; never applied; checkpoints and "
			  "forks of a "
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

static const char nothing_written[] = "nothing of the host's can be written";

/* Does the guard decide changes of the host's files? Beside read-only grants it also runs to refuse
 * FIFOs; then no file of the host's can be written anyway. */
static bool guards_host_files(const struct cell *cell)
{
	if (cell->bare)
		return true;
	if (!cell->guards_files)
		return false;
	if (cell->spec->n_descriptors || cell->spec->n_sockets)
		return true;
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind == NS_BIND && !mount->is_layer && mount->is_writable)
			return true;
	}
	return false;
}

void describe_protect(const struct cell *cell, const struct spec_rule *rule, struct plan *plan)
{
	if (is_in_layer(cell, rule->path))
		plan_add(plan, PLAN_ENFORCED, "filesystem.protect", rule->path,
			 "marked in the layer: applied only if it is named", NULL, rule->origin);
	else
		plan_add(plan, PLAN_ENFORCED, "filesystem.protect", rule->path,
			 guards_host_files(cell) ? "guard, by name, present or not"
						 : nothing_written,
			 NULL, rule->origin);
}

/* Does it reach over a layer of `root: layer`, where no watch sees what appears on the host? */
static bool is_blind(const struct cell *cell, const struct spec_rule *rule)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].is_ephemeral && ns_pattern_reaches(rule, &cell->mounts[i]))
			return true;
	}
	return false;
}

static bool is_watched(const struct cell *cell, const struct spec_rule *rule)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind == NS_BIND && mount->is_dir && !mount->is_layer &&
		    !mount->is_ephemeral && ns_pattern_reaches(rule, mount))
			return true;
	}
	return false;
}

void describe_pattern(const struct cell *cell, const struct spec_rule *rule, struct plan *plan)
{
	const struct ns_mount *spot = layer_spot(cell);
	char base[4200];

	snprintf(base, sizeof base, "%.*s", (int)path_literal_length(rule->path), rule->path);
	if (spot && (path_is_within(base, spot->path) || path_is_within(spot->path, base)))
		plan_add(plan, PLAN_WEAKER, "filesystem.hide", rule->path,
			 "layer over the workspace: every match at the start",
			 "names that appear on the host later are not hidden", rule->origin);
	if (is_blind(cell, rule))
		plan_add(plan, PLAN_WEAKER, "filesystem.hide", rule->path,
			 "empty mounts over every match in the system's trees at the start",
			 "names that appear on the host later are not hidden there; names are "
			 "listed",
			 rule->origin);
	if ((!spot && !is_blind(cell, rule)) || is_watched(cell, rule))
		plan_add(plan, PLAN_WEAKER, "filesystem.hide", rule->path,
			 "empty mounts over every match at the start, and a watcher",
			 "what appears later is readable until the watcher has run; names are "
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
	const bool has_guard = guards_host_files(cell);
	const bool is_guarded = !is_marked || has_guarded_root(cell);

	/* In brief the names are left out, and without them all groups say the same. */
	for (size_t i = 0; i < (plan->is_brief ? 1 : names_group_count); i++) {
		char subject[512];

		subject[0] = '\0';
		if (!plan->is_brief)
			join_names(names_groups[i].names, subject, sizeof subject);
		if (is_guarded && !names_groups[i].is_mark)
			plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", subject,
				 has_guard ? "guard, by name, at any depth, present or not"
					   : nothing_written,
				 names_groups[i].what, "default");
		if (is_marked)
			plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", subject,
				 "marked in the layer: applied only if it is named",
				 names_groups[i].what, "default");
	}
	if (is_guarded)
		plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", ".git",
			 has_guard ? "guard: hooks, commondir, alternates refused; config vetted "
				     "key by key"
				   : nothing_written,
			 has_guard ? "commits, checkouts, worktrees and submodules work" : NULL,
			 "default");
	if (is_marked)
		plan_add(plan, PLAN_ENFORCED, "filesystem.trusted", ".git",
			 "marked in the layer: hooks and settings that run programs are applied "
			 "only if they are named",
			 NULL, "default");
}

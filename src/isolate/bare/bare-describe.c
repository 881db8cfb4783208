/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "isolate/bare/bare.h"
#include "isolate/ns/probe.h"

#include <stdio.h>

/* The lines of the plan, from the very data that the ruleset is made from. */

/* A clause that is weaker here: kept if somebody has accepted it by this word. */
static enum plan_strength strength(const struct cell *cell, const char *word)
{
	return bare_accepts(cell->spec, word) ? PLAN_WEAKER : PLAN_MISSING;
}

static const char *accept_note(const struct cell *cell, const char *word, const char *note,
			       char *text, size_t size)
{
	if (bare_accepts(cell->spec, word))
		return note;
	snprintf(text, size, "%s; accept it with --accept-weaker %s, or fix: %s", note, word,
		 ns_fix());
	return text;
}

static void add_weaker(const struct cell *cell, struct plan *plan, const char *word,
		       const char *clause, const char *subject, const char *mechanism,
		       const char *note, const char *origin)
{
	char text[768];

	plan_add(plan, strength(cell, word), clause, subject, mechanism,
		 accept_note(cell, word, note, text, sizeof text), origin);
}

static void describe_grant(const struct cell *cell, size_t i, struct plan *plan)
{
	const struct ns_mount *mount = &cell->mounts[i];
	const bool is_workspace = streq(mount->path, cell->spec->workspace);
	const bool is_guarded = cell->bare->is_guarded && cell->bare->is_guarded[i];

	if (mount->kind == NS_DEVICE)
		plan_add(plan, PLAN_ENFORCED, "filesystem.device", mount->path,
			 "Landlock: this node, number checked",
			 "no listing of /dev, no terminals of its own", "default");
	else if (mount->is_writable)
		plan_add(plan, PLAN_ENFORCED, "filesystem.write", mount->path,
			 is_guarded ? "reading and writing by the guard, Landlock behind it"
				    : "writes by the guard, Landlock behind it",
			 is_workspace
				 ? "workspace, written directly: changes are on the host at once"
				 : NULL,
			 describe_origin(cell, mount));
	else
		plan_add(plan, PLAN_ENFORCED, mount->rule ? "filesystem.read" : "filesystem.socket",
			 mount->path,
			 is_guarded ? "reading by the guard, Landlock behind it"
				    : "Landlock: reading and executing",
			 is_workspace ? "workspace, read-only" : NULL,
			 describe_origin(cell, mount));
}

static void describe_files(const struct cell *cell, struct plan *plan)
{
	add_weaker(cell, plan, "hide", "filesystem.system", "/",
		   "Landlock: what no line grants can be neither read nor listed",
		   "it is there: guessed names, sizes, times, modes and links can be seen",
		   "default");
	add_weaker(
		cell, plan, "hide", "filesystem.system", "/proc",
		"guard: the sandbox's own processes, and what is about the machine; never to write",
		"of other processes nothing but that they are there; the host's mounts are shown",
		"default");
	plan_add(plan, PLAN_ENFORCED, "filesystem.private", "$HOME $TMPDIR",
		 "directory of the run's own in /tmp or /var/tmp, gone at the end",
		 "/tmp, /var/tmp, /dev/shm and the home itself are neither readable nor writable",
		 "default");
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind == NS_BIND || cell->mounts[i].kind == NS_DEVICE)
			describe_grant(cell, i, plan);
	}
}

static void describe_hidden(const struct cell *cell, struct plan *plan)
{
	for (size_t i = 0; i < cell->spec->n_rules; i++) {
		const struct spec_rule *rule = &cell->spec->rules[i];

		if (rule->access == SPEC_HIDE &&
		    (rule->is_pattern || spec_rule_for(cell->spec, rule->path) == rule))
			add_weaker(cell, plan, "hide", "filesystem.hide", rule->path,
				   rule->is_pattern ? "guard, by name; Landlock behind it"
						    : "no right by Landlock, or by the guard",
				   "content and listing hidden; that it is there is not",
				   rule->origin);
	}
}

static void describe_way_out(const struct cell *cell, struct plan *plan)
{
	const char *origin = cell->spec->network.mode_origin;

	if (!origin)
		origin = "default";
	if (!network_is_on(&cell->spec->network)) {
		plan_add(plan, PLAN_ENFORCED, "network", "off",
			 "seccomp: no socket but local ones; Landlock behind it",
			 "no loopback either, and no abstract sockets", origin);
		return;
	}
	add_weaker(cell, plan, "network", "network", describe_mode(cell),
		   "guard: TCP sockets connect to the proxy's port on the host's loopback and to "
		   "nothing else; Landlock behind it",
		   "programs that know no proxy have no network; no loopback of their own, no "
		   "servers, no DNS",
		   origin);
	describe_network(cell, plan);
}

static void describe_processes(const struct cell *cell, struct plan *plan)
{
	char ids[96], landlock[48];

	snprintf(ids, sizeof ids, "uid %u, gid %u", cell->ids.host_uid, cell->ids.host_gid);
	snprintf(landlock, sizeof landlock, "Landlock ABI %d", cell->landlock_abi);
	plan_add(plan, PLAN_ENFORCED, "identity",
		 cell->spec->identity == SPEC_ONLINE ? "online" : "offline",
		 "the caller's own id, with no way to another", ids, cell->spec->identity_origin);
	add_weaker(cell, plan, "processes", "processes.namespaces", "none",
		   "Landlock keeps signals, tracing and sockets inside; a warden and the guard end "
		   "everything with one kill",
		   "other processes can be seen; what is left if both are killed in one instant is "
		   "ended by the next run",
		   "default");
	plan_add(plan, PLAN_ENFORCED, "processes.privileges", NULL, "no_new_privs, no capability",
		 NULL, "default");
	plan_add(plan, PLAN_ENFORCED, "processes.first", NULL,
		 "the guard: a seccomp filter; no capability", NULL, "default");
	plan_add(plan, PLAN_ENFORCED, "processes.syscalls", NULL,
		 "seccomp allow-list; unknown calls and foreign entries closed",
		 "message queues, semaphores and shared memory by name are refused", "default");
	plan_add(plan, PLAN_ENFORCED, "processes.files", NULL, landlock,
		 "no right to write anything of the host's", "default");
	describe_descriptors(cell, plan);
	plan_add(plan, PLAN_ENFORCED, "processes.keyring", NULL, "the calls are refused", NULL,
		 "default");
	describe_way_out(cell, plan);
	describe_sockets(cell, plan);
}

/* Private storage is a directory of the host's here. */
static struct limit_way limit_way(const struct cell *cell, enum spec_limit_id id)
{
	if (id == SPEC_DISK)
		return (struct limit_way){
			"first process sums up what is written, private storage included, 10 to "
			"100 times a second; RLIMIT_FSIZE for each file",
			"a burst between two looks can exceed it; 5 % of a file system, at most 1 "
			"GiB, stay free",
			PLAN_WEAKER};
	if (id == SPEC_FILES)
		return (struct limit_way){"guard counts what is created in writable roots",
					  "not in private storage", PLAN_WEAKER};
	return describe_limit(cell, id);
}

static void describe_limits(const struct cell *cell, struct plan *plan)
{
	for (int id = 0; id < SPEC_LIMIT_COUNT; id++) {
		const struct spec_limit *limit = &cell->spec->limits[id];
		struct limit_way way = limit_way(cell, id);
		char clause[32], value[48];

		snprintf(clause, sizeof clause, "limits.%s", spec_limits[id].key);
		spec_format_limit(id, limit->value, value, sizeof value);
		if (limit->value == SPEC_UNLIMITED)
			plan_add(plan, PLAN_NOTE, clause, value, "none", NULL, limit->origin);
		else if (id == SPEC_PIDS && !cell->group.has_pids)
			add_weaker(cell, plan, "pids", clause, value,
				   "RLIMIT_NPROC, above the user's other processes",
				   "as many more as others of the user end meanwhile",
				   limit->origin);
		else
			plan_add(plan, way.strength, clause, value, way.mechanism, way.note,
				 limit->origin);
	}
	plan_add(plan, PLAN_ENFORCED, "processes.shared", "signals",
		 "RLIMIT_SIGPENDING: at most half of the caller's", "not of inotify", "default");
	describe_core(plan);
}

void bare_describe(const struct cell *cell, struct plan *plan)
{
	plan_add(plan, PLAN_NOTE, "isolation.tier", "process",
		 "Landlock, seccomp, guard; no namespaces", ns_fix(), "default");
	for (size_t i = 0; i < cell->spec->n_accepted; i++)
		plan_add(plan, PLAN_NOTE, "isolation.accept-weaker", cell->spec->accepted[i].text,
			 "a weaker mechanism is accepted where this host lacks the proper one",
			 NULL, cell->spec->accepted[i].origin);
	describe_files(cell, plan);
	describe_hidden(cell, plan);
	describe_rules(cell, plan);
	describe_processes(cell, plan);
	describe_limits(cell, plan);
	describe_record(cell, plan);
	describe_environment(cell, plan);
}

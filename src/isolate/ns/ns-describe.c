/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "isolate/slots.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The lines of the plan, from the very data that the sandbox is built from. */

static const char *zone_mechanism(const struct cell *cell, const struct ns_mount *mount)
{
	if (mount->kind == NS_PRIVATE)
		return "private tmpfs, gone at the end";
	if (mount->kind == NS_LINK)
		return "symbolic link of the system";
	if (mount->kind == NS_HIDE)
		return "empty mount over it";
	if (mount->kind == NS_DEVICE)
		return "bind mount of the device node, number checked";
	if (mount->is_layer)
		return describe_layer(cell);
	if (mount->is_ephemeral)
		return cell->ids.has_many ? "overlay on private tmpfs, gone at the end; ids mapped"
					  : "overlay on private tmpfs, gone at the end";
	if (mount->is_writable)
		return cell->ids.is_shifted && !cell->ids.is_unmapped
			       ? "bind mount, ids mapped; writes by the guard, Landlock behind it"
			       : "bind mount; writes by the guard, Landlock behind it";
	if (mount->n_masks)
		return "bind mount, read-only, hidden names taken out by a layer";
	return "bind mount, read-only";
}

/* Who asked for what is mounted at a place. */
const char *describe_origin(const struct cell *cell, const struct ns_mount *mount)
{
	const struct spec *spec = cell->spec;

	/* Only the mode says why the workspace is not written. */
	if (spec->workspace_mode != SPEC_WORKSPACE_DIRECT && streq(mount->path, spec_at(spec)))
		return spec->workspace_mode_origin;
	if (mount->rule)
		return mount->rule->origin;
	for (size_t i = 0; i < spec->n_sockets; i++) {
		if (streq(spec->sockets[i].text, mount->path))
			return spec->sockets[i].origin;
	}
	return "default";
}

static const char *describe_alias(const struct ns_alias *alias, char *ret, size_t size)
{
	snprintf(ret, size, "another name of '%s', by a mount of the host's", alias->rule->path);
	return ret;
}

static void describe_masks(const struct cell *cell, const struct ns_mount *mount, struct plan *plan)
{
	for (size_t i = 0; i < mount->n_masks; i++) {
		const struct spec_rule *rule;
		const struct ns_alias *alias;
		char path[4200], text[4300];

		snprintf(path, sizeof path, "%s/%s", mount->path, mount->masks[i]);
		alias = aliases_find(cell, path);
		rule = plan->is_brief ? NULL
		       : alias	      ? alias->rule
				      : spec_rule_inside(cell->spec, path);
		plan_add(plan, PLAN_ENFORCED, "filesystem.hide", path,
			 mount->is_layer       ? "layer over the workspace; not listed"
			 : mount->is_ephemeral ? "layer over the system's tree; not listed"
					       : "layer over the read-only mount; not listed",
			 alias ? describe_alias(alias, text, sizeof text) : NULL,
			 rule ? rule->origin : "default");
	}
}

static const char kept_by_mode[] = "kept by its own mode and owner";

/* The mount that shows a path, itself counted; NULL where nothing does. */
static const struct ns_mount *shown_by(const struct cell *cell, const char *path)
{
	const struct ns_mount *found = NULL;

	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind != NS_STAGE && path_is_within(path, mount->path) &&
		    (!found || strlen(mount->path) > strlen(found->path)))
			found = mount;
	}
	return found;
}

/* Name mounts inside grants; mounts inside the default trees are not listed. */
static void describe_inner(const struct cell *cell, const struct ns_mount *mount, struct plan *plan)
{
	char point[4096], path[4400];
	const char *text;

	if (plan->is_brief || mount->kind != NS_BIND || !mount->is_dir || mount->n_masks ||
	    mount->is_ephemeral || mount->is_layer || (!mount->is_writable && !mount->is_explicit))
		return;
	text = ns_mounted();
	while (ns_next_mounted(&text, point)) {
		if (streq(point, ns_source(mount)) || !path_is_within(point, ns_source(mount)))
			continue;
		snprintf(path, sizeof path, "%s%s", mount->path, point + strlen(ns_source(mount)));
		if (shown_by(cell, path) != mount)
			continue;
		plan_add(plan, PLAN_ENFORCED,
			 mount->is_writable ? "filesystem.write" : "filesystem.read", path,
			 mount->is_writable
				 ? "bind mount with the grant that it lies in; writes by "
				   "the guard, Landlock behind it"
				 : "bind mount with the grant that it lies in, read-only",
			 mount->is_writable && cell->ids.is_shifted && !cell->ids.is_unmapped
				 ? "another file system, mounted there on the host; ids are not "
				   "mapped: it is read and written as others may"
				 : "another file system, mounted there on the host",
			 describe_origin(cell, mount));
	}
}

static void describe_mounts(const struct cell *cell, struct plan *plan)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];
		const char *clause = "filesystem.read", *note = NULL;
		char where[4300];

		if (mount->kind == NS_STAGE)
			continue; /* told by the workspace's line */
		if (mount->kind == NS_PRIVATE)
			clause = "filesystem.private";
		else if (mount->kind == NS_HIDE)
			clause = "filesystem.hide";
		else if (mount->kind == NS_DEVICE)
			clause = "filesystem.device";
		else if (mount->is_ephemeral)
			clause = "filesystem.root";
		else if (mount->is_writable)
			clause = "filesystem.write";
		else if (mount->is_beneath)
			clause = "filesystem.read";
		else if (mount->kind == NS_BIND && path_is_within(mount->path, "/run/atoll"))
			clause = "guest";
		else if (mount->kind == NS_BIND && !mount->rule)
			clause = "filesystem.socket";
		if (mount->kind == NS_HIDE)
			note = "content hidden; the name is still listed";
		if (mount->kind == NS_HIDE && aliases_find(cell, mount->path))
			note = describe_alias(aliases_find(cell, mount->path), where, sizeof where);
		if (mount->is_layer)
			note = "workspace, in a layer: the host's files stay as they are until "
			       "changes are applied";
		else if (streq(mount->path, cell->spec->workspace) && mount->is_writable)
			note = "workspace, written directly: changes are on the host at once";
		else if (streq(mount->path, cell->spec->workspace) && mount->kind == NS_BIND)
			note = "workspace, read-only";
		if (mount->source && cell->spec->image && !mount->is_layer && mount->is_dir) {
			snprintf(where, sizeof where, "of the image: '%s'", mount->source);
			note = where;
		}
		if (mount->is_beneath)
			note = "mounted there on the host";
		if (mount->is_moved) {
			snprintf(where, sizeof where, "'%s' of the host", mount->source);
			note = where;
		}
		if (mount->is_layer && mount->source) {
			snprintf(where, sizeof where, "'%s' of the host, %s", mount->source, note);
			note = where;
		}
		plan_add(plan, PLAN_ENFORCED, clause, mount->path, zone_mechanism(cell, mount),
			 note, plan->is_brief ? NULL : describe_origin(cell, mount));
		if (mount->keeps_hidden && plan->is_brief)
			plan_add(plan, PLAN_ENFORCED, "filesystem.hide", NULL, kept_by_mode, NULL,
				 NULL);
		describe_masks(cell, mount, plan);
		describe_inner(cell, mount, plan);
	}
	for (size_t i = 0; i < cell->n_aliases; i++) {
		char text[4300];

		if (cell->aliases[i].is_shown)
			plan_add(plan, PLAN_NOTE, "filesystem.hide", cell->aliases[i].path,
				 "none: a grant names it",
				 describe_alias(&cell->aliases[i], text, sizeof text),
				 cell->aliases[i].rule->origin);
	}
}

/* In brief, where names are left out, one stands for all. */
static void describe_proc(struct plan *plan, const char *const *names, const char *mechanism,
			  const char *note)
{
	char path[48];

	for (size_t i = 0; names[i] && !(plan->is_brief && i > 0); i++) {
		snprintf(path, sizeof path, "/proc/%s", names[i]);
		if (plan->is_brief || access(path, F_OK) == 0)
			plan_add(plan, PLAN_ENFORCED, "filesystem.hide", path, mechanism, note,
				 "default");
	}
}

/* What root.c mounts for every sandbox. */
static void describe_system(const struct cell *cell, struct plan *plan)
{
	plan_add(plan, PLAN_ENFORCED, "filesystem.system", "/",
		 cell->has_open_top ? "private tmpfs; what leads to a mount is read-only"
				    : "private tmpfs, read-only",
		 cell->has_open_top
			 ? "new directories can be made, and are gone at the end"
			 : "holds /run/atoll and the places that other lines are mounted on",
		 cell->has_open_top ? cell->spec->root_origin : "default");
	plan_add(plan, PLAN_ENFORCED, "filesystem.system", "/dev/pts", "devpts of its own", NULL,
		 "default");
	plan_add(plan, PLAN_ENFORCED, "filesystem.system", "/proc", "procfs of its own", NULL,
		 "default");
	describe_proc(plan, ns_proc_masks, "empty mount over it",
		      "content hidden; the name is still listed");
	describe_proc(plan, ns_proc_kept, "the kernel keeps it for root",
		      "the name is still listed");
}

static bool is_masked(const struct ns_mount *mount, const char *path)
{
	for (size_t i = 0; i < mount->n_masks; i++) {
		if (streq(mount->masks[i], path + strlen(mount->path) + 1))
			return true;
	}
	return false;
}

/* In a place where no layer hides what its own mode keeps. */
static void describe_kept(const struct spec_rule *rule, struct plan *plan)
{
	struct stat st;

	if (lstat(rule->path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
		plan_add(plan, PLAN_NOTE, "filesystem.hide", rule->path, "nothing is there",
			 "what is made there later is kept by its own mode alone", rule->origin);
	else
		plan_add(plan, PLAN_ENFORCED, "filesystem.hide", rule->path, kept_by_mode,
			 "the name is still listed", rule->origin);
}

/* Of what is seen elsewhere; the workspace's lines are looked for by the host's names. */
static const char *inside_name(const struct cell *cell, const struct spec_rule *rule, char *ret,
			       size_t size)
{
	if (!cell->spec->n_moved || path_is_within(rule->path, cell->spec->workspace))
		return rule->path;
	return spec_inside_path(cell->spec, rule->path, ret, size);
}

/* A line about one place that has no mount of its own: it says nothing new, or what it is about is
 * not there yet. What somebody wrote is shown all the same. */
static void describe_unmounted(const struct cell *cell, const struct spec_rule *rule,
			       struct plan *plan)
{
	char place[4200], clause[32];
	const char *path = inside_name(cell, rule, place, sizeof place);
	const struct ns_mount *mount = shown_by(cell, path);
	const bool is_default = streq(rule->origin, "default");

	if (mount && (streq(mount->path, path) || is_masked(mount, path)))
		return;
	snprintf(clause, sizeof clause, "filesystem.%s", spec_access_word(rule->access));
	if (spec_rule_for(cell->spec, rule->path) != rule) {
		if (!is_default)
			plan_add(plan, PLAN_NOTE, clause, rule->path, "none",
				 "another line about the same place is stronger", rule->origin);
	} else if (rule->access == SPEC_HIDE && mount && mount->keeps_hidden) {
		describe_kept(rule, plan);
	} else if (rule->access == SPEC_HIDE && mount && mount->kind == NS_BIND &&
		   !mount->is_layer) {
		plan_add(plan, PLAN_WEAKER, clause, rule->path, "empty mount by a watcher",
			 "not there yet; readable until the watcher has run", rule->origin);
	} else if (!is_default) {
		plan_add(plan, PLAN_NOTE, clause, rule->path,
			 rule->access == SPEC_HIDE ? "nothing is shown there"
						   : "part of another line",
			 rule->access == SPEC_HIDE || !mount ? NULL : mount->path, rule->origin);
	}
}

void describe_rules(const struct cell *cell, struct plan *plan)
{
	for (size_t i = 0; i < cell->spec->n_rules; i++) {
		const struct spec_rule *rule = &cell->spec->rules[i];

		if (rule->access == SPEC_HIDE && cell->bare)
			continue; /* told there, because it is weaker */
		if (plan->is_brief && rule->is_optional && !rule->is_pattern)
			continue; /* they are many, and say nothing new */
		if (rule->access == SPEC_PROTECT)
			describe_protect(cell, rule, plan);
		if (rule->access == SPEC_HIDE && rule->is_pattern)
			describe_pattern(cell, rule, plan);
		if (rule->access != SPEC_PROTECT && !rule->is_pattern)
			describe_unmounted(cell, rule, plan);
	}
	for (size_t i = 0; i < cell->spec->n_broad; i++)
		plan_add(plan, PLAN_NOTE, "filesystem.accept-broad", cell->spec->broad[i].text,
			 "a grant as wide as this was accepted", NULL, cell->spec->broad[i].origin);
	describe_trusted(cell, plan);
}

void describe_descriptors(const struct cell *cell, struct plan *plan)
{
	plan_add(plan, PLAN_ENFORCED, "processes.descriptors", "0 1 2",
		 "pipes, or a terminal of the run's own; all others closed", NULL, "default");
	for (size_t i = 0; i < cell->spec->n_descriptors; i++) {
		char number[16];

		snprintf(number, sizeof number, "%d", cell->spec->descriptors[i]);
		plan_add(plan, PLAN_ENFORCED, "processes.descriptors", number, "passed as it is",
			 "whatever it refers to is reachable", cell->spec->descriptors_origin);
	}
}

void describe_sockets(const struct cell *cell, struct plan *plan)
{
	plan_add(plan, PLAN_ENFORCED, "sockets", NULL,
		 "guard: only sockets made inside or named by the contract", NULL, "default");
	for (size_t i = 0; i < cell->spec->n_sockets; i++)
		plan_add(plan, PLAN_ENFORCED, "sockets", cell->spec->sockets[i].text,
			 "guard: may be connected to",
			 "whoever listens there acts with the host's rights",
			 cell->spec->sockets[i].origin);
}

static void describe_processes(const struct cell *cell, struct plan *plan)
{
	char ids[192], landlock[48];

	if (cell->ids.has_many)
		snprintf(ids, sizeof ids,
			 "root, ids 1 to %u, %snobody are host ids of the run's own, from %u on",
			 ids_most(&cell->ids), cell->ids.has_users ? "the contract's and " : "and ",
			 slots_classes[cell->spec->identity].first);
	else if (cell->ids.is_shifted) /* each run has its own, and a plan is not one of them */
		snprintf(ids, sizeof ids,
			 "uid %u and gid %u are a host id of the run's own, from %u on",
			 cell->ids.inside_uid, cell->ids.inside_gid,
			 slots_classes[cell->spec->identity].first);
	else
		snprintf(ids, sizeof ids,
			 "uid %u is host uid %u, gid %u is host gid %u; no firewall tells it from "
			 "the caller's other processes",
			 cell->ids.inside_uid, cell->ids.host_uid, cell->ids.inside_gid,
			 cell->ids.host_gid);
	snprintf(landlock, sizeof landlock, "Landlock ABI %d", cell->landlock_abi);
	plan_add(plan, cell->ids.is_unmapped ? PLAN_WEAKER : PLAN_ENFORCED, "identity",
		 cell->spec->identity == SPEC_ONLINE ? "online" : "offline",
		 cell->ids.is_unmapped	? "user namespace with the id of the workspace's owner"
		 : cell->ids.has_many	? "user namespace with a range of ids of its own"
		 : cell->ids.is_shifted ? "user namespace with an id of its own"
					: "user namespace with the caller's own id",
		 ids, cell->spec->identity_origin);
	plan_add(plan, PLAN_ENFORCED, "processes.namespaces", "user mnt pid net ipc uts cgroup",
		 "clone", NULL, "default");
	plan_add(
		plan, PLAN_ENFORCED, "processes.privileges", NULL,
		cell->ids.has_many
			? "no_new_privs; of capabilities only chown, dac_override, fowner, fsetid, "
			  "setgid and setuid, over ids of the run's own"
			: "no_new_privs, no capability, empty bounding set, locked secure bits",
		NULL,
		!cell->ids.has_many	    ? "default"
		: cell->spec->root_is_layer ? cell->spec->root_origin
					    : cell->spec->users[0].origin);
	plan_add(plan, PLAN_ENFORCED, "processes.first", NULL,
		 cell->ids.has_many
			 ? "pid 1: a seccomp filter; of capabilities sys_ptrace, kill, chown, "
			   "dac_override, fowner, fsetid, setgid and setuid, over ids of the run's "
			   "own"
			 : "pid 1: a seccomp filter; of capabilities sys_ptrace, in the user "
			   "namespace",
		 NULL, "default");
	plan_add(plan, PLAN_ENFORCED, "processes.syscalls", NULL,
		 "seccomp allow-list; unknown calls and foreign entries closed", NULL, "default");
	plan_add(plan, PLAN_ENFORCED, "processes.files", NULL,
		 cell->has_open_top ? "read-only mounts of all that is the host's" : landlock,
		 cell->has_open_top && cell->landlock_abi >= 6
			 ? "Landlock keeps signals and abstract sockets inside; with an open top "
			   "it is no second wall for files"
		 : cell->has_open_top ? "with an open top Landlock is no second wall for files"
				      : "no right to write anything of the host's",
		 cell->has_open_top ? cell->spec->root_origin : "default");
	describe_descriptors(cell, plan);
	plan_add(plan, PLAN_ENFORCED, "processes.keyring", NULL, "fresh session keyring", NULL,
		 "default");
	ns_describe_network(cell, plan);
	describe_sockets(cell, plan);
	describe_users(cell, plan);
}

/* Without a control group a part of a CPU is a whole one. */
static struct limit_way describe_cpu_set(const struct cell *cell)
{
	static const char mechanism[] = "CPU set of the processes, sched_setaffinity refused";

	if (cell->spec->limits[SPEC_CPUS].value % 1000 == 0)
		return (struct limit_way){mechanism, NULL};
	return (struct limit_way){
		mechanism, "no writable cgroup here; whole CPUs, so it is rounded up", PLAN_WEAKER};
}

static bool host_swaps(void)
{
	cleanup_fd int fd = open("/proc/swaps", O_RDONLY | O_CLOEXEC);
	char text[512];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	const char *line;

	if (got < 0)
		return true;
	text[got] = '\0';
	line = strchr(text, '\n');
	return line && line[1];
}

struct limit_way describe_limit(const struct cell *cell, enum spec_limit_id id)
{
	const struct ns_group *group = &cell->group;
	const bool swaps = id == SPEC_MEMORY && !group->has_swap && host_swaps();

	switch (id) {
	case SPEC_WALL:
		return (struct limit_way){"supervisor, monotonic clock, then SIGKILL", NULL};
	case SPEC_CPU_TIME:
		if (group->is_v2)
			return (struct limit_way){
				"cgroup v2 cpu.stat, read twice a second; RLIMIT_CPU for each",
				"half a second of each CPU can exceed it", PLAN_WEAKER};
		return (struct limit_way){
			"first process sums up all processes, 10 to 100 times a second; "
			"RLIMIT_CPU for each",
			"processes that nobody waits for count up to the last look", PLAN_WEAKER};
	case SPEC_CPUS:
		if (group->has_cpus)
			return (struct limit_way){
				group->is_v2 ? "cgroup v2 cpu.max" : "cgroup v1 cpu.cfs_quota_us",
				"CPU set of the processes as well, in whole CPUs"};
		return describe_cpu_set(cell);
	case SPEC_MEMORY:
		if (group->has_memory)
			return (struct limit_way){group->is_v2 ? "cgroup v2 memory.max"
							       : "cgroup v1 memory.limit_in_bytes",
						  swaps ? "the group does not count swap, of which "
							  "this host has some"
							: NULL,
						  swaps ? PLAN_WEAKER : PLAN_ENFORCED};
		return (struct limit_way){
			"first process sums up all processes, 10 to 100 times a second",
			"no writable cgroup here; a burst between two looks can exceed it",
			PLAN_WEAKER};
	case SPEC_PIDS:
		if (group->has_pids)
			return (struct limit_way){group->is_v2 ? "cgroup v2 pids.max"
							       : "cgroup v1 pids.max",
						  "RLIMIT_NPROC of the user namespace as well"};
		if (cell->ids.has_many)
			return (struct limit_way){
				"RLIMIT_NPROC for each id inside; first process counts all, 10 to "
				"100 times a second",
				"all ids together can exceed it between two looks", PLAN_WEAKER};
		return (struct limit_way){"RLIMIT_NPROC, counted in the user namespace", NULL};
	case SPEC_DISK:
		return (struct limit_way){
			"first process sums up what is written, 10 to 100 times a second; size of "
			"the private tmpfs, at most that of memory; RLIMIT_FSIZE for each file",
			"a burst between two looks can exceed it; 5 % of a file system, at most 1 "
			"GiB, stay free",
			PLAN_WEAKER};
	case SPEC_FILES:
		if (layer_spot(cell) && !layer_is_memory(cell))
			return (struct limit_way){
				"first process counts a layer's files, once its file system has so "
				"many more; guard in other writable roots; inodes of the private "
				"tmpfs",
				"a burst between two looks can exceed it", PLAN_WEAKER};
		return (struct limit_way){"guard counts what is created in writable roots; inodes "
					  "of the private tmpfs",
					  NULL};
	case SPEC_OPEN_FILES:
		return (struct limit_way){"RLIMIT_NOFILE of each process", NULL};
	case SPEC_OUTPUT:
		return (struct limit_way){"supervisor counts what it passes on", NULL};
	case SPEC_GRACE:
		return (struct limit_way){"supervisor, monotonic clock: SIGTERM, then SIGKILL",
					  NULL};
	default:
		return (struct limit_way){"none", NULL};
	}
}

/* The first byte of the host's core_pattern tells who gets the memory of a process that crashes: a
 * program ('|'), a socket ('@', since 6.16), or a file. */
void describe_core(struct plan *plan)
{
	cleanup_fd int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	const char *note = NULL;
	struct rlimit limit;
	char first = 0;

	if (fd >= 0 && read(fd, &first, 1) != 1)
		first = 0;
	if (first == '@')
		note = "kernel.core_pattern of this host is a socket, which no limit keeps back: "
		       "whoever listens there gets the memory of what crashes inside";
	else if (first == '|' && getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max < 1)
		note = "the caller's own limit is 0, for which the kernel starts the handler of "
		       "kernel.core_pattern; start atoll where `ulimit -Hc` is 1 or more";
	plan_add(plan, note ? PLAN_WEAKER : PLAN_ENFORCED, "limits.core", "none",
		 "RLIMIT_CORE 1, which cannot be changed inside: no file, no handler", note,
		 "default");
}

static void describe_limits(const struct cell *cell, struct plan *plan)
{
	struct statvfs fs;
	const bool is_fixed = statvfs("/proc/sys", &fs) < 0 || fs.f_flag & ST_RDONLY;

	for (int id = 0; id < SPEC_LIMIT_COUNT; id++) {
		const struct spec_limit *limit = &cell->spec->limits[id];
		struct limit_way way = describe_limit(cell, id);
		char clause[32], value[48] = "";

		snprintf(clause, sizeof clause, "limits.%s", spec_limits[id].key);
		if (!plan->is_brief)
			spec_format_limit(id, limit->value, value, sizeof value);
		if (limit->value == SPEC_UNLIMITED)
			plan_add(plan, PLAN_NOTE, clause, value, "none", NULL, limit->origin);
		else
			plan_add(plan, way.strength, clause, value, way.mechanism, way.note,
				 limit->origin);
	}
	plan_add(plan, PLAN_ENFORCED, "processes.shared", "signals queues",
		 "RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE: at most half of the caller's", NULL,
		 "default");
	plan_add(plan, is_fixed ? PLAN_WEAKER : PLAN_ENFORCED, "processes.shared",
		 cell->needs_keeper ? "inotify-instances" : "inotify-instances inotify-watches",
		 "sysctl user.* of the user namespace: at most half of the caller's",
		 is_fixed ? "/proc/sys is read-only here: the caller's own bounds hold" : NULL,
		 "default");
	describe_core(plan);
}

void describe_environment(const struct cell *cell, struct plan *plan)
{
	for (size_t i = 0; cell->env[i] && !plan->is_brief; i++) {
		const char *origin = "default";
		char name[128];

		snprintf(name, sizeof name, "%.*s", (int)strcspn(cell->env[i], "="), cell->env[i]);
		for (size_t j = 0; j < cell->spec->n_variables; j++) {
			if (streq(cell->spec->variables[j].name, name))
				origin = cell->spec->variables[j].origin;
		}
		plan_add(plan, PLAN_NOTE, "environment", name, "set", NULL, origin);
	}
}

/* What is seen inside; that it is written down, and signed, needs nothing of a back end. */
void describe_record(const struct cell *cell, struct plan *plan)
{
	static const char *const words[] = {[SPEC_RECORD_OFF] = "off",
					    [SPEC_RECORD_STEPS] = "steps",
					    [SPEC_RECORD_FULL] = "full"};
	const struct spec *spec = cell->spec;
	const char *origin = spec->record_origin ? spec->record_origin : "default";

	if (spec->record == SPEC_RECORD_OFF)
		plan_add(plan, PLAN_NOTE, "audit.record", words[spec->record],
			 "nothing is written down", NULL, origin);
	else if (spec->record == SPEC_RECORD_STEPS)
		plan_add(plan, PLAN_ENFORCED, "audit.record", words[spec->record],
			 "a signed log by the supervisor",
			 "programs that are executed and most refusals are not in it", origin);
	else
		plan_add(plan, PLAN_ENFORCED, "audit.record", words[spec->record],
			 "a signed log by the supervisor; seccomp notifications to pid 1",
			 "a program that means to deceive can show other arguments than it uses",
			 origin);
}

void ns_describe(const struct cell *cell, struct plan *plan)
{
	plan_add(plan, PLAN_NOTE, "isolation.tier", "process",
		 "namespaces, Landlock, seccomp, guard", NULL, "default");
	for (size_t i = 0; i < cell->spec->n_accepted; i++)
		plan_add(plan, PLAN_NOTE, "isolation.accept-weaker", cell->spec->accepted[i].text,
			 "a weaker mechanism is accepted where this host lacks the proper one",
			 NULL, cell->spec->accepted[i].origin);
	describe_system(cell, plan);
	describe_mounts(cell, plan);
	describe_root(cell, plan);
	describe_rules(cell, plan);
	describe_processes(cell, plan);
	describe_limits(cell, plan);
	describe_record(cell, plan);
	describe_environment(cell, plan);
}

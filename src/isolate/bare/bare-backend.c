/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "isolate/bare/bare.h"
#include "isolate/ns/probe.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* Signals that stay inside (6.12): the end of everything rests on it. */
#define ABI_LEAST 6

/* ---- what is weaker ---- */

bool bare_accepts(const struct spec *spec, const char *word)
{
	for (size_t i = 0; i < spec->n_accepted; i++) {
		if (streq(spec->accepted[i].text, word))
			return true;
	}
	return false;
}

size_t bare_weaker(const struct cell *cell, const char *ret[8])
{
	size_t n = 0;

	ret[n++] = "hide";
	ret[n++] = "processes";
	if (!cell->group.has_pids && cell->spec->limits[SPEC_PIDS].value != SPEC_UNLIMITED)
		ret[n++] = "pids";
	if (network_is_on(&cell->spec->network))
		ret[n++] = "network";
	ret[n] = NULL;
	return n;
}

/* All that is missing in one line, so that nobody has to find out word by word. */
static int refuse_unaccepted(const struct cell *cell, struct atoll_error *err)
{
	const char *weaker[8];
	char flags[256] = "";
	size_t used = 0;

	bare_weaker(cell, weaker);
	for (size_t i = 0; weaker[i]; i++) {
		if (!bare_accepts(cell->spec, weaker[i]))
			used += (size_t)snprintf(flags + used, sizeof flags - used,
						 " --accept-weaker %s", weaker[i]);
	}
	if (!used)
		return 0;
	return error_set(
		err, ATOLL_FAULT_HOST, 0,
		"this host %s (see `atoll doctor`; fix: %s); without that some clauses are kept "
		"by weaker mechanisms, to be accepted with%s",
		ns_lack(), ns_fix(), flags);
}

/* ---- what there must be ---- */

/* The guard reads paths from the memory of its descendants. */
static int ptrace_scope(void)
{
	cleanup_fd int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char digit = '0';

	return fd < 0 || read(fd, &digit, 1) != 1 ? 0 : digit - '0';
}

/* NULL, or what is in the way. */
static const char *obstacle(void)
{
	if (geteuid() == 0)
		return "as root there is no way without user namespaces: the command would have "
		       "root's own id; run atoll as an ordinary user";
	if (landlock_abi() < ABI_LEAST)
		return "without user namespaces Landlock has to keep signals inside (ABI 6): a "
		       "kernel of 6.12 or later";
	if (ptrace_scope() > 1)
		return "without user namespaces the guard has to read its descendants' memory: "
		       "sysctl kernel.yama.ptrace_scope=1";
	return NULL;
}

/* What it can do on this host as this user; the words are those of a default contract. */
static int probe(struct backend_report *report, struct atoll_error *err)
{
	struct backend_finding *finding;
	const char *fix = obstacle();

	(void)err;
	if (report->n_findings == BACKEND_FINDINGS_MAX)
		return 0;
	finding = &report->findings[report->n_findings++];
	*finding = (struct backend_finding){
		.what = "a way without namespaces", .is_instead = true, .holds = !fix, .fix = fix};
	snprintf(finding->result, sizeof finding->result, "%s",
		 fix ? "no" : "weaker: hide, processes, pids");
	return 0;
}

static int check_host(struct plan *plan, struct atoll_error *err)
{
	const char *what = obstacle();

	if (what && plan)
		plan_add(plan, PLAN_MISSING, "processes.namespaces", NULL, "user namespaces", what,
			 "default");
	else if (what)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "this host %s (see `atoll doctor`; fix: %s); %s", ns_lack(),
				 ns_fix(), what);
	return 0;
}

/* ---- the environment ---- */

static bool is_named(const struct spec *spec, const char *name)
{
	for (size_t i = 0; i < spec->n_variables; i++) {
		if (streq(spec->variables[i].name, name))
			return true;
	}
	return false;
}

static int set(char **env, size_t *n, const char *name, const char *value, struct atoll_error *err)
{
	size_t length = strlen(name), at = 0;
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		return error_oom(err);
	while (at < *n && !(strncmp(env[at], name, length) == 0 && env[at][length] == '='))
		at++;
	if (at < *n)
		free(env[at]);
	else
		++*n;
	env[at] = text;
	return 0;
}

/* Files that are elsewhere here, see CELL_AUTHORITY. */
static char *own_file(const struct cell_bare *bare, const char *variable)
{
	static const char *const files[] = {CELL_AUTHORITY, CELL_BUNDLE};
	const char *value = strchr(variable, '=');
	char *text;

	for (size_t i = 0; value && i < ARRAY_SIZE(files); i++) {
		if (streq(value + 1, files[i]))
			return asprintf(&text, "%.*s=%s%s", (int)(value - variable), variable,
					bare->dir, strrchr(files[i], '/')) < 0
				       ? NULL
				       : text;
	}
	return strdup(variable);
}

/* What the contract says about a variable counts; and a home that it shows is not replaced. */
int bare_set_environment(struct cell *cell, struct atoll_error *err)
{
	const struct spec *spec = cell->spec;
	const struct spec_rule *home = spec_rule_for(spec, spec->home);
	char contract[sizeof cell->bare->dir + 16];
	size_t n = 0, old = 0;
	int r = 0;

	while (cell->env[old])
		old++;
	cell->bare->env = calloc(old + 4, sizeof *cell->bare->env);
	if (!cell->bare->env)
		return error_oom(err);
	for (; n < old; n++) {
		cell->bare->env[n] = own_file(cell->bare, cell->env[n]);
		if (!cell->bare->env[n])
			return error_oom(err);
	}
	if (!is_named(spec, "HOME") && (!home || home->access == SPEC_HIDE))
		r = set(cell->bare->env, &n, "HOME", cell->bare->own[0], err);
	if (r == 0 && !is_named(spec, "TMPDIR"))
		r = set(cell->bare->env, &n, "TMPDIR", cell->bare->own[1], err);
	snprintf(contract, sizeof contract, "%s/contract.md", cell->bare->dir);
	if (r == 0)
		r = set(cell->bare->env, &n, "ATOLL_CONTRACT", contract, err);
	cell->env = cell->bare->env;
	return r;
}

/* ---- the back end ---- */

/* Threads count as well. A directory's links are its subdirectories and two more. */
static uint64_t count_processes(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	uint64_t n = 0;

	while (proc && (entry = readdir(proc))) {
		char path[64];
		struct stat st;

		snprintf(path, sizeof path, "%.20s/task", entry->d_name);
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    fstatat(dirfd(proc), path, &st, 0) == 0 && st.st_uid == geteuid())
			n += st.st_nlink > 2 ? st.st_nlink - 2 : 1;
	}
	if (proc)
		closedir(proc);
	return n;
}

/* The command reads it to learn its walls; these are others than usual. */
static int explain(struct cell *cell, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4 << 20);
	int r = cell_explain(cell, err);

	if (r < 0)
		return r;
	buf_add_str(&text, cell->contract_text);
	buf_add_str(
		&text,
		"\n## On this host\n\nThere are no namespaces here. Private places are $HOME and "
		"$TMPDIR; /tmp, /var/tmp and /dev/shm cannot be used. There ");
	buf_add_str(
		&text,
		network_is_on(&cell->spec->network)
			? "is one way to the network, the proxy that HTTPS_PROXY and its like "
			  "name: no other connection, no loopback, no server, no look-up of names "
			  "outside of it; and there are "
			: "is no network at all, not even a loopback, and ");
	buf_add_str(&text,
		    "no System V or POSIX message queues and shared memory. Of /proc, your own "
		    "processes and what is about the machine as a whole can be read.\n");
	free(cell->contract_text);
	cell->contract_text = buf_take(&text);
	return cell->contract_text ? 0 : error_oom(err);
}

static void release(struct cell *cell)
{
	struct cell_bare *bare = cell ? cell->bare : NULL;

	if (bare) {
		if (bare->ruleset_fd >= 0)
			close(bare->ruleset_fd);
		if (bare->lock_fd >= 0)
			close(bare->lock_fd);
		for (size_t i = 0; bare->env && bare->env[i]; i++)
			free(bare->env[i]);
		free(bare->env);
		free(bare->own[0]);
		free(bare->own[1]);
		for (size_t i = 0; i < ARRAY_SIZE(bare->masks); i++)
			free(bare->masks[i]);
		free(bare->is_guarded);
		free(bare);
	}
	cell_free(cell);
}

static int fill(struct cell *cell, const struct plan *plan, struct atoll_error *err)
{
	int r = 0;

	cell->bare = calloc(1, sizeof *cell->bare);
	if (!cell->bare)
		return error_oom(err);
	cell->bare->ruleset_fd = cell->bare->lock_fd = -1;
	cell->bare->n_others = count_processes();
	if (!plan)
		r = refuse_unaccepted(cell, err);
	if (r == 0 && !plan && cell->spec->network.n_listen)
		r = error_set(err, ATOLL_FAULT_HOST, 0,
			      "ports cannot be published here (%s): this host %s; fix: %s",
			      cell->spec->network.listen[0].origin, ns_lack(), ns_fix());
	if (r == 0 && landlock_abi() >= ABI_LEAST)
		r = bare_make_rights(cell, err);
	return r < 0 ? r : explain(cell, err);
}

static void say_lack(char *ret, size_t size)
{
	snprintf(ret, size, "needs user namespaces with mounts, and this host %s", ns_lack());
}

/* A layer is a mount, and so is a writable root. */
static int check_mode(const struct spec *spec, struct plan *plan, struct atoll_error *err)
{
	const bool is_root = spec->workspace_mode != SPEC_WORKSPACE_LAYER;
	char fix[192];

	if (!is_root || spec->root_is_layer) {
		say_lack(fix, sizeof fix);
		if (!plan)
			return error_set(err, ATOLL_FAULT_HOST, 0, "%s: it %s; %s",
					 is_root ? "root: layer" : "a workspace in mode 'layer'",
					 fix,
					 is_root ? "leave it out"
						 : "write directly with --direct, or let nothing "
						   "be written with --mode read-only");
		plan_add(plan, PLAN_MISSING, is_root ? "filesystem.root" : "workspace.mode",
			 "layer", "overlay", fix,
			 is_root ? "default" : spec->workspace_mode_origin);
	}
	return 0;
}

static const struct spec_rule *first_moved(const struct spec *spec)
{
	for (size_t i = 0; spec->n_moved && i < spec->n_rules; i++) {
		if (spec->rules[i].at)
			return &spec->rules[i];
	}
	return NULL;
}

/* Other names for files and ids are mounts and maps. */
static int check_inside(const struct spec *spec, struct plan *plan, struct atoll_error *err)
{
	char fix[192];
	const struct spec_rule *moved = first_moved(spec);
	const char *clause = spec->n_users     ? "users"
			     : spec->has_guest ? "guest"
			     : spec->image     ? "image"
			     : moved	       ? "a grant at another place"
					       : NULL;
	const char *origin = spec->n_users     ? spec->users[0].origin
			     : spec->has_guest ? spec->guest_origin
			     : spec->image     ? spec->image_origin
			     : moved	       ? moved->origin
					       : NULL;

	if (!clause)
		return 0;
	say_lack(fix, sizeof fix);
	/* Of that nothing could be told: its place is no host's. */
	if (!plan || moved)
		return error_set(err, ATOLL_FAULT_HOST, 0, "%s (%s): it %s; leave it out", clause,
				 origin, fix);
	plan_add(plan, PLAN_MISSING, clause, NULL, "user namespace", fix, origin);
	return 0;
}

static int prepare(const struct spec *spec, char *const *env, const struct cell_extra *extra,
		   struct plan *plan, struct cell **ret, struct atoll_error *err)
{
	struct cell *cell = NULL;
	int r = check_host(plan, err);

	if (r == 0)
		r = ns_check_calls(true, err);
	if (r == 0)
		r = check_mode(spec, plan, err);
	if (r == 0)
		r = check_inside(spec, plan, err);
	if (r == 0)
		r = cell_new(spec, env, extra, plan, &cell, err);
	if (r != 0)
		return r;
	r = fill(cell, plan, err);
	if (r < 0) {
		release(cell);
		return r;
	}
	if (plan)
		bare_describe(cell, plan);
	*ret = cell;
	return 0;
}

const struct backend bare_backend = {
	.name = "process",
	.summary = "Landlock, seccomp and a guard, without namespaces",
	.probe = probe,
	.prepare = prepare,
	.describe = bare_describe,
	.start = bare_start,
	.stop = bare_stop,
	.find_process = cell_find_process,
	.account = cell_account,
	.release = release,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants that are too wide
 *
 * Three kinds of place: those that are never given, because what is there is the sandbox's own or
 * the machine itself; those that may be given by whoever says so twice (`accept-broad` with exactly
 * the same path), because a slip there costs a home or a system; and all others.
 *
 * The paths are text: a link that leads to such a place is found by whoever opens it.
 */
#include "base/path.h"
#include "spec/spec-inner.h"

/* At or beneath: whoever writes here changes what the machine runs. */
static const char *const system_trees[] = {
	"/etc",	  "/usr",   "/boot",   "/bin", "/sbin",	   "/lib",
	"/lib32", "/lib64", "/libx32", "/run", "/var/run", NULL,
};

/* These themselves; a directory beneath may well be a workspace. */
static const char *const system_roots[] = {
	"/var", "/opt", "/tmp", "/var/tmp", "/srv", "/home", "/root", NULL,
};

/* What the kernel shows as files. */
static const char *const kernel_trees[] = {"/proc", "/sys", "/dev", NULL};

static const char *const own_state[] = {".config/atoll", ".local/state/atoll", ".local/share/atoll",
					NULL};

static bool is_listed(const char *path, const char *const *list)
{
	for (size_t i = 0; list[i]; i++)
		if (streq(path, list[i]))
			return true;
	return false;
}

static bool is_within_listed(const char *path, const char *const *list)
{
	for (size_t i = 0; list[i]; i++)
		if (path_is_within(path, list[i]))
			return true;
	return false;
}

/* A home, or a directory with homes in it. */
static bool is_home(const struct spec *spec, const char *path)
{
	if (path_is_within(spec->home, path) || streq(path, "/root") || streq(path, "/home"))
		return true;
	return path_is_within(path, "/home") && path_depth(path) == 2;
}

static bool is_own_state(const struct spec *spec, const char *path)
{
	size_t length = streq(spec->home, "/") ? 0 : strlen(spec->home);

	if (!path_is_within(path, spec->home) || path[length] != '/')
		return false;
	return is_within_listed(path + length + 1, own_state);
}

/* Why a place is never given, in words that follow its name; NULL if it may be. */
static const char *why_never(const struct spec *spec, const char *path, enum spec_access access)
{
	if (path_is_within(path, "/run/atoll") || path_is_within(path, "/var/run/atoll"))
		return "is reserved for atoll";
	if (access == SPEC_HIDE || access == SPEC_PROTECT)
		return NULL;
	if (path_is_within(path, "/proc") || path_is_within(path, "/dev"))
		return "belongs to the sandbox itself, which has one of its own";
	if (access == SPEC_READ)
		return NULL;
	if (streq(path, "/"))
		return "cannot be written as a whole; name the directories that are needed";
	if (is_within_listed(path, kernel_trees))
		return "is the kernel's; what is there is never writable";
	if (is_own_state(spec, path))
		return "is atoll's own state, which no command may change";
	return NULL;
}

/* What a wide place is, or NULL if the grant is narrow. */
static const char *why_broad(const struct spec *spec, const char *path, enum spec_access access)
{
	if (access == SPEC_HIDE || access == SPEC_PROTECT)
		return NULL;
	if (streq(path, "/"))
		return "the whole machine";
	if (is_home(spec, path))
		return "a whole home directory";
	if (access == SPEC_READ)
		return NULL;
	if (is_within_listed(path, system_trees) || is_listed(path, system_roots))
		return "a system directory";
	return NULL;
}

static bool is_accepted(const struct spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_broad; i++)
		if (streq(spec->broad[i].text, path))
			return true;
	return false;
}

static int check_place(const struct spec *spec, const char *path, enum spec_access access,
		       const char *what, const char *origin, struct atoll_error *err)
{
	const char *why = why_never(spec, path, access);

	if (why)
		return error_set(err, ATOLL_FAULT_POLICY, 0, "%s: %s '%s': that %s", origin, what,
				 shown_path(path), why);
	why = why_broad(spec, path, access);
	if (!why || is_accepted(spec, path))
		return 0;
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s: %s '%s' would open %s; if that is meant, add --accept-broad %s",
			 origin, what, shown_path(path), why, shown_path(path));
}

int broad_check(const struct spec *spec, struct atoll_error *err)
{
	/* A read-only workspace is judged like a writable one: the mode is one word in a file, and
	 * the record of the run would still be called by that directory. */
	int r = check_place(spec, spec->workspace, SPEC_WRITE, "workspace",
			    spec_workspace_said(spec), err);

	for (size_t i = 0; r == 0 && i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (!origin_is_default(rule->origin))
			r = check_place(spec, rule->path, rule->access,
					spec_access_word(rule->access), rule->origin, err);
	}
	for (size_t i = 0; r == 0 && i < spec->n_sockets; i++)
		r = check_place(spec, spec->sockets[i].text, SPEC_PROTECT, "socket",
				spec->sockets[i].origin, err);
	return r;
}

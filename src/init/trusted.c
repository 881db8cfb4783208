/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/guard.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

void guard_set_add(struct guard_set *set, const struct stat *st)
{
	set->ids[set->n++ % GUARD_OWN_MAX] = (struct guard_id){.dev = st->st_dev, .ino = st->st_ino};
}

bool guard_set_has(const struct guard_set *set, const struct stat *st)
{
	size_t n = set->n < GUARD_OWN_MAX ? set->n : GUARD_OWN_MAX;

	for (size_t i = 0; i < n; i++) {
		if (set->ids[i].dev == st->st_dev && set->ids[i].ino == st->st_ino)
			return true;
	}
	return false;
}

const struct init_zone *guard_zone(const struct guard *guard, const char *path)
{
	const struct init_config *config = guard->config;
	const struct init_zone *found = NULL;
	size_t deepest = 0;

	for (size_t i = 0; i < config->n_zones; i++) {
		size_t length = strlen(config->zones[i].path);

		if (path_is_within(path, config->zones[i].path) && (!found || length > deepest)) {
			found = &config->zones[i];
			deepest = length;
		}
	}
	return found;
}

static int refuse(struct call *call, int code, const char *rule)
{
	call->rule = rule;
	return -code;
}

/* Lines of the contract: what is hidden or protected, and what must stay in its place because
 * something beneath it is. */
static int permit_by_contract(struct call *call, const char *path, bool moves_away)
{
	const struct spec *spec = call->guard->config->spec;
	const struct spec_rule *rule = spec_rule_for(spec, path);

	if (rule && rule->access == SPEC_HIDE)
		return refuse(call, EACCES, "hide");
	for (size_t i = 0; i < spec->n_rules; i++) {
		rule = &spec->rules[i];
		if (rule->access == SPEC_WRITE)
			continue;
		if (rule->access == SPEC_PROTECT &&
		    (rule->is_pattern ? path_glob(rule->path, path) : path_is_within(path, rule->path)))
			return refuse(call, EPERM, "protect");
		if (moves_away && !rule->is_pattern && path_is_within(rule->path, path))
			return refuse(call, EPERM, spec_access_word(rule->access));
	}
	return 0;
}

/* Does `dir`/`name` exist, whatever it is? `added` is a name that the call at hand would add. */
static bool holds(int dir_fd, const char *name, const char *added)
{
	struct stat st;

	return (added && streq(name, added)) ||
	       fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_git_dir(int dir_fd, const char *added)
{
	return holds(dir_fd, "HEAD", added) &&
	       (holds(dir_fd, "commondir", added) ||
		(holds(dir_fd, "objects", added) && holds(dir_fd, "refs", added)));
}

static bool has_real_hooks(int dir_fd)
{
	cleanup_fd int fd = -1;
	char entries[4096];
	struct stat st;
	ssize_t got;

	if (fstatat(dir_fd, "hooks", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	fd = openat(dir_fd, "hooks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return true; /* a link, or nothing that we can look into */
	while ((got = getdents64(fd, entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			struct dirent64 *entry = (struct dirent64 *)(void *)(entries + at);

			if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..") &&
			    !ends_with(entry->d_name, ".sample"))
				return true;
			at += entry->d_reclen;
		}
	}
	return got < 0;
}

/*
 * A directory is about to become a git directory. What lies in it came in unseen: a config that we
 * did not write ourselves may still be open for writing somewhere, so its content says nothing.
 */
static bool is_clean_before(struct call *call, int dir_fd)
{
	struct stat st;

	for (size_t i = 0; git_before[i]; i++) {
		if (streq(git_before[i], "hooks")) {
			if (has_real_hooks(dir_fd))
				return false;
		} else if (fstatat(dir_fd, git_before[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			   !(streq(git_before[i], "config") && S_ISREG(st.st_mode) &&
			     guard_set_has(&call->guard->own_config, &st))) {
			return false;
		}
	}
	return true;
}

/* The first `length` bytes of a path, as a descriptor. */
static int open_prefix(const char *path, size_t length)
{
	char prefix[PATH_MAX];

	if (length >= sizeof prefix)
		return -ENAMETOOLONG;
	memcpy(prefix, path, length);
	prefix[length] = '\0';
	return fd_openat2(AT_FDCWD, length ? prefix : "/", O_PATH, 0, 0);
}

static bool is_own(struct call *call, int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && guard_set_has(&call->guard->own_git, &st);
}

static bool adds_a_name(enum names_action action)
{
	return action == NAMES_CREATE || action == NAMES_MKDIR || action == NAMES_SYMLINK ||
	       action == NAMES_RENAME_TO || action == NAMES_RENAME_DIR_TO;
}

/* Git directories by another name than ".git": "x/HEAD", "x/hooks/pre-commit". */
static int permit_in_bare(struct call *call, const char *root, const char *path,
			  enum names_action action, enum git_verdict *ret_verdict)
{
	const char *marker = NULL, *what = NULL;

	while ((marker = git_next_marker(root, path, marker))) {
		cleanup_fd int dir = open_prefix(path, (size_t)(marker - path) - 1);
		const char *added =
			adds_a_name(action) && !strchr(marker, '/') ? marker : NULL;

		if (dir < 0)
			continue;
		if (is_git_dir(dir, NULL)) {
			*ret_verdict = git_guard(marker, action, is_own(call, dir), &what);
			return *ret_verdict == GIT_REFUSE ? refuse(call, EPERM, what) : 0;
		}
		if (added && is_git_dir(dir, added)) {
			if (!is_clean_before(call, dir))
				return refuse(call, EPERM, "a new git directory");
			return 0;
		}
		/* git writes the config of a new directory before the directory is complete. */
		if (added && streq(added, "config") && action == NAMES_RENAME_TO)
			*ret_verdict = GIT_VET_CONFIG;
	}
	return 0;
}

int guard_permit(struct call *call, const struct target *target, enum names_action action,
		 bool is_dir, enum git_verdict *ret_verdict)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);
	const char *what, *inside;
	int r;

	*ret_verdict = GIT_ALLOW;
	memcpy(call->path, target->path, strlen(target->path) + 1);
	if (!zone || zone->kind != INIT_ZONE_GUARDED)
		return 0;
	r = permit_by_contract(call, target->path, is_dir && action == NAMES_REMOVE);
	if (r < 0)
		return r;
	what = names_refuse(zone->path, target->path, action);
	if (what)
		return refuse(call, EPERM, what);
	inside = names_git_inside(zone->path, target->path);
	if (inside) {
		/* "" is the .git itself, and the component ends right before a slash otherwise. */
		size_t length = (size_t)(inside - target->path) - (inside[0] ? 1 : 0);
		cleanup_fd int dir = open_prefix(target->path, length);

		*ret_verdict = git_guard(inside, action, is_own(call, dir), &what);
		return *ret_verdict == GIT_REFUSE ? refuse(call, EPERM, what) : 0;
	}
	return permit_in_bare(call, zone->path, target->path, action, ret_verdict);
}

void guard_made(struct call *call, const struct target *target, enum names_action action)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);
	struct stat st;

	call->guard->n_created++;
	if (!zone || zone->kind != INIT_ZONE_GUARDED || target->parent < 0)
		return;
	if (names_is_git(target->name, strlen(target->name))) {
		if ((action == NAMES_MKDIR || action == NAMES_CREATE) &&
		    fstatat(target->parent, target->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			guard_set_add(&call->guard->own_git, &st);
	} else if (git_is_marker(target->name) && !names_git_inside(zone->path, target->path) &&
		   fstat(target->parent, &st) == 0 && is_git_dir(target->parent, NULL) &&
		   !guard_set_has(&call->guard->own_git, &st)) {
		/* It was none before this name came, or the name would have been refused. */
		guard_set_add(&call->guard->own_git, &st);
	}
}

/* The whole of a small regular file, or a negative errno. */
static ssize_t read_small(int dir_fd, const char *name, char *ret, size_t size, struct stat *st)
{
	cleanup_fd int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	size_t used = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, st) < 0)
		return -errno;
	if (!S_ISREG(st->st_mode) || st->st_size > (off_t)size)
		return -EFBIG;
	while (used < size) {
		ssize_t got = read(fd, ret + used, size - used);

		if (got < 0)
			return -errno;
		if (got == 0)
			return (ssize_t)used;
		used += (size_t)got;
	}
	return -EFBIG;
}

/*
 * The bytes that were read are the bytes that are put in place, in a file that nobody has open: the
 * lock file is replaced by one of ours, which is then renamed.
 */
static int replace_and_rename(struct call *call, const struct target *source,
			      const struct target *target, const char *text, size_t size,
			      mode_t mode)
{
	cleanup_fd int fd = -1;
	struct stat st;
	int r;

	if (unlinkat(source->parent, source->name, 0) < 0)
		return -errno;
	fd = openat(source->parent, source->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    mode & 0777);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text, size);
	if (r < 0)
		return r;
	if (renameat(source->parent, source->name, target->parent, target->name) < 0)
		return -errno;
	if (fstat(fd, &st) == 0)
		guard_set_add(&call->guard->own_config, &st);
	return 0;
}

int guard_install_config(struct call *call, const struct target *source,
			 const struct target *target, bool is_submodule, bool is_git_dir_now)
{
	static char text[GIT_CONFIG_MAX], old[GIT_CONFIG_MAX], key[128], rule[192];
	struct stat st, old_st;
	ssize_t size, old_size = -1;

	size = read_small(source->parent, source->name, text, sizeof text, &st);
	if (size < 0)
		return (int)size;
	/* Only what a git directory already had counts as the user's own. */
	if (is_git_dir_now)
		old_size = read_small(target->parent, target->name, old, sizeof old, &old_st);
	if (git_config_vet(text, (size_t)size, old_size >= 0 ? old : NULL,
			   old_size >= 0 ? (size_t)old_size : 0, is_submodule, key)) {
		if (!is_git_dir_now)
			return 1; /* somebody else's config: an ordinary rename */
		snprintf(rule, sizeof rule, "git config key %s", key);
		return refuse(call, EPERM, rule);
	}
	return replace_and_rename(call, source, target, text, (size_t)size, st.st_mode);
}

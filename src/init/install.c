/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/guard.h"
#include "spec/git-config-read.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

/*
 * Files of git's that are read before they count
 *
 * What is put in place is always a copy of ours, with the bytes that were read: whoever wrote the
 * original may still have it open.
 */

ssize_t guard_read_small(int dir_fd, const char *name, char *ret, size_t size, struct stat *st)
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

/* ".atoll-new-" and 16 digits: a name that every guard refuses to its callers (spec/names.h), those
 * of another run in the same directory included. Under a name that they may open they would keep
 * the file open past the rename. */
#define FRESH_PREFIX ".atoll-new-"

struct fresh {
	int dir_fd; /* not its own */
	int fd;
	char name[sizeof FRESH_PREFIX + 16];
};

static void fresh_done(struct fresh *fresh)
{
	if (fresh->fd < 0)
		return;
	close(fresh->fd);
	unlinkat(fresh->dir_fd, fresh->name, 0);
}

/* An empty file of ours, that nobody else has open. */
static int make_fresh(struct call *call, int dir_fd, mode_t mode, struct fresh *ret)
{
	uint64_t number;

	if (getrandom(&number, sizeof number, 0) != sizeof number)
		return -EIO;
	ret->dir_fd = dir_fd;
	snprintf(ret->name, sizeof ret->name, FRESH_PREFIX "%016llx", (unsigned long long)number);
	umask(0);
	call->guard->umask = 0;
	ret->fd = openat(dir_fd, ret->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			 mode & 0777);
	return ret->fd < 0 ? -errno : 0;
}

/* In the place of what is there under this name. */
static int put_fresh(struct fresh *fresh, const char *name)
{
	if (renameat(fresh->dir_fd, fresh->name, fresh->dir_fd, name) < 0)
		return -errno;
	close(take_fd(&fresh->fd));
	return 0;
}

static int put_text(struct call *call, int dir_fd, const char *name, const char *text, size_t size,
		    mode_t mode)
{
	cleanup_with(fresh_done) struct fresh fresh = {.fd = -1};
	int r = make_fresh(call, dir_fd, mode, &fresh);

	if (r == 0)
		r = fd_write_all(fresh.fd, text, size);
	return r < 0 ? r : put_fresh(&fresh, name);
}

/* The caller has renamed it, as far as he can see. */
static int remove_source(const struct target *source)
{
	return unlinkat(source->parent, source->name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* May the run contact this host itself? Then the host's git may learn of it. */
static bool may_reach(const void *data, const char *host, size_t size, unsigned port)
{
	const struct network *network = &((const struct spec *)data)->network;
	const struct network_rule *rule;
	struct network_address address;
	char name[NETWORK_NAME_MAX];

	if (!network_is_on(network) || port == 0 || port > UINT16_MAX)
		return false;
	if (network_address(host, size, &address) == 0)
		return network_judge(network, NULL, &address, (uint16_t)port, &rule) ==
		       NETWORK_ALLOWED;
	return network_name(host, size, name) == 0 &&
	       network_judge(network, name, NULL, (uint16_t)port, &rule) == NETWORK_ALLOWED;
}

/* The config of a directory that becomes a git directory: none, or a harmless one, which is then
 * replaced by a copy that nobody has open. */
bool guard_seal_config(struct call *call, int dir_fd)
{
	static char text[GIT_CONFIG_MAX];
	const struct git_vet how = {.is_new = true,
				    .may_reach = may_reach,
				    .data = call->guard->config->spec,
				    .store = call->guard->config->spec->store};
	char key[128];
	struct stat st;
	ssize_t size = guard_read_small(dir_fd, "config", text, sizeof text, &st);

	if (size == -ENOENT)
		return true;
	if (size < 0 || git_config_vet(text, (size_t)size, &how, key))
		return false;
	return put_text(call, dir_fd, "config", text, (size_t)size, st.st_mode) == 0;
}

/* How long are the hashes in this git directory (git_config_hash_size)? Its config says so; of a
 * worktree's directory, which has a commondir, the config of the repository. */
static unsigned hash_size_of(int git_dir_fd)
{
	static char text[GIT_FORMAT_MAX];
	struct stat st;
	bool is_worktree = fstatat(git_dir_fd, "commondir", &st, AT_SYMLINK_NOFOLLOW) == 0;
	ssize_t size = guard_read_small(git_dir_fd, is_worktree ? "../../config" : "config", text,
					sizeof text, &st);

	if (size == -ENOENT)
		return 20;
	return size < 0 ? 0 : git_config_hash_size(text, (size_t)size);
}

/* Is there an index that was read by the length of hashes that held until now? */
static bool has_index(int git_dir_fd)
{
	struct stat st;

	return fstatat(git_dir_fd, "index", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	       fstatat(git_dir_fd, "worktrees", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Of a repository of SHA-1, nothing changes for an index without a config. */
bool guard_keeps_format(int git_dir_fd, const char *goes)
{
	char folded[NAMES_FOLD_SIZE];

	return !names_fold(goes, strlen(goes), folded) || !names_same(folded, "config") ||
	       !has_index(git_dir_fd) || hash_size_of(git_dir_fd) == 20;
}

/* Where the config of a submodule is, for core.worktree. */
static void place_of(const struct call *call, const struct target *target, char dir[PATH_MAX],
		     struct git_vet *how)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);
	size_t length = (size_t)(strrchr(target->path, '/') - target->path);

	if (!zone || length >= PATH_MAX)
		return;
	memcpy(dir, target->path, length);
	dir[length] = '\0';
	how->dir = dir;
	how->root = zone->path;
}

/* The next core.worktree of a config that git_config_vet() would let pass. */
static bool next_worktree(struct git_config_reader *reader, struct git_config_entry *entry,
			  const struct git_vet *how)
{
	while (git_config_read(reader, entry) > 0) {
		if (streq(entry->section, "core") && !entry->has_subsection &&
		    streq(entry->key, "worktree") &&
		    git_is_way_to_worktree(entry->value, how->dir, how->root))
			return true;
	}
	return false;
}

static bool was_worktree(const struct git_vet *how, const char *value)
{
	static struct git_config_entry entry;
	struct git_config_reader reader = {
		.at = how->old, .end = how->old + how->old_size, .line = 1};

	memset(&entry, 0, sizeof entry);
	while (how->old && next_worktree(&reader, &entry, how))
		if (streq(entry.value, value))
			return true;
	return false;
}

/* The work tree that a vetted config names must not be reached through a link: git writes to where
 * that leads. A new one is in no git directory, whatever its name, nor where the contract protects
 * something: a checkout writes there, hooks included. New links into git directories are refused
 * (links.c), so none comes later. */
static bool is_worktree_plain(const struct call *call, const char *text, size_t size,
			      const struct git_vet *how)
{
	static struct git_config_entry entry;
	struct git_config_reader reader = {.at = text, .end = text + size, .line = 1};
	char path[PATH_MAX];

	memset(&entry, 0, sizeof entry);
	while (how->dir && next_worktree(&reader, &entry, how)) {
		const struct init_zone *zone;

		if (snprintf(path, sizeof path, "%s/%s", how->dir, entry.value) >= PATH_MAX)
			return false;
		path_normalize(path);
		zone = guard_zone(call->guard, path);
		if (!guard_is_way_plain(path) || !zone)
			return false;
		if (!was_worktree(how, entry.value) &&
		    (guard_is_in_git_dir(zone, path) || guard_is_near_protected(call, path)))
			return false;
	}
	return true;
}

/* Another run in the same directory has a guard of its own, which may have put an index in place
 * meanwhile. It looks again as well (guard_install_index()): whoever comes last sees both. */
static int confirm_format(struct call *call, const struct target *target, const char *old,
			  ssize_t old_size, mode_t mode)
{
	unsigned before = old_size >= 0 ? git_config_hash_size(old, (size_t)old_size) : 20;

	if (!has_index(target->parent) || hash_size_of(target->parent) == before)
		return 0;
	if (old_size < 0 ||
	    put_text(call, target->parent, target->name, old, (size_t)old_size, mode) < 0)
		unlinkat(target->parent, target->name, 0);
	return guard_refuse(call, EPERM, "git config key extensions.objectformat");
}

/* The bytes that were read are the bytes that are put in place, in a file that nobody has open. */
int guard_install_config(struct call *call, const struct target *source,
			 const struct target *target, bool is_submodule)
{
	static char text[GIT_CONFIG_MAX], old[GIT_CONFIG_MAX], dir[PATH_MAX], key[128], rule[256];
	struct git_vet how = {.is_new = guard_is_own_git(call, target),
			      .may_reach = may_reach,
			      .data = call->guard->config->spec,
			      .store = call->guard->config->spec->store};
	struct stat st, old_st;
	ssize_t size, old_size;
	int r;

	size = guard_read_small(source->parent, source->name, text, sizeof text, &st);
	if (size < 0)
		return (int)size;
	/* What is there was the user's before, or passed here. */
	old_size = guard_read_small(target->parent, target->name, old, sizeof old, &old_st);
	if (old_size < 0 && old_size != -ENOENT)
		return guard_refuse(call, EPERM, "git config (the present one is not read)");
	how.old = old_size >= 0 ? old : NULL;
	how.old_size = old_size >= 0 ? (size_t)old_size : 0;
	if (is_submodule)
		place_of(call, target, dir, &how);
	if (git_config_vet(text, (size_t)size, &how, key)) {
		snprintf(rule, sizeof rule, "git config key %s%s", key,
			 git_config_key_talks(key) ? " (git would talk to it)" : "");
		return guard_refuse(call, EPERM, rule);
	}
	if (has_index(target->parent) &&
	    git_config_hash_size(text, (size_t)size) != hash_size_of(target->parent))
		return guard_refuse(call, EPERM, "git config key extensions.objectformat");
	if (!is_worktree_plain(call, text, (size_t)size, &how))
		return guard_refuse(call, EPERM, "git config key core.worktree");
	r = put_text(call, target->parent, target->name, text, (size_t)size, st.st_mode);
	if (r == 0)
		r = confirm_format(call, target, old, old_size, st.st_mode);
	/* core.worktree counts from where it is. */
	if (r == 0 && is_submodule && (r = guard_confirm_place(call, target)) < 0)
		unlinkat(target->parent, target->name, 0);
	return r < 0 ? r : remove_source(source);
}

static int copy_all(int from, int to, size_t size)
{
	while (size > 0) {
		ssize_t done = copy_file_range(from, NULL, to, NULL, size, 0);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		if (done == 0)
			return -EIO; /* it is being changed */
		size -= (size_t)done;
	}
	return 0;
}

#define INDEX_MAX (512 << 20)

/* Copied first, so that nobody can change what is read; then read; then put in place. */
static int install_copy(struct call *call, const struct target *source, const struct target *target,
			const char *(*vet)(const unsigned char *data, size_t size, void *context),
			void *context, const char *what)
{
	cleanup_fd int from = openat(source->parent, source->name,
				     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	cleanup_with(fresh_done) struct fresh copy = {.fd = -1};
	const char *wrong;
	struct stat st;
	void *data;
	int r;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > INDEX_MAX)
		return guard_refuse(call, EPERM, what);
	r = make_fresh(call, target->parent, st.st_mode, &copy);
	if (r == 0)
		r = copy_all(from, copy.fd, (size_t)st.st_size);
	if (r < 0)
		return r;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, copy.fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	wrong = vet(data, (size_t)st.st_size, context);
	munmap(data, (size_t)st.st_size);
	return wrong ? guard_refuse(call, EPERM, wrong) : put_fresh(&copy, target->name);
}

static const char *vet_index(const unsigned char *data, size_t size, void *context)
{
	return git_index_vet(data, size, *(const unsigned *)context);
}

int guard_install_index(struct call *call, const struct target *source, const struct target *target)
{
	unsigned hash_size = hash_size_of(target->parent);
	int r = hash_size ? install_copy(call, source, target, vet_index, &hash_size, "git index")
			  : guard_refuse(call, EPERM, "git index");

	/* Another run's guard has changed the config meanwhile: see confirm_format(). */
	if (r == 0 && hash_size_of(target->parent) != hash_size) {
		unlinkat(target->parent, target->name, 0);
		return guard_refuse(call, EPERM, "git index");
	}
	return r < 0 ? r : remove_source(source);
}

/* Of large ones the old lines are not read, and none of refs/replace passes. */
static const char *vet_refs(const unsigned char *data, size_t size, void *context)
{
	static char old[GIT_FORMAT_MAX];
	const struct target *target = context;
	struct stat st;
	ssize_t old_size = guard_read_small(target->parent, target->name, old, sizeof old, &st);

	return git_refs_vet((const char *)data, size, old, old_size < 0 ? 0 : (size_t)old_size);
}

int guard_install_refs(struct call *call, const struct target *source, const struct target *target)
{
	int r = install_copy(call, source, target, vet_refs, (void *)target,
			     "git packed references");

	return r < 0 ? r : remove_source(source);
}

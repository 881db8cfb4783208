/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "init/guard.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/*
 * Files of git's that are read before they count
 *
 * What is put in place is always a copy of ours, with the bytes that were read: whoever wrote the
 * original may still have it open.
 */

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

/* An empty file of ours instead of the one that is there, which somebody may have open. */
static int make_fresh(struct call *call, int dir_fd, const char *name, mode_t mode)
{
	int fd;

	if (unlinkat(dir_fd, name, 0) < 0)
		return -errno;
	umask(0);
	call->guard->umask = 0;
	fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
	return fd < 0 ? -errno : fd;
}

static int replace_file(struct call *call, int dir_fd, const char *name, const char *text,
			size_t size, mode_t mode)
{
	cleanup_fd int fd = make_fresh(call, dir_fd, name, mode);

	return fd < 0 ? fd : fd_write_all(fd, text, size);
}

static int put_in_place(const struct target *source, const struct target *target)
{
	return renameat(source->parent, source->name, target->parent, target->name) < 0 ? -errno
											: 0;
}

/* The config of a directory that becomes a git directory: none, or a harmless one, which is then
 * replaced by a copy that nobody has open. */
bool guard_seal_config(struct call *call, int dir_fd)
{
	static char text[GIT_CONFIG_MAX];
	char key[128];
	struct stat st;
	ssize_t size = read_small(dir_fd, "config", text, sizeof text, &st);

	if (size == -ENOENT)
		return true;
	if (size < 0 || git_config_vet(text, (size_t)size, NULL, 0, 0, key))
		return false;
	return replace_file(call, dir_fd, "config", text, (size_t)size, st.st_mode) == 0;
}

/* How many levels a submodule's git directory lies beneath its root: as far up as its work tree may
 * be. */
static unsigned levels_up(const struct call *call, const struct target *target)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);

	return (unsigned)(path_depth(target->path) - 1 - path_depth(zone ? zone->path : "/"));
}

/*
 * The bytes that were read are the bytes that are put in place, in a file that nobody has open: the
 * lock file is replaced by one of ours, which is then renamed.
 */
int guard_install_config(struct call *call, const struct target *source,
			 const struct target *target, bool is_submodule)
{
	static char text[GIT_CONFIG_MAX], old[GIT_CONFIG_MAX], key[128], rule[192];
	struct stat st, old_st;
	ssize_t size, old_size;
	int r;

	size = read_small(source->parent, source->name, text, sizeof text, &st);
	if (size < 0)
		return (int)size;
	/* What is there was the user's before, or passed here. */
	old_size = read_small(target->parent, target->name, old, sizeof old, &old_st);
	if (git_config_vet(text, (size_t)size, old_size >= 0 ? old : NULL,
			   old_size >= 0 ? (size_t)old_size : 0,
			   is_submodule ? levels_up(call, target) : 0, key)) {
		snprintf(rule, sizeof rule, "git config key %s", key);
		return guard_refuse(call, EPERM, rule);
	}
	r = replace_file(call, source->parent, source->name, text, (size_t)size, st.st_mode);
	return r < 0 ? r : put_in_place(source, target);
}

/* Of SHA-256 or of SHA-1? The config of the git directory says so, or of the one that a worktree's
 * directory (worktrees/NAME) belongs to. */
static unsigned hash_size_of(int git_dir_fd)
{
	static char text[GIT_CONFIG_MAX];
	struct stat st;
	ssize_t size = read_small(git_dir_fd, "config", text, sizeof text, &st);

	if (size == -ENOENT)
		size = read_small(git_dir_fd, "../../config", text, sizeof text, &st);
	return size > 0 && git_config_is_sha256(text, (size_t)size) ? 32 : 20;
}

static int copy_all(int from, int to, size_t size)
{
	while (size > 0) {
		ssize_t done = copy_file_range(from, NULL, to, NULL, size, 0);

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
int guard_install_index(struct call *call, const struct target *source, const struct target *target)
{
	cleanup_fd int from = openat(source->parent, source->name,
				     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	cleanup_fd int copy = -1;
	const char *wrong;
	struct stat st;
	void *data;
	int r;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > INDEX_MAX)
		return guard_refuse(call, EPERM, "git index");
	copy = make_fresh(call, source->parent, source->name, st.st_mode);
	if (copy < 0)
		return copy;
	r = copy_all(from, copy, (size_t)st.st_size);
	if (r < 0)
		return r;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, copy, 0);
	if (data == MAP_FAILED)
		return -errno;
	wrong = git_index_vet(data, (size_t)st.st_size, hash_size_of(target->parent));
	munmap(data, (size_t)st.st_size);
	return wrong ? guard_refuse(call, EPERM, wrong) : put_in_place(source, target);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "isolate/bare/bare.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/*
 * A directory instead of private mounts
 *
 *	/tmp/atoll-bare-PIDNS-USERNS-XXXXXX/   or in /var/tmp
 *		contract.md, contract.json, ca.pem, ca-bundle.pem
 *		home/, tmp/                    the command's, with every right
 *
 * It is 0700, and locked (flock) as long as one of atoll's processes lives.
 * It is removed by whoever ends the run last. If both who could have were killed at once, the
 * supervisor finds it, or the next run, with nobody's lock on it; it is removed together with the
 * processes that were started with it in their environment.
 */

#define TRIES_MAX  16
#define SWEEPS_MAX 64
#define PASSES_MAX 200

static const char *const parents[] = {"/tmp", "/var/tmp", NULL};

/* ---- removing ---- */

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/*
 * Take away what can be taken away in this directory. 1 with `*ret_deeper` if something has to be
 * emptied first, 0 if nothing is left, or a negative errno.
 */
static int clear_once(int fd, int *ret_deeper)
{
	char entries[8192];
	ssize_t got;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(entries + at);

			at += entry->d_reclen;
			if (is_dots(entry->d_name) || unlinkat(fd, entry->d_name, 0) == 0 ||
			    unlinkat(fd, entry->d_name, AT_REMOVEDIR) == 0)
				continue;
			if (errno != ENOTEMPTY && errno != EEXIST)
				return -errno;
			if (fchmodat(fd, entry->d_name, 0700, 0) < 0)
				return -errno;
			*ret_deeper = openat(fd, entry->d_name,
					     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			return *ret_deeper < 0 ? -errno : 1;
		}
	}
	return got < 0 ? -errno : 0;
}

/* Down into what is not empty, and up again by ".."; as deep as a command could make it. Nobody
 * else is there any more, and links are not followed. */
static int clear_tree(int top_fd)
{
	int fd = openat(top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	size_t depth = 0;

	for (;;) {
		int next = -1;

		r = fd < 0 ? -errno : clear_once(fd, &next);
		if (r < 0 || (r == 0 && depth == 0))
			break;
		depth += r == 1 ? 1 : (size_t)-1;
		if (r == 0)
			next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	if (fd >= 0)
		close(fd);
	return r;
}

void bare_remove_private(const struct cell_bare *bare)
{
	if (bare->lock_fd < 0 || !bare->dir[0])
		return;
	clear_tree(bare->lock_fd);
	rmdir(bare->dir);
}

/* ---- what killed runs have left ---- */

/* A process that was started with this directory in its environment. One that has written over its
 * own is not recognised; it is still locked in. */
static bool names_dir(int proc_fd, const char *pid, const char *dir)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	cleanup_fd int fd = -1;
	char path[64], wanted[128];

	snprintf(path, sizeof path, "%.20s/environ", pid);
	snprintf(wanted, sizeof wanted, "ATOLL_CONTRACT=%s/contract.md", dir);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && fd_read_all(fd, &text) == 0 && text.data &&
	       memmem(text.data, text.used, wanted, strlen(wanted) + 1);
}

/* How many there were. */
static unsigned end_once(const char *dir)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	unsigned n = 0;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 1 && pid != getpid() && names_dir(dirfd(proc), entry->d_name, dir))
			n += kill(pid, SIGKILL) == 0;
	}
	if (proc)
		closedir(proc);
	return n;
}

/* Again, because they may have forked meanwhile; a dead one has no environment. */
static void end_leftovers(const char *dir)
{
	for (int i = 0; i < PASSES_MAX && end_once(dir) > 0; i++)
		usleep(1000);
}

void bare_sweep_own(const struct cell_bare *bare)
{
	if (!bare->dir[0] || access(bare->dir, F_OK) < 0)
		return;
	end_leftovers(bare->dir);
	bare_remove_private(bare);
}

static void sweep_one(const char *parent, const char *name)
{
	struct cell_bare old = {.lock_fd = -1};
	struct stat st;

	if ((size_t)snprintf(old.dir, sizeof old.dir, "%s/%s", parent, name) >= sizeof old.dir)
		return;
	old.lock_fd = open(old.dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (old.lock_fd < 0)
		return;
	if (fstat(old.lock_fd, &st) == 0 && st.st_uid == geteuid() &&
	    (st.st_mode & 07777) == 0700 && flock(old.lock_fd, LOCK_EX | LOCK_NB) == 0) {
		end_leftovers(old.dir);
		bare_remove_private(&old);
	}
	close(old.lock_fd);
}

static void sweep(const char *parent, const char *prefix)
{
	DIR *dir = opendir(parent);
	struct dirent *entry;
	int n = 0;

	while (dir && n < SWEEPS_MAX && (entry = readdir(dir))) {
		if (starts_with(entry->d_name, prefix)) {
			sweep_one(parent, entry->d_name);
			n++;
		}
	}
	if (dir)
		closedir(dir);
}

/* ---- making ---- */

/* A sweep of another run may be faster than our lock: then there is nothing any more. */
static bool lock(struct cell_bare *bare)
{
	struct stat st;

	bare->lock_fd = open(bare->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (bare->lock_fd >= 0 && flock(bare->lock_fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstat(bare->lock_fd, &st) == 0 && st.st_nlink > 0)
		return true;
	if (bare->lock_fd >= 0)
		close(take_fd(&bare->lock_fd));
	return false;
}

static unsigned long namespace_number(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (unsigned long)st.st_ino : 0;
}

/* Somebody in a container that shares our /tmp could not see our processes, nor look into them, and
 * would remove the directory alone. */
static void name_prefix(char *ret, size_t size)
{
	snprintf(ret, size, "atoll-bare-%.8lx-%.8lx-", namespace_number("/proc/self/ns/pid"),
		 namespace_number("/proc/self/ns/user"));
}

static int make_in(const struct cell *cell, const char *parent, struct atoll_error *err)
{
	const struct spec_rule *rule = spec_rule_for(cell->spec, parent);
	struct cell_bare *bare = cell->bare;
	char prefix[40];
	int r;

	if (rule && rule->access == SPEC_WRITE)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "no private directory in '%s': the command could move it away",
				 parent);
	name_prefix(prefix, sizeof prefix);
	sweep(parent, prefix);
	r = quota_check_place(cell, parent, err);
	for (int tries = 0; r == 0 && tries < TRIES_MAX; tries++) {
		snprintf(bare->dir, sizeof bare->dir, "%s/%sXXXXXX", parent, prefix);
		if (!mkdtemp(bare->dir))
			break;
		if (lock(bare))
			return 0;
	}
	bare->dir[0] = '\0';
	return r < 0 ? r
		     : error_set(err, ATOLL_FAULT_HOST, errno, "make a private directory in '%s'",
				 parent);
}

static bool is_in_memory(const char *path)
{
	struct statfs st;

	return statfs(path, &st) == 0 && st.f_type == TMPFS_MAGIC;
}

/* On a disk if there is one: what is written there the kernel counts for each process. */
static int make_dir(const struct cell *cell, struct atoll_error *err)
{
	int r = -ENOENT;

	for (int in_memory = 0; r < 0 && in_memory < 2; in_memory++) {
		for (size_t i = 0; r < 0 && parents[i]; i++) {
			if (is_in_memory(parents[i]) == in_memory)
				r = make_in(cell, parents[i], err);
		}
	}
	if (r == 0)
		*err = (struct atoll_error){0}; /* of one that would not do */
	return r;
}

static int put(const struct cell_bare *bare, const char *name, const char *text,
	       struct atoll_error *err)
{
	cleanup_free char *path = path_join(bare->dir, name);
	int r = !path ? -ENOMEM : text ? fd_write_text(path, text) : mkdir(path, 0700);

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, text ? -r : errno, "make '%s' in '%s'",
				 name, bare->dir)
		     : 0;
}

static int fill(struct cell *cell, struct atoll_error *err)
{
	const struct cell_bare *bare = cell->bare;
	int r = put(bare, "home", NULL, err);

	if (r == 0)
		r = put(bare, "tmp", NULL, err);
	if (r == 0)
		r = put(bare, "contract.md", cell->contract_text, err);
	if (r == 0)
		r = put(bare, "contract.json", cell->contract_json, err);
	if (r == 0 && cell->extra->authority)
		r = put(bare, "ca.pem", cell->extra->authority, err);
	if (r == 0 && cell->extra->bundle)
		r = put(bare, "ca-bundle.pem", cell->extra->bundle, err);
	if (r == 0 && cell->gitconfig)
		r = put(bare, "home/.gitconfig", cell->gitconfig, err);
	return r;
}

static int open_up(struct cell *cell, struct atoll_error *err)
{
	static const char *const own[] = {"home", "tmp"};
	int r = bare_allow_private(cell, cell->bare->dir, false, err);

	cell->zones[cell->n_zones++] = (struct init_zone){.path = cell->bare->dir};
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(own); i++) {
		struct init_zone zone = {.kind = INIT_ZONE_OWN, .is_writable = true};
		char *path = path_join(cell->bare->dir, own[i]);

		if (!path)
			return error_oom(err);
		cell->bare->own[i] = path;
		zone.path = path;
		cell->zones[cell->n_zones++] = zone;
		r = bare_allow_private(cell, path, true, err);
	}
	return r;
}

int bare_make_private(struct cell *cell, struct atoll_error *err)
{
	int r = make_dir(cell, err);

	if (r == 0)
		r = fill(cell, err);
	if (r == 0)
		r = open_up(cell, err);
	if (r < 0)
		bare_remove_private(cell->bare);
	return r;
}

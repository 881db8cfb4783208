/* SPDX-License-Identifier: Apache-2.0 */
#include "base/confine.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * Keeping names hidden where the host's directory itself is shown
 *
 * A pattern ("**" "/.env") or a path that does not exist yet cannot be masked once and for all. The
 * keeper walks the directories concerned before the command starts, puts something empty over
 * every match, and watches them (inotify) for names that appear or are replaced later: a rename
 * over a masked file takes the mask away, and the keeper puts it back. So what was there at the
 * start is never readable, and what appears is readable for the moment until the keeper has run.
 * An overlay passes no events of the directories beneath it on: where a pattern reaches, prepare.c
 * puts no layer over a tree, and a layer of `root: layer` is walked once and not watched.
 *
 * A directory is known by the path that it had when its watch was set, and every rename in a
 * watched directory sets the watches beneath anew. So a path must not lead through a symbolic link,
 * which somebody may take away without an event: paths are opened by open_plain() alone, and what
 * is watched or covered is the descriptor.
 *
 * It is a process of its own because it keeps CAP_SYS_ADMIN of the user namespace for the mounts,
 * with a filter of its own; it reads nothing that the command controls but names. If it ends, the
 * sandbox ends. It runs after a clone: memory comes from one mapping, not from malloc.
 */

#define DIRS_MAX  (1 << 18)
#define TEXT_MAX  (64 << 20)
#define DEPTH_MAX 128

#define HIDDEN_DIR  "/run/atoll/hidden/dir"
#define HIDDEN_FILE "/run/atoll/hidden/file"

struct keeper {
	const struct spec *spec;
	struct spec_hidden hidden;
	int inotify_fd;
	dev_t private_dev;
	char *text; /* paths, one behind the other */
	size_t used;
	uint32_t *path_of; /* by watch descriptor: offset in text, 0 for none */
	size_t n_dirs;	   /* that were walked */
	bool is_blind;	   /* what is walked now lies on an overlay: watches there see nothing */
};

static bool is_hidden(const struct keeper *keeper, const char *path)
{
	char host[PATH_MAX];
	const struct spec_rule *rule;

	/* What has no name on the host is looked for by the one that it has. */
	if (!spec_host_path(keeper->spec, path, host, sizeof host))
		snprintf(host, sizeof host, "%s", path);
	rule = spec_rule_for(keeper->spec, host);
	return rule && rule->access == SPEC_HIDE;
}

/* What has this name, by no link on the way; of a link the link itself. */
static int open_plain(const char *path)
{
	return fd_openat2(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
}

static int mask(const struct keeper *keeper, const char *path, struct atoll_error *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	cleanup_fd int object = open_plain(path), tree = -1;
	struct stat st;

	if (object < 0 || fstat(object, &st) < 0 || S_ISLNK(st.st_mode) ||
	    st.st_dev == keeper->private_dev)
		return 0; /* gone again, a link (its target counts), or masked already */
	tree = open_tree(AT_FDCWD, S_ISDIR(st.st_mode) ? HIDDEN_DIR : HIDDEN_FILE,
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "copy '%s'", HIDDEN_DIR);
	if (move_mount(tree, "", object, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
		    0 &&
	    errno != ENOENT)
		return error_set(err, ATOLL_FAULT_HOST, errno, "hide '%s'", path);
	return 0;
}

static int too_many(struct atoll_error *err)
{
	return error_set(
		err, ATOLL_FAULT_HOST, 0,
		"too many directories to hide names in, more than %d: begin the pattern with "
		"a directory that has fewer",
		DIRS_MAX);
}

/* 1 if there is nothing to be watched. */
static int watch(struct keeper *keeper, int dir_fd, const char *path, struct atoll_error *err)
{
	size_t size = strlen(path) + 1;
	char link[32];
	int wd;

	snprintf(link, sizeof link, "/proc/self/fd/%d", dir_fd);
	wd = inotify_add_watch(keeper->inotify_fd, link,
			       IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK);
	if (wd < 0 && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
		return 1; /* gone, or not readable for the command either */
	if (wd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "watch '%s' for hidden names (more: sysctl "
				 "fs.inotify.max_user_watches)",
				 path);
	if (wd >= DIRS_MAX || keeper->used + size > TEXT_MAX)
		return too_many(err);
	memcpy(keeper->text + keeper->used, path, size);
	keeper->path_of[wd] = (uint32_t)keeper->used;
	keeper->used += size;
	return 0;
}

static int walk(struct keeper *keeper, char *path, unsigned depth, struct atoll_error *err);

/* A name in a directory: mask it, or go into it. `path` has room for PATH_MAX. */
static int visit(struct keeper *keeper, char *path, const char *name, unsigned type, unsigned depth,
		 struct atoll_error *err)
{
	size_t length = strlen(path);
	struct stat st;
	int r = 0;

	if (length + strlen(name) + 2 > PATH_MAX)
		return 0; /* the guard lets nobody move anything that far down */
	snprintf(path + length, PATH_MAX - length, "%s%s", length > 1 ? "/" : "", name);
	if (type == DT_UNKNOWN && lstat(path, &st) == 0)
		type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
	if (spec_hidden_may(&keeper->hidden, name) && is_hidden(keeper, path))
		r = mask(keeper, path, err);
	else if (type == DT_DIR)
		r = depth < DEPTH_MAX ? walk(keeper, path, depth + 1, err)
				      : error_set(err, ATOLL_FAULT_HOST, 0,
						  "too deep to hide names in: '%.200s...'", path);
	path[length] = '\0';
	return r;
}

static int walk(struct keeper *keeper, char *path, unsigned depth, struct atoll_error *err)
{
	cleanup_fd int dir = open_plain(path), fd = -1;
	char entries[8192];
	ssize_t got;
	int r = dir < 0 ? 1 : keeper->is_blind ? 0 : watch(keeper, dir, path, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (++keeper->n_dirs > DIRS_MAX)
		return too_many(err);
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	while ((got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			struct dirent64 *entry = (struct dirent64 *)(void *)(entries + at);

			if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..")) {
				r = visit(keeper, path, entry->d_name, entry->d_type, depth, err);
				if (r < 0)
					return r;
			}
			at += entry->d_reclen;
		}
	}
	return 0;
}

/* A line's place as this mount shows it; `path` has room for PATH_MAX. */
static void put_place(const struct ns_mount *mount, const char *host, char *path)
{
	if (mount->is_moved && path_is_within(host, mount->source))
		snprintf(path, PATH_MAX, "%s%s", mount->path, host + strlen(mount->source));
	else
		snprintf(path, PATH_MAX, "%s", host);
}

/* Where a pattern may match in a grant, from its top on; false: nowhere. */
static bool find_top(const struct ns_mount *mount, const struct spec_rule *rule,
		     char path[PATH_MAX])
{
	char base[PATH_MAX];

	if (!rule->is_pattern || rule->access != SPEC_HIDE)
		return false;
	snprintf(base, sizeof base, "%.*s", (int)path_literal_length(rule->path), rule->path);
	if (path_is_within(ns_host_path(mount), base))
		snprintf(path, PATH_MAX, "%s", mount->path);
	else if (path_is_within(base, ns_host_path(mount)))
		put_place(mount, base, path);
	else
		return false;
	return true;
}

/* Each directory is asked about all lines at once: one walk is enough for patterns whose tops lie
 * in one another. */
static bool is_walked(const struct keeper *keeper, const struct ns_mount *mount,
		      const struct spec_rule *rule, const char *top)
{
	for (size_t i = 0; i < keeper->spec->n_rules; i++) {
		const struct spec_rule *other = &keeper->spec->rules[i];
		char path[PATH_MAX];

		if (other != rule && find_top(mount, other, path) && path_is_within(top, path) &&
		    (other < rule || !streq(path, top)))
			return true;
	}
	return false;
}

/* Every directory beneath where the pattern may match, in every grant that it reaches over. */
static int walk_pattern(struct keeper *keeper, const struct ns_mount *mount,
			const struct spec_rule *rule, struct atoll_error *err)
{
	char path[PATH_MAX];
	int r;

	if (!find_top(mount, rule, path) || is_walked(keeper, mount, rule, path))
		return 0;
	keeper->is_blind = mount->is_ephemeral;
	r = walk(keeper, path, 0, err);
	keeper->is_blind = false;
	return r;
}

/*
 * The way to one place, from the top: each directory is watched before the next name in it is
 * looked for, so that what is not there yet is noticed when it comes.
 */
static int walk_way(struct keeper *keeper, const struct ns_mount *mount,
		    const struct spec_rule *rule, struct atoll_error *err)
{
	char path[PATH_MAX], place[PATH_MAX];
	size_t length = strlen(mount->path);
	struct stat st;
	int fd, r;

	if (!path_is_within(rule->path, ns_host_path(mount)) ||
	    streq(rule->path, ns_host_path(mount)))
		return 0;
	put_place(mount, rule->path, place);
	do {
		snprintf(path, sizeof path, "%.*s", (int)length, place);
		fd = open_plain(path);
		r = fd < 0 ? 1 : watch(keeper, fd, path, err);
		if (fd >= 0)
			close(fd);
		if (r != 0)
			return r < 0 ? r : 0;
		length += 1 + strcspn(place + length + 1, "/");
		snprintf(path, sizeof path, "%.*s", (int)length, place);
		if (lstat(path, &st) < 0)
			return 0;
	} while (place[length] == '/' && S_ISDIR(st.st_mode));
	if (place[length] || !is_hidden(keeper, path))
		return 0;
	return mask(keeper, path, err);
}

/* Only what comes from the host matters. */
static int walk_rule(struct keeper *keeper, const struct cell *cell, const struct spec_rule *rule,
		     struct atoll_error *err)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];
		int r;

		if (mount->kind != NS_BIND || !mount->is_dir || mount->is_layer ||
		    (mount->keeps_hidden && !rule->is_pattern))
			continue;
		r = rule->is_pattern ? walk_pattern(keeper, mount, rule, err)
				     : walk_way(keeper, mount, rule, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int serve(struct keeper *keeper, struct atoll_error *err)
{
	char data[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t got = read(keeper->inotify_fd, data, sizeof data);

	if (got <= 0)
		return errno == EINTR ? 0 : error_set(err, ATOLL_FAULT_HOST, errno, "read inotify");
	for (ssize_t at = 0; at < got;) {
		const struct inotify_event *event =
			(const struct inotify_event *)(void *)(data + at);
		char path[PATH_MAX];
		int r;

		at += (ssize_t)sizeof *event + event->len;
		if (event->mask & IN_Q_OVERFLOW)
			return error_set(err, ATOLL_FAULT_HOST, 0,
					 "names appeared too fast to hide");
		if (!event->len || event->wd <= 0 || event->wd >= DIRS_MAX ||
		    !keeper->path_of[event->wd])
			continue;
		snprintf(path, sizeof path, "%s", keeper->text + keeper->path_of[event->wd]);
		r = visit(keeper, path, event->name, event->mask & IN_ISDIR ? DT_DIR : DT_REG, 0,
			  err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int begin(struct keeper *keeper, const struct cell *cell, struct atoll_error *err)
{
	const size_t size = TEXT_MAX + DIRS_MAX * sizeof *keeper->path_of;
	struct stat st;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED || stat("/", &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "start the keeper of hidden names");
	keeper->spec = cell->spec;
	spec_hidden_prepare(cell->spec, &keeper->hidden);
	keeper->private_dev = st.st_dev;
	keeper->text = memory;
	keeper->used = 1;
	keeper->path_of = (uint32_t *)(void *)(memory + TEXT_MAX);
	keeper->inotify_fd = inotify_init1(IN_CLOEXEC);
	if (keeper->inotify_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "inotify_init1");
	for (size_t i = 0; i < cell->spec->n_rules; i++) {
		const struct spec_rule *rule = &cell->spec->rules[i];
		int r = rule->access == SPEC_HIDE ? walk_rule(keeper, cell, rule, err) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

/* Names are what it reads of the command, so it locks itself in before the first: two capabilities,
 * for the mounts and for directories of every id inside, and the calls that it makes. */
static int lock(struct atoll_error *err)
{
	static const uint16_t calls[] = {
		/* names, and where they lie */
		SYS_openat,
		SYS_openat2,
		SYS_getdents64,
		SYS_newfstatat,
		SYS_fstat,
		SYS_statx,
#ifdef SYS_open
		SYS_open,
		SYS_stat,
		SYS_lstat,
#endif
		SYS_inotify_init1,
		SYS_inotify_add_watch,
		/* the masks */
		SYS_open_tree,
		SYS_mount_setattr,
		SYS_move_mount,
		/* inotify's events, the word that it is ready, and the end */
		SYS_read,
		SYS_write,
		SYS_close,
		SYS_munmap,
		SYS_madvise,
		SYS_restart_syscall,
		SYS_exit_group,
	};
	static struct confine_filter filter;
	int r = ns_drop_capabilities(1ULL << CAP_SYS_ADMIN | 1ULL << CAP_DAC_READ_SEARCH, err);

	if (r < 0)
		return r;
	confine_begin(&filter);
	confine_answer(&filter, calls, ARRAY_SIZE(calls), SECCOMP_RET_ALLOW);
	confine_answer_memory(&filter);
	return confine_load(&filter, err);
}

static _Noreturn void keeper_main(const struct cell *cell, int ready_fd)
{
	static struct keeper keeper;
	struct atoll_error err = {0};
	sigset_t all;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "atoll-keeper");
	prctl(PR_SET_DUMPABLE, 0);
	fd_close_range(3, (unsigned)ready_fd - 1, false);
	fd_close_range((unsigned)ready_fd + 1, UINT_MAX, false);
	r = lock(&err);
	if (r == 0)
		r = begin(&keeper, cell, &err);
	if (fd_write_all(ready_fd, &err, sizeof err) < 0 || r < 0)
		_exit(1);
	close(ready_fd);
	while (serve(&keeper, &err) == 0)
		;
	_exit(1);
}

pid_t keep_start(const struct cell *cell, struct atoll_error *err)
{
	cleanup_fd int read_end = -1, write_end = -1;
	struct atoll_error theirs = {0};
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	read_end = ends[0];
	write_end = ends[1];
	pid = fork();
	if (pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork the keeper of hidden names");
	if (pid == 0)
		keeper_main(cell, write_end);
	close(take_fd(&write_end));
	r = fd_read_exact(read_end, &theirs, sizeof theirs);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_BUG, -r, "the keeper of hidden names");
	if (theirs.fault) {
		*err = theirs;
		return theirs.errnum ? -theirs.errnum : -EPERM;
	}
	return pid;
}

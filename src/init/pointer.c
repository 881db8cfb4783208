/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/call.h"
#include "spec/spec.h"

#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

/*
 * Pointer files of git's: ".git" instead of a directory, and worktrees/NAME/gitdir
 *
 * git writes them in place, so there is no rename at which their text could be read first. The
 * caller of open() gets the writing end of a pipe instead of the file, and the guard keeps the
 * reading end, the file and its directory. When every writing end is closed (EPOLLHUP) the guard
 *   1. reads the pipe, which has held the text until then,
 *   2. looks whether the file still is what its name in the directory means, and where that is now,
 *   3. vets the text for that place: it leads to one beneath a `.git` in the same writable root,
 *      through no link, and all but its last name exists,
 *   4. writes it to the file, which nobody else has open to write.
 * The guard does all of it between two calls, so no directory moves meanwhile (moved.c looks at the
 * pointers in one that does), and of several writers the last one's text counts as a whole. Nobody
 * inside can kill or stop the guard. Until then, and if the text is refused, the file is empty or
 * as it was: git reports an "invalid gitfile format" and obeys nothing.
 *
 * call-open.c calls guard_open_pointer() where git_guard() has answered GIT_VET_POINTER; the loops
 * in init.c and service.c call guard_serve_pointers().
 */

#define POINTER_MAX (PATH_MAX + 16)

/* The text in the pipe; one that fills the room is a bad one. */
static size_t read_pipe(int fd, char text[POINTER_MAX])
{
	size_t used = 0;

	while (used < POINTER_MAX) {
		ssize_t got = read(fd, text + used, POINTER_MAX - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	return used;
}

/* A link on the way could lead elsewhere tomorrow. What is not there yet becomes a git directory
 * under the guard's eyes. */
bool guard_is_way_plain(const char *path)
{
	cleanup_fd int fd =
		fd_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

	return fd >= 0 || fd == -ENOENT;
}

/* The last name of a pointer need not exist yet: git writes the pointer first. Its directory must,
 * because a link could take the place of a missing one later. */
static bool has_parent(const char *path)
{
	char parent[PATH_MAX];
	cleanup_fd int fd = -1;

	snprintf(parent, sizeof parent, "%.*s", (int)(path_name(path) - path), path);
	fd = fd_openat2(AT_FDCWD, parent, O_PATH | O_DIRECTORY, 0,
			RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	return fd >= 0;
}

/* `dir`: where the pointer is. */
static const char *vet(const struct guard *guard, const char *dir, const char *name,
		       const char *text, size_t size)
{
	const struct init_zone *zone = guard_zone(guard, dir);
	bool is_gitdir = !names_is_git(name, strlen(name));
	char path[PATH_MAX];
	const char *what;

	if (!zone || zone->kind != INIT_ZONE_GUARDED || size == POINTER_MAX)
		return "git pointer file";
	what = git_pointer_vet(text, size, is_gitdir ? "" : "gitdir: ", dir, zone->path, path);
	if (what)
		return what;
	if (guard_refused_name(guard, zone, path, NAMES_WRITE))
		return "git pointer to a trusted name";
	/* worktrees/NAME/gitdir names a file ".git", which git writes next. */
	if (is_gitdir && !names_is_git(path_name(path), strlen(path_name(path))))
		return "git worktree";
	if (!guard_is_way_plain(path))
		return "git pointer through a link";
	return has_parent(path) ? NULL : "git pointer into a directory that does not exist";
}

static bool is_in_place(const struct guard_pointer *pointer)
{
	struct stat file, named;

	return fstat(pointer->file_fd, &file) == 0 &&
	       fstatat(pointer->dir_fd, pointer->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       file.st_dev == named.st_dev && file.st_ino == named.st_ino && file.st_nlink == 1;
}

static void report(struct guard *guard, const struct guard_pointer *pointer, const char *dir,
		   const char *rule)
{
	static const __u64 no_args[6];
	static struct call call;

	call = (struct call){.guard = guard,
			     .tid = pointer->tid,
			     .nr = SYS_openat,
			     .args = no_args,
			     .is_answered = true,
			     .action = "write",
			     .rule = rule};
	snprintf(call.path, sizeof call.path, "%s/%s", dir, pointer->name);
	guard_report(&call);
}

static void finish(struct guard *guard, const struct guard_pointer *pointer)
{
	char text[POINTER_MAX], dir[PATH_MAX], now[PATH_MAX];
	const size_t size = read_pipe(pointer->pipe_fd, text);
	const char *rule;

	/* Removed, or renamed to what no longer is a pointer: nobody misses the text. */
	if (!is_in_place(pointer) || resolve_fd_path(pointer->dir_fd, dir, sizeof dir) < 0)
		return;
	rule = size ? vet(guard, dir, pointer->name, text, size) : NULL;
	if (rule)
		report(guard, pointer, dir, rule);
	else if (ftruncate(pointer->file_fd, 0) == 0 && size)
		fd_write_all(pointer->file_fd, text, size);
	/* Another run's guard has moved the directory: see guard_confirm_place(). */
	if ((resolve_fd_path(pointer->dir_fd, now, sizeof now) < 0 || !streq(now, dir)) &&
	    ftruncate(pointer->file_fd, 0) < 0)
		unlinkat(pointer->dir_fd, pointer->name, 0);
}

static void forget(struct guard_pointer *pointer)
{
	close(pointer->pipe_fd); /* and the epoll has forgotten it */
	close(pointer->file_fd);
	close(pointer->dir_fd);
	pointer->is_open = false;
}

void guard_serve_pointers(struct guard *guard)
{
	struct epoll_event events[GUARD_POINTERS_MAX];
	int n = epoll_wait(guard->pointers_fd, events, GUARD_POINTERS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct guard_pointer *pointer = &guard->pointers[events[i].data.u32];

		finish(guard, pointer);
		forget(pointer);
	}
}

static struct guard_pointer *find_room(struct guard *guard)
{
	for (size_t i = 0; i < GUARD_POINTERS_MAX; i++) {
		if (!guard->pointers[i].is_open)
			return &guard->pointers[i];
	}
	return NULL;
}

/* Takes the two over. The pipe's writing end goes to the caller. */
static int begin(struct call *call, struct guard_pointer *pointer, int *file, int *dir,
		 bool cloexec)
{
	struct guard *guard = call->guard;
	/* EPOLLHUP is always told of. */
	struct epoll_event event = {.data.u32 = (uint32_t)(pointer - guard->pointers)};
	cleanup_fd int reading = -1, writing = -1;
	int ends[2];

	if (guard->pointers_fd < 0)
		guard->pointers_fd = epoll_create1(EPOLL_CLOEXEC);
	if (guard->pointers_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	reading = ends[0];
	writing = ends[1];
	if (fcntl(reading, F_SETFL, O_NONBLOCK) < 0 ||
	    epoll_ctl(guard->pointers_fd, EPOLL_CTL_ADD, reading, &event) < 0)
		return -errno;
	pointer->pipe_fd = take_fd(&reading);
	pointer->file_fd = take_fd(file);
	pointer->dir_fd = take_fd(dir);
	pointer->tid = call->tid;
	pointer->is_open = true;
	answer_fd(call, writing, cloexec);
	return 0;
}

int guard_open_pointer(struct call *call, const struct target *target, bool exists, mode_t mode,
		       bool cloexec)
{
	struct guard_pointer *pointer = find_room(call->guard);
	cleanup_fd int file = -1, dir = -1;
	struct stat st;

	if (!pointer)
		return -EAGAIN;
	file = openat(target->parent, target->name,
		      O_WRONLY | (exists ? 0 : O_CREAT | O_EXCL) | O_NOFOLLOW | O_NONBLOCK |
			      O_CLOEXEC,
		      mode);
	if (file < 0 || fstat(file, &st) < 0)
		return -errno;
	/* A second name would be a way to write it unseen. */
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return guard_refuse(call, EPERM, "git pointer file");
	dir = fcntl(target->parent, F_DUPFD_CLOEXEC, 0);
	if (dir < 0)
		return -errno;
	memcpy(pointer->name, target->name, strlen(target->name) + 1);
	return begin(call, pointer, &file, &dir, cloexec);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/inner.h"

#include "base/fd.h"
#include "base/uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/*
 * Moving from one file system to another
 *
 * To a program that asks for it a box has one root; in truth its home, /tmp and the rest lie on
 * several file systems, where rename(2) does not reach. The tree is copied beside its new place,
 * put there by rename, and the old one removed. Where that fails, the copy is removed and the old
 * one left.
 */

struct move {
	struct work work;
	struct walk walk;
	bool is_tree;
	char from[PATH_SIZE], to[PATH_SIZE], draft[PATH_SIZE + 48];
	int in_fd, out_fd; /* of the file at hand; -1: none */
	char at[2 * PATH_SIZE + 48];
};

/* What a file is besides its content, as far as we may. */
static void copy_rest(const char *to, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (lchown(to, st->st_uid, st->st_gid) < 0 && st->st_uid == geteuid())
		return;
	if (!S_ISLNK(st->st_mode) && chmod(to, st->st_mode & 0777) < 0)
		return;
	utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW);
}

static void copy_attributes(int from_fd, int to_fd)
{
	char names[4 * GUEST_METADATA_MAX], value[GUEST_METADATA_MAX];
	ssize_t size = flistxattr(from_fd, names, sizeof names);

	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t n = strncmp(names + at, "user.", 5) == 0
				    ? fgetxattr(from_fd, names + at, value, sizeof value)
				    : -1;

		if (n >= 0 && fsetxattr(to_fd, names + at, value, (size_t)n, 0) < 0)
			return;
	}
}

static int copy_link(const char *from, const char *to)
{
	char target[PATH_MAX];
	ssize_t n = readlink(from, target, sizeof target - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlink(target, to) < 0 ? -errno : 0;
}

static int open_both(struct move *move, const char *from, const char *to)
{
	move->in_fd = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (move->in_fd < 0)
		return -errno;
	move->out_fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (move->out_fd < 0)
		return -errno;
	copy_attributes(move->in_fd, move->out_fd);
	return 0;
}

static void close_both(struct move *move)
{
	if (move->in_fd >= 0)
		close(move->in_fd);
	if (move->out_fd >= 0)
		close(move->out_fd);
	move->in_fd = move->out_fd = -1;
}

/* Begin with what `from` is; a plain file's bytes follow step by step. */
static int copy_one(struct move *move, const char *from, const char *to)
{
	struct stat st;
	int r;

	if (lstat(from, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return open_both(move, from, to);
	if (S_ISLNK(st.st_mode))
		r = copy_link(from, to);
	else if (S_ISFIFO(st.st_mode))
		r = mkfifo(to, 0600) < 0 ? -errno : 0;
	else
		r = S_ISDIR(st.st_mode) ? 1 : -EPERM;
	if (r == 0)
		copy_rest(to, &st);
	return r;
}

/* Where the one at hand is copied to: the copy's root, and what stands behind the old one's. */
static const char *place_of(struct move *move)
{
	snprintf(move->at, sizeof move->at, "%s%s", move->draft,
		 move->walk.path + strlen(move->from));
	return move->at;
}

static int copy_bytes(struct move *move)
{
	ssize_t n = copy_some(move->in_fd, move->out_fd);
	struct stat st;

	if (n != 0)
		return n < 0 ? (int)n : 0;
	if (fstat(move->in_fd, &st) < 0)
		return -errno;
	close_both(move);
	copy_rest(move->is_tree ? place_of(move) : move->draft, &st);
	return move->is_tree ? 0 : 1;
}

/* 1: everything is there. */
static int go_on(struct move *move)
{
	const char *name;
	struct stat st;
	int r;

	if (move->in_fd >= 0)
		return copy_bytes(move);
	switch (walk_next(&move->walk, &name)) {
	case WALK_ENTRY:
		r = copy_one(move, name, place_of(move));
		if (r == 1)
			r = mkdir(move->at, 0700) < 0 ? -errno : walk_enter(&move->walk, name);
		return r;
	case WALK_UP:
		if (lstat(move->walk.path, &st) == 0)
			copy_rest(place_of(move), &st);
		return 0;
	default:
		return 1;
	}
}

static enum work_state step(struct work *work)
{
	struct move *move = (struct move *)(void *)work;
	int r = go_on(move);

	if (r == 0)
		return WORK_ON;
	if (r == 1 && rename(move->draft, move->to) < 0)
		r = -errno;
	if (r == 1)
		remove_then_answer(work->server, work->id, move->from, 0, move->to, true);
	else
		remove_then_answer(work->server, work->id, move->draft, -r, move->from, false);
	return WORK_DONE;
}

static void end(struct work *work)
{
	struct move *move = (struct move *)(void *)work;

	close_both(move);
	walk_close(&move->walk);
	free(move);
}

static int begin(struct move *move)
{
	int r = copy_one(move, move->from, move->draft);

	if (r != 1)
		return r;
	move->is_tree = true;
	if (mkdir(move->draft, 0700) < 0)
		return -errno;
	return walk_open(&move->walk, move->from);
}

/* A directory that something is mounted on stays where it is, whatever is copied from it; and a
 * place in it may be asked for, of which there would be no end. */
static bool is_mounted(const char *path)
{
	struct statx stx;

	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &stx) == 0 &&
	       stx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

void move_by_copy(struct question *question, const char *from, const char *to)
{
	bool stays = is_mounted(from);
	struct move *move = stays ? NULL : calloc(1, sizeof *move);
	int r = move ? 0 : stays ? -EBUSY : -ENOMEM;

	if (move) {
		move->work = (struct work){
			.id = question->id, .is_question = true, .step = step, .end = end};
		move->in_fd = move->out_fd = -1;
		memccpy(move->from, from, '\0', sizeof move->from - 1);
		memccpy(move->to, to, '\0', sizeof move->to - 1);
		snprintf(move->draft, sizeof move->draft, "%s.part-%ld-%llx", to, (long)getpid(),
			 (unsigned long long)question->id);
		r = strlen(move->draft) < PATH_SIZE ? begin(move) : -ENAMETOOLONG;
	}
	if (r == 0) {
		work_start(question->server, &move->work);
		return;
	}
	answer(question->server, question->id, -r, from, NULL, 0, -1);
	if (move)
		end(&move->work);
}

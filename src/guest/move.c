/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

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
	struct location source, target;
	char from[PATH_SIZE], to[PATH_SIZE]; /* as they are told */
	char draft[PATH_SIZE + 48];	     /* in the target's directory */
	int draft_fd;			     /* of a tree's copy; -1: it is no tree */
	int in_fd, out_fd;		     /* of the file at hand; -1: none */
	struct stat *above;		     /* of the directories that the walk is in */
	size_t n_above, room;
};

/* What a file is besides its content, as far as we may. */
static void copy_rest_to(int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (fchown(fd, st->st_uid, st->st_gid) < 0 && st->st_uid == geteuid())
		return;
	if (fchmod(fd, st->st_mode & 0777) < 0)
		return;
	futimens(fd, times);
}

/* The same for a link or a FIFO. Another user may have put another file in its place: only one of
 * this kind that is ours is given away. */
static void copy_rest(int to_fd, const char *to, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	cleanup_fd int fd = openat(to_fd, to, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat made;

	if (fd < 0 || fstat(fd, &made) < 0 || made.st_uid != geteuid() ||
	    (made.st_mode & S_IFMT) != (st->st_mode & S_IFMT))
		return;
	if (fchownat(fd, "", st->st_uid, st->st_gid, AT_EMPTY_PATH) < 0 && st->st_uid == geteuid())
		return;
	utimensat(fd, "", times, AT_EMPTY_PATH);
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

static int copy_link(int from_fd, const char *from, int to_fd, const char *to)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from_fd, from, target, sizeof target - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to_fd, to) < 0 ? -errno : 0;
}

static int open_both(struct move *move, int from_fd, const char *from, int to_fd, const char *to)
{
	move->in_fd = openat(from_fd, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (move->in_fd < 0)
		return -errno;
	move->out_fd =
		openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
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

/* Begin with what `from` is; a plain file's bytes follow step by step. 1: it is a directory. */
static int copy_one(struct move *move, int from_fd, const char *from, int to_fd, const char *to)
{
	struct stat st;
	int r;

	if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return open_both(move, from_fd, from, to_fd, to);
	if (S_ISLNK(st.st_mode))
		r = copy_link(from_fd, from, to_fd, to);
	else if (S_ISFIFO(st.st_mode))
		r = mkfifoat(to_fd, to, st.st_mode & 0777) < 0 ? -errno : 0;
	else
		r = S_ISDIR(st.st_mode) ? 1 : -EPERM;
	if (r == 0)
		copy_rest(to_fd, to, &st);
	return r;
}

/* Where the one at hand is copied to, from the copy's root: what stands behind the old root's. */
static const char *place_of(const struct move *move)
{
	const char *rest = move->walk.path + strlen(move->from);

	rest += strspn(rest, "/");
	return *rest ? rest : ".";
}

static int copy_bytes(struct move *move)
{
	ssize_t n = copy_some(move->in_fd, move->out_fd);
	struct stat st;

	if (n != 0)
		return n < 0 ? (int)n : 0;
	if (fstat(move->in_fd, &st) < 0)
		return -errno;
	copy_rest_to(move->out_fd, &st);
	close_both(move);
	return move->draft_fd >= 0 ? 0 : 1;
}

/* What the walk's directory is, as long as it is the one that was opened. */
static int keep_stat(struct move *move)
{
	if (move->n_above == move->room) {
		size_t room = move->room ? 2 * move->room : 16;
		struct stat *above = reallocarray(move->above, room, sizeof *above);

		if (!above)
			return -ENOMEM;
		move->above = above;
		move->room = room;
	}
	if (fstat(walk_fd(&move->walk), &move->above[move->n_above]) < 0)
		return -errno;
	move->n_above++;
	return 0;
}

static int enter(struct move *move, const char *name)
{
	int r = mkdirat(move->draft_fd, place_of(move), 0700) < 0 ? -errno : 0;

	if (r == 0)
		r = walk_enter(&move->walk, name);
	return r == 0 ? keep_stat(move) : r;
}

static void leave(struct move *move)
{
	cleanup_fd int fd = openat(move->draft_fd, place_of(move),
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		copy_rest_to(fd, &move->above[move->n_above - 1]);
	move->n_above--;
}

/* 1: everything is there. */
static int go_on(struct move *move)
{
	const char *name;
	int r;

	if (move->in_fd >= 0)
		return copy_bytes(move);
	r = walk_next(&move->walk, &name);
	/* What is left out here would be lost: all of the source is removed at the end. */
	if (r < 0)
		return r;
	switch (r) {
	case WALK_ENTRY:
		r = copy_one(move, AT_FDCWD, name, move->draft_fd, place_of(move));
		return r == 1 ? enter(move, name) : r;
	case WALK_UP:
		leave(move);
		return 0;
	default:
		return move->walk.has_left_out ? -ENAMETOOLONG : 1;
	}
}

static enum work_state step(struct work *work)
{
	struct move *move = (struct move *)(void *)work;
	struct location *target = &move->target;
	int r = go_on(move);

	if (r == 0)
		return WORK_ON;
	if (r == 1 && renameat(target->fd, move->draft, target->fd, target->name) < 0)
		r = -errno;
	if (r == 1) {
		location_give(target);
		remove_then_answer(work->server, work->id, move->from, &move->source, 0, move->to,
				   true);
	} else {
		snprintf(target->name, sizeof target->name, "%s", move->draft);
		remove_then_answer(work->server, work->id, move->draft, target, -r, move->from,
				   false);
	}
	return WORK_DONE;
}

static void end(struct work *work)
{
	struct move *move = (struct move *)(void *)work;

	close_both(move);
	walk_close(&move->walk);
	if (move->draft_fd >= 0)
		close(move->draft_fd);
	location_done(&move->source);
	location_done(&move->target);
	free(move->above);
	free(move);
}

/* Nobody else can enter the copy's root before it is complete. So the names in it, which are all
 * looked up from its descriptor, lead nowhere else. */
static int begin_tree(struct move *move)
{
	int fd, r;

	move->draft_fd = location_make(&move->target, move->draft, 0700);
	if (move->draft_fd < 0)
		return move->draft_fd;
	fd = openat(move->source.fd, move->source.name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = walk_begin(&move->walk, fd, move->from);
	return r == 0 ? keep_stat(move) : r;
}

static int begin(struct move *move)
{
	int r = copy_one(move, move->source.fd, move->source.name, move->target.fd, move->draft);

	return r == 1 ? begin_tree(move) : r;
}

/* A directory that something is mounted on stays where it is, whatever is copied from it; and a
 * place in it may be asked for, of which there would be no end. */
static bool is_mounted(const struct location *place)
{
	struct statx stx;

	return statx(place->fd, place->name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &stx) == 0 &&
	       stx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

static struct move *new_move(struct question *question, struct location *source,
			     struct location *target)
{
	struct move *move = calloc(1, sizeof *move);

	if (!move)
		return NULL;
	move->work = (struct work){.server = question->server,
				   .id = question->id,
				   .is_question = true,
				   .step = step,
				   .end = end};
	move->in_fd = move->out_fd = move->draft_fd = -1;
	location_take(source, &move->source);
	location_take(target, &move->target);
	snprintf(move->draft, sizeof move->draft, "%s.part-%ld-%llx", move->target.name,
		 (long)getpid(), (unsigned long long)question->id);
	return move;
}

void move_by_copy(struct question *question, const char *from, struct location *source,
		  const char *to, struct location *target)
{
	bool stays = is_mounted(source);
	struct move *move = stays ? NULL : new_move(question, source, target);
	int r = move ? 0 : stays ? -EBUSY : -ENOMEM;

	if (move) {
		memccpy(move->from, from, '\0', sizeof move->from - 1);
		memccpy(move->to, to, '\0', sizeof move->to - 1);
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

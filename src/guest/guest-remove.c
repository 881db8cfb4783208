/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

/*
 * Removing a tree
 *
 * By descriptor, so that a directory that is replaced by a link meanwhile leads nowhere else, and
 * with one descriptor, so that no tree is too deep: the way back up is "..", and where that is not
 * the directory that we came from somebody moves things about, and we stop. Each directory is read
 * from its start until nothing is in it.
 */

#define DEPTH_MAX   1000000
#define NAMES_MAX   (32U << 20)
#define DEADLINE_NS (600 * INT64_C(1000000000)) /* somebody may put new things in for ever */

struct above {
	dev_t device;
	ino_t inode;
	size_t name; /* in it, of the directory that we went down to: where it begins in `names` */
};

struct removal {
	struct work work;
	char path[PATH_SIZE], about[PATH_SIZE];
	int errnum;
	bool has_entry;
	struct location place; /* of `path` */
	int fd;		       /* of the directory at hand; -1: nothing has begun */
	int64_t deadline_ns;
	struct above *above;
	size_t depth, room;
	struct buf names;
};

struct record {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* Where the user's own directory forbids to change it, that is changed: it goes anyway. */
static void make_writable(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		fchmod(fd, (st.st_mode & 07777) | 0700);
}

/* By a descriptor: a link that takes the directory's place is not followed. */
static int make_readable(int fd, const char *name)
{
	int found = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char link[32];
	int r;

	if (found < 0)
		return -errno;
	snprintf(link, sizeof link, "/proc/self/fd/%d", found);
	r = chmod(link, 0700) < 0 ? -errno : 0;
	close(found);
	return r;
}

static int open_directory(int fd, const char *name)
{
	int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (child < 0 && errno == EACCES && make_readable(fd, name) == 0)
		child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return child < 0 ? -errno : child;
}

static int go_down(struct removal *removal, const char *name)
{
	struct stat st;
	int child;

	if (removal->depth == removal->room) {
		size_t room = removal->room ? 2 * removal->room : 16;
		struct above *above =
			room > DEPTH_MAX ? NULL : reallocarray(removal->above, room, sizeof *above);

		if (!above)
			return room > DEPTH_MAX ? -ENAMETOOLONG : -ENOMEM;
		removal->above = above;
		removal->room = room;
	}
	if (fstat(removal->fd, &st) < 0)
		return -errno;
	child = open_directory(removal->fd, name);
	if (child < 0)
		return child == -ENOENT ? 0 : child;
	removal->above[removal->depth++] =
		(struct above){st.st_dev, st.st_ino, removal->names.used};
	buf_add(&removal->names, name, strlen(name) + 1);
	close(removal->fd);
	removal->fd = child;
	return buf_error(&removal->names) < 0 ? -ENAMETOOLONG : 1;
}

static int go_up(struct removal *removal)
{
	const struct above *above = &removal->above[--removal->depth];
	int parent = openat(removal->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (parent < 0)
		return -errno;
	close(removal->fd);
	removal->fd = parent;
	if (fstat(parent, &st) < 0 || st.st_dev != above->device || st.st_ino != above->inode)
		return -EBUSY;
	removal->names.used = above->name;
	if (unlinkat(parent, removal->names.data + above->name, AT_REMOVEDIR) < 0 &&
	    errno != ENOTEMPTY && errno != ENOENT)
		return -errno;
	return 0;
}

/* 0: it is gone; 1: we went down into it; or a negative errno. */
static int remove_one(struct removal *removal, const char *name, uint8_t type)
{
	for (int i = 0; i < 2; i++) {
		if (type != DT_DIR && (unlinkat(removal->fd, name, 0) == 0 || errno == ENOENT))
			return 0;
		if ((type == DT_DIR || errno == EISDIR || errno == EPERM) &&
		    (unlinkat(removal->fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
			return 0;
		if (errno == ENOTEMPTY || errno == EEXIST)
			return go_down(removal, name);
		if (errno == ENOTDIR)
			type = DT_UNKNOWN;
		else if (errno == EACCES)
			make_writable(removal->fd);
		else
			break;
	}
	return -errno;
}

/* A part of what the directory at hand holds. 1: all is gone. */
static int remove_some(struct removal *removal)
{
	static char records[16384];
	ssize_t size;
	bool is_empty = true;

	if (lseek(removal->fd, 0, SEEK_SET) < 0)
		return -errno;
	size = syscall(SYS_getdents64, removal->fd, records, sizeof records);
	if (size < 0)
		return -errno;
	for (ssize_t at = 0; at < size;) {
		const struct record *record = (const void *)(records + at);
		int r;

		at += record->size;
		if (strcmp(record->name, ".") == 0 || strcmp(record->name, "..") == 0)
			continue;
		is_empty = false;
		r = remove_one(removal, record->name, record->type);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (!is_empty)
		return 0;
	return removal->depth ? go_up(removal) : 1;
}

/* 1: nothing is left to do. */
static int begin(struct removal *removal)
{
	const struct location *place = &removal->place;
	struct stat st;

	/* What is gone, or was never there, needs no removing. */
	if (fstatat(place->fd, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 1 : -errno;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(place->fd, place->name, 0) == 0 || errno == ENOENT ? 1 : -errno;
	removal->fd = open_directory(place->fd, place->name);
	return removal->fd < 0 ? removal->fd : 0;
}

static enum work_state step(struct work *work)
{
	struct removal *removal = (struct removal *)(void *)work;
	int r = removal->fd < 0 ? begin(removal) : remove_some(removal);

	if (r == 1 && removal->fd >= 0 &&
	    unlinkat(removal->place.fd, removal->place.name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = errno == ENOTEMPTY ? 0 : -errno;
	if (r == 0 && clock_monotonic_ns() > removal->deadline_ns)
		r = -EBUSY;
	if (r == 0)
		return WORK_ON;
	if (r < 0 && !removal->errnum)
		answer(work->server, work->id, -r, removal->path, NULL, 0, -1);
	else if (!removal->errnum && removal->has_entry)
		answer_entry(work->server, work->id, removal->about);
	else
		answer(work->server, work->id, removal->errnum, removal->about, NULL, 0, -1);
	return WORK_DONE;
}

static void end(struct work *work)
{
	struct removal *removal = (struct removal *)(void *)work;

	if (removal->fd >= 0)
		close(removal->fd);
	location_done(&removal->place);
	free(removal->above);
	buf_done(&removal->names);
	free(removal);
}

/* Takes `place`. */
static void start_removal(struct server *server, uint64_t id, const char *path,
			  struct location *place, const struct removal *then)
{
	struct removal *removal = calloc(1, sizeof *removal);

	if (!removal) {
		location_done(place);
		answer(server, id, ENOMEM, path, NULL, 0, -1);
		return;
	}
	removal->work = (struct work){.id = id, .is_question = true, .step = step, .end = end};
	memccpy(removal->path, path, '\0', sizeof removal->path - 1);
	memcpy(removal->about, then->about, sizeof removal->about);
	removal->errnum = then->errnum;
	removal->has_entry = then->has_entry;
	removal->place = *place;
	removal->fd = -1;
	removal->deadline_ns = clock_monotonic_ns() + DEADLINE_NS;
	removal->names.limit = NAMES_MAX;
	work_start(server, &removal->work);
}

void remove_then_answer(struct server *server, uint64_t id, const char *path,
			struct location *place, int errnum, const char *about, bool has_entry)
{
	static struct removal then;
	struct location taken;

	location_take(place, &taken);
	snprintf(then.about, sizeof then.about, "%s", about);
	then.errnum = errnum;
	then.has_entry = has_entry;
	start_removal(server, id, path, &taken, &then);
}

void ask_remove(struct question *question)
{
	static struct removal then;
	struct location place = {.fd = AT_FDCWD};
	char path[PATH_SIZE];
	int r = path_of(question, question->args[0], path);

	if (r == 0 && strcmp(path, "/") == 0)
		r = -EBUSY;
	if (r == 0)
		r = location_find(question, path, LOCATION_KEEPS_LINK, &place);
	snprintf(then.about, sizeof then.about, "%s", path);
	if (r == 0) {
		start_removal(question->server, question->id, path, &place, &then);
		return;
	}
	location_done(&place);
	/* ENOENT: nothing to remove. */
	if (r == -ENOENT || r == -ENOTDIR)
		r = 0;
	answer(question->server, question->id, -r, r ? question->args[0] : path, NULL, 0, -1);
}

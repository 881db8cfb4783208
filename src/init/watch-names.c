/* SPDX-License-Identifier: Apache-2.0 */
#include "init/watch.h"

#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The names beneath a directory, however deep
 *
 * The tree is a tenant's, and so are its depth and what happens to it meanwhile. So much of the way
 * down is open at a time, in a ring; what is above that is closed, and found again by ".." where
 * its turn comes again, if that is still the same directory. Nothing is allocated.
 */

#define OPEN_MAX_LEVELS 128
#define LEVELS_MAX	8192
/* Finding the place in a directory again can take as long as it is large. */
#define RETURNS_MAX 32768

struct open_level {
	int fd;
	ssize_t at, got;
	int64_t offset; /* behind what was read of it */
	char entries[4096] __attribute__((aligned(8)));
};

struct closed_level {
	dev_t dev;
	ino_t ino;
	int64_t offset;
};

struct names_walk {
	size_t depth;	   /* levels of the way down */
	size_t first_open; /* the ones above are closed */
	size_t n_returns;
	bool is_partial;
};

/* One thread looks. */
static struct open_level open_levels[OPEN_MAX_LEVELS];
static struct closed_level closed_levels[LEVELS_MAX];

static struct open_level *level_at(size_t depth)
{
	return &open_levels[depth % OPEN_MAX_LEVELS];
}

static void set_level(size_t depth, int fd, int64_t offset)
{
	struct open_level *level = level_at(depth);

	level->fd = fd;
	level->at = level->got = 0;
	level->offset = offset;
}

static void close_first(struct names_walk *walk)
{
	struct open_level *level = level_at(walk->first_open);
	struct stat st = {0};

	/* Without that it is no directory's number, and not found again. */
	fstat(level->fd, &st);
	closed_levels[walk->first_open++] = (struct closed_level){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.offset = level->offset,
	};
	close(level->fd);
}

static void enter(struct names_walk *walk, int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || walk->depth == LEVELS_MAX) {
		walk->is_partial = walk->is_partial || fd >= 0 || errno != ENOENT;
		if (fd >= 0)
			close(fd);
		return;
	}
	if (walk->depth - walk->first_open == OPEN_MAX_LEVELS)
		close_first(walk);
	set_level(walk->depth++, fd, 0);
}

/* The parent of the only one that is open. */
static bool open_again(struct names_walk *walk)
{
	const struct closed_level *closed = &closed_levels[walk->first_open - 1];
	int fd = openat(level_at(walk->first_open)->fd, "..",
			O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return false;
	/* Somebody may have moved what we are in. */
	if (++walk->n_returns > RETURNS_MAX || fstat(fd, &st) < 0 || st.st_ino != closed->ino ||
	    st.st_dev != closed->dev || lseek(fd, closed->offset, SEEK_SET) < 0) {
		close(fd);
		return false;
	}
	set_level(--walk->first_open, fd, closed->offset);
	return true;
}

static void leave(struct names_walk *walk)
{
	int fd = level_at(walk->depth - 1)->fd;

	if (walk->depth > 1 && walk->depth - 1 == walk->first_open && !open_again(walk)) {
		walk->is_partial = true;
		walk->first_open = walk->depth = 0;
	} else {
		walk->depth--;
	}
	close(fd);
}

/* NULL: that were all. */
static const struct dirent64 *next_entry(struct open_level *level)
{
	const struct dirent64 *entry;

	if (level->at >= level->got) {
		level->at = 0;
		level->got = getdents64(level->fd, (void *)level->entries, sizeof level->entries);
		if (level->got <= 0)
			return NULL;
	}
	entry = (const void *)(level->entries + level->at);
	level->at += entry->d_reclen;
	level->offset = entry->d_off;
	return entry;
}

uint64_t watch_count_names(int dir_fd, const char *name, uint64_t most, bool *ret_is_partial)
{
	struct names_walk walk = {0};
	uint64_t n = 0;

	enter(&walk, dir_fd, name);
	while (walk.depth > 0 && n <= most) {
		struct open_level *level = level_at(walk.depth - 1);
		const struct dirent64 *entry = next_entry(level);

		if (!entry) {
			leave(&walk);
		} else if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..")) {
			n++;
			if (entry->d_type == DT_DIR)
				enter(&walk, level->fd, entry->d_name);
		}
	}
	for (size_t i = walk.first_open; i < walk.depth; i++)
		close(level_at(i)->fd);
	*ret_is_partial = walk.is_partial;
	return n;
}

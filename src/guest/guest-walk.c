/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define HELD_MAX	32 /* levels whose directory stays open; deeper ones are opened again */
#define NAMES_BYTES_MAX (64U << 20)

struct name {
	uint64_t head; /* the first eight bytes as a number, most comparisons end with it */
	uint32_t at;   /* in the text */
};

struct level {
	int fd;	      /* -1: not held */
	dev_t device; /* of one that is not held */
	ino_t inode;
	struct name *names;
	size_t n, next;
	char *text;
	size_t text_size;
	size_t path_length;  /* of the directory's path */
	struct ahead *ahead; /* NULL */
};

/* As getdents64(2) writes it. */
struct record {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

static uint64_t head_of(const char *name)
{
	uint64_t head = 0;

	for (int i = 0; i < 8; i++) {
		head = head << 8 | (unsigned char)*name;
		name += *name != '\0';
	}
	return head;
}

static bool is_before(const struct name *one, const struct name *other, const char *text)
{
	if (one->head != other->head)
		return one->head < other->head;
	return strcmp(text + one->at, text + other->at) < 0;
}

/* Two sorted runs that stand one behind the other. */
static void merge(const struct name *from, size_t middle, size_t n, const char *text,
		  struct name *to)
{
	size_t left = 0, right = middle;

	while (left < middle && right < n)
		*to++ = is_before(&from[right], &from[left], text) ? from[right++] : from[left++];
	memcpy(to, from + left, (middle - left) * sizeof *to);
	memcpy(to + (middle - left), from + right, (n - right) * sizeof *to);
}

/* By merging: the C library's qsort() takes several times as long, for a large directory some
 * hundredths of what a list may take. */
static int sort(struct name *names, size_t n, const char *text)
{
	struct name *from = names, *to = reallocarray(NULL, n, sizeof *to), *swapped;

	if (!to)
		return -ENOMEM;
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t at = 0, left; at < n; at += 2 * width) {
			left = n - at;
			merge(from + at, width < left ? width : left,
			      2 * width < left ? 2 * width : left, text, to + at);
		}
		swapped = from;
		from = to;
		to = swapped;
	}
	if (from != names)
		memcpy(names, from, n * sizeof *names);
	free(from != names ? from : to);
	return 0;
}

static int read_text(int fd, size_t room, struct buf *text, size_t *ret_n)
{
	static char records[65536];
	ssize_t size;

	text->limit = room;
	while ((size = syscall(SYS_getdents64, fd, records, sizeof records)) > 0) {
		for (ssize_t at = 0; at < size;) {
			const struct record *record = (const void *)(records + at);

			at += record->size;
			if (strcmp(record->name, ".") == 0 || strcmp(record->name, "..") == 0)
				continue;
			buf_add(text, record->name, strlen(record->name) + 1);
			++*ret_n;
		}
		if (buf_error(text) < 0)
			return buf_error(text);
	}
	return size < 0 ? -errno : 0;
}

static int read_names(struct level *level, size_t room)
{
	cleanup_buf struct buf text = {0};
	size_t n = 0, at = 0;
	int r = read_text(level->fd, room, &text, &n);

	if (r < 0)
		return r;
	level->names = n ? reallocarray(NULL, n, sizeof *level->names) : NULL;
	if (n && !level->names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		level->names[i] = (struct name){head_of(text.data + at), (uint32_t)at};
		at += strlen(text.data + at) + 1;
	}
	r = n ? sort(level->names, n, text.data) : 0;
	if (r < 0)
		return r;
	level->n = n;
	level->text_size = text.used;
	level->text = take_ptr(text.data);
	return 0;
}

static void drop_level(struct walk *walk)
{
	struct level *level = &walk->levels[--walk->n_levels];

	if (level->fd >= 0)
		close(level->fd);
	ahead_free(level->ahead);
	walk->look = NULL;
	walk->names_bytes -= level->text_size + level->n * sizeof *level->names;
	free(level->names);
	free(level->text);
}

static int grow(struct walk *walk)
{
	size_t room = walk->room ? 2 * walk->room : 8;
	struct level *levels;

	if (walk->n_levels < walk->room)
		return 0;
	levels = reallocarray(walk->levels, room, sizeof *levels);
	if (!levels)
		return -ENOMEM;
	walk->levels = levels;
	walk->room = room;
	return 0;
}

/* Closes the directory of a level; reopen() finds it again. */
static bool let_go(struct level *level)
{
	struct stat st;

	if (fstat(level->fd, &st) < 0)
		return false;
	level->device = st.st_dev;
	level->inode = st.st_ino;
	close(level->fd);
	level->fd = -1;
	return true;
}

/* Takes the descriptor. `walk->path` is the directory's. */
static int push(struct walk *walk, int fd)
{
	struct level *level;
	int r = grow(walk);

	if (r < 0) {
		close(fd);
		return r;
	}
	level = &walk->levels[walk->n_levels++];
	*level = (struct level){.fd = fd, .path_length = strlen(walk->path)};
	/* "/" has no name of its own in front of the slash. */
	if (strcmp(walk->path, "/") == 0)
		level->path_length = 0;
	r = read_names(level, NAMES_BYTES_MAX - walk->names_bytes);
	walk->names_bytes += level->text_size + level->n * sizeof *level->names;
	if (r == 0 && walk->names_bytes > NAMES_BYTES_MAX)
		r = -E2BIG;
	/* Only now: where the new one cannot be read the walk goes on in the one above. */
	if (r == 0 && walk->n_levels > HELD_MAX && !let_go(&level[-1]))
		r = -EIO;
	if (r < 0)
		drop_level(walk);
	return r;
}

int walk_begin(struct walk *walk, int fd, const char *root)
{
	*walk = (struct walk){0};
	memccpy(walk->path, root, '\0', sizeof walk->path - 1);
	walk->root_length = strlen(walk->path);
	return push(walk, fd);
}

int walk_open(struct walk *walk, const char *root)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*walk = (struct walk){0};
	return fd < 0 ? -errno : walk_begin(walk, fd, root);
}

int walk_fd(const struct walk *walk)
{
	return walk->levels[walk->n_levels - 1].fd;
}

int walk_enter(struct walk *walk, const char *name)
{
	int fd = openat(walk->levels[walk->n_levels - 1].fd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : push(walk, fd);
}

static const char *name_of(const void *names, size_t i)
{
	const struct level *level = names;

	return level->text + level->names[i].at;
}

void walk_look_ahead(struct walk *walk)
{
	struct level *level = walk->n_levels ? &walk->levels[walk->n_levels - 1] : NULL;

	/* The child has a copy of the names; the levels here may move. */
	if (level && level->fd >= 0 && !level->ahead)
		level->ahead = ahead_start(level->fd, name_of, level, level->n);
}

/* Whose directory is the current one: nobody else changes it. */
static struct {
	const struct walk *walk;
	size_t n_levels;
} here;

static bool is_same(int fd, const struct level *level)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == level->device &&
	       st.st_ino == level->inode;
}

/*
 * Opens a directory that was let go, from one in it, which is open still. Somebody may have put
 * another directory or a link in its place: root's walk is not to go on there, so only the same
 * directory is taken. A user who may not enter the one below needs the path.
 */
static void reopen(struct level *level, int below_fd, const char *path)
{
	int fd = openat(below_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == EACCES)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (is_same(fd, level))
		level->fd = fd;
	else if (fd >= 0)
		close(fd);
}

/* To the directory of the last level. */
static int go_to(const struct walk *walk, const struct level *level)
{
	if (here.walk == walk && here.n_levels == walk->n_levels)
		return 0;
	here.walk = NULL;
	if (level->fd < 0)
		return -EBUSY;
	if (fchdir(level->fd) < 0)
		return -errno;
	here.walk = walk;
	here.n_levels = walk->n_levels;
	return 0;
}

/* The last level is done; `walk->path` is its directory's still. */
static void leave(struct walk *walk)
{
	struct level *level = &walk->levels[walk->n_levels - 1];

	if (walk->n_levels > 1 && level[-1].fd < 0 && level->fd >= 0) {
		char path[PATH_SIZE];

		snprintf(path, sizeof path, "%.*s", (int)level[-1].path_length, walk->path);
		reopen(&level[-1], level->fd, path);
	}
	drop_level(walk);
}

int walk_next(struct walk *walk, const char **ret_name)
{
	struct level *level;
	int r;

	if (walk->n_levels == 0)
		return WALK_END;
	level = &walk->levels[walk->n_levels - 1];
	walk->path[level->path_length] = '\0';
	r = level->next < level->n ? go_to(walk, level) : 0;
	if (r < 0) {
		level->next = level->n;
		return r;
	}
	while (level->next < level->n) {
		const char *name = level->text + level->names[level->next].at;
		size_t length = strlen(name);

		walk->look = ahead_take(level->ahead, level->next++);

		if (level->path_length + 1 + length >= sizeof walk->path) {
			walk->has_left_out = true;
			continue;
		}
		walk->path[level->path_length] = '/';
		memcpy(walk->path + level->path_length + 1, name, length + 1);
		*ret_name = name;
		return WALK_ENTRY;
	}
	leave(walk);
	return WALK_UP;
}

void walk_close(struct walk *walk)
{
	while (walk->n_levels)
		drop_level(walk);
	if (here.walk == walk)
		here.walk = NULL;
	free(walk->levels);
	walk->levels = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define HELD_MAX	32 /* levels whose directory stays open; deeper ones are opened again */
#define NAMES_BYTES_MAX (64U << 20)

struct name {
	uint64_t head; /* the first eight bytes as a number, most comparisons end with it */
	uint32_t at;   /* in the text */
};

struct level {
	int fd; /* -1: not held */
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

/* Takes the descriptor. `walk->path` is the directory's. */
static int push(struct walk *walk, int fd)
{
	struct level *level;
	int r = grow(walk);

	if (r < 0) {
		close(fd);
		return r;
	}
	if (walk->n_levels >= HELD_MAX) {
		struct level *above = &walk->levels[walk->n_levels - 1];

		close(above->fd);
		above->fd = -1;
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

/* A directory that was let go may have been replaced meanwhile: then it is seen as it is now, which
 * is all that anybody can say who asks for a list. */
static int return_to(struct walk *walk, struct level *level)
{
	walk->path[level->path_length] = '\0';
	if (here.walk == walk && here.n_levels == walk->n_levels)
		return 0;
	if (level->fd < 0)
		level->fd = open(level->path_length ? walk->path : "/",
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	here.walk = NULL;
	if (level->fd < 0 || fchdir(level->fd) < 0)
		return -errno;
	here.walk = walk;
	here.n_levels = walk->n_levels;
	return 0;
}

int walk_next(struct walk *walk, const char **ret_name)
{
	struct level *level;

	if (walk->n_levels == 0)
		return WALK_END;
	level = &walk->levels[walk->n_levels - 1];
	if (return_to(walk, level) < 0)
		level->next = level->n;
	while (level->next < level->n) {
		const char *name = level->text + level->names[level->next].at;
		size_t length = strlen(name);

		walk->look = ahead_take(level->ahead, level->next++);

		if (level->path_length + 1 + length >= sizeof walk->path)
			continue;
		walk->path[level->path_length] = '/';
		memcpy(walk->path + level->path_length + 1, name, length + 1);
		*ret_name = name;
		return WALK_ENTRY;
	}
	drop_level(walk);
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

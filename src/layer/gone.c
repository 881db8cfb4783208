/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/gone.h"

#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <stdint.h>

/* A path in two halves: the directory, "" for the root, and the name in it. */
struct entry {
	const char *dir, *name;
	size_t dir_length;
	bool is_opaque; /* then `dir` is all of it, and `name` is "" */
};

struct gone {
	char *text;
	struct entry *entries; /* deleted ones first, then by directory, then by name */
	size_t n, n_deleted;
};

static int compare_dirs(const struct entry *a, const struct entry *b)
{
	size_t length = a->dir_length < b->dir_length ? a->dir_length : b->dir_length;
	int by_text = memcmp(a->dir, b->dir, length);

	return by_text ? by_text
		       : (a->dir_length > b->dir_length) - (a->dir_length < b->dir_length);
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int by_dir;

	if (x->is_opaque != y->is_opaque)
		return x->is_opaque - y->is_opaque;
	by_dir = compare_dirs(x, y);
	return by_dir ? by_dir : strcmp(x->name, y->name);
}

static bool is_plain(const char *path)
{
	do {
		size_t length = strcspn(path, "/");

		if (length == 0 || (length == 1 && path[0] == '.') ||
		    (length == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += length;
	} while (*path++ == '/');
	return true;
}

static struct entry opaque(const char *path, size_t length)
{
	return (struct entry){.dir = path, .dir_length = length, .name = "", .is_opaque = true};
}

static struct entry deleted(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return (struct entry){.dir = "", .name = path};
	return (struct entry){.dir = path, .dir_length = (size_t)(slash - path), .name = slash + 1};
}

/* Of a path with its length; the slash at an opaque one's end is cut off in place. */
static bool read_entry(char *path, size_t length, struct entry *ret)
{
	if (length > 0 && path[length - 1] == '/') {
		path[--length] = '\0';
		*ret = opaque(path, length);
		return length == 0 || is_plain(path);
	}
	*ret = deleted(path);
	return is_plain(path);
}

static int fill(struct gone *gone, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += gone->text[i] == '\0';
	gone->entries = calloc(n ? n : 1, sizeof *gone->entries);
	if (!gone->entries)
		return -ENOMEM;
	for (char *path = gone->text; path < gone->text + size;) {
		size_t length = strlen(path);
		struct entry *entry = &gone->entries[gone->n];

		if (!read_entry(path, length, entry))
			return -EBADMSG;
		gone->n++;
		gone->n_deleted += !entry->is_opaque;
		path += length + 1;
	}
	qsort(gone->entries, gone->n, sizeof *gone->entries, compare);
	return 0;
}

int gone_parse(const char *text, size_t size, struct gone **ret)
{
	struct gone *gone;
	int r;

	if (size > 0 && text[size - 1] != '\0')
		return -EBADMSG;
	gone = calloc(1, sizeof *gone);
	if (!gone)
		return -ENOMEM;
	gone->text = malloc(size + 1);
	if (!gone->text) {
		gone_free(gone);
		return -ENOMEM;
	}
	if (size > 0)
		memcpy(gone->text, text, size);
	r = fill(gone, size);
	if (r < 0)
		gone_free(gone);
	else
		*ret = gone;
	return r;
}

void gone_free(struct gone *gone)
{
	if (!gone)
		return;
	free(gone->entries);
	free(gone->text);
	free(gone);
}

static bool has(const struct gone *gone, struct entry key)
{
	return gone && gone->n &&
	       bsearch(&key, gone->entries, gone->n, sizeof key, compare) != NULL;
}

bool gone_is_deleted(const struct gone *gone, const char *path)
{
	return has(gone, deleted(path));
}

bool gone_is_opaque(const struct gone *gone, const char *path)
{
	return has(gone, opaque(path, strlen(path)));
}

size_t gone_find(const struct gone *gone, const char *dir, size_t *ret_first)
{
	struct entry key = opaque(dir, strlen(dir));
	size_t low = 0, high = gone ? gone->n_deleted : 0, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_dirs(&gone->entries[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; gone && end < gone->n_deleted; end++)
		if (compare_dirs(&gone->entries[end], &key) != 0)
			break;
	*ret_first = low;
	return end - low;
}

const char *gone_name(const struct gone *gone, size_t i)
{
	return gone->entries[i].name;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/applied-files.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/journal.h"
#include "layer/layer-tree.h"
#include "layer/layer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define KNOWN_MAX ((size_t)1 << 30)

struct entry {
	char *path;
	uint64_t ino, ctime_ns;
	uint64_t turn; /* the latest line about a path counts */
};

struct known {
	struct entry *entries;
	size_t n, room;
};

void known_free(struct known *known)
{
	if (!known)
		return;
	for (size_t i = 0; i < known->n; i++)
		free(known->entries[i].path);
	free(known->entries);
	free(known);
}

static int add(struct known *known, const char *path, uint64_t ino, uint64_t ctime_ns)
{
	char *copy = strdup(path);

	if (known->n == known->room) {
		size_t room = known->room ? 2 * known->room : 64;
		struct entry *more = reallocarray(known->entries, room, sizeof *more);

		if (!more) {
			free(copy);
			return -ENOMEM;
		}
		known->entries = more;
		known->room = room;
	}
	if (!copy)
		return -ENOMEM;
	known->entries[known->n] = (struct entry){copy, ino, ctime_ns, known->n};
	known->n++;
	return 0;
}

static int compare(const void *a_, const void *b_)
{
	const struct entry *a = a_, *b = b_;
	int order = strcmp(a->path, b->path);

	return order ? order : a->turn < b->turn ? 1 : -1;
}

/* Sort, and of several lines about a path keep the latest. */
static void settle(struct known *known)
{
	size_t kept = 0;

	if (known->n)
		qsort(known->entries, known->n, sizeof *known->entries, compare);
	for (size_t i = 0; i < known->n; i++) {
		struct entry *entry = &known->entries[i];

		if (kept > 0 && streq(known->entries[kept - 1].path, entry->path)) {
			free(entry->path);
			continue;
		}
		known->entries[kept] = *entry;
		known->entries[kept].turn = kept;
		kept++;
	}
	known->n = kept;
}

static int parse(struct known *known, char *text)
{
	while (*text) {
		char *end = strchr(text, '\n');
		uint64_t ino, ctime_ns;
		int used = 0;

		if (!end)
			return -EBADMSG;
		*end = '\0';
		if (sscanf(text, "%" SCNu64 " %" SCNu64 "%n", &ino, &ctime_ns, &used) != 2 ||
		    text[used] != ' ' || !journal_unescape(text + used + 1))
			return -EBADMSG;
		if (add(known, text + used + 1, ino, ctime_ns) < 0)
			return -ENOMEM;
		text = end + 1;
	}
	settle(known);
	return 0;
}

int known_load(const struct layer_record *record, struct known **ret, struct atoll_error *err)
{
	cleanup_fd int fd = openat(record->fd, "known", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_buf struct buf text = BUF_INIT(KNOWN_MAX);
	struct known *known = calloc(1, sizeof *known);
	int r;

	if (!known)
		return error_oom(err);
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	if (r == 0 && text.data)
		r = parse(known, text.data);
	if (r < 0 && r != -ENOENT) {
		known_free(known);
		return error_set(err, ATOLL_FAULT_HOST, -r, "read what record %s has applied",
				 record->info.id);
	}
	*ret = known;
	return 0;
}

bool known_has(const struct known *known, const char *path, const struct stat *st)
{
	struct entry key = {.path = (char *)path, .turn = UINT64_MAX};
	size_t low = 0, high = known ? known->n : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		/* The key sorts before all entries of its path. */
		if (compare(&known->entries[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return known && low < known->n && streq(known->entries[low].path, path) &&
	       known->entries[low].ino == st->st_ino &&
	       (S_ISDIR(st->st_mode) || known->entries[low].ctime_ns == tree_ctime_ns(st));
}

bool known_is_foreign(const struct layer_record *record, const struct known *known,
		      const char *path, const struct stat *st)
{
	return tree_ctime_ns(st) > record->base_time_ns && !known_has(known, path, st);
}

int known_set(struct known *known, const char *path, const struct stat *st)
{
	return add(known, path, st ? st->st_ino : 0, st ? tree_ctime_ns(st) : 0);
}

static int write_new(const struct layer_record *record, struct known *known)
{
	cleanup_fd int fd = openat(record->fd, "known.new",
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	cleanup_buf struct buf text = BUF_INIT(KNOWN_MAX);
	int r = fd < 0 ? -errno : 0;

	for (size_t i = 0; i < known->n; i++) {
		const struct entry *entry = &known->entries[i];

		if (entry->ino == 0)
			continue;
		buf_addf(&text, "%" PRIu64 " %" PRIu64 " ", entry->ino, entry->ctime_ns);
		journal_escape(&text, entry->path);
		buf_add_char(&text, '\n');
	}
	if (r == 0)
		r = buf_error(&text);
	if (r == 0 && text.used)
		r = fd_write_all(fd, text.data, text.used);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

int known_save(const struct layer_record *record, struct known *known, struct atoll_error *err)
{
	int r;

	settle(known);
	LAYER_STEP("write what is known");
	r = write_new(record, known);
	if (r == 0 && renameat(record->fd, "known.new", record->fd, "known") < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "write what record %s has applied",
				 record->info.id);
	return 0;
}

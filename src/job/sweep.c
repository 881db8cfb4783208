/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/*
 * Old logs
 *
 * They are kept longer than what was written: 90 days, and at most 2 GiB together; longer, and
 * more, if the options say more than that. The daemon says so: its logs belong to tenants, and
 * those of one must not push out another's (box/tenant-disk.c). One whose record of changes is
 * still there, or whose sandbox is, stays with it. The store's tree keeps a leaf that says that it
 * was removed.
 */
#define AGE_S	  (90 * UINT64_C(86400))
#define BYTES_MAX (UINT64_C(2) << 30)

struct log {
	char id[ATOLL_ID_SIZE];
	uint64_t bytes;
	time_t mtime;
};

struct logs {
	struct log *items;
	size_t n;
	uint64_t bytes;
};

static uint64_t size_of(int dir_fd, const char *id, const char *ending, time_t *ret_mtime)
{
	char name[64];
	struct stat st;

	snprintf(name, sizeof name, "%s.%s", id, ending);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (ret_mtime)
		*ret_mtime = st.st_mtime;
	return (uint64_t)st.st_blocks * 512;
}

static bool is_needed(const struct layer_store *store, const char *id)
{
	char path[64];

	snprintf(path, sizeof path, "records/%s/meta", id);
	return faccessat(store->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int add_log(struct logs *logs, int dir_fd, const char *id)
{
	struct log *more = logs->items, *log;

	if (logs->n % 64 == 0)
		more = realloc(more, (logs->n + 64) * sizeof *more);
	if (!more)
		return -ENOMEM;
	logs->items = more;
	log = &logs->items[logs->n++];
	*log = (struct log){0};
	strcpy(log->id, id);
	log->bytes = size_of(dir_fd, id, "jsonl", &log->mtime) + size_of(dir_fd, id, "out", NULL) +
		     size_of(dir_fd, id, "err", NULL) + size_of(dir_fd, id, "edge", NULL);
	logs->bytes += log->bytes;
	return 0;
}

static int read_logs(const struct layer_store *store, struct logs *ret, struct atoll_error *err)
{
	int fd = openat(store->fd, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *entry;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;

	if (!stream) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (r == 0 && (entry = readdir(stream))) {
		char id[ATOLL_ID_SIZE];

		if (strlen(entry->d_name) != STORE_ID_LENGTH + 6 ||
		    !streq(entry->d_name + STORE_ID_LENGTH, ".jsonl"))
			continue;
		snprintf(id, sizeof id, "%.*s", STORE_ID_LENGTH, entry->d_name);
		if (store_is_id(id) && !is_needed(store, id))
			r = add_log(ret, fd, id);
	}
	closedir(stream);
	return r < 0 ? error_oom(err) : 0;
}

static int compare(const void *a, const void *b)
{
	const struct log *x = a, *y = b;

	return (x->mtime > y->mtime) - (x->mtime < y->mtime);
}

/* One that is just written stays. */
static void sweep_logs(struct logs *logs, const struct atoll_gc_options *options)
{
	const uint64_t age_s = options->max_age_s > AGE_S ? options->max_age_s : AGE_S;
	const uint64_t most = options->max_bytes > BYTES_MAX ? options->max_bytes : BYTES_MAX;
	const time_t now = time(NULL);

	if (logs->n)
		qsort(logs->items, logs->n, sizeof *logs->items, compare);
	for (size_t i = 0; i < logs->n; i++) {
		struct log *log = &logs->items[i];
		const bool is_old = now > log->mtime && (uint64_t)(now - log->mtime) >= age_s;
		struct atoll_record record = {.bytes = log->bytes, .command = (char *)"its log"};
		struct atoll_error err;

		if ((!is_old && logs->bytes <= most) ||
		    (!options->is_dry && audit_remove(log->id, &err) < 0))
			continue;
		logs->bytes -= log->bytes;
		strcpy(record.id, log->id);
		if (options->removed)
			options->removed(&record, is_old ? "age" : "size", options->data);
	}
}

int atoll_gc(const struct atoll_gc_options *options, struct atoll_error *err)
{
	static const struct atoll_gc_options usual;
	cleanup_with(layer_store_close) struct layer_store store = {.fd = -1};
	struct logs logs = {0};
	int r = layer_gc(options, err);

	if (r == 0)
		r = layer_store_open(false, &store, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = read_logs(&store, &logs, err);
	if (r == 0)
		sweep_logs(&logs, options ? options : &usual);
	free(logs.items);
	return r;
}

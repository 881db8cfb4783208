/* SPDX-License-Identifier: Apache-2.0 */
#include "box/tenant-disk.h"

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/quota.h"
#include "box/results.h"
#include "box/volume.h"
#include "box/work.h"
#include "layer/layer.h"

/*
 * What tenants keep on the disk besides their boxes
 *
 * A box counts by what it may use at most (quota.c), from its creation to its removal, with its
 * checkpoints: limits.disk holds for them, too (layer/disk-kept.c). This file adds up the rest,
 * which stays when a box has gone: snapshots and templates, each layer once and not those of our
 * own templates, files that were sent for templates, volumes, results of steps and jobs, and logs,
 * also of boxes that are no more. The sum is part of a tenant's disk.
 *
 * Whose a log is stands in the file `logs` of the daemon's directory, a line "SANDBOX TENANT" for
 * each sandbox that was removed; of those that are there the daemon knows it. Logs of removed
 * sandboxes go after 90 days, and the oldest of a tenant's when these are more than 2 GiB, or more
 * than a quarter of its disk quota: never another tenant's.
 *
 * Measured on a thread: at the start, when something was removed or made, and every few minutes.
 * stored_add() counts at once what a snapshot has added, until it is measured.
 */

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define LIST	  "logs"
#define LIST_MAX  ((size_t)64 << 20)
#define ID_LENGTH 8 /* of a sandbox: layer/store.h */
#define AGE_S	  (90 * 86400)
#define LOGS_MAX  (UINT64_C(2) << 30)
/* Until it is measured again where something has changed: at least, and in times of what it took.
 */
#define LEAST_MS 2000
#define COST	 20

struct stored_tenant {
	char id[40]; /* "": logs that are nobody's */
	uint64_t bytes, gone_bytes, most_gone;
	bool has_quota;
	struct layer_names layers;
};

/* A sandbox that is there. */
struct stored_entry {
	char sandbox[ATOLL_ID_SIZE];
	size_t tenant;
	bool is_kind; /* its layers count */
};

struct stored_log {
	char sandbox[ATOLL_ID_SIZE];
	size_t tenant;
	uint64_t bytes;
	time_t mtime;
	bool is_gone; /* its sandbox is */
};

struct kept {
	struct work_item item;
	struct daemon *daemon;
	char dir[PATH_MAX];
	struct stored_tenant *tenants; /* the first is nobody */
	size_t n_tenants;
	struct stored_entry *entries;
	size_t n_entries;
	struct stored_entry *gone; /* sandboxes of the list */
	size_t n_gone;
	struct stored_log *logs;
	size_t n_logs;
	int64_t began_ms;
};

/* ---- the list of logs ---- */

static int open_list(const char *dir, int flags)
{
	char path[PATH_MAX + 8];
	int fd;

	snprintf(path, sizeof path, "%s/" LIST, dir);
	fd = open(path, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
		;
	return fd;
}

void stored_note_gone(struct daemon *daemon, const char *sandbox, const struct tenant *tenant)
{
	cleanup_fd int fd = open_list(daemon->dir, O_WRONLY | O_APPEND);
	char line[64];
	int length = snprintf(line, sizeof line, "%s %s\n", sandbox, tenant->id);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	daemon->is_stored_dirty = true;
	/* Half a line would take the next one with it. */
	if (size >= 0 && fd_write_all(fd, line, (size_t)length) < 0)
		(void)!ftruncate(fd, size);
}

static size_t find_tenant(const struct kept *kept, const char *id, size_t size)
{
	for (size_t i = 1; i < kept->n_tenants; i++) {
		if (strlen(kept->tenants[i].id) == size &&
		    memcmp(kept->tenants[i].id, id, size) == 0)
			return i;
	}
	return 0;
}

static int compare_sandbox(const void *a, const void *b)
{
	return strcmp(((const struct stored_entry *)a)->sandbox,
		      ((const struct stored_entry *)b)->sandbox);
}

static const struct stored_entry *find_sandbox(const struct stored_entry *entries, size_t n,
					       const char *sandbox)
{
	struct stored_entry key = {0};

	snprintf(key.sandbox, sizeof key.sandbox, "%s", sandbox);
	return n ? bsearch(&key, entries, n, sizeof *entries, compare_sandbox) : NULL;
}

/* The lines, sorted: `kept->gone`. */
static void read_list(struct kept *kept, const char *text)
{
	size_t n = 0;

	if (!text)
		return;
	for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		n++;
	kept->gone = calloc(n + 1, sizeof *kept->gone);
	for (const char *at = text; kept->gone && *at && kept->n_gone < n;) {
		struct stored_entry *entry = &kept->gone[kept->n_gone];
		size_t size = strcspn(at, "\n");

		if (size > ID_LENGTH + 1 && at[ID_LENGTH] == ' ') {
			snprintf(entry->sandbox, sizeof entry->sandbox, "%.*s", ID_LENGTH, at);
			entry->tenant = find_tenant(kept, at + ID_LENGTH + 1, size - ID_LENGTH - 1);
			kept->n_gone++;
		}
		at += size + (at[size] == '\n');
	}
	if (kept->n_gone)
		qsort(kept->gone, kept->n_gone, sizeof *kept->gone, compare_sandbox);
}

/* ---- on a thread: logs ---- */

static void add_log(struct kept *kept, int dir_fd, const char *sandbox)
{
	static const char *const endings[] = {"jsonl", "out", "err", "edge"};
	const struct stored_entry *entry = find_sandbox(kept->entries, kept->n_entries, sandbox),
				  *gone = find_sandbox(kept->gone, kept->n_gone, sandbox);
	struct stored_log *log, *more = kept->logs;

	if (kept->n_logs % 256 == 0)
		more = realloc(more, (kept->n_logs + 256) * sizeof *more);
	if (!more)
		return;
	kept->logs = more;
	log = &kept->logs[kept->n_logs++];
	*log = (struct stored_log){.is_gone = !entry};
	snprintf(log->sandbox, sizeof log->sandbox, "%s", sandbox);
	log->tenant = entry ? entry->tenant : gone ? gone->tenant : 0;
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		char name[64];
		struct stat st;

		snprintf(name, sizeof name, "%s.%s", sandbox, endings[i]);
		if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		log->bytes += (uint64_t)st.st_blocks * 512;
		log->mtime = i == 0 ? st.st_mtime : log->mtime;
	}
}

static void read_logs(struct kept *kept, int store_fd)
{
	int fd = openat(store_fd, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(stream))) {
		const char *dot = strchr(entry->d_name, '.');
		char sandbox[ATOLL_ID_SIZE];

		if (!dot || !streq(dot, ".jsonl") || dot - entry->d_name != ID_LENGTH)
			continue;
		snprintf(sandbox, sizeof sandbox, "%.*s", ID_LENGTH, entry->d_name);
		add_log(kept, fd, sandbox);
	}
	closedir(stream);
}

static int compare_age(const void *a, const void *b)
{
	const struct stored_log *x = a, *y = b;

	return (x->mtime > y->mtime) - (x->mtime < y->mtime);
}

/* The oldest first; each tenant has a bound of its own. */
static void remove_old(struct kept *kept)
{
	const time_t now = time(NULL);

	if (kept->n_logs)
		qsort(kept->logs, kept->n_logs, sizeof *kept->logs, compare_age);
	for (size_t i = 0; i < kept->n_logs; i++) {
		const struct stored_log *log = &kept->logs[i];

		if (log->is_gone)
			kept->tenants[log->tenant].gone_bytes += log->bytes;
	}
	for (size_t i = 0; i < kept->n_logs; i++) {
		struct stored_log *log = &kept->logs[i];
		struct stored_tenant *tenant = &kept->tenants[log->tenant];

		if (!log->is_gone ||
		    (now - log->mtime < AGE_S && tenant->gone_bytes <= tenant->most_gone) ||
		    audit_remove(log->sandbox, NULL) < 0)
			continue;
		tenant->gone_bytes -= log->bytes;
		log->bytes = 0;
		log->sandbox[0] = '\0';
	}
}

/* The lines of logs that are there. Returns how many others there were. */
static size_t add_lines(const struct kept *kept, int store_fd, struct buf *text)
{
	size_t n_stale = 0;

	for (size_t i = 0; i < kept->n_gone; i++) {
		const struct stored_entry *entry = &kept->gone[i];
		char path[64];

		snprintf(path, sizeof path, "log/%s.jsonl", entry->sandbox);
		if (entry->tenant && (i == 0 || !streq(entry->sandbox, entry[-1].sandbox)) &&
		    faccessat(store_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			buf_addf(text, "%s %s\n", entry->sandbox, kept->tenants[entry->tenant].id);
		else
			n_stale++;
	}
	return n_stale;
}

/* The list again, without lines that are of no more use, if there are any. Behind the `size` bytes
 * that were read there may be new lines, which stay. The event loop's thread waits for the lock:
 * what takes long is done before. The list is written in its place and cut then: it is never
 * longer than it was, so a full disk or a killed daemon loses no line that is still wanted. */
static void write_list(const struct kept *kept, int store_fd, size_t size)
{
	cleanup_buf struct buf text = BUF_INIT(LIST_MAX);
	size_t n_stale = add_lines(kept, store_fd, &text);
	cleanup_fd int fd = n_stale ? open_list(kept->dir, O_RDWR) : -1;

	if (fd < 0 || lseek(fd, (off_t)size, SEEK_SET) < 0 || fd_read_all(fd, &text) < 0 ||
	    buf_error(&text) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    fd_write_all(fd, text.data ? text.data : "", text.used) < 0)
		return;
	(void)!ftruncate(fd, (off_t)text.used);
}

static int read_whole_list(const struct kept *kept, struct buf *list)
{
	cleanup_fd int fd = open_list(kept->dir, O_RDONLY);

	return fd < 0 ? -errno : fd_read_all(fd, list);
}

static void measure_logs(struct kept *kept, int store_fd)
{
	cleanup_buf struct buf list = BUF_INIT(LIST_MAX);

	/* Without the list nobody can be told whose a log is: then all stay. */
	if (read_whole_list(kept, &list) < 0)
		return;
	read_list(kept, list.data);
	read_logs(kept, store_fd);
	remove_old(kept);
	write_list(kept, store_fd, list.used);
	for (size_t i = 0; i < kept->n_logs; i++)
		kept->tenants[kept->logs[i].tenant].bytes += kept->logs[i].bytes;
}

/* ---- on a thread: files for templates, "TENANT-HASH.tar" ---- */

static void measure_files(struct kept *kept)
{
	char path[PATH_MAX + 16];
	const struct dirent *entry;
	DIR *stream;

	snprintf(path, sizeof path, "%s/templates", kept->dir);
	stream = opendir(path);
	while (stream && (entry = readdir(stream))) {
		size_t i = find_tenant(kept, entry->d_name, strcspn(entry->d_name, "-"));
		struct stat st;

		/* Uploads in progress are counted by tenant_reserve_bytes(). */
		if (i > 0 && ends_with(entry->d_name, ".tar") &&
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			kept->tenants[i].bytes += (uint64_t)st.st_blocks * 512;
	}
	if (stream)
		closedir(stream);
}

/* ---- on a thread: volumes ---- */

/* Commands inside write them, and may make any tree. A directory that is deeper, or closed to this
 * process, counts as more than any quota: files that cannot be counted are to find no room. */
#define VOLUME_DEPTH 200
#define VOLUME_DEEP  (UINT64_C(1) << 60)

static uint64_t measure_tree(int dir_fd, const char *name, int depth)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	uint64_t bytes = fd < 0 && errno == EACCES ? VOLUME_DEEP : 0;

	if (!stream && fd >= 0)
		close(fd);
	while (stream && bytes < VOLUME_DEEP && (entry = readdir(stream))) {
		struct stat st;

		if (streq(entry->d_name, ".") || streq(entry->d_name, "..") ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		bytes += (uint64_t)st.st_blocks * 512;
		if (S_ISDIR(st.st_mode))
			bytes += depth < VOLUME_DEPTH ? measure_tree(fd, entry->d_name, depth + 1)
						      : VOLUME_DEEP;
	}
	if (stream)
		closedir(stream);
	return bytes;
}

static void measure_volumes(struct kept *kept)
{
	char path[PATH_MAX + 16];
	const struct dirent *entry;
	DIR *stream;

	snprintf(path, sizeof path, "%s/volumes", kept->dir);
	stream = opendir(path);
	while (stream && (entry = readdir(stream))) {
		char owner[40];
		size_t i = volume_owner(dirfd(stream), entry->d_name, owner)
				   ? find_tenant(kept, owner, strlen(owner))
				   : 0;

		/* Drafts are counted by tenant_reserve_bytes(). */
		if (i > 0 && kept->tenants[i].has_quota) {
			snprintf(path, sizeof path, "%.64s/data", entry->d_name);
			kept->tenants[i].bytes += measure_tree(dirfd(stream), path, 0);
		}
	}
	if (stream)
		closedir(stream);
}

/* ---- on a thread: results of steps and jobs ---- */

static void add_results(const char *tenant, uint64_t bytes, void *data)
{
	struct kept *kept = data;
	size_t i = find_tenant(kept, tenant, strlen(tenant));

	if (i > 0)
		kept->tenants[i].bytes += bytes;
}

/* ---- on a thread: layers ---- */

static void measure_layers(struct kept *kept, const struct layer_store *store)
{
	for (size_t i = 0; i < kept->n_entries; i++) {
		const struct stored_entry *entry = &kept->entries[i];
		struct stored_tenant *tenant = &kept->tenants[entry->tenant];

		if (entry->is_kind)
			tenant->bytes += layer_kept_add(store, entry->sandbox, &tenant->layers);
	}
	for (size_t i = 1; i < kept->n_tenants; i++)
		kept->tenants[i].bytes += layer_names_bytes_but(store, &kept->tenants[i].layers,
								&kept->tenants[0].layers);
}

static void run(struct work_item *item)
{
	struct kept *kept = (struct kept *)item;
	cleanup_with(layer_store_close) struct layer_store store = {.fd = -1};

	if (layer_store_open(false, &store, NULL) < 0)
		return;
	if (kept->n_entries)
		qsort(kept->entries, kept->n_entries, sizeof *kept->entries, compare_sandbox);
	measure_logs(kept, store.fd);
	measure_layers(kept, &store);
	measure_files(kept);
	measure_volumes(kept);
	results_measure(kept->dir, add_results, kept);
}

/* ---- on the loop's thread ---- */

static void done(struct work_item *item)
{
	struct kept *kept = (struct kept *)item;
	struct tenant *tenant = NULL;

	while ((tenant = tenant_next(kept->daemon, tenant))) {
		size_t i = find_tenant(kept, tenant->id, strlen(tenant->id));

		if (i)
			tenant->stored_mib = (kept->tenants[i].bytes + (1 << 20) - 1) >> 20;
	}
	kept->daemon->is_stored_measured = false;
	kept->daemon->stored_next_ms =
		daemon_now_ms() + LEAST_MS + COST * (daemon_now_ms() - kept->began_ms);
	for (size_t i = 0; i < kept->n_tenants; i++)
		layer_names_done(&kept->tenants[i].layers);
	free(kept->tenants);
	free(kept->entries);
	free(kept->gone);
	free(kept->logs);
	free(kept);
}

static bool fill_tenants(struct kept *kept)
{
	struct tenant *tenant = NULL;
	size_t n = 1;

	while ((tenant = tenant_next(kept->daemon, tenant)))
		n++;
	kept->tenants = calloc(n, sizeof *kept->tenants);
	if (!kept->tenants)
		return false;
	kept->tenants[0].most_gone = LOGS_MAX;
	for (kept->n_tenants = 1; (tenant = tenant_next(kept->daemon, tenant));) {
		struct stored_tenant *one = &kept->tenants[kept->n_tenants++];
		uint64_t quota = tenant->max_disk_mib;

		snprintf(one->id, sizeof one->id, "%s", tenant->id);
		one->has_quota = quota != UINT64_MAX;
		one->most_gone = quota < LOGS_MAX >> 18 ? quota << 18 : LOGS_MAX;
	}
	return true;
}

static bool fill_entries(struct kept *kept)
{
	struct daemon *daemon = kept->daemon;
	size_t n = daemon->n_boxes;

	for (const struct kind *kind = daemon->kinds; kind; kind = kind->next)
		n++;
	kept->entries = calloc(n + 1, sizeof *kept->entries);
	if (!kept->entries)
		return false;
	for (struct box *box = NULL; (box = box_next_any(daemon, box)) && kept->n_entries < n;) {
		struct stored_entry *entry = &kept->entries[kept->n_entries++];

		memcpy(entry->sandbox, box->sandbox, sizeof entry->sandbox);
		entry->tenant = find_tenant(kept, box->tenant->id, strlen(box->tenant->id));
		/* A box that is not counted by its limit counts with the bytes that it holds. */
		entry->is_kind = !inner(box)->is_counted;
	}
	for (const struct kind *kind = daemon->kinds; kind && kept->n_entries < n;
	     kind = kind->next) {
		struct stored_entry *entry = &kept->entries[kept->n_entries];

		if (!kind->sandbox[0])
			continue;
		kept->n_entries++;
		memcpy(entry->sandbox, kind->sandbox, sizeof entry->sandbox);
		entry->tenant = kind->tenant ? find_tenant(kept, kind->tenant->tenant.id,
							   strlen(kind->tenant->tenant.id))
					     : 0;
		entry->is_kind = true;
	}
	return true;
}

void stored_measure(struct daemon *daemon)
{
	struct kept *kept;

	if (daemon->is_stored_measured)
		return;
	kept = calloc(1, sizeof *kept);
	if (!kept)
		return;
	*kept = (struct kept){
		.item = {.run = run, .done = done}, .daemon = daemon, .began_ms = daemon_now_ms()};
	snprintf(kept->dir, sizeof kept->dir, "%s", daemon->dir);
	if (!fill_tenants(kept) || !fill_entries(kept)) {
		free(kept->tenants);
		free(kept->entries);
		free(kept);
		return;
	}
	daemon->is_stored_dirty = false;
	daemon->is_stored_measured = true;
	work_submit(daemon->work, &kept->item, WORK_LATER);
}

void stored_tick(struct daemon *daemon, bool is_due)
{
	if (is_due || (daemon->is_stored_dirty && daemon_now_ms() >= daemon->stored_next_ms))
		stored_measure(daemon);
}

bool tenant_reserve_scratch(struct tenant *tenant, uint64_t bytes)
{
	if (tenant->scratch > 0 && tenant->scratch + bytes > TENANT_SCRATCH_MAX)
		return false;
	tenant->scratch += bytes;
	return true;
}

int daemon_scratch(struct daemon *daemon, struct atoll_error *err)
{
	char dir[PATH_MAX], name[PATH_MAX + 16];
	int r = daemon_subdir(daemon, "scratch", dir, err), fd;

	if (r < 0)
		return r;
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	/* File systems that have no O_TMPFILE: overlayfs before Linux 6.3, NFS. */
	snprintf(name, sizeof name, "%s/XXXXXX", dir);
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a temporary file");
	unlink(name);
	return fd;
}

int tenant_reserve_bytes(struct tenant *tenant, uint64_t bytes, struct atoll_error *err)
{
	tenant->uploading += bytes;
	return stored_check(tenant, tenant->uploading, err);
}

void tenant_release_bytes(struct tenant *tenant, uint64_t bytes, bool are_stored)
{
	tenant->uploading -= bytes;
	if (are_stored)
		stored_add(tenant, bytes);
}

void stored_add(struct tenant *tenant, uint64_t bytes)
{
	tenant->stored_mib += (bytes + (1 << 20) - 1) >> 20;
	tenant->daemon->is_stored_dirty = true;
}

int stored_check(const struct tenant *tenant, uint64_t bytes, struct atoll_error *err)
{
	const uint64_t more = (bytes + (1 << 20) - 1) >> 20,
		       used = tenant->disk_mib + tenant->stored_mib;

	if (tenant->max_disk_mib == UINT64_MAX || used + more <= tenant->max_disk_mib)
		return 0;
	return quota_refuse(
		err, ATOLL_FAULT_POLICY, EDQUOT,
		"disk: %llu MiB are used by sandboxes, snapshots, templates, volumes and "
		"logs, %llu more would be over the quota of %llu",
		(unsigned long long)used, (unsigned long long)more,
		(unsigned long long)tenant->max_disk_mib);
}

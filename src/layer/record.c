/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* ---- its parts ---- */

static char *store_path(const struct layer_record *record, const char *dir, const char *id,
			const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s/%s/%s", record->store.path, dir, id, name) < 0 ? NULL : path;
}

char *layer_top_path(const struct layer_record *record)
{
	return store_path(record, "records", record->info.id, "top");
}

char *layer_sealed_path(const struct layer_record *record, const char *layer)
{
	return store_path(record, "layers", layer, "upper");
}

int layer_record_push(struct layer_record *record, const char *layer)
{
	char **more = realloc(record->layers, (record->n_layers + 1) * sizeof *more);
	char *id = strdup(layer);

	if (more)
		record->layers = more;
	if (!more || !id) {
		free(id);
		return -ENOMEM;
	}
	memmove(more + 1, more, record->n_layers * sizeof *more);
	more[0] = id;
	record->n_layers++;
	return 0;
}

static size_t find_key(const struct layer_record *record, const char *key)
{
	size_t i = 0;

	while (i < record->n_keys && !streq(record->keys[i], key))
		i++;
	return i;
}

const char *layer_record_get(const struct layer_record *record, const char *key)
{
	size_t i = find_key(record, key);

	return i < record->n_keys ? record->values[i] : NULL;
}

static void drop_key(struct layer_record *record, size_t i)
{
	free(record->keys[i]);
	free(record->values[i]);
	record->n_keys--;
	/* The order stays, so that a saved meta changes only where something did. */
	memmove(record->keys + i, record->keys + i + 1, (record->n_keys - i) * sizeof(char *));
	memmove(record->values + i, record->values + i + 1, (record->n_keys - i) * sizeof(char *));
}

static int add_key(struct layer_record *record, const char *key, const char *value)
{
	size_t size = (record->n_keys + 1) * sizeof(char *);
	char **keys = realloc(record->keys, size), **values = realloc(record->values, size);

	record->keys = keys ? keys : record->keys;
	record->values = values ? values : record->values;
	if (!keys || !values)
		return -ENOMEM;
	keys[record->n_keys] = strdup(key);
	values[record->n_keys] = strdup(value);
	if (!keys[record->n_keys] || !values[record->n_keys]) {
		free(keys[record->n_keys]);
		free(values[record->n_keys]);
		return -ENOMEM;
	}
	record->n_keys++;
	return 0;
}

int layer_record_set(struct layer_record *record, const char *key, const char *value,
		     struct atoll_error *err)
{
	size_t i = find_key(record, key);
	char *copy;

	if (!value) {
		if (i < record->n_keys)
			drop_key(record, i);
		return 0;
	}
	if (i == record->n_keys)
		return add_key(record, key, value) < 0 ? error_oom(err) : 0;
	copy = strdup(value);
	if (!copy)
		return error_oom(err);
	free(record->values[i]);
	record->values[i] = copy;
	return 0;
}

/* ---- on the disk ---- */

static int write_meta(struct layer_record *record, bool waits, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(META_MAX);
	cleanup_fd int fd = -1;
	int r;

	meta_format(record, &text);
	r = buf_error(&text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "save record '%s'", record->info.id);
	/* Cut afterwards: what is cut to nothing first, ext4 writes to the disk when it is closed.
	 */
	fd = openat(record->fd, "meta.new", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.used);
	if (r == 0 && ftruncate(fd, (off_t)text.used) < 0)
		r = -errno;
	if (r == 0 && waits && fdatasync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(record->fd, "meta.new", record->fd, "meta") < 0)
		r = -errno;
	if (r == 0 && waits && fsync(record->fd) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "save record '%s'", record->info.id);
	if (record->is_sealing)
		unlinkat(record->fd, "sealing", 0);
	record->is_sealing = false;
	return 0;
}

int layer_record_save(struct layer_record *record, struct atoll_error *err)
{
	return write_meta(record, true, err);
}

int layer_record_save_soon(struct layer_record *record, struct atoll_error *err)
{
	return write_meta(record, false, err);
}

/* A layer that was sealed, and whoever did it was killed before he could write it down. */
static int push_unsaved(struct layer_record *record, struct atoll_error *err)
{
	char layer[ATOLL_ID_SIZE] = "", path[sizeof "layers/" + ATOLL_ID_SIZE];
	struct stat st;

	if (record->info.kind != ATOLL_RECORD_SANDBOX ||
	    readlinkat(record->fd, "sealing", layer, sizeof layer - 1) < 0 || !store_is_id(layer))
		return 0;
	for (size_t i = 0; i < record->n_layers; i++) {
		if (streq(record->layers[i], layer))
			return 0;
	}
	snprintf(path, sizeof path, "layers/%s", layer);
	if (fstatat(record->store.fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return layer_record_push(record, layer) < 0 ? error_oom(err) : 0;
}

int record_read_meta(struct layer_record *record, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(META_MAX);
	cleanup_fd int fd = openat(record->fd, "meta", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT
				       : error_set(err, ATOLL_FAULT_HOST, errno, "read record '%s'",
						   record->info.id);
	r = fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read record '%s'", record->info.id);
	meta_done(record);
	buf_add_char(&text, '\n');
	r = buf_error(&text) < 0 ? error_oom(err) : meta_parse(record, text.data, err);
	return r < 0 ? r : push_unsaved(record, err);
}

/* ---- open and close ---- */

static struct layer_record *record_new(void)
{
	struct layer_record *record = calloc(1, sizeof *record);

	if (!record)
		return NULL;
	record->store.fd = record->fd = record->lock_fd = -1;
	record->info.status = -1;
	return record;
}

void layer_record_close(struct layer_record *record)
{
	if (!record)
		return;
	meta_done(record);
	if (record->lock_fd >= 0)
		close(record->lock_fd);
	if (record->fd >= 0)
		close(record->fd);
	layer_store_close(&record->store);
	free(record);
}

static void scope_close_record(struct layer_record **record)
{
	layer_record_close(*record);
}

static int open_dir(struct layer_record *record, struct atoll_error *err)
{
	char path[sizeof "records/" + ATOLL_ID_SIZE];

	snprintf(path, sizeof path, "records/%s", record->info.id);
	record->fd =
		openat(record->store.fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (record->fd < 0)
		return errno == ENOENT ? -ENOENT
				       : error_set(err, ATOLL_FAULT_HOST, errno, "open record '%s'",
						   record->info.id);
	return 0;
}

int record_open_id(const struct layer_store *store, const char *id, struct layer_record **ret,
		   struct atoll_error *err)
{
	cleanup_with(scope_close_record) struct layer_record *record = record_new();
	int r;

	if (!record)
		return error_oom(err);
	strcpy(record->info.id, id);
	record->store.path = strdup(store->path);
	record->store.fd = record->store.path ? fcntl(store->fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (record->store.fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open record '%s'", id);
	r = open_dir(record, err);
	if (r == 0)
		r = record_share(record);
	/* It may have become another's before we had a share in it. */
	if (r == 0 && !record_is_there(record))
		r = -ENOENT;
	if (r == 0)
		r = record_read_meta(record, err);
	if (r < 0)
		return r;
	*ret = take_ptr(record);
	return 0;
}

/* ---- a new one ---- */

/* The later of two clocks that lag: what the host changes from now on has a time that is not
 * earlier than either. */
static uint64_t base_time_ns(int fresh_fd)
{
	struct timespec now = {0};
	struct stat st = {0};

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	fstat(fresh_fd, &st);
	if (st.st_ctim.tv_sec > now.tv_sec ||
	    (st.st_ctim.tv_sec == now.tv_sec && st.st_ctim.tv_nsec > now.tv_nsec))
		now = st.st_ctim;
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* They are used again and again: see spare.c. */
static void spread_records(const struct layer_record *record)
{
	cleanup_fd int fd = openat(record->store.fd, "records",
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		store_spread(fd);
}

static int make_dir(struct layer_record *record, struct atoll_error *err)
{
	char path[sizeof "records/" + ATOLL_ID_SIZE];
	int r;

	if (record->info.kind == ATOLL_RECORD_SANDBOX)
		spread_records(record);
	do {
		store_new_id(record->info.id);
		snprintf(path, sizeof path, "records/%s", record->info.id);
		r = mkdirat(record->store.fd, path, 0700) < 0 ? -errno : 0;
		if (r == -ENOENT) {
			r = store_make_dir(&record->store, "records", err);
			/* While there is room for it: a full disk is when it is needed. */
			if (r == 0)
				r = store_make_dir(&record->store, "trash", err);
			if (r < 0)
				return r;
			r = -EEXIST; /* once more */
		}
	} while (r == -EEXIST);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "create a record in '%s'",
				 record->store.path);
	r = open_dir(record, err);
	return r < 0 ? r : record_share(record);
}

static int look_at_workspace(struct layer_record *record, const char *workspace,
			     struct atoll_error *err)
{
	struct stat st;

	/* A link is never followed; the back end says so. */
	if (lstat(workspace, &st) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "workspace '%s'", workspace);
	record->info.workspace = strdup(workspace);
	if (!record->info.workspace)
		return error_oom(err);
	record->workspace_dev = st.st_dev;
	record->workspace_ino = st.st_ino;
	record->workspace_mode = st.st_mode & 07777;
	record->owner_uid = st.st_uid;
	record->owner_gid = st.st_gid;
	return 0;
}

static int fill_new(struct layer_record *record, struct atoll_error *err)
{
	int r;

	r = record_lock_new(record);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "lock a new record in '%s'",
				 record->store.path);
	return record_make_top(record, err);
}

static int make_new(struct layer_record *record, struct atoll_error *err)
{
	int r;

	if (record_take_spare(record))
		return 0;
	r = make_dir(record, err);
	if (r == 0) {
		r = fill_new(record, err);
		if (r < 0)
			layer_record_remove(record, NULL);
	}
	return r;
}

int layer_record_create(enum atoll_record_kind kind, const char *workspace,
			struct layer_record **ret, struct atoll_error *err)
{
	cleanup_with(scope_close_record) struct layer_record *record = record_new();
	int r;

	if (!record)
		return error_oom(err);
	record->info.kind = kind;
	record->info.state = ATOLL_RECORD_KEPT;
	r = look_at_workspace(record, workspace, err);
	if (r == 0)
		r = layer_store_open(true, &record->store, err);
	if (r == 0)
		r = make_new(record, err);
	if (r < 0)
		return r;
	record->base_time_ns = base_time_ns(record->fd);
	record->info.start_ns = record->base_time_ns;
	*ret = take_ptr(record);
	return 0;
}

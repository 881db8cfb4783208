/* SPDX-License-Identifier: Apache-2.0 */
#include "box/volume.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/volume-content.h"
#include "box/volume-mounts.h"
#include "box/work.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define VOLUMES_MAX 1000 /* of a tenant */
#define ID_LENGTH   21
#define META_MAX    4096

/* ---- one ---- */

static bool is_id(const char *id)
{
	return strlen(id) == ID_LENGTH && id[0] == 'v' &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ID_LENGTH;
}

static bool is_name(const char *name)
{
	size_t n = strlen(name);

	return n <= VOLUME_NAME_MAX && str_is_plain_name(name, n);
}

static bool copy_member(json_t *object, const char *key, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || strlen(text) >= size)
		return false;
	strcpy(ret, text);
	return true;
}

static bool read_meta(int volumes_fd, const char *id, struct volume *ret)
{
	cleanup_buf struct buf text = BUF_INIT(META_MAX);
	char path[64];
	cleanup_fd int fd = -1;
	json_t *object;
	bool is_good;

	snprintf(path, sizeof path, "%.32s/meta", id);
	fd = openat(volumes_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.data)
		return false;
	object = json_loadb(text.data, text.used, 0, NULL);
	snprintf(ret->id, sizeof ret->id, "%.23s", id);
	is_good = copy_member(object, "name", ret->name, sizeof ret->name) &&
		  copy_member(object, "tenant", ret->tenant, sizeof ret->tenant) &&
		  copy_member(object, "token", ret->token, sizeof ret->token);
	json_decref(object);
	return is_good;
}

bool volume_owner(int volumes_fd, const char *id, char ret_tenant[40])
{
	struct volume volume;

	if (!is_id(id) || !read_meta(volumes_fd, id, &volume))
		return false;
	snprintf(ret_tenant, 40, "%.39s", volume.tenant);
	return true;
}

/* ---- what goes ---- */

struct goner {
	struct work_item item;
	int volumes_fd;
	char name[64];
};

static void run_removal(struct work_item *item)
{
	struct goner *goner = (struct goner *)(void *)item;

	volume_remove_tree(goner->volumes_fd, goner->name);
}

static void removed(struct work_item *item)
{
	struct goner *goner = (struct goner *)(void *)item;

	close(goner->volumes_fd);
	free(goner);
}

/* Out of sight already; the rest on a thread. */
static int let_go(struct daemon *daemon, const struct tenant *owner, int volumes_fd,
		  const char *name)
{
	struct goner *goner = calloc(1, sizeof *goner);
	int fd = goner ? fcntl(volumes_fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (fd < 0) {
		free(goner);
		return -ENOMEM;
	}
	*goner = (struct goner){.item = {.run = run_removal, .done = removed, .owner = owner},
				.volumes_fd = fd};
	snprintf(goner->name, sizeof goner->name, "%.63s", name);
	work_submit(daemon_work(daemon), &goner->item, WORK_LATER);
	return 0;
}

static void empty_drafts(int volumes_fd, const char *id)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;
	int fd;

	snprintf(path, sizeof path, "%.32s/draft", id);
	fd = openat(volumes_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			volume_remove_tree(fd, entry->d_name);
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

/* ---- all of them ---- */

/* Of which there may be a thousand for each tenant: they are read once, at the start, and found in
 * memory from then on. */
struct volume_row {
	struct volume volume;
	bool is_made; /* else its name is taken, and nobody finds it */
	struct volume_row *next, *next_same_hash;
};

static struct volume_row **bucket_of(struct daemon *daemon, const char *id)
{
	uint32_t hash = 2166136261U;

	for (const char *at = id; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619U;
	return &daemon->volumes[hash % VOLUME_BUCKETS];
}

static struct volume_row *add_row(struct daemon_tenant *tenant, const struct volume *volume)
{
	struct volume_row *row = calloc(1, sizeof *row);
	struct volume_row **bucket = bucket_of(tenant->tenant.daemon, volume->id);

	if (!row)
		return NULL;
	row->volume = *volume;
	row->next = tenant->volumes;
	tenant->volumes = row;
	row->next_same_hash = *bucket;
	*bucket = row;
	return row;
}

static void drop_row(struct daemon_tenant *tenant, struct volume_row *row)
{
	struct volume_row **at = &tenant->volumes;

	while (*at != row)
		at = &(*at)->next;
	*at = row->next;
	at = bucket_of(tenant->tenant.daemon, row->volume.id);
	while (*at != row)
		at = &(*at)->next_same_hash;
	*at = row->next_same_hash;
	free(row);
}

static struct volume_row *find_row(struct daemon *daemon, const char *id)
{
	struct volume_row *row = *bucket_of(daemon, id);

	while (row && !(row->is_made && streq(row->volume.id, id)))
		row = row->next_same_hash;
	return row;
}

static int open_volumes(struct daemon *daemon, struct atoll_error *err)
{
	char path[PATH_MAX];
	int fd, r = daemon_subdir(daemon, "volumes", path, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path) : fd;
}

/* One of the directory's names. What a daemon that was killed has left goes. */
static int load_one(struct daemon *daemon, int volumes_fd, const char *name)
{
	struct volume_row *row;
	struct volume volume;
	struct tenant *tenant;

	if (starts_with(name, "old-") || starts_with(name, "new-")) {
		let_go(daemon, NULL, volumes_fd, name);
		return 0;
	}
	if (!is_id(name) || !read_meta(volumes_fd, name, &volume))
		return 0;
	empty_drafts(volumes_fd, name);
	tenant = tenant_find(daemon, volume.tenant);
	if (!tenant)
		return 0;
	row = add_row(inner_tenant(tenant), &volume);
	if (row)
		row->is_made = true;
	return row ? 0 : -ENOMEM;
}

int volumes_load(struct daemon *daemon, struct atoll_error *err)
{
	int fd = open_volumes(daemon, err), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : error_oom(err);
	}
	while (r == 0 && (entry = readdir(dir)))
		r = load_one(daemon, fd, entry->d_name);
	closedir(dir);
	return r < 0 ? error_oom(err) : 0;
}

void volumes_free(struct daemon *daemon)
{
	for (size_t i = 0; i < VOLUME_BUCKETS; i++) {
		while (daemon->volumes[i]) {
			struct volume_row *row = daemon->volumes[i];

			daemon->volumes[i] = row->next_same_hash;
			free(row);
		}
	}
}

bool volume_find(struct daemon *daemon, const char *id, struct volume *ret)
{
	const struct volume_row *row = find_row(daemon, id);

	if (row)
		*ret = row->volume;
	return row;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct volume *)a)->name, ((const struct volume *)b)->name);
}

static size_t count(const struct daemon_tenant *tenant)
{
	size_t n = 0;

	for (const struct volume_row *row = tenant->volumes; row; row = row->next)
		n++;
	return n;
}

int volume_list(struct tenant *tenant, struct volume **ret, size_t *ret_n, struct atoll_error *err)
{
	const struct daemon_tenant *mine = inner_tenant(tenant);
	struct volume *list = calloc(count(mine) + 1, sizeof *list);
	size_t n = 0;

	if (!list)
		return error_oom(err);
	for (const struct volume_row *row = mine->volumes; row; row = row->next)
		if (row->is_made)
			list[n++] = row->volume;
	qsort(list, n, sizeof *list, by_name);
	*ret = list;
	*ret_n = n;
	return 0;
}

/* ---- making and removing ---- */

static int check_new(struct tenant *tenant, const char *name, struct atoll_error *err)
{
	const struct daemon_tenant *mine = inner_tenant(tenant);

	if (!is_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "the name of a volume has 1 to %d of a-z, A-Z, 0-9, '-', '_', '.'",
				 VOLUME_NAME_MAX);
	if (count(mine) >= VOLUMES_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EDQUOT, "there are %d volumes",
				 VOLUMES_MAX);
	for (const struct volume_row *row = mine->volumes; row; row = row->next)
		if (streq(row->volume.name, name))
			return error_set(err, ATOLL_FAULT_REQUEST, EEXIST, "volume '%s'", name);
	return 0;
}

static int write_meta(int dir_fd, const struct volume *volume)
{
	cleanup_buf struct buf text = BUF_INIT(META_MAX);
	struct json json = {.out = &text};
	cleanup_fd int fd = -1;
	int r;

	json_open(&json, NULL, '{');
	json_str(&json, "name", volume->name);
	json_str(&json, "tenant", volume->tenant);
	json_str(&json, "token", volume->token);
	json_close(&json, '}');
	if (buf_error(&text) < 0)
		return buf_error(&text);
	fd = openat(dir_fd, "meta", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.used);
	return r < 0 || fsync(fd) == 0 ? r : -errno;
}

/* Under another name until all of it is there. */
static int make(int volumes_fd, const struct volume *volume)
{
	cleanup_fd int fd = -1;
	char draft[32];
	int r;

	snprintf(draft, sizeof draft, "new-%s", volume->id);
	if (mkdirat(volumes_fd, draft, 0700) < 0)
		return -errno;
	fd = openat(volumes_fd, draft, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || mkdirat(fd, "data", 0755) < 0 || mkdirat(fd, "draft", 0700) < 0)
		return -errno;
	r = write_meta(fd, volume);
	if (r == 0 && renameat(volumes_fd, draft, volumes_fd, volume->id) < 0)
		r = -errno;
	if (r == 0)
		fsync(volumes_fd);
	else
		volume_remove_tree(volumes_fd, draft);
	return r;
}

/* On a thread: it waits for the disk. */
struct making {
	struct work_item item;
	struct later later;
	struct tenant *tenant;
	struct volume_row *row; /* NULL: it failed before */
	struct volume volume;
	int volumes_fd, code;
	struct atoll_error error;
	volume_made *made;
	void *data;
};

static void run_making(struct work_item *item)
{
	struct making *making = (struct making *)(void *)item;

	making->code = make(making->volumes_fd, &making->volume);
}

static void finish(struct making *making)
{
	if (making->row && making->code < 0) {
		error_set(&making->error, ATOLL_FAULT_HOST, -making->code, "make volume '%s'",
			  making->volume.name);
		drop_row(inner_tenant(making->tenant), making->row);
	} else if (making->row) {
		making->row->is_made = true;
	}
	if (making->volumes_fd >= 0)
		close(making->volumes_fd);
	making->made(making->error.fault ? NULL : &making->volume, &making->error, making->data);
	free(making);
}

static void was_made(struct work_item *item)
{
	finish((struct making *)(void *)item);
}

static void fail_later(struct later *later)
{
	finish((struct making *)((char *)later - offsetof(struct making, later)));
}

static int begin(struct making *making, const char *name)
{
	struct volume *volume = &making->volume;
	struct tenant *tenant = making->tenant;
	int r = check_new(tenant, name, &making->error);

	if (r == 0)
		r = making->volumes_fd = open_volumes(tenant->daemon, &making->error);
	if (r < 0)
		return r;
	volume->id[0] = 'v';
	daemon_random_name(volume->id + 1, ID_LENGTH - 1);
	daemon_random_hex(volume->token, 40);
	snprintf(volume->name, sizeof volume->name, "%.64s", name);
	snprintf(volume->tenant, sizeof volume->tenant, "%s", tenant->id);
	making->row = add_row(inner_tenant(tenant), volume);
	return making->row ? 0 : error_oom(&making->error);
}

void volume_create(struct tenant *tenant, const char *name, volume_made *made, void *data)
{
	struct making *making = calloc(1, sizeof *making);

	if (!making)
		abort();
	making->tenant = tenant;
	making->made = made;
	making->data = data;
	making->volumes_fd = -1;
	making->code = -ECANCELED; /* also if the daemon stops before */
	making->item = (struct work_item){.run = run_making, .done = was_made, .owner = tenant};
	if (begin(making, name) < 0)
		daemon_call_later(tenant->daemon, &making->later, fail_later);
	else
		work_submit(daemon_work(tenant->daemon), &making->item, WORK_NOW);
}

int volume_remove(struct daemon *daemon, const struct volume *volume, struct atoll_error *err)
{
	cleanup_fd int fd = open_volumes(daemon, err);
	struct volume_row *row = find_row(daemon, volume->id);
	struct tenant *tenant = tenant_find(daemon, volume->tenant);
	char name[64];
	int r = fd < 0 ? fd : volume_check_unused(daemon, volume, err);

	if (r < 0)
		return r;
	snprintf(name, sizeof name, "old-%s", volume->id);
	if (renameat(fd, volume->id, fd, name) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "remove volume '%s'", volume->name);
	daemon->is_stored_dirty = true;
	if (row && tenant)
		drop_row(inner_tenant(tenant), row);
	/* Without memory for that it is done by the next daemon. */
	let_go(daemon, tenant, fd, name);
	return 0;
}

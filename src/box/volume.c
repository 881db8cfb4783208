/* SPDX-License-Identifier: Apache-2.0 */
#include "box/volume.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/inner.h"

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

	return n > 0 && n <= VOLUME_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
		       n &&
	       name[0] != '.';
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
static int let_go(struct house *house, int volumes_fd, const char *name)
{
	struct goner *goner = calloc(1, sizeof *goner);
	int fd = goner ? fcntl(volumes_fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (fd < 0) {
		free(goner);
		return -ENOMEM;
	}
	*goner = (struct goner){.item = {.run = run_removal, .done = removed}, .volumes_fd = fd};
	snprintf(goner->name, sizeof goner->name, "%.63s", name);
	work_submit(house_work(house), &goner->item, WORK_LATER);
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

/* Once, before anything of our own is under way: what a daemon that was killed has left. */
static void tidy(struct house *house, int volumes_fd)
{
	static const struct house *tidied;
	int fd = tidied == house ? -1 : fcntl(volumes_fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	tidied = house;
	while (dir && (entry = readdir(dir))) {
		if (starts_with(entry->d_name, "old-") || starts_with(entry->d_name, "new-"))
			let_go(house, volumes_fd, entry->d_name);
		else if (is_id(entry->d_name))
			empty_drafts(volumes_fd, entry->d_name);
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

/* ---- all of them ---- */

static int open_volumes(struct house *house, struct atoll_error *err)
{
	char path[PATH_MAX];
	int fd, r = house_subdir(house, "volumes", path, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	tidy(house, fd);
	return fd;
}

bool volume_find(struct house *house, const char *id, struct volume *ret)
{
	cleanup_fd int fd = is_id(id) ? open_volumes(house, NULL) : -1;

	return fd >= 0 && read_meta(fd, id, ret);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct volume *)a)->name, ((const struct volume *)b)->name);
}

static int add_volume(struct volume **list, size_t *n, const struct volume *volume)
{
	if ((*n & (*n - 1)) == 0) {
		struct volume *more = reallocarray(*list, *n ? 2 * *n : 1, sizeof *more);

		if (!more)
			return -ENOMEM;
		*list = more;
	}
	(*list)[(*n)++] = *volume;
	return 0;
}

int volume_list(struct tenant *tenant, struct volume **ret, size_t *ret_n, struct atoll_error *err)
{
	int fd = open_volumes(tenant->house, err), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct volume *list = NULL, volume;
	struct dirent *entry;
	size_t n = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : error_oom(err);
	}
	while (r == 0 && (entry = readdir(dir)))
		if (is_id(entry->d_name) && read_meta(dirfd(dir), entry->d_name, &volume) &&
		    streq(volume.tenant, tenant->id))
			r = add_volume(&list, &n, &volume);
	closedir(dir);
	if (r < 0) {
		free(list);
		return error_oom(err);
	}
	if (n)
		qsort(list, n, sizeof *list, by_name);
	*ret = list;
	*ret_n = n;
	return 0;
}

/* ---- making and removing ---- */

static int check_new(struct tenant *tenant, const char *name, struct atoll_error *err)
{
	cleanup_free struct volume *list = NULL;
	size_t n = 0;
	int r;

	if (!is_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "the name of a volume has 1 to %d of a-z, A-Z, 0-9, '-', '_', '.'",
				 VOLUME_NAME_MAX);
	r = volume_list(tenant, &list, &n, err);
	if (r < 0)
		return r;
	if (n >= VOLUMES_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EDQUOT, "there are %zu volumes", n);
	for (size_t i = 0; i < n; i++)
		if (streq(list[i].name, name))
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

int volume_create(struct tenant *tenant, const char *name, struct volume *ret,
		  struct atoll_error *err)
{
	cleanup_fd int fd = open_volumes(tenant->house, err);
	struct volume volume = {0};
	int r = fd < 0 ? fd : check_new(tenant, name, err);

	if (r < 0)
		return r;
	volume.id[0] = 'v';
	house_random_name(volume.id + 1, ID_LENGTH - 1);
	house_random_hex(volume.token, 40);
	snprintf(volume.name, sizeof volume.name, "%.64s", name);
	snprintf(volume.tenant, sizeof volume.tenant, "%s", tenant->id);
	r = make(fd, &volume);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "make volume '%s'", name);
	*ret = volume;
	return 0;
}

int volume_remove(struct house *house, const struct volume *volume, struct atoll_error *err)
{
	cleanup_fd int fd = open_volumes(house, err);
	char name[64];
	int r = fd < 0 ? fd : volume_check_unused(house, volume, err);

	if (r < 0)
		return r;
	snprintf(name, sizeof name, "old-%s", volume->id);
	if (renameat(fd, volume->id, fd, name) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "remove volume '%s'", volume->name);
	/* Without memory for that it is done by the next daemon. */
	let_go(house, fd, name);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/store.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

/* Kinds of file systems that <linux/magic.h> does not name. */
#define MAGIC_BCACHEFS 0xca451a4e
#define MAGIC_ZFS      0x2fc12fc1

static const char id_letters[] = "abcdefghijklmnopqrstuvwxyz234567";

bool store_is_id(const char *text)
{
	return strlen(text) == STORE_ID_LENGTH && strspn(text, id_letters) == STORE_ID_LENGTH;
}

void store_new_id(char ret[ATOLL_ID_SIZE])
{
	unsigned char random[STORE_ID_LENGTH];

	/* So few bytes are never short; the call only waits where a machine has just started. */
	while (getrandom(random, sizeof random, 0) != sizeof random)
		;
	for (size_t i = 0; i < STORE_ID_LENGTH; i++)
		ret[i] = id_letters[random[i] % 32];
	ret[STORE_ID_LENGTH] = '\0';
}

/* ---- opening ---- */

int layer_store_path(char path[PATH_MAX], struct atoll_error *err)
{
	return state_path(path, err);
}

int layer_store_open(bool create, struct layer_store *ret, struct atoll_error *err)
{
	char path[PATH_MAX];
	cleanup_fd int fd = state_open(create, path, err);

	if (fd < 0)
		return fd;
	ret->path = strdup(path);
	if (!ret->path)
		return error_oom(err);
	ret->fd = take_fd(&fd);
	return 0;
}

void layer_store_close(struct layer_store *store)
{
	if (store->path && store->fd >= 0)
		close(store->fd);
	free(store->path);
	*store = (struct layer_store){.fd = -1};
}

/* ---- what it can and holds ---- */

bool layer_store_can_overlay(const struct layer_store *store)
{
	struct statfs fs;

	if (fstatfs(store->fd, &fs) < 0)
		return false;
	switch ((uint32_t)fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case TMPFS_MAGIC:
	case MAGIC_BCACHEFS:
	case MAGIC_ZFS:
		break;
	default:
		/* overlayfs and NFS cannot; what is not known might, and a tmpfs does. */
		return false;
	}
	/* tmpfs has these since 6.6, and ext4 can be mounted without. */
	return fgetxattr(store->fd, "user.overlay.origin", NULL, 0) >= 0 || errno == ENODATA;
}

bool layer_store_needs_memory(const char *workspace)
{
	struct layer_store store = {.fd = -1};
	char path[PATH_MAX];
	bool is_needed;

	if (layer_store_path(path, NULL) < 0)
		return false;
	/* An overlay cannot have its upper layer beneath its lower one: a workspace that holds the
	 * store, say a whole home, is written to memory as well. */
	if (path_is_within(path, workspace))
		return true;
	/* It may not have been made yet; then it will be where something above it is. */
	while ((store.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 && path[1]) {
		char *slash = strrchr(path, '/');

		slash[slash == path] = '\0';
	}
	is_needed = store.fd < 0 || !layer_store_can_overlay(&store);
	if (store.fd >= 0)
		close(store.fd);
	return is_needed;
}

int store_space(int fd, uint64_t *ret_free, uint64_t *ret_floor)
{
	const uint64_t most = UINT64_C(1) << 30;
	struct statfs fs;
	uint64_t size;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	*ret_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	*ret_floor = size / 20 < most ? size / 20 : most; /* as init_space_floor() */
	return 0;
}

int store_make_dir(const struct layer_store *store, const char *name, struct atoll_error *err)
{
	if (mkdirat(store->fd, name, 0700) < 0 && errno != EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, errno, "create '%s/%s'", store->path, name);
	return 0;
}

static bool is_among(const char *name, const char *const *names)
{
	while (*names && !streq(*names, name))
		names++;
	return *names || streq(name, ".") || streq(name, "..");
}

bool store_dir_has_only(int fd, const char *const *names)
{
	_Alignas(struct dirent64) char room[1024];
	ssize_t got;

	while ((got = getdents64(fd, (void *)room, sizeof room)) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(room + at);

			at += entry->d_reclen;
			if (!is_among(entry->d_name, names))
				return false;
		}
	}
	return got == 0;
}

bool store_dir_is_empty(int fd)
{
	static const char *const none[] = {NULL};

	return store_dir_has_only(fd, none);
}

static int add_id(struct store_ids *ids, const char *id)
{
	void *more = ids->items;

	if (ids->n % 64 == 0) {
		more = realloc(more, (ids->n + 64) * sizeof *ids->items);
		if (!more)
			return -ENOMEM;
		ids->items = more;
	}
	strcpy(ids->items[ids->n++], id);
	return 0;
}

int store_list(const struct layer_store *store, const char *dir, struct store_ids *ret,
	       struct atoll_error *err)
{
	int fd = openat(store->fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *entry;
	DIR *stream;
	int r = 0;

	*ret = (struct store_ids){0};
	if (fd < 0)
		return errno == ENOENT ? 0
				       : error_set(err, ATOLL_FAULT_HOST, errno, "open '%s/%s'",
						   store->path, dir);
	stream = fdopendir(fd);
	if (!stream) {
		close(fd);
		return error_oom(err);
	}
	while (r == 0 && (entry = readdir(stream))) {
		if (store_is_id(entry->d_name))
			r = add_id(ret, entry->d_name);
	}
	closedir(stream);
	if (r < 0)
		store_ids_done(ret);
	return r < 0 ? error_oom(err) : 0;
}

void store_ids_done(struct store_ids *ids)
{
	free(ids->items);
	*ids = (struct store_ids){0};
}

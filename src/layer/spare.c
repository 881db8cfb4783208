/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/*
 * Records that nobody wrote to, for the next run
 *
 * What a layer costs at the start is the directories that it needs on the disk: each is an inode
 * and a block to be found, and one to be given back, for which some file systems wait for the disk
 * (ext4 with `discard` and without a journal: 0.15 ms at best). Most runs write nothing. The record
 * of such a run is put aside as spare/N and taken by the next one, by a rename each time.
 *
 * spare/0 is special: it was made ahead, while a command ran, and at a place of its own on the
 * disk. A run makes and removes seven inodes even so, all by the kernel when it mounts the overlay,
 * and ext4 without a journal, to find a free one, looks at each that was removed in the last
 * minutes from the same part of the disk; near busy directories that took longer than all the rest.
 *
 * Whoever holds the lock in it may take it. Nothing that lies there is believed: it is looked at
 * when it is taken, so a kill at any moment leaves a spare, a record without meta, which the sweep
 * knows, or trash. What a command can have changed is top/upper, its names, mode, owner and
 * attributes; the rest is out of its reach. In the trash ends work/work, which the kernel wants to
 * make itself.
 */

#define SPARE_MAX      8
#define SPARE_DIR_SIZE 16384 /* a directory that had many names stays long on some file systems */

static const char *slot_path(int slot, char ret[16])
{
	snprintf(ret, 16, "spare/%d", slot);
	return ret;
}

static int open_dir(int dir_fd, const char *path)
{
	return openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_at(const struct layer_record *record, const char *path)
{
	struct stat here, there;

	return fstat(record->fd, &here) == 0 &&
	       fstatat(record->store.fd, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* ---- as good as new? ---- */

/* The kernel's own, of a mount: the overlay's number. Labels are the machine's. */
static bool has_only_usual_xattrs(int fd)
{
	char names[256];
	ssize_t size = flistxattr(fd, names, sizeof names);

	if (size < 0)
		return errno == ENOTSUP;
	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1) {
		if (!streq(names + at, "user.overlay.uuid") &&
		    !starts_with(names + at, "security."))
			return false;
	}
	return true;
}

/* Root gives a layer to the workspace's owner; of others it is their own. */
static bool fit_owner(const struct layer_record *record, int fd, const struct stat *st)
{
	bool is_root = geteuid() == 0;
	uid_t uid = is_root ? record->owner_uid : geteuid();
	gid_t gid = is_root ? record->owner_gid : getegid();

	if (st->st_uid == uid && st->st_gid == gid)
		return true;
	return is_root && fchown(fd, uid, gid) == 0;
}

static bool fit_upper(const struct layer_record *record, int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > SPARE_DIR_SIZE || !store_dir_is_empty(fd))
		return false;
	if (!has_only_usual_xattrs(fd) || !fit_owner(record, fd, &st))
		return false;
	/* Its times are those of the workspace inside. */
	return ((st.st_mode & 07777) == record->workspace_mode ||
		fchmod(fd, record->workspace_mode) == 0) &&
	       futimens(fd, NULL) == 0;
}

static bool fit_shut(const struct layer_record *record, int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0700 &&
	       fit_owner(record, fd, &st);
}

static bool fit(const struct layer_record *record)
{
	static const char *const in_record[] = {"lock", "meta", "meta.new", "top", NULL};
	static const char *const in_top[] = {"upper", "work", NULL};
	static const char *const in_work[] = {"work", NULL};
	cleanup_fd int top = open_dir(record->fd, "top");
	cleanup_fd int work = top < 0 ? -1 : open_dir(top, "work");
	cleanup_fd int upper = top < 0 ? -1 : open_dir(top, "upper");

	if (!fit_shut(record, top) || !fit_shut(record, work) || !fit_upper(record, upper))
		return false;
	if (!store_dir_has_only(record->fd, in_record) || !store_dir_has_only(top, in_top) ||
	    !store_dir_has_only(work, in_work))
		return false;
	if (store_throw_away(&record->store, work, "work", NULL) < 0)
		return false;
	/* The first process of the last run is not this one's. */
	if (pwrite(record->lock_fd, "0\n", 2, 0) != 2)
		return false;
	/* Seen by others only when it has been written anew. */
	return renameat(record->fd, "meta", record->fd, "meta.new") == 0 || errno == ENOENT;
}

/* ---- take one ---- */

static void let_go(struct layer_record *record)
{
	if (record->lock_fd >= 0)
		close(record->lock_fd);
	if (record->fd >= 0)
		close(record->fd);
	record->fd = record->lock_fd = -1;
}

/* By a new id. */
static int move_in(struct layer_record *record, const char *slot)
{
	char path[sizeof "records/" + ATOLL_ID_SIZE];
	int r;

	do {
		store_new_id(record->info.id);
		snprintf(path, sizeof path, "records/%s", record->info.id);
		r = renameat(record->store.fd, slot, record->store.fd, path) < 0 ? -errno : 0;
	} while (r == -EEXIST || r == -ENOTEMPTY);
	return r;
}

static int take_slot(struct layer_record *record, const char *slot)
{
	int r;

	record->fd = open_dir(record->store.fd, slot);
	if (record->fd < 0)
		return -errno;
	r = record_lock_new(record);
	/* Somebody else may have been quicker. */
	if (r == 0 && !is_at(record, slot))
		r = -EBUSY;
	if (r == 0 && !fit(record)) {
		store_throw_away(&record->store, record->store.fd, slot, NULL);
		r = -ESTALE;
	}
	if (r == 0)
		r = move_in(record, slot);
	if (r < 0)
		let_go(record);
	return r;
}

bool record_take_spare(struct layer_record *record)
{
	char slot[16];

	for (int i = 0; i < SPARE_MAX; i++) {
		if (take_slot(record, slot_path(i, slot)) == 0) {
			record->is_ahead = i == 0;
			return true;
		}
	}
	return false;
}

/* ---- give one back ---- */

/* What the run was is nobody's business any more. Not to its very beginning: what is written after
 * that ext4 takes for a file to be replaced, and writes it to the disk at once. */
static void forget(const struct layer_record *record)
{
	cleanup_fd int fd = -1;

	renameat(record->fd, "meta", record->fd, "meta.new");
	fd = openat(record->fd, "meta.new", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 1) < 0)
		unlinkat(record->fd, "meta.new", 0);
}

static bool put_aside(const struct layer_record *record)
{
	char path[sizeof "records/" + ATOLL_ID_SIZE], slot[16];
	int r = -EEXIST;

	snprintf(path, sizeof path, "records/%s", record->info.id);
	for (int i = record->is_ahead ? 0 : 1; i < SPARE_MAX && (r == -EEXIST || r == -ENOTEMPTY);
	     i++) {
		slot_path(i, slot);
		r = renameat(record->store.fd, path, record->store.fd, slot) < 0 ? -errno : 0;
		if (r == -ENOENT && store_make_dir(&record->store, "spare", NULL) == 0)
			r = renameat(record->store.fd, path, record->store.fd, slot) < 0 ? -errno
											 : 0;
	}
	return r == 0;
}

int layer_record_recycle(struct layer_record *record, struct atoll_error *err)
{
	if (record->info.kind != ATOLL_RECORD_RUN || record->info.is_memory || record->n_layers ||
	    !layer_top_is_empty(record) || !put_aside(record))
		return layer_record_drop(record, err);
	forget(record);
	return 0;
}

/* ---- make one ahead ---- */

/* New directories here are to be far from each other: a hint that only ext4 takes. */
static void spread(int dir_fd)
{
	int flags = 0;

	if (ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
		flags |= FS_TOPDIR_FL;
		ioctl(dir_fd, FS_IOC_SETFLAGS, &flags);
	}
}

static bool make_files(int dir_fd)
{
	static const char *const names[] = {"lock", "meta.new"};
	bool is_made = true;

	for (size_t i = 0; is_made && i < ARRAY_SIZE(names); i++) {
		cleanup_fd int fd =
			openat(dir_fd, names[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		is_made = fd >= 0;
	}
	return is_made;
}

/* In the trash, so that nothing stays if this is killed. What somebody empties there meanwhile is
 * missed by whoever takes it. */
static void make_ahead(const struct layer_store *store, int trash_fd)
{
	cleanup_fd int fd = -1;
	char id[ATOLL_ID_SIZE], slot[16];

	store_new_id(id);
	if (mkdirat(trash_fd, id, 0700) == 0)
		fd = open_dir(trash_fd, id);
	if (fd >= 0 && make_files(fd) && mkdirat(fd, "top", 0700) == 0 &&
	    mkdirat(fd, "top/work", 0700) == 0 && mkdirat(fd, "top/upper", 0700) == 0)
		renameat(trash_fd, id, store->fd, slot_path(0, slot));
}

void layer_store_prepare(const struct layer_store *store)
{
	cleanup_fd int trash = -1;
	char slot[16];

	if (faccessat(store->fd, slot_path(0, slot), F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    !layer_store_can_overlay(store) || store_make_dir(store, "trash", NULL) < 0 ||
	    store_make_dir(store, "spare", NULL) < 0)
		return;
	trash = open_dir(store->fd, "trash");
	if (trash < 0)
		return;
	spread(trash);
	make_ahead(store, trash);
}

/* ---- the end of it ---- */

static bool is_older(const struct layer_store *store, const char *slot, int64_t time_s)
{
	struct stat st;

	return fstatat(store->fd, slot, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ctim.tv_sec <= time_s;
}

void store_drop_spares(const struct layer_store *store, int64_t older_s)
{
	char slot[16];

	for (int i = 0; i < SPARE_MAX; i++) {
		struct layer_record record = {.store = *store, .fd = -1, .lock_fd = -1};

		if (!is_older(store, slot_path(i, slot), older_s))
			continue;
		record.fd = open_dir(store->fd, slot);
		if (record.fd >= 0 && record_lock_new(&record) == 0 && is_at(&record, slot))
			store_throw_away(store, store->fd, slot, NULL);
		let_go(&record);
	}
}

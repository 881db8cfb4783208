/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/store.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/*
 * Records for the next one
 *
 * What a layer costs at the start is the directories that it needs on the disk: each is an inode
 * and a block to be found, and one to be given back, for which some file systems wait for the disk
 * (ext4 with `discard` and without a journal: 0.15 ms at best). Most runs write nothing. The record
 * of such a run is put aside as spare/N and taken by the next one, by a rename each time. That of a
 * sandbox is emptied first, whatever it wrote, and put aside as spare/sN.
 *
 * spare/0 is special: it was made ahead, while a command ran, and at a place of its own on the
 * disk. A run makes and removes seven inodes even so, all by the kernel when it mounts the overlay,
 * and ext4 without a journal, to find a free one, looks at each that was removed in the last
 * minutes from the same part of the disk; near busy directories that took longer than all the rest.
 * Records of sandboxes are all made apart (record.c), and taken in no order, for the same reason.
 *
 * Whoever holds the lock in it may take it. Nothing that lies there is believed: it is looked at
 * when it is taken, so a kill at any moment leaves a spare, a record without meta, which the sweep
 * knows, or trash. What a command can have changed is top/upper, its names, mode, owner and
 * attributes; the rest is out of its reach. In the trash ends work/work, which the kernel wants to
 * make itself.
 *
 * Who has a record open may still be reading it, and would then read the next one's. So everybody
 * has a shared lock on the directory itself (record_share()), and what is to be put aside has to be
 * locked alone; where it cannot be, it is removed instead.
 */

#define SPARE_MAX   8
#define SANDBOX_MAX 48
_Static_assert(SANDBOX_MAX <= 64, "a bit for each");
#define SPARE_DIR_SIZE 16384 /* a directory that had many names stays long on some file systems */

static int slots_of(const struct layer_record *record)
{
	return record->info.kind == ATOLL_RECORD_SANDBOX ? SANDBOX_MAX : SPARE_MAX;
}

static const char *slot_path(enum atoll_record_kind kind, int slot, char ret[16])
{
	snprintf(ret, 16, kind == ATOLL_RECORD_SANDBOX ? "spare/s%d" : "spare/%d", slot);
	return ret;
}

/* Where to begin to look: those of sandboxes in turn, so that none is used much more than others.
 */
static int first_slot(const struct layer_record *record)
{
	unsigned char random = 0;

	/* Without one it begins with the first. */
	if (record->info.kind != ATOLL_RECORD_SANDBOX ||
	    getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
		return 0;
	return random % SANDBOX_MAX;
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
bool record_has_usual_xattrs(int fd)
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
	if (!record_has_usual_xattrs(fd) || !fit_owner(record, fd, &st))
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

/* What is written over has to be of nobody else's, and blank. */
static bool fit_file(const struct layer_record *record, const char *name)
{
	struct stat st;

	if (fstatat(record->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	return S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_size <= 1;
}

static bool fit_names(const struct layer_record *record)
{
	static const char *const of_run[] = {"lock", "meta", "meta.new", "top", NULL};
	static const char *const of_sandbox[] = {"lock", "meta", "meta.new", "top",
						 "job",	 "held", "number",   NULL};

	if (record->info.kind != ATOLL_RECORD_SANDBOX)
		return store_dir_has_only(record->fd, of_run);
	return store_dir_has_only(record->fd, of_sandbox) && fit_file(record, "job") &&
	       fit_file(record, "number");
}

static bool fit(const struct layer_record *record)
{
	static const char *const in_top[] = {"upper", "work", NULL};
	static const char *const in_work[] = {"work", NULL};
	cleanup_fd int top = open_dir(record->fd, "top");
	cleanup_fd int work = top < 0 ? -1 : open_dir(top, "work");
	cleanup_fd int upper = top < 0 ? -1 : open_dir(top, "upper");

	if (!fit_shut(record, top) || !fit_shut(record, work) || !fit_upper(record, upper))
		return false;
	if (!fit_names(record) || !store_dir_has_only(top, in_top) ||
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
	if (r == 0)
		r = record_share(record);
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

static bool take_of_run(struct layer_record *record)
{
	char slot[16];

	for (int i = 0; i < SPARE_MAX; i++) {
		if (take_slot(record, slot_path(ATOLL_RECORD_RUN, i, slot)) == 0) {
			record->is_ahead = i == 0;
			return true;
		}
	}
	return false;
}

/* Which slots are filled; there are many. */
static uint64_t filled_slots(const struct layer_store *store)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	cleanup_fd int fd = open_dir(store->fd, "spare");
	uint64_t filled = 0;
	const char *at;

	if (fd < 0 || tree_list(fd, &names) < 0)
		return 0;
	at = names.text;
	for (size_t i = 0; i < names.n; i++, at += strlen(at) + 1) {
		const unsigned long slot = at[0] == 's' ? strtoul(at + 1, NULL, 10) : SANDBOX_MAX;

		if (slot < SANDBOX_MAX)
			filled |= UINT64_C(1) << slot;
	}
	return filled;
}

bool record_take_spare(struct layer_record *record)
{
	const int first = first_slot(record);
	uint64_t filled;
	char slot[16];

	if (record->info.kind != ATOLL_RECORD_SANDBOX)
		return take_of_run(record);
	filled = filled_slots(&record->store);
	for (int i = 0; filled && i < SANDBOX_MAX; i++) {
		const int at = (first + i) % SANDBOX_MAX;

		if (filled >> at & 1 &&
		    take_slot(record, slot_path(ATOLL_RECORD_SANDBOX, at, slot)) == 0)
			return true;
	}
	return false;
}

/* ---- give one back ---- */

int record_share(const struct layer_record *record)
{
	/* Where there are no such locks, nothing is ever put aside. */
	return flock(record->fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK ? -ENOENT : 0;
}

static bool is_alone(const struct layer_record *record)
{
	return flock(record->fd, LOCK_EX | LOCK_NB) == 0;
}

static int move_to(const struct layer_record *record, const char *slot)
{
	char path[sizeof "records/" + ATOLL_ID_SIZE];

	snprintf(path, sizeof path, "records/%s", record->info.id);
	return renameat(record->store.fd, path, record->store.fd, slot) < 0 ? -errno : 0;
}

static bool put_aside(const struct layer_record *record, char ret_slot[16])
{
	const bool is_run = record->info.kind == ATOLL_RECORD_RUN;
	const int n = slots_of(record), first = first_slot(record);
	int r = -EEXIST;

	for (int i = 0; i < n && (r == -EEXIST || r == -ENOTEMPTY); i++) {
		const int at = (first + i) % n;

		/* That is for those that were made ahead. */
		if (is_run && at == 0 && !record->is_ahead)
			continue;
		slot_path(record->info.kind, at, ret_slot);
		r = move_to(record, ret_slot);
		if (r == -ENOENT && store_make_dir(&record->store, "spare", NULL) == 0)
			r = move_to(record, ret_slot);
	}
	return r == 0;
}

int layer_record_recycle(struct layer_record *record, struct atoll_error *err)
{
	char slot[16];

	if (record->info.kind != ATOLL_RECORD_RUN || record->info.is_memory || record->n_layers ||
	    !layer_top_is_empty(record) || !is_alone(record) || !put_aside(record, slot))
		return layer_record_drop(record, err);
	/* What the run was is nobody's business any more. */
	record_blank_meta(record);
	return 0;
}

int layer_record_recycle_first(struct layer_record *record, struct layer_names *lost,
			       struct atoll_error *err)
{
	char slot[16];

	if (record->info.kind != ATOLL_RECORD_SANDBOX || !is_alone(record))
		return layer_record_drop_first(record, lost, err);
	layer_names_add(lost, &record->store, record->info.id);
	if (!put_aside(record, slot))
		return record_throw_away(record, err);
	if (!record_blank(record))
		store_throw_away(&record->store, record->store.fd, slot, NULL);
	return 0;
}

/* ---- make one ahead ---- */

void store_spread(int dir_fd)
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
		renameat(trash_fd, id, store->fd, slot_path(ATOLL_RECORD_RUN, 0, slot));
}

void layer_store_prepare(const struct layer_store *store)
{
	cleanup_fd int trash = -1;
	char slot[16];

	if (faccessat(store->fd, slot_path(ATOLL_RECORD_RUN, 0, slot), F_OK, AT_SYMLINK_NOFOLLOW) ==
		    0 ||
	    !layer_store_can_overlay(store) || store_make_dir(store, "trash", NULL) < 0 ||
	    store_make_dir(store, "spare", NULL) < 0)
		return;
	trash = open_dir(store->fd, "trash");
	if (trash < 0)
		return;
	store_spread(trash);
	make_ahead(store, trash);
}

/* ---- the end of it ---- */

static bool is_older(const struct layer_store *store, const char *slot, int64_t time_s)
{
	struct stat st;

	return fstatat(store->fd, slot, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ctim.tv_sec <= time_s;
}

static void drop_old(const struct layer_store *store, const char *slot, int64_t older_s)
{
	struct layer_record record = {.store = *store, .fd = -1, .lock_fd = -1};

	if (!is_older(store, slot, older_s))
		return;
	record.fd = open_dir(store->fd, slot);
	if (record.fd >= 0 && record_lock_new(&record) == 0 && is_at(&record, slot))
		store_throw_away(store, store->fd, slot, NULL);
	let_go(&record);
}

void store_drop_spares(const struct layer_store *store, int64_t older_s)
{
	char slot[16];

	for (int i = 0; i < SPARE_MAX; i++)
		drop_old(store, slot_path(ATOLL_RECORD_RUN, i, slot), older_s);
	for (int i = 0; i < SANDBOX_MAX; i++)
		drop_old(store, slot_path(ATOLL_RECORD_SANDBOX, i, slot), older_s);
}

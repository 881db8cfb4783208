/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * Who may change a record, and what state that leaves it in
 */

static int open_lock(const struct layer_record *record, const char *name)
{
	int fd = openat(record->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* A lock of the open file's, not of the process's: it is let go with the last copy of the
 * descriptor, also by kill -9, and never by closing another one of the same file. */
static int lock_file(int fd, bool waits)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int r;

	do
		r = fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

int store_lock(const struct layer_store *store)
{
	cleanup_fd int fd =
		openat(store->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : lock_file(fd, true);

	return r < 0 ? r : take_fd(&fd);
}

static bool is_locked(const struct layer_record *record, const char *name)
{
	cleanup_fd int fd = openat(record->fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int layer_record_hold(const struct layer_record *record)
{
	cleanup_fd int fd = open_lock(record, "held");
	int r = fd < 0 ? fd : lock_file(fd, false);

	/* Whoever removes it holds it meanwhile: it may lie in the trash by now. */
	if (r == 0 && !record_is_there(record))
		r = -ENOENT;
	return r < 0 ? r : take_fd(&fd);
}

bool layer_record_is_held(const struct layer_record *record)
{
	return is_locked(record, "held");
}

bool record_is_locked(const struct layer_record *record)
{
	return is_locked(record, "lock");
}

enum atoll_record_state record_state(const struct layer_record *record)
{
	bool is_changing = record_is_locked(record);

	if ((is_changing && record->info.end_ns == 0 && record->info.kind == ATOLL_RECORD_RUN) ||
	    layer_record_is_held(record))
		return ATOLL_RECORD_LIVE;
	/* Whoever holds it may just be applying it. */
	if (!is_changing && faccessat(record->fd, "journal", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return ATOLL_RECORD_BROKEN;
	return record->info.state;
}

bool record_is_void(const struct layer_record *record)
{
	return record->info.kind == ATOLL_RECORD_RUN && record->info.end_ns == 0 &&
	       record->n_applies == 0 && layer_top_is_empty(record) && !record_is_locked(record);
}

bool record_is_there(const struct layer_record *record)
{
	char path[sizeof "records/" + ATOLL_ID_SIZE];
	struct stat here, there;

	snprintf(path, sizeof path, "records/%s", record->info.id);
	return fstat(record->fd, &here) == 0 &&
	       fstatat(record->store.fd, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       here.st_ino == there.st_ino;
}

/* The top was renamed away, and the meta does not say so yet, or there is none: whoever did it was
 * killed, or had no room. If the meta cannot be saved now, the link tells what it should say. */
static int make_whole(struct layer_record *record, struct atoll_error *err)
{
	struct stat st;
	int r;

	if (record->info.kind != ATOLL_RECORD_SANDBOX)
		return 0;
	if (fstatat(record->fd, "sealing", &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (faccessat(record->fd, "top/upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		    errno != ENOENT)
			return 0;
		return record_make_top(record, err);
	}
	r = record_make_top(record, err);
	record->is_sealing = true;
	if (r == 0)
		layer_record_save(record, NULL);
	return r;
}

static int lock_and_read(struct layer_record *record, bool waits, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	int r;

	fd = open_lock(record, "lock");
	r = fd < 0 ? fd : lock_file(fd, waits);
	/* Somebody may have removed it while we waited, and a later run may have it. */
	if ((r == 0 || r == -EBUSY) && !record_is_there(record))
		return store_refuse(err, ATOLL_FAULT_REQUEST, ENOENT, "record '%s' is gone",
				    record->info.id);
	if (r == -EBUSY)
		return store_refuse(
			err, ATOLL_FAULT_POLICY, EBUSY,
			"record '%s' is in use: it is running, or another command is at "
			"work on it",
			record->info.id);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "lock record '%s'", record->info.id);
	r = record_read_meta(record, err);
	if (r == -ENOENT)
		return store_refuse(err, ATOLL_FAULT_REQUEST, ENOENT, "record '%s' is gone",
				    record->info.id);
	if (r < 0)
		return r;
	record->lock_fd = take_fd(&fd);
	return 0;
}

int layer_record_lock(struct layer_record *record, bool waits, struct atoll_error *err)
{
	int r;

	if (record->lock_fd >= 0)
		return 0;
	r = lock_and_read(record, waits, err);
	if (r == 0)
		r = make_whole(record, err);
	/* Who could not have it whole has not got it, and may ask again. */
	if (r < 0 && record->lock_fd >= 0)
		close(take_fd(&record->lock_fd));
	return r;
}

int layer_record_lock_to_remove(struct layer_record *record, struct atoll_error *err)
{
	return record->lock_fd >= 0 ? 0 : lock_and_read(record, false, err);
}

int record_lock_new(struct layer_record *record)
{
	record->lock_fd = open_lock(record, "lock");
	return record->lock_fd < 0 ? record->lock_fd : lock_file(record->lock_fd, false);
}

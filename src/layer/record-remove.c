/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/store.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- the trash ---- */

/* Descriptors that removing may hold, one a level. What is deeper is moved up to the trash itself,
 * so that a tree of any depth can be removed. */
#define DEPTH_MAX 64

/* So many things may wait for a run that lasts longer than a moment. */
#define LITTER_MAX 32

struct emptying {
	int trash_fd;
	int64_t deadline_ns;
	uint64_t n_moved;
};

static bool is_late(const struct emptying *emptying)
{
	return emptying->deadline_ns && clock_monotonic_ns() > emptying->deadline_ns;
}

/* Whatever modes a command gave it, it is ours, and nobody else is at work here. */
static int open_to_empty(int dir_fd, const char *name)
{
	int fd = tree_open_at(dir_fd, name, O_RDONLY | O_DIRECTORY, true);

	if (fd >= 0)
		fchmod(fd, 0700);
	return fd;
}

static int move_up(struct emptying *emptying, int dir_fd, const char *name)
{
	char to[8 + ATOLL_ID_SIZE], fresh[ATOLL_ID_SIZE];

	store_new_id(fresh);
	snprintf(to, sizeof to, "deep-%s", fresh);
	emptying->n_moved++;
	/* Who moves a directory writes to it, too: its "..". */
	if (fchmodat(dir_fd, name, 0700, 0) < 0 ||
	    renameat(dir_fd, name, emptying->trash_fd, to) < 0)
		return -errno;
	return 0;
}

/* Remove a name. 0, 1 if time ran out, or a negative errno. */
static int remove_name(struct emptying *emptying, int dir_fd, const char *name, int depth)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	cleanup_fd int fd = -1;
	const char *at;
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (depth > DEPTH_MAX)
		return move_up(emptying, dir_fd, name);
	fd = open_to_empty(dir_fd, name);
	if (fd < 0)
		return fd;
	r = tree_list(fd, &names);
	at = names.text;
	for (size_t i = 0; r == 0 && i < names.n; i++, at += strlen(at) + 1)
		r = is_late(emptying) ? 1 : remove_name(emptying, fd, at, depth + 1);
	if (r != 0)
		return r;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int store_empty_trash(const struct layer_store *store, int64_t deadline_ns)
{
	cleanup_fd int fd =
		openat(store->fd, "trash", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct emptying emptying = {fd, deadline_ns, 0};
	int r = 0;

	if (fd < 0)
		return 0;
	/* Once more as long as something deep was moved here. */
	do {
		cleanup_with(tree_names_done) struct tree_names names = {0};
		const char *at;

		emptying.n_moved = 0;
		lseek(fd, 0, SEEK_SET);
		r = tree_list(fd, &names);
		at = names.text;
		for (size_t i = 0; r >= 0 && i < names.n; i++, at += strlen(at) + 1) {
			int one = is_late(&emptying) ? 1 : remove_name(&emptying, fd, at, 0);

			/* What cannot be removed must not keep the rest. */
			r = one != 0 ? 1 : r;
		}
	} while (r == 0 && emptying.n_moved);
	return r;
}

bool layer_store_tidy(const struct layer_store *store, int64_t most_ns)
{
	return store_empty_trash(store, clock_monotonic_ns() + most_ns) == 1;
}

bool layer_store_is_littered(const struct layer_store *store)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	cleanup_fd int fd =
		openat(store->fd, "trash", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && tree_list(fd, &names) == 0 && names.n > LITTER_MAX;
}

int store_throw_away(const struct layer_store *store, int dir_fd, const char *path,
		     struct atoll_error *err)
{
	char to[64], fresh[ATOLL_ID_SIZE];
	int r;

	store_new_id(fresh);
	snprintf(to, sizeof to, "trash/%s", fresh);
	r = renameat(dir_fd, path, store->fd, to) < 0 ? -errno : 0;
	if (r == -ENOENT) {
		/* It, or the trash. Without one nothing has gone. */
		r = store_make_dir(store, "trash", err);
		if (r < 0)
			return r;
		r = renameat(dir_fd, path, store->fd, to) < 0 ? -errno : 0;
	}
	if (r < 0 && (r != -ENOENT || faccessat(dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0))
		return error_set(err, ATOLL_FAULT_HOST, -r, "remove '%s' in '%s'", path,
				 store->path);
	return 0;
}

/* ---- how much there is ---- */

uint64_t layer_tree_bytes(int dir_fd, const char *name)
{
	cleanup_fd int root = tree_open_at(dir_fd, name, O_RDONLY | O_DIRECTORY, true);
	cleanup_with(tree_dirs_done) struct tree_dirs dirs = TREE_DIRS_INIT;
	uint64_t bytes = 0;

	tree_dirs_add(&dirs, 0, "");
	for (size_t at = 0; root >= 0 && at < dirs.n; at++) {
		cleanup_with(tree_names_done) struct tree_names names = {0};
		cleanup_free char *dir = tree_dirs_path(&dirs, at);
		cleanup_fd int fd = dir ? tree_open_dir(root, dir, true) : -1;
		const char *entry;
		struct stat st;

		if (!dir)
			break;
		if (fd < 0 || tree_list(fd, &names) < 0)
			continue;
		entry = names.text;
		for (size_t i = 0; i < names.n; i++, entry += strlen(entry) + 1) {
			if (tree_stat_at(fd, entry, true, &st) < 0)
				continue;
			/* Each name of a file counts for a part of it. */
			bytes += (uint64_t)st.st_blocks * 512 /
				 (S_ISDIR(st.st_mode) || !st.st_nlink ? 1 : st.st_nlink);
			if (S_ISDIR(st.st_mode))
				tree_dirs_add(&dirs, at, entry);
		}
	}
	return bytes;
}

/* ---- one record ---- */

int record_throw_away(struct layer_record *record, struct atoll_error *err)
{
	char path[sizeof "records/" + ATOLL_ID_SIZE];

	snprintf(path, sizeof path, "records/%s", record->info.id);
	return store_throw_away(&record->store, record->store.fd, path, err);
}

int layer_record_drop_first(struct layer_record *record, struct layer_names *lost,
			    struct atoll_error *err)
{
	/* A run has none of its own, and is in a hurry. */
	if (record->info.kind == ATOLL_RECORD_SANDBOX)
		layer_names_add(lost, &record->store, record->info.id);
	return record_throw_away(record, err);
}

int layer_record_drop(struct layer_record *record, struct atoll_error *err)
{
	cleanup_with(layer_names_done) struct layer_names lost = {0};
	int r = layer_record_drop_first(record, &lost, err);

	if (r == 0)
		layer_names_drop(&record->store, &lost);
	return r;
}

int layer_record_remove(struct layer_record *record, struct atoll_error *err)
{
	int r = layer_record_drop(record, err);

	if (r == 0)
		store_empty_trash(&record->store, 0);
	return r;
}

/* ---- on request ---- */

/* How long a run that is ended may take to say so. */
#define END_TRIES 500
#define END_MS	  20

/* The first process of a run writes no more; its number stands in the lock. Whoever holds that is
 * its supervisor, and would have let it go before the number could be another's. */
static int end_run(const struct layer_record *record)
{
	cleanup_fd int fd = openat(record->fd, "lock", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_fd int pid_fd = -1;
	char text[16] = "";
	pid_t pid;

	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		return -errno;
	pid = (pid_t)strtol(text, NULL, 10);
	if (pid <= 1)
		return -ESRCH;
	pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pid_fd < 0)
		return -errno;
	if (!record_is_locked(record) || !record_is_there(record))
		return 0;
	return syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
}

static int lock_to_discard(struct layer_record *record, bool is_forced, struct atoll_error *err)
{
	const struct timespec pause = {.tv_nsec = END_MS * 1000000L};
	int r = layer_record_lock_to_remove(record, err);

	if (r != -EBUSY)
		return r;
	if (record_state(record) == ATOLL_RECORD_LIVE && !is_forced)
		return store_refuse(err, ATOLL_FAULT_POLICY, EBUSY,
				    "run '%s' is still running; --force ends it", record->info.id);
	if (record_state(record) == ATOLL_RECORD_LIVE)
		end_run(record);
	for (int i = 0; i < END_TRIES && r == -EBUSY; i++) {
		nanosleep(&pause, NULL);
		r = layer_record_lock_to_remove(record, err);
	}
	return r;
}

/* One whose meta nobody can read any more. */
static int discard_damaged(const char *id, struct atoll_error *err)
{
	struct layer_store store = {.fd = -1};
	char path[sizeof "records/" + ATOLL_ID_SIZE];
	int r = layer_store_open(false, &store, err);

	if (r < 0)
		return r;
	snprintf(path, sizeof path, "records/%s", id);
	r = store_throw_away(&store, store.fd, path, err);
	if (r == 0)
		store_empty_trash(&store, 0);
	layer_store_close(&store);
	return r;
}

int layer_record_discard(const char *id, bool is_forced, struct atoll_error *err)
{
	struct layer_record *record;
	struct atoll_error story = {0};
	int r = layer_record_open(id, &record, &story);

	if (r == -EBADMSG && is_forced && id && store_is_id(id))
		return discard_damaged(id, err);
	if (r < 0) {
		if (err)
			*err = story;
		return r;
	}
	if (layer_record_is_held(record)) {
		r = store_refuse(err, ATOLL_FAULT_POLICY, EBUSY,
				 "sandbox '%s' is live; `atoll rm %s` ends and removes it",
				 record->info.id, record->info.id);
		layer_record_close(record);
		return r;
	}
	r = lock_to_discard(record, is_forced, err);
	/* One that was ended and had written nothing is gone by itself. */
	if (r == -ENOENT && is_forced)
		r = 0;
	else if (r == 0 && !is_forced &&
		 faccessat(record->fd, "journal", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		r = store_refuse(err, ATOLL_FAULT_POLICY, EBUSY,
				 "an apply of '%s' was interrupted; `atoll apply %s` finishes it, "
				 "--force forgets it as it is",
				 record->info.id, record->info.id);
	else if (r == 0)
		r = layer_record_remove(record, err);
	layer_record_close(record);
	return r;
}

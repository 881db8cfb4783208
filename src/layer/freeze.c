/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/freeze.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/draft.h"
#include "layer/layer-tree.h"
#include "layer/object.h"
#include "layer/result.h"
#include "layer/store.h"
#include "layer/vet.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>

#define PREFIX "frozen-"

/* Whoever uses such a directory has it locked, so what can be locked was left by a kill. */
void layer_freeze_sweep(const struct layer_record *record)
{
	cleanup_fd int fd = openat(record->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree_names names = {0};
	const char *name;

	if (fd < 0 || tree_list(fd, &names) < 0)
		return;
	name = names.text;
	for (size_t i = 0; i < names.n; i++, name += strlen(name) + 1) {
		cleanup_fd int dir = -1;

		if (!starts_with(name, PREFIX))
			continue;
		dir = openat(record->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
			object_remove(record->fd, name);
	}
	tree_names_done(&names);
}

static int make_dir(struct layer_changes *changes, struct atoll_error *err)
{
	int record_fd = changes->record->fd, fd = -1;
	char *name = changes->frozen_name;
	uint64_t number;

	layer_freeze_sweep(changes->record);
	if (getrandom(&number, sizeof number, 0) != sizeof number)
		return error_set(err, ATOLL_FAULT_HOST, errno, "get random bytes");
	snprintf(name, sizeof changes->frozen_name, PREFIX "%012" PRIx64, number >> 16);
	if (mkdirat(record_fd, name, 0700) == 0)
		fd = openat(record_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Another's sweep may come between: then it is gone, and copying fails with ENOENT. */
	if (fd < 0 || flock(fd, LOCK_EX) < 0) {
		if (fd >= 0)
			close(fd);
		return error_set(err, ATOLL_FAULT_HOST, errno, "make '%s' in record %s", name,
				 changes->record->info.id);
	}
	changes->frozen_fd = fd;
	return 0;
}

void freeze_end(struct layer_changes *changes)
{
	if (!changes->frozen)
		return;
	changes->stack.result = NULL;
	result_free(changes->frozen);
	changes->frozen = NULL;
	if (changes->frozen_fd >= 0) {
		object_remove(changes->record->fd, changes->frozen_name);
		close(changes->frozen_fd);
	}
	changes->frozen_fd = -1;
}

static int has_moved(const char *path, struct atoll_error *err)
{
	char shown[256];

	return error_set(err, ATOLL_FAULT_POLICY, EAGAIN,
			 "'%s' changed while it was copied; wait until nobody writes it",
			 str_show(path, shown, sizeof shown));
}

/* The content stays the host's, as far as the list found. */
static bool is_kept(const struct atoll_change *change)
{
	return change->kind == ATOLL_CHANGED && S_ISDIR(change->before.st_mode) &&
	       S_ISDIR(change->after.st_mode);
}

static int freeze_one(struct layer_changes *changes, struct object_copier *copier,
		      struct atoll_change *change, size_t number, struct atoll_error *err)
{
	cleanup_fd int fd = layer_stack_open_after(&changes->stack, change->path);
	struct stat st;
	char name[24];
	int r;

	if (layer_has_moved(fd))
		return has_moved(change->path, err);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, -fd, "open '%.300s' in the layer",
				 change->path);
	snprintf(name, sizeof name, "%zu", number);
	copier->is_alone = vet_is_guarded(changes->record->info.workspace, change->path);
	r = object_copy(copier, fd, name, false, true, change->path, err);
	if (r < 0)
		return r;
	if (fstatat(copier->to_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "copy '%.300s'", change->path);
	if ((st.st_mode ^ change->after.st_mode) & S_IFMT)
		return has_moved(change->path, err);
	/* Whose it is was told by the layer; a copy of a user's is the user's. */
	st.st_uid = change->after.st_uid;
	st.st_gid = change->after.st_gid;
	/* The first of several names was copied before the others. */
	if (change->after.st_nlink > st.st_nlink)
		st.st_nlink = change->after.st_nlink;
	change->after = st;
	r = is_kept(change)
		    ? result_add_kept(changes->frozen, change->path, copier->to_fd, name, &st)
		    : result_add_copy(changes->frozen, change->path, copier->to_fd, name, &st);
	return r < 0 ? error_oom(err) : 0;
}

static int freeze_all(struct layer_changes *changes, struct drafts *drafts, struct atoll_error *err)
{
	cleanup_with(object_copier_done) struct object_copier copier = {
		.to_fd = changes->frozen_fd,
		.is_ours = true,
		.owner_uid = changes->record->owner_uid,
		.owner_gid = changes->record->owner_gid,
		.is_passing = true,
	};
	int r = 0;

	for (size_t i = 0; i < drafts->n && r == 0; i++) {
		struct atoll_change *change = &drafts->items[i].change;

		if (change->kind != ATOLL_DELETED)
			r = freeze_one(changes, &copier, change, i, err);
		else if (result_add_gone(changes->frozen, change->path) < 0)
			r = error_oom(err);
		if (r == 0 && change->from && result_add_gone(changes->frozen, change->from) < 0)
			r = error_oom(err);
	}
	return r;
}

int freeze_drafts(struct layer_changes *changes, struct drafts *drafts, struct atoll_error *err)
{
	int r;

	if (changes->record->info.kind == ATOLL_RECORD_RUN &&
	    record_state(changes->record) != ATOLL_RECORD_LIVE)
		return 0;
	changes->frozen_fd = -1;
	changes->frozen = result_new();
	if (!changes->frozen)
		return error_oom(err);
	r = make_dir(changes, err);
	if (r == 0)
		r = freeze_all(changes, drafts, err);
	if (r < 0)
		return r;
	result_sort(changes->frozen);
	for (size_t i = 0; i < drafts->n; i++) {
		struct atoll_change *change = &drafts->items[i].change;

		if (change->kind == ATOLL_CHANGED)
			change->parts =
				vet_compare(changes->frozen, changes->stack.base_fd, change);
	}
	changes->stack.result = changes->frozen;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/pile.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static void scope_close_stack(struct layer_stack *stack)
{
	layer_stack_close(stack);
}

/* ---- an empty one ---- */

#define TOP_DIRS 3

static const char *const top_names[TOP_DIRS] = {"top", "top/work", "top/upper"};
/* What takes its place. */
static const char *const next_names[TOP_DIRS] = {"next", "next/work", "next/upper"};

/* What the sandbox sees as its workspace's own owner and mode are those of the upper directory. As
 * root the layer's files belong to the workspace's owner, and he has to get there; else they can
 * only be ours. */
static int fit_top(const struct layer_record *record, const char *const names[TOP_DIRS])
{
	bool is_ours = geteuid() != 0 || (record->owner_uid == 0 && record->owner_gid == 0);

	for (size_t i = 0; !is_ours && i < TOP_DIRS; i++) {
		if (fchownat(record->fd, names[i], record->owner_uid, record->owner_gid,
			     AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
	}
	/* mkdir() heeds the umask. */
	return fchmodat(record->fd, names[2], record->workspace_mode, 0) < 0 ? -errno : 0;
}

static int make_top(const struct layer_record *record, const char *const names[TOP_DIRS],
		    struct atoll_error *err)
{
	bool is_fresh = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < TOP_DIRS; i++) {
		is_fresh = mkdirat(record->fd, names[i], 0700) == 0;
		if (!is_fresh && errno != EEXIST)
			r = -errno;
	}
	if (r == 0 && is_fresh)
		r = fit_top(record, names);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "create a layer in record '%s'",
				 record->info.id)
		     : 0;
}

/* Those that are empty. */
static void remove_top(const struct layer_record *record, const char *const names[TOP_DIRS])
{
	for (size_t i = TOP_DIRS; i > 0; i--)
		unlinkat(record->fd, names[i - 1], AT_REMOVEDIR);
}

int record_make_top(struct layer_record *record, struct atoll_error *err)
{
	return make_top(record, top_names, err);
}

bool layer_top_is_empty(const struct layer_record *record)
{
	cleanup_fd int fd =
		openat(record->fd, "top/upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	/* Shut, so somebody shut it. */
	if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & 07777) != record->workspace_mode)
		return fd < 0 && errno == ENOENT;
	if (faccessat(record->fd, "top/gone", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return false;
	return store_dir_is_empty(fd);
}

/* ---- sealed ones ---- */

int record_new_layer(const struct layer_record *record, char ret_id[ATOLL_ID_SIZE],
		     char ret_path[32])
{
	do {
		store_new_id(ret_id);
		snprintf(ret_path, 32, "layers/%s", ret_id);
	} while (faccessat(record->store.fd, ret_path, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	return store_make_dir(&record->store, "layers", NULL);
}

static int seal_failed(const struct layer_record *record, int code, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, -code, "seal the layer of record '%s'",
			 record->info.id);
}

/* The sealed layer becomes the top again, in the place of one that is new, or not even whole. */
static int unseal(struct layer_record *record)
{
	char path[sizeof "layers/" + ATOLL_ID_SIZE];

	remove_top(record, top_names);
	snprintf(path, sizeof path, "layers/%s", record->layers[0]);
	if (renameat(record->store.fd, path, record->fd, "top") < 0)
		return -errno;
	free(record->layers[0]);
	record->n_layers--;
	memmove(record->layers, record->layers + 1, record->n_layers * sizeof *record->layers);
	unlinkat(record->fd, "sealing", 0);
	record->is_sealing = false;
	return 0;
}

void layer_unseal_top(struct layer_record *record)
{
	/* If it cannot be, the link tells of it. */
	if (record->is_sealing && record->n_layers > 0)
		unseal(record);
}

int layer_seal_top(struct layer_record *record, struct atoll_error *err)
{
	char id[ATOLL_ID_SIZE], path[32];
	int r = record_new_layer(record, id, path);

	if (r < 0)
		return seal_failed(record, r, err);
	/* Should this process be killed before the meta is saved, this link says where the top is:
	 * record_read_meta() looks at it. */
	unlinkat(record->fd, "sealing", 0);
	if (symlinkat(id, record->fd, "sealing") < 0)
		return seal_failed(record, -errno, err);
	if (renameat(record->fd, "top", record->store.fd, path) < 0) {
		r = -errno;
		unlinkat(record->fd, "sealing", 0);
		return seal_failed(record, r, err);
	}
	record->is_sealing = true;
	if (layer_record_push(record, id) < 0)
		return error_oom(err);
	r = record_make_top(record, err);
	/* A disk that is full. */
	if (r < 0)
		layer_unseal_top(record);
	return r;
}

/* Some layers of the record's stack as a new one under layers/. On failure nothing stays. */
static int make_layer(const struct layer_record *record, struct pile *pile,
		      char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	cleanup_fd int out = -1;
	char path[32];
	int r = record_new_layer(record, ret_id, path);

	if (r == 0 && mkdirat(record->store.fd, path, 0700) < 0)
		r = -errno;
	if (r < 0)
		return seal_failed(record, r, err);
	out = openat(record->store.fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = out < 0 ? seal_failed(record, -errno, err) : pile_make(pile, out, err);
	if (r < 0)
		store_throw_away(&record->store, record->store.fd, path, NULL);
	return r;
}

int layer_copy_top(struct layer_record *record, struct atoll_error *err)
{
	cleanup_with(scope_close_stack) struct layer_stack stack = {.base_fd = -1};
	struct pile pile = {.stack = &stack, .first = 0, .n = 1};
	char id[ATOLL_ID_SIZE];
	int r = layer_stack_open(record, &stack, err);

	if (r == 0)
		r = make_layer(record, &pile, id, err);
	if (r == 0 && layer_record_push(record, id) < 0)
		r = error_oom(err);
	return r;
}

void layer_drop_copy(const struct layer_record *record, const char *layer)
{
	char path[sizeof "layers/" + ATOLL_ID_SIZE];

	snprintf(path, sizeof path, "layers/%s", layer);
	if (store_throw_away(&record->store, record->store.fd, path, NULL) == 0)
		store_empty_trash(&record->store, 0);
}

int layer_reset_top(struct layer_record *record, struct atoll_error *err)
{
	/* First, so that on a full disk all stays as it was. */
	int r = make_top(record, next_names, err);

	/* One that was left by a kill. */
	if (r == 0)
		r = store_throw_away(&record->store, record->fd, "old", err);
	if (r == 0 && (renameat(record->fd, "top", record->fd, "old") < 0 ||
		       renameat(record->fd, "next", record->fd, "top") < 0))
		r = error_set(err, ATOLL_FAULT_HOST, errno, "create a layer in record '%s'",
			      record->info.id);
	if (r < 0)
		layer_reset_end(record, false);
	return r;
}

void layer_reset_end(struct layer_record *record, bool is_done)
{
	if (is_done) {
		store_throw_away(&record->store, record->fd, "old", NULL);
		return;
	}
	remove_top(record, next_names);
	if (faccessat(record->fd, "old", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	remove_top(record, top_names);
	renameat(record->fd, "old", record->fd, "top");
}

int layer_flatten(struct layer_record *record, struct atoll_error *err)
{
	cleanup_with(scope_close_stack) struct layer_stack stack = {.base_fd = -1};
	struct pile pile = {.stack = &stack, .first = 1, .n = record->n_layers, .links = true};
	char id[ATOLL_ID_SIZE];
	int r;

	if (record->n_layers <= LAYER_DEPTH_MAX / 2)
		return 0;
	r = layer_stack_open(record, &stack, err);
	if (r == 0)
		r = make_layer(record, &pile, id, err);
	if (r < 0)
		return error_context(err, r, "join the layers of '%s'", record->info.id);
	/* Checkpoints and other records may still need them; if not, a sweep finds that out. */
	for (size_t i = 0; i < record->n_layers; i++)
		free(record->layers[i]);
	record->n_layers = 0;
	return layer_record_push(record, id) < 0 ? error_oom(err) : 0;
}

/* ---- a tmpfs ---- */

static int open_memory(int top_fd, struct layer_stack *ret)
{
	ret->layer_fds = calloc(1, sizeof *ret->layer_fds);
	ret->gone = calloc(1, sizeof *ret->gone);
	if (!ret->layer_fds || !ret->gone)
		return -ENOMEM;
	ret->layer_fds[0] =
		openat(top_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->layer_fds[0] < 0)
		return -errno;
	ret->n = 1;
	return 0;
}

int layer_take_in(struct layer_record *record, int top_fd, struct atoll_error *err)
{
	cleanup_with(scope_close_stack) struct layer_stack stack = {.base_fd = -1};
	struct pile pile = {.stack = &stack,
			    .n = 1,
			    .has_owner = true,
			    .uid = record->owner_uid,
			    .gid = record->owner_gid};
	cleanup_fd int top = -1;
	int r = open_memory(top_fd, &stack);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the layer in memory");
	r = store_throw_away(&record->store, record->fd, "top", err);
	if (r == 0 && mkdirat(record->fd, "top", 0700) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, errno, "create a layer in record '%s'",
			      record->info.id);
	if (r < 0)
		return r;
	top = openat(record->fd, "top", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = top < 0 ? error_set(err, ATOLL_FAULT_HOST, errno, "open the layer of record '%s'",
				record->info.id)
		    : pile_make(&pile, top, err);
	store_empty_trash(&record->store, 0);
	/* Without these nobody can tell what was copied up from what is new. */
	if (r == 0 && pile.has_lost_origins)
		r = layer_record_set(record, "origins", "lost", err);
	return r < 0 ? error_context(err, r, "keep what the run wrote")
		     : record_make_top(record, err);
}

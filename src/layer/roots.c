/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/object.h"
#include "layer/pile.h"
#include "layer/stack.h"
#include "layer/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>

/*
 * What was written beside the workspace
 *
 * With `root: layer` a sandbox's system directories are overlays whose upper layers lie in memory,
 * and so do its private places. To be kept they are copied here, all of them into one sealed layer
 * that is laid out as the root is: what was written over /usr is its directory `usr`. Such layers
 * have a list of their own (the key `roots` in the meta, and a second list in the lines of
 * `checkpoints`), which no stack of the workspace's contains: nothing that reads changes, applies
 * or exports them ever sees one.
 *
 * A stranger has filled it. So it has no devices, sockets, set-id bits of files, capabilities,
 * access lists or notes of the overlay's own besides deleted names and opaque directories; and it
 * belongs to ids that are nobody's (base/ids.h).
 */

#define KEY   LAYER_ROOTS
#define BYTES "bytes" /* a file beside upper/: how much it is */

/* ---- the list ---- */

void layer_roots_read(const char *text, struct layer_roots *ret)
{
	*ret = (struct layer_roots){0};
	for (const char *at = text; at && *at && ret->n < LAYER_ROOTS_MAX;) {
		size_t length = strcspn(at, " ,");
		char id[ATOLL_ID_SIZE] = "";

		if (length == STORE_ID_LENGTH)
			memcpy(id, at, length);
		if (store_is_id(id))
			memcpy(ret->ids[ret->n++], id, sizeof id);
		at += length + (at[length] != '\0');
	}
}

void layer_roots_get(const struct layer_record *record, struct layer_roots *ret)
{
	layer_roots_read(layer_record_get(record, KEY), ret);
}

static int set(struct layer_record *record, const char *key, const struct layer_roots *roots,
	       struct atoll_error *err)
{
	char text[(LAYER_ROOTS_MAX + 1) * ATOLL_ID_SIZE] = "";

	for (size_t i = 0; i < roots->n; i++) {
		strcat(text, i ? " " : "");
		strcat(text, roots->ids[i]);
	}
	if (!roots->n && !layer_record_get(record, key))
		return 0;
	return layer_record_set(record, key, roots->n ? text : NULL, err);
}

int layer_roots_set(struct layer_record *record, const struct layer_roots *roots,
		    struct atoll_error *err)
{
	return set(record, KEY, roots, err);
}

bool layer_roots_are(const struct layer_roots *a, const struct layer_roots *b)
{
	return a->n == b->n && memcmp(a->ids, b->ids, a->n * sizeof a->ids[0]) == 0;
}

static void add_lost(struct layer_names *lost, const struct layer_names *own, const char *text)
{
	struct layer_roots roots;

	layer_roots_read(text, &roots);
	for (size_t i = 0; i < roots.n; i++) {
		if (!layer_names_find(own, roots.ids[i]))
			layer_names_put(lost, roots.ids[i]);
	}
}

void layer_roots_drop(const struct layer_record *record, const char *roots, const char *below)
{
	cleanup_with(layer_names_done) struct layer_names own = {0}, lost = {0};

	/* Mostly a checkpoint of its own has them; the others' records are many. */
	if ((!roots && !below) || layer_names_add(&own, &record->store, record->info.id) < 0)
		return;
	add_lost(&lost, &own, roots);
	add_lost(&lost, &own, below);
	layer_names_drop(&record->store, &lost);
}

/* ---- what is not kept, and whether anything has changed ---- */

bool layer_root_leaves_out(const struct layer_root *root, const char *name)
{
	for (size_t i = 0; root->left_out && root->left_out[i]; i++) {
		if (streq(root->left_out[i], name))
			return true;
	}
	return false;
}

struct looking {
	const struct layer_root *root;
	const struct timespec *since;
	bool is_top;
};

static bool is_later(const struct stat *st, const struct timespec *since)
{
	return st->st_ctim.tv_sec != since->tv_sec ? st->st_ctim.tv_sec > since->tv_sec
						   : st->st_ctim.tv_nsec >= since->tv_nsec;
}

static int look_at(const char *path, const struct stat *st, void *data)
{
	const struct looking *looking = data;
	char first[NAME_MAX + 1];

	snprintf(first, sizeof first, "%.*s", (int)strcspn(path, "/"), path);
	if (looking->is_top && layer_root_leaves_out(looking->root, first))
		return 0;
	return is_later(st, looking->since);
}

bool layer_root_has_changed(const struct layer_root *root, const struct timespec *since)
{
	for (size_t i = 0; i < root->n; i++) {
		struct looking looking = {root, since, !root->parts[i].path[0]};
		struct stat st;

		/* What cannot be looked at may be another. */
		if (fstat(root->parts[i].fd, &st) < 0 || is_later(&st, since) ||
		    object_walk(root->parts[i].fd, look_at, &looking) != 0)
			return true;
	}
	return false;
}

/* ---- one part ---- */

static void scope_close_stack(struct layer_stack *stack)
{
	layer_stack_close(stack);
}

static int open_part(int fd, struct layer_stack *ret)
{
	ret->layer_fds = calloc(1, sizeof *ret->layer_fds);
	ret->gone = calloc(1, sizeof *ret->gone);
	if (!ret->layer_fds || !ret->gone)
		return -ENOMEM;
	ret->layer_fds[0] = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->layer_fds[0] < 0)
		return -errno;
	ret->n = 1;
	return 0;
}

static int moved(const char *path, int code, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_POLICY, -code,
			 "'/%s' cannot be kept: the way to it was moved or replaced inside", path);
}

/* The directory of this path in the new layer; those on the way that are missing are root's. */
static int make_way(const struct layer_root *root, int upper_fd, const char *path,
		    struct atoll_error *err)
{
	cleanup_fd int fd = openat(upper_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];

	for (const char *at = path; fd >= 0 && *at;) {
		size_t length = strcspn(at, "/");
		int next;

		snprintf(name, sizeof name, "%.*s", (int)length, at);
		if (mkdirat(fd, name, 0755) == 0) {
			if (root->kept_id &&
			    fchownat(fd, name, root->kept_id(root->data, false, root->owner),
				     root->kept_id(root->data, true, root->owner),
				     AT_SYMLINK_NOFOLLOW) < 0)
				return moved(path, -errno, err);
		} else if (errno != EEXIST) {
			return moved(path, -errno, err);
		}
		next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return moved(path, -errno, err);
		close(fd);
		fd = next;
		at += length + (at[length] == '/');
	}
	return fd < 0 ? moved(path, -errno, err) : take_fd(&fd);
}

static int take_part(const struct layer_root *root, size_t i, int upper_fd, uint64_t *bytes,
		     struct atoll_error *err)
{
	const struct layer_part *part = &root->parts[i];
	cleanup_with(scope_close_stack) struct layer_stack stack = {.base_fd = -1};
	struct pile pile = {.stack = &stack, .n = 1, .is_root = true, .root = root};
	cleanup_fd int to = -1;
	int r = open_part(part->fd, &stack);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read what was written in '/%s'",
				 part->path);
	/* A system directory that nobody has written to. */
	if (part->path[0] && store_dir_is_empty(stack.layer_fds[0]))
		return 0;
	pile.bytes = *bytes;
	pile.max_bytes = root->max_bytes;
	to = make_way(root, upper_fd, part->path, err);
	if (to < 0)
		return to;
	r = pile_make_in(&pile, to, err);
	*bytes = pile.bytes;
	/* A new mount point covers nothing: it is where something else is seen. */
	if (r == 0 && part->path[0]) {
		cleanup_fd int readable = openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		fremovexattr(readable, "user.overlay.opaque");
	}
	return r;
}

/* ---- a new layer ---- */

static int failed(const struct layer_record *record, int code, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, -code,
			 "keep what sandbox '%s' has written outside its workspace",
			 record->info.id);
}

/* A directory of its own under layers/, and upper/ in it. */
static int begin_layer(const struct layer_record *record, char ret_id[ATOLL_ID_SIZE],
		       char ret_path[32], struct atoll_error *err)
{
	char upper[48];
	int r = record_new_layer(record, ret_id, ret_path);

	if (r == 0 && mkdirat(record->store.fd, ret_path, 0700) < 0)
		r = -errno;
	if (r < 0)
		return failed(record, r, err);
	snprintf(upper, sizeof upper, "%s/upper", ret_path);
	if (mkdirat(record->store.fd, upper, 0700) < 0)
		return failed(record, -errno, err);
	r = openat(record->store.fd, upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return r < 0 ? failed(record, -errno, err) : r;
}

static int note_bytes(const struct layer_record *record, const char *layer, uint64_t bytes,
		      struct atoll_error *err)
{
	char path[64];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof path, "%s/" BYTES, layer);
	fd = openat(record->store.fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	return fd < 0 || dprintf(fd, "%" PRIu64 "\n", bytes) < 0 ? failed(record, -errno, err) : 0;
}

static uint64_t read_bytes(const struct layer_record *record, const char *id)
{
	char path[64], text[32] = "";
	cleanup_fd int fd = -1;

	snprintf(path, sizeof path, "layers/%s/" BYTES, id);
	fd = openat(record->store.fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || read(fd, text, sizeof text - 1) <= 0 ? 0 : strtoull(text, NULL, 10);
}

/* Is there room for all that lies in memory? */
static int check_space(const struct layer_record *record, const struct layer_root *root,
		       struct atoll_error *err)
{
	uint64_t free_bytes, floor, used;
	struct statvfs memory;

	if (!root->n || fstatvfs(root->parts[0].fd, &memory) < 0 ||
	    store_space(record->store.fd, &free_bytes, &floor) < 0)
		return 0;
	used = (uint64_t)(memory.f_blocks - memory.f_bfree) * memory.f_frsize;
	if (free_bytes >= floor && used <= free_bytes - floor)
		return 0;
	return store_refuse(err, ATOLL_FAULT_HOST, ENOSPC,
			    "what was written outside the workspace (%llu MiB) does not fit where "
			    "layers are kept ('%s'), of which %llu MiB have to stay free",
			    (unsigned long long)(used >> 20), record->store.path,
			    (unsigned long long)(floor >> 20));
}

static int take(const struct layer_record *record, const struct layer_root *root,
		char ret_id[ATOLL_ID_SIZE], uint64_t *ret_bytes, struct atoll_error *err)
{
	char path[32];
	cleanup_fd int upper = begin_layer(record, ret_id, path, err);
	int r = upper < 0 ? upper : 0;

	*ret_bytes = 0;
	for (size_t i = 0; r == 0 && i < root->n; i++)
		r = take_part(root, i, upper, ret_bytes, err);
	if (r == 0)
		r = note_bytes(record, path, *ret_bytes, err);
	if (r < 0)
		store_throw_away(&record->store, record->store.fd, path, NULL);
	return r;
}

/* ---- several become one ---- */

static int join(const struct layer_record *record, const struct layer_root *root,
		struct layer_roots *roots, struct atoll_error *err)
{
	cleanup_with(scope_close_stack) struct layer_stack stack = {.base_fd = -1};
	struct pile pile = {.stack = &stack,
			    .n = roots->n,
			    .links = true,
			    .is_root = true,
			    .max_bytes = root->max_bytes};
	char id[ATOLL_ID_SIZE], path[32];
	cleanup_fd int upper = -1;
	int r = stack_open_roots(&record->store, roots, &stack, err);

	if (r < 0)
		return r;
	r = upper = begin_layer(record, id, path, err);
	if (r >= 0)
		r = pile_make_in(&pile, upper, err);
	if (r == 0)
		r = note_bytes(record, path, pile.bytes, err);
	if (r < 0) {
		store_throw_away(&record->store, record->store.fd, path, NULL);
		return r;
	}
	*roots = (struct layer_roots){.n = 1};
	memcpy(roots->ids[0], id, sizeof id);
	return 0;
}

int layer_keep_root(struct layer_record *record, const struct layer_root *root,
		    const struct layer_roots *below, struct atoll_error *err)
{
	struct layer_roots roots = {.n = 1}, none = {0};
	uint64_t bytes = 0;
	bool is_joined;
	char path[32];
	int r = check_space(record, root, err);

	if (r == 0)
		r = take(record, root, roots.ids[0], &bytes, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof path, "layers/%s", roots.ids[0]);
	for (size_t i = 0; i < below->n; i++) {
		memcpy(roots.ids[roots.n++], below->ids[i], sizeof roots.ids[0]);
		bytes += read_bytes(record, below->ids[i]);
	}
	/* What is written again and again counts once. */
	is_joined = roots.n >= LAYER_ROOTS_MAX || (root->max_bytes && bytes > root->max_bytes);
	if (is_joined) {
		r = join(record, root, &roots, err);
		store_throw_away(&record->store, record->store.fd, path, NULL);
	}
	if (r == 0)
		r = layer_roots_set(record, &roots, err);
	/* The cell is still mounted on them. */
	return r < 0 ? r : set(record, LAYER_ROOTS_BELOW, is_joined ? below : &none, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-root.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-life.h"
#include "sandbox/holder.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <errno.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Files written beside the workspace (`root: layer`, as root)
 *
 * They lie in a tmpfs as long as the cell lives. A checkpoint copies them into a root layer of the
 * store, and so does every end of the cell: the holder has a descriptor of the tmpfs, which
 * outlives the processes. Only the removal of the sandbox copies nothing.
 *
 * Copies of one cell are not stacked: a file that was created before one copy and deleted after it
 * leaves no whiteout in the tmpfs. Each copy lies on the layers that the cell was built on. A copy
 * is made only if a ctime is later than the last moment with known content. A write through a
 * shared mapping may change no ctime later, so a copy that was made beside processes does not count
 * as known content.
 */

/* Directories of the kernel or of the back end: each start makes them again. */
static const char *const left_out[] = {"proc", "sys", "dev", "run", NULL};

#define PARTS_MAX 64

struct parts {
	struct layer_part list[PARTS_MAX];
	struct cell_written written[PARTS_MAX];
	size_t n;
};

static void close_parts(struct parts *parts)
{
	while (parts->n)
		close(parts->list[--parts->n].fd);
}

static int open_parts(const struct holder *holder, struct parts *parts, struct atoll_error *err)
{
	const struct backend *backend = holder->backend;

	while (backend->written(holder->cell, parts->n, &parts->written[parts->n])) {
		const struct cell_written *written = &parts->written[parts->n];
		int fd = fd_openat2(holder->handle.storage_fd, written->dir, O_RDONLY | O_DIRECTORY,
				    0, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);

		if (fd < 0)
			return error_set(err, ATOLL_FAULT_HOST, -fd,
					 "read what was written in '/%s'", written->path);
		parts->list[parts->n++] = (struct layer_part){written->path, fd};
		if (parts->n == PARTS_MAX)
			return error_set(err, ATOLL_FAULT_BUG, E2BIG, "too many system trees");
	}
	return 0;
}

static uint32_t kept_id(const void *data, bool is_group, uint32_t id)
{
	const struct holder *holder = data;

	return holder->backend->kept_id(holder->cell, is_group, id);
}

static struct layer_root root_of(const struct holder *holder, const struct parts *parts)
{
	const uint64_t disk = holder->spec->limits[SPEC_DISK].value;
	struct stat st = {0};

	fstat(parts->list[0].fd, &st); /* made by pid 1 */
	return (struct layer_root){.parts = parts->list,
				   .n = parts->n,
				   .left_out = left_out,
				   .kept_id = kept_id,
				   .data = holder,
				   .owner = st.st_uid,
				   .max_bytes = disk == SPEC_UNLIMITED ? 0 : disk};
}

bool holder_has_root(const struct holder *holder)
{
	return holder->is_live && holder->handle.storage_fd >= 0;
}

/* ---- known content ---- */

/* The file system's clock, and its distance from CLOCK_MONOTONIC, which shows a clock that was set
 * back. */
static struct root_moment now(void)
{
	struct root_moment moment;

	clock_gettime(CLOCK_REALTIME_COARSE, &moment.time);
	moment.offset_ns = moment.time.tv_sec * INT64_C(1000000000) + moment.time.tv_nsec -
			   clock_monotonic_ns();
	return moment;
}

/* The coarse clock has ticks, and NTP slews it: smaller differences are not a clock set back. */
#define SET_BACK_NS 20000000

void holder_root_begin(struct holder *holder)
{
	holder->root_known = holder->root_below;
	holder->root_since = now();
	holder->drops_root = false;
}

/* Is the content the same as in holder->root_known? */
static bool is_known(const struct holder *holder, const struct layer_root *root)
{
	return now().offset_ns >= holder->root_since.offset_ns - SET_BACK_NS &&
	       !layer_root_has_changed(root, &holder->root_since.time);
}

bool holder_root_is_current(const struct holder *holder)
{
	cleanup_with(close_parts) struct parts parts = {0};
	struct layer_root root;
	struct layer_roots wanted;

	if (!holder_has_root(holder))
		return true;
	layer_roots_get(holder->record, &wanted);
	if (!layer_roots_are(&wanted, &holder->root_known) || open_parts(holder, &parts, NULL) < 0)
		return false;
	root = root_of(holder, &parts);
	return is_known(holder, &root);
}

/* ---- copies ---- */

static char *copy_of(const char *text)
{
	return text ? strdup(text) : NULL;
}

static int copy(struct holder *holder, const struct layer_root *root, struct atoll_error *err)
{
	struct layer_record *record = holder->record;
	cleanup_free char *roots = copy_of(layer_record_get(record, LAYER_ROOTS));
	cleanup_free char *below = copy_of(layer_record_get(record, LAYER_ROOTS_BELOW));
	int r = layer_keep_root(record, root, &holder->root_below, err);

	/* If the rest of the checkpoint fails, the copy is still a valid state of the sandbox. */
	if (r == 0)
		r = layer_record_save_soon(record, err);
	if (r == 0)
		layer_roots_drop(record, roots, below);
	return r;
}

int holder_copy_root(struct holder *holder, bool is_quiet, struct atoll_error *err)
{
	cleanup_with(close_parts) struct parts parts = {0};
	struct root_moment moment;
	struct layer_root root;
	int r;

	if (holder->handle.storage_fd < 0)
		return 0;
	r = open_parts(holder, &parts, err);
	if (r < 0)
		return r;
	root = root_of(holder, &parts);
	moment = now();
	if (is_known(holder, &root))
		return layer_roots_set(holder->record, &holder->root_known, err);
	r = copy(holder, &root, err);
	if (r == 0 && is_quiet) {
		layer_roots_get(holder->record, &holder->root_known);
		holder->root_since = moment;
	}
	return r;
}

/* No process is inside. A failure is not reported; the earlier copy stays. */
void holder_root_end(struct holder *holder)
{
	struct layer_record *record = holder->record;
	const bool was_locked = record->lock_fd >= 0;
	struct atoll_error err;

	if (holder->handle.storage_fd < 0)
		return;
	if (!holder->drops_root && sandbox_lock_record(record, SANDBOX_LOCK_MS, &err) == 0) {
		holder_copy_root(holder, true, &err);
		if (!was_locked)
			sandbox_unlock_record(record);
	}
	close(take_fd(&holder->handle.storage_fd));
}

/* Either the files are copied and the cell has ended, or nothing has changed. */
static int save_locked(struct holder *holder, struct atoll_error *err)
{
	const bool is_stopped = holder->is_frozen || holder->is_stuck;
	int r = is_stopped ? 0 : holder_stop_inside(holder, err);

	if (r < 0)
		return r;
	r = holder_copy_root(holder, false, err);
	if (r == 0) {
		holder->drops_root = true;
		holder_close_cell(holder, NULL);
	} else if (!is_stopped) {
		holder_send_order(holder, INIT_THAW, 0, 0);
	}
	return r;
}

int holder_save(struct holder *holder, struct atoll_error *err)
{
	int r;

	if (!holder_has_root(holder))
		return 0;
	r = sandbox_lock_record(holder->record, SANDBOX_LOCK_MS, err);
	if (r < 0)
		return r;
	r = save_locked(holder, err);
	sandbox_unlock_record(holder->record);
	return r;
}

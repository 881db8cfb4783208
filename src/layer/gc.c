/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/*
 * Keeping the store within its bounds
 *
 * By age first, whatever it is. Then, if all together is still too large, by age again: what was
 * applied goes before what was not, and changes that nobody has taken yet are safe for a day. What
 * is live, locked, or in the middle of an apply always stays.
 */

#define DAY_S	      ((uint64_t)24 * 3600)
#define AGE_USUAL_S   (14 * DAY_S)
#define BYTES_USUAL   ((uint64_t)10 << 30)
#define SAFE_S	      DAY_S
#define ORPHAN_S      3600 /* what has no meta, or no record, for so long was left by a kill */
#define SWEEP_EVERY_S 3600
#define SWEEP_NS      200000000 /* how long a start may be held up by one */

struct candidate {
	struct atoll_record *record; /* of the list */
	uint64_t used_ns;	     /* when something was last done with it */
	bool is_gone;
};

struct sweep {
	const struct layer_store *store;
	const struct atoll_gc_options *options;
	uint64_t now_ns, max_age_s, max_bytes, total;
	int64_t deadline_ns;
	struct layer_names lost; /* layers of records that were removed */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static uint64_t age_s(const struct sweep *sweep, uint64_t then_ns)
{
	return then_ns < sweep->now_ns ? (sweep->now_ns - then_ns) / 1000000000U : 0;
}

/* The time of its meta, if that is later than what stands in it: an apply writes it as well. */
static uint64_t used_ns(const struct sweep *sweep, const struct atoll_record *record)
{
	uint64_t used = record->end_ns > record->start_ns ? record->end_ns : record->start_ns;
	char path[64];
	struct stat st;
	uint64_t written;

	snprintf(path, sizeof path, "records/%s/meta", record->id);
	if (fstatat(sweep->store->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return used;
	written = (uint64_t)st.st_mtim.tv_sec * 1000000000U + (uint64_t)st.st_mtim.tv_nsec;
	return written > used ? written : used;
}

/* ---- records ---- */

static int remove_locked(struct sweep *sweep, const char *id)
{
	struct layer_record *record;
	int r = record_open_id(sweep->store, id, &record, NULL);

	if (r < 0)
		return r;
	r = layer_record_lock_to_remove(record, NULL);
	/* It was looked at before it was ours. */
	if (r == 0 && (layer_record_is_held(record) ||
		       faccessat(record->fd, "journal", F_OK, AT_SYMLINK_NOFOLLOW) == 0))
		r = -EBUSY;
	if (r == 0)
		r = layer_record_drop_first(record, &sweep->lost, NULL);
	layer_record_close(record);
	return r;
}

static void remove_one(struct sweep *sweep, struct candidate *candidate, const char *why)
{
	const struct atoll_gc_options *options = sweep->options;

	if (!options->is_dry && remove_locked(sweep, candidate->record->id) < 0)
		return;
	candidate->is_gone = true;
	sweep->total -=
		candidate->record->bytes < sweep->total ? candidate->record->bytes : sweep->total;
	if (options->removed)
		options->removed(candidate->record, why, options->data);
}

static bool may_go(const struct candidate *candidate)
{
	return !candidate->is_gone && candidate->record->state != ATOLL_RECORD_LIVE &&
	       candidate->record->state != ATOLL_RECORD_BROKEN;
}

static bool is_late(const struct sweep *sweep)
{
	return sweep->deadline_ns && clock_monotonic_ns() > sweep->deadline_ns;
}

static int compare_used(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static void sweep_records(struct sweep *sweep, struct candidate *list, size_t n)
{
	qsort(list, n, sizeof *list, compare_used);
	for (size_t i = 0; i < n && !is_late(sweep); i++) {
		if (may_go(&list[i]) && age_s(sweep, list[i].used_ns) >= sweep->max_age_s)
			remove_one(sweep, &list[i], "age");
	}
	for (int is_taken = 1; is_taken >= 0; is_taken--) {
		for (size_t i = 0; i < n && sweep->total > sweep->max_bytes && !is_late(sweep);
		     i++) {
			bool is_applied = list[i].record->state == ATOLL_RECORD_APPLIED;

			if (may_go(&list[i]) && list[i].record->bytes > 0 &&
			    is_applied == is_taken &&
			    (is_applied || age_s(sweep, list[i].used_ns) >= SAFE_S))
				remove_one(sweep, &list[i], "size");
		}
	}
}

/* ---- what nobody knows of ---- */

static bool is_void(const struct sweep *sweep, const char *id)
{
	struct layer_record *record;
	int r = record_open_id(sweep->store, id, &record, NULL);
	bool is_void_record;

	if (r < 0)
		return r == -ENOENT;
	is_void_record = record_is_void(record);
	layer_record_close(record);
	return is_void_record;
}

static bool is_old(const struct sweep *sweep, const char *dir, const char *id)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof path, "%s/%s", dir, id);
	/* The time of change, which a rename sets, too. */
	return fstatat(sweep->store->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       age_s(sweep, (uint64_t)st.st_ctim.tv_sec * 1000000000U) >= ORPHAN_S;
}

/* `needed` is of layers, NULL of records. */
static void sweep_orphans(const struct sweep *sweep, const char *dir,
			  const struct layer_names *needed)
{
	cleanup_with(store_ids_done) struct store_ids ids = {0};
	char path[64];

	if (store_list(sweep->store, dir, &ids, NULL) < 0)
		return;
	for (size_t i = 0; i < ids.n && !is_late(sweep); i++) {
		const char *id = ids.items[i];

		snprintf(path, sizeof path, "%s/%s", dir, id);
		if (is_old(sweep, dir, id) &&
		    (needed ? !layer_names_have(needed, id) : is_void(sweep, id)))
			store_throw_away(sweep->store, sweep->store->fd, path, NULL);
	}
}

static void sweep_lost(struct sweep *sweep)
{
	cleanup_with(layer_names_done) struct layer_names needed = {0};

	layer_names_drop(sweep->store, &sweep->lost);
	layer_names_done(&sweep->lost);
	sweep_orphans(sweep, "records", NULL);
	if (layer_names_read(sweep->store, &needed) == 0)
		sweep_orphans(sweep, "layers", &needed);
}

/* ---- all ---- */

static void add_up(struct sweep *sweep, const struct atoll_record *list, size_t n)
{
	cleanup_with(store_ids_done) struct store_ids layers = {0};
	cleanup_fd int fd =
		openat(sweep->store->fd, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; i < n; i++)
		sweep->total += list[i].bytes;
	if (fd < 0 || store_list(sweep->store, "layers", &layers, NULL) < 0)
		return;
	for (size_t i = 0; i < layers.n; i++)
		sweep->total += layer_tree_bytes(fd, layers.items[i]);
}

static int run_sweep(struct sweep *sweep, struct atoll_error *err)
{
	struct atoll_record *records = NULL;
	cleanup_free struct candidate *list = NULL;
	size_t n = 0;
	int r = store_records(sweep->store, true, false, &records, &n, err);

	if (r < 0)
		return r;
	list = calloc(n + 1, sizeof *list);
	for (size_t i = 0; list && i < n; i++)
		list[i] = (struct candidate){&records[i], used_ns(sweep, &records[i]), false};
	if (list) {
		add_up(sweep, records, n);
		sweep_records(sweep, list, n);
	}
	atoll_records_free(records, n);
	if (!list)
		return error_oom(err);
	if (sweep->options->is_dry)
		return 0;
	/* Whoever asks for a sweep wants the room. */
	store_drop_spares(sweep->store, (int64_t)(sweep->now_ns / 1000000000U) -
						(sweep->deadline_ns ? ORPHAN_S : 0));
	sweep_lost(sweep);
	store_empty_trash(sweep->store, sweep->deadline_ns);
	return 0;
}

static struct sweep sweep_for(const struct layer_store *store,
			      const struct atoll_gc_options *options)
{
	return (struct sweep){
		.store = store,
		.options = options,
		.now_ns = now_ns(),
		.max_age_s = options->is_any_age  ? 0
			     : options->max_age_s ? options->max_age_s
						  : AGE_USUAL_S,
		.max_bytes = options->max_bytes ? options->max_bytes : BYTES_USUAL,
	};
}

int layer_gc(const struct atoll_gc_options *options, struct atoll_error *err)
{
	static const struct atoll_gc_options usual;
	struct layer_store store = {.fd = -1};
	struct sweep sweep;
	int r = layer_store_open(false, &store, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	sweep = sweep_for(&store, options ? options : &usual);
	r = run_sweep(&sweep, err);
	layer_store_close(&store);
	return r;
}

/* ---- before a run ---- */

/* Has nobody swept for an hour? The time is set at once: of two runs that start now one sweeps. */
static bool is_due(const struct layer_store *store)
{
	cleanup_fd int fd = -1;
	struct stat st;
	time_t now = time(NULL);

	if (fstatat(store->fd, "swept", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime <= now &&
	    now - st.st_mtime < SWEEP_EVERY_S)
		return false;
	fd = openat(store->fd, "swept", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && futimens(fd, NULL) == 0;
}

static bool is_full(const struct layer_store *store, uint64_t *ret_free, uint64_t *ret_floor)
{
	return store_space(store->fd, ret_free, ret_floor) == 0 && *ret_free < *ret_floor;
}

static int refuse_full(const struct layer_store *store, uint64_t free_bytes, uint64_t floor,
		       struct atoll_error *err)
{
	const bool is_small = floor < 16 << 20;
	const int shift = is_small ? 10 : 20;
	const char *unit = is_small ? "KiB" : "MiB";

	return store_refuse(
		err, ATOLL_FAULT_HOST, ENOSPC,
		"only %llu %s are free where records of runs are kept ('%s'), and %llu "
		"%s have to stay so; `atoll gc --age 1h` or `atoll discard` make room, or "
		"run with --direct",
		(unsigned long long)(free_bytes >> shift), unit, store->path,
		(unsigned long long)(floor >> shift), unit);
}

int layer_store_keep_bounds(const struct layer_store *store, struct atoll_error *err)
{
	static const struct atoll_gc_options usual;
	struct sweep sweep = sweep_for(store, &usual);
	uint64_t free_bytes = 0, floor = 0;

	/* Whose rooms these are decides what stays: see LAYER_STORE_HELD. */
	if (faccessat(store->fd, LAYER_STORE_HELD, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return is_full(store, &free_bytes, &floor)
			       ? refuse_full(store, free_bytes, floor, err)
			       : 0;
	if (is_due(store)) {
		sweep.deadline_ns = clock_monotonic_ns() + SWEEP_NS;
		run_sweep(&sweep, NULL);
	}
	if (!is_full(store, &free_bytes, &floor))
		return 0;
	sweep = sweep_for(store, &usual);
	run_sweep(&sweep, NULL);
	if (!is_full(store, &free_bytes, &floor))
		return 0;
	return refuse_full(store, free_bytes, floor, err);
}

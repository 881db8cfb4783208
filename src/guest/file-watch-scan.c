/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/file-watch.h"

#include <errno.h>
#include <stdlib.h>

#define STEP_NAMES 64

struct scan {
	struct work work;
	struct watcher *watcher;
	struct walk walk;
	uint64_t watch_id; /* it may have ended meanwhile */
	bool is_first, is_telling, has_begun;
	char relative[PATH_SIZE];
};

static const char *relative_of(const struct scan *scan, const struct watch *watch)
{
	const char *rest = scan->walk.path + strlen(watch->root);

	/* Of "/" all of it stands behind the slash. */
	return *rest == '/' ? rest + 1 : rest;
}

/* -EMFILE and the like end the scan; what vanished or may not be read is passed over. */
static int enter(struct scan *scan, struct watch *watch, const char *name)
{
	int r = place_add(scan->watcher, watch, relative_of(scan, watch));

	if (r == 0)
		r = walk_enter(&scan->walk, name);
	return r == -EMFILE || r == -ENOMEM || r == -E2BIG ? r : 0;
}

static int look_at(struct scan *scan, struct watch *watch, const char *name)
{
	const char *relative = relative_of(scan, watch);
	struct stat st;

	if (lstat(name, &st) < 0)
		return 0;
	if (scan->is_telling &&
	    !told_has(scan->watcher, told_key(watch, relative, TOLD_BY_EVENT))) {
		told_add(scan->watcher, told_key(watch, relative, TOLD_BY_SCAN));
		watch_tell(scan->watcher, watch, GUEST_TELL_CREATE, relative);
	}
	return S_ISDIR(st.st_mode) ? enter(scan, watch, name) : 0;
}

static int begin(struct scan *scan, struct watch *watch)
{
	char path[PATH_SIZE];
	int r = place_add(scan->watcher, watch, scan->relative);

	scan->has_begun = true;
	if (r < 0)
		return r;
	if (!watch->is_recursive)
		return 1;
	if (!watch_join(path, watch->root, scan->relative))
		return -ENAMETOOLONG;
	return walk_open(&scan->walk, path);
}

/* 1: all is watched. */
static int go_on(struct scan *scan, struct watch *watch)
{
	const char *name;
	int r = scan->has_begun ? 0 : begin(scan, watch);

	for (int i = 0; r == 0 && i < STEP_NAMES; i++) {
		int place = walk_next(&scan->walk, &name);

		if (place == WALK_END)
			return 1;
		if (place == WALK_ENTRY)
			r = look_at(scan, watch, name);
	}
	return r;
}

static enum work_state step(struct work *work)
{
	struct scan *scan = (struct scan *)(void *)work;
	struct watch *watch = watch_find(scan->watcher, scan->watch_id);
	int r = watch ? go_on(scan, watch) : 1;

	if (r == 0)
		return WORK_ON;
	if (scan->is_first && watch) {
		answer(work->server, work->id, r < 0 ? -r : 0, watch->root, NULL, 0, -1);
		if (r < 0)
			watch_end(scan->watcher, watch);
	} else if (scan->is_first) {
		/* Ended before it had begun; every question is answered. */
		answer(work->server, work->id, ECANCELED, "", NULL, 0, -1);
	} else if (watch && (r == -EMFILE || r == -ENOMEM || r == -E2BIG)) {
		watch_tell(scan->watcher, watch, GUEST_TELL_LOST, "");
	}
	return WORK_DONE;
}

static void end(struct work *work)
{
	struct scan *scan = (struct scan *)(void *)work;

	if (scan->is_telling)
		scan->watcher->n_scans--;
	walk_close(&scan->walk);
	free(scan);
}

void scan_start(struct watcher *watcher, struct watch *watch, const char *relative, bool is_first,
		bool is_telling)
{
	struct scan *scan = calloc(1, sizeof *scan);

	if (!scan) {
		watch_tell(watcher, watch, GUEST_TELL_LOST, "");
		return;
	}
	scan->work =
		(struct work){.id = watch->id, .is_question = is_first, .step = step, .end = end};
	scan->watcher = watcher;
	scan->watch_id = watch->id;
	scan->is_first = is_first;
	scan->is_telling = is_telling;
	watcher->n_scans += is_telling;
	memccpy(scan->relative, relative, '\0', sizeof scan->relative - 1);
	if (!work_start(watcher->server, &scan->work) && !is_first)
		watch_tell(watcher, watch, GUEST_TELL_LOST, "");
}

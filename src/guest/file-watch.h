/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guest/guest-parts.h"

/*
 * Watching
 *
 * One inotify instance for all watches of a guest, because a machine grants few (128 a user, and
 * all boxes may be one user's). The kernel has one watch a directory, however many of ours look at
 * it: a node; what it is to one of ours is a place, with the path from that watch's root.
 *
 * A directory that is new is watched first and read then, so that nothing in it is missed; what is
 * found there is told as created. Somebody may create a name between the two, and the kernel tells
 * it, too: while directories are being read, names that were told are remembered, and not told a
 * second time.
 */

#define WATCHES_MAX 128
#define PLACES_MAX  131072
#define NODE_TABLE  1024
#define TOLD_TABLE  65536

struct watch {
	uint64_t id;
	bool is_recursive, has_entries;
	char root[PATH_SIZE];
	uint64_t last_told; /* a write, to be told once while the daemon does not read */
	struct watch *next;
};

struct place {
	struct watch *watch;
	struct place *next;
	char relative[]; /* "" is the root */
};

struct node {
	int wd;
	struct place *places;
	struct node *next;
};

struct watcher {
	struct server *server;
	struct loop_watch inotify;
	struct watch *watches;
	size_t n_watches, n_places;
	struct node *nodes[NODE_TABLE];
	size_t n_scans; /* that tell what they find */
	uint64_t *told; /* a table, or NULL */
	size_t n_told;
};

/* ---- file-watch-places.c ---- */

struct watch *watch_find(struct watcher *watcher, uint64_t id);
struct node *node_find(struct watcher *watcher, int wd);
/* 0 also if it is watched already; -EMFILE: too many. */
int place_add(struct watcher *watcher, struct watch *watch, const char *relative);
void node_drop(struct watcher *watcher, int wd);
/* All places of a watch at `relative` and beneath; "" are all. */
void places_drop(struct watcher *watcher, const struct watch *watch, const char *relative);

/* What was told of a name: by the kernel's event, or by a scan. */
enum told_by {
	TOLD_BY_EVENT = 1,
	TOLD_BY_SCAN = 2,
};
uint64_t told_key(const struct watch *watch, const char *name, unsigned by);
void told_add(struct watcher *watcher, uint64_t key);
/* true: it was there. */
bool told_remove(struct watcher *watcher, uint64_t key);
bool told_has(const struct watcher *watcher, uint64_t key);
void told_forget(struct watcher *watcher);

/* ---- file-watch-scan.c ---- */

/* Watch a directory of a watch and all beneath. `is_first`: answers the question when it is done;
 * else tells of what it finds, if `is_telling`. */
void scan_start(struct watcher *watcher, struct watch *watch, const char *relative, bool is_first,
		bool is_telling);

/* ---- file-watch.c ---- */

void watch_tell(struct watcher *watcher, struct watch *watch, enum guest_wire_event event,
		const char *name);
void watch_end(struct watcher *watcher, struct watch *watch);
/* "DIR/NAME", or NAME in the root itself; false: too long. */
bool watch_join(char ret[PATH_SIZE], const char *directory, const char *name);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

/*
 * A list of changes while it is made
 *
 *   walk.c      walks the layers and drafts every difference
 *   host-changes.c      what the host did meanwhile: conflicts
 *   lost.c      and what it has deleted
 *   rename.c    a deleted file and an added one become one that was renamed
 *   marks.c     what the host would execute or trust
 *   changes.c   names of one file, the order, and the list that is handed out
 */

/* The handle of the lower file that something was copied up from, as the overlay notes it. */
struct draft_origin {
	int type;
	unsigned size; /* 0: it is only noted that there was one, as in a user namespace */
	unsigned char data[128];
};

struct draft {
	struct atoll_change change;
	size_t layer;		     /* where `after` is */
	struct draft_origin *origin; /* of an added file; mostly NULL */
	bool is_found;		     /* the base still has what it was copied up from */
	bool is_gone;		     /* became part of another */
	size_t half;		     /* for rename.c */
};

struct drafts {
	struct layer_record *record;
	const struct layer_stack *stack;
	struct draft *items;
	size_t n, room;
	/* Files of the base that a layer holds as well, and alike. */
	char **same;
	size_t n_same, room_same;
	uint64_t bytes;	     /* of all paths */
	struct known *known; /* what an apply or undo of ours has left on the host */
	bool is_applied;     /* something of the record was applied before */
	struct atoll_error *err;
};

/* One of the two sides of a comparison. */
struct side {
	int dir_fd;
	const char *name;
	bool is_ours;
	struct stat st;
};
/* ATOLL_PART_ bits. */
unsigned draft_compare(const struct side *before, const struct side *after);

/* Was it there before the run, and as it is now? NULL, or static words. `before` is on the host;
 * `is_after` says that the layers have something there, too. */
const char *host_changed(const struct drafts *drafts, const char *dir, const struct side *before,
			 bool is_after);
/* Is the host's file what the run saw, though it was written since? That can be said of texts of
 * which a copy was kept. */
bool host_is_as_kept(const struct drafts *drafts, const char *dir, const struct side *before);
/* Of a file that the host does not have: it had one when the run ended. */
bool host_had(const struct drafts *drafts, const char *path);

/* What an object that is open was copied up from; false if it was not. */
bool origin_read(int fd, struct draft_origin *ret);
bool origin_of(int dir_fd, const char *name, struct draft_origin *ret);
bool origin_same(const struct draft_origin *a, const struct draft_origin *b);

/* Draft every difference. */
int drafts_walk(struct drafts *drafts);
/* Find renames. */
int drafts_find_renames(struct drafts *drafts);
/* Files that were copied up from what the host has deleted since. */
void drafts_find_lost(struct drafts *drafts);

/* Mark what the host would execute or trust. */
int drafts_mark(struct drafts *drafts);

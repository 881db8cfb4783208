/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

#include <sys/types.h>

/*
 * Layers made into one
 *
 * Some layers of a stack that lie on each other, as one new layer with the same meaning: what the
 * topmost says of a name holds; deleted names and opaque directories stay, because of what is
 * beneath all of them. One layer alone makes a plain copy.
 */
struct pile {
	const struct layer_stack *stack;
	size_t first, n; /* which of its layers */
	/* Files get another name instead of a copy: for sealed layers, which nobody writes. */
	bool links;
	/* Whose all of it becomes, where only root can say: the ids of a sandbox mean nothing
	 * later. */
	bool has_owner;
	uid_t uid;
	gid_t gid;
	/* Of a root, not of a workspace: nothing in it is the host's to have, so what could matter
	 * there is left out (roots.c). */
	bool is_root;
	const struct layer_root *root; /* where it comes from; NULL: from layers of this kind */
	uint64_t max_bytes;	       /* 0: any number */
	/* What came of it: attributes of the overlay that this file system did not take; and how
	 * much disk it is, of a root. */
	bool has_lost_origins;
	uint64_t bytes;
};

/* `out_fd` is an empty directory; upper/ and, where it takes one, gone are made in it. */
int pile_make(struct pile *pile, int out_fd, struct atoll_error *err);
/* The same into a directory that is there, `upper_fd`, on a file system that can hold all of it. */
int pile_make_in(struct pile *pile, int upper_fd, struct atoll_error *err);

/* ---- pile-copy.c: one object after the other into one new layer ---- */

struct stat;

/* A file with several names, and the first of them in the new layer. */
struct pile_linked {
	uint64_t dev, ino;
	char *path;
};

struct pile_copier {
	struct pile *pile;
	int upper_fd;		    /* of the new layer */
	struct pile_linked *linked; /* a table, open addressing; `room` is a power of two */
	size_t n_linked, room;
};
void pile_copier_done(struct pile_copier *copier);

/* What is no directory: `name` in both directories, `path` in the layer. 0 or a negative errno. */
int pile_copy_object(struct pile_copier *copier, int from_dir, int out_dir, const char *name,
		     const char *path, const struct stat *st);
/* All but whether it is opaque; `st` says owner, mode and times. */
int pile_copy_attributes(struct pile_copier *copier, int from_fd, int to_fd, const struct stat *st);

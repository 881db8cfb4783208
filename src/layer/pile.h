/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

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
	/* Not NULL: everything becomes the workspace's owner's, because the ids of a tmpfs in a
	 * sandbox are that sandbox's own. */
	const struct layer_record *owner;
	/* What came of it: attributes of the overlay that this file system did not take. */
	bool has_lost_origins;
};

/* `out_fd` is an empty directory; upper/ and, where it takes one, gone are made in it. */
int pile_make(struct pile *pile, int out_fd, struct atoll_error *err);

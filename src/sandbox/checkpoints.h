/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

struct layer_record;

/*
 * Checkpoints of a sandbox
 *
 * A checkpoint is a list of sealed layers under a name: a line in records/ID/checkpoints, to which
 * lines are only ever added (see layer/layer.h for what is in one). Where the sandbox stands is the
 * key "checkpoint" in its meta. Whoever calls these has locked the record.
 */
struct checkpoint {
	struct atoll_checkpoint info; /* first */
	char **layers;		      /* the topmost first */
	size_t n_layers;
	struct layer_roots roots; /* what was written beside the workspace */
};

struct checkpoints {
	struct checkpoint *points; /* in the order of their making */
	size_t n;
};

int checkpoints_read(const struct layer_record *record, struct checkpoints *ret,
		     struct atoll_error *err);
void checkpoints_done(struct checkpoints *steps);
/* By name; REQUEST with a suggestion if there is none. */
int checkpoints_find(const struct checkpoints *steps, const char *name,
		     const struct checkpoint **ret, struct atoll_error *err);

/* Is this a name that a checkpoint can have? */
int checkpoints_check_name(const char *name, struct atoll_error *err);

/* Can a new one have this name? NULL is always one. */
int checkpoints_check_new(const struct layer_record *record, const char *name,
			  struct atoll_error *err);

/* What becomes of the step before. */
struct checkpoint_step {
	const char *command; /* NULL: none */
	int32_t status;	     /* -1: none */
};

/* A checkpoint of one that nothing runs in: its top becomes a layer. `name` NULL: "step-N";
 * `ret_name` may be NULL. The record is saved. */
int checkpoints_seal(struct layer_record *record, const char *name,
		     const struct checkpoint_step *note, char ret_name[64],
		     struct atoll_error *err);
/* And with processes that stand still: its top is copied. */
int checkpoints_copy(struct layer_record *record, const char *name,
		     const struct checkpoint_step *note, char ret_name[64],
		     struct atoll_error *err);

/* Stand on a checkpoint again; nothing may run in it, and its workspace is not mounted, or about to
 * be replaced. What was written since is thrown away, for layer_store_tidy() with STEPS_TIDY_NS
 * when nobody waits any more; the rest is done by a later sweep. */
#define CHECKPOINTS_TIDY_NS INT64_C(2000000)
int checkpoints_return(struct layer_record *record, const char *name, struct atoll_error *err);

/* A new record that begins at a checkpoint of this one. */
int checkpoints_branch(const struct layer_record *record, const struct checkpoint *point,
		       char ret_id[ATOLL_ID_SIZE], struct atoll_error *err);

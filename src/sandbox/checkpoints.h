/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

struct layer_record;

/*
 * Checkpoints of a sandbox
 *
 * A checkpoint is a list of sealed layers under a name: one line in records/ID/checkpoints, to
 * which lines are only added (layer/layer.h has the format of a record). The key "checkpoint" in
 * the record's meta is the number of the current one. Callers have locked the record.
 */
struct checkpoint {
	struct atoll_checkpoint info; /* first */
	char **layers;		      /* the topmost first */
	size_t n_layers;
	struct layer_roots roots; /* the private root's layers */
};

struct checkpoints {
	struct checkpoint *points; /* in the order of their creation */
	size_t n;
};

int checkpoints_read(const struct layer_record *record, struct checkpoints *ret,
		     struct atoll_error *err);
void checkpoints_done(struct checkpoints *list);
/* By name. If there is none: ATOLL_FAULT_REQUEST, with the latest name as a suggestion. */
int checkpoints_find(const struct checkpoints *list, const char *name,
		     const struct checkpoint **ret, struct atoll_error *err);

/* Is this a valid name? */
int checkpoints_check_name(const char *name, struct atoll_error *err);

/* Can a new checkpoint have this name? NULL ("step-N") always can. */
int checkpoints_check_new(const struct layer_record *record, const char *name,
			  struct atoll_error *err);

/* The step before the checkpoint. */
struct checkpoint_step {
	const char *command; /* NULL: none */
	int32_t status;	     /* -1: none */
};

/* Make a checkpoint of a sandbox without processes: its top layer is sealed. `name` NULL: "step-N";
 * `ret_name` may be NULL. Saves the record. */
int checkpoints_seal(struct layer_record *record, const char *name,
		     const struct checkpoint_step *note, char ret_name[64],
		     struct atoll_error *err);
/* The same with processes that are stopped: the top layer is copied. */
int checkpoints_copy(struct layer_record *record, const char *name,
		     const struct checkpoint_step *note, char ret_name[64],
		     struct atoll_error *err);

/* Return to a checkpoint. No process may be inside, and the workspace is not mounted, or is mounted
 * again next. The discarded files are moved away; the caller removes them with layer_store_tidy()
 * and CHECKPOINTS_TIDY_NS after it has answered, and a later sweep removes the rest. */
#define CHECKPOINTS_TIDY_NS INT64_C(2000000)
int checkpoints_return(struct layer_record *record, const char *name, struct atoll_error *err);

/* Create a record that starts at a checkpoint of this one. */
int checkpoints_branch(const struct layer_record *record, const struct checkpoint *point,
		       char ret_id[ATOLL_ID_SIZE], struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/journal.h"
#include "layer/object.h"

#include <signal.h>

struct atoll_apply_options;
struct atoll_apply_report;
struct atoll_error;
struct holds;
struct known;
struct layer_changes;
struct layer_record;

/*
 * How changes get onto the host
 *
 *   select.c  which changes are asked for
 *   apply-plan.c    from the changes to steps; what is in the way
 *   stage.c   all that is new, in one directory of the workspace, and copies of what it replaces
 *   vet.c     the marks once more, of what is staged
 *   apply-steps.c   the steps: forward, back, and what comes at the end
 *   apply.c   the whole, and what an interrupted one needs
 *   undo.c    the same with what was copied
 *
 * The stage is on the workspace's file system, so once everything is on the disk a step is a
 * rename. Each step can be told to be done or not by looking at the stage alone, so all of them can
 * be repeated from the beginning. What a step moved away stays in the stage up to the end: should
 * it not be what was planned for, because somebody was faster, all steps go back.
 */

/* The stage is ".atoll-apply-ID" at the top of the workspace. No run may write a name that begins
 * so (spec/names.c), nor does an apply. */
#define STAGE_PREFIX ".atoll-apply-"

/* Where it happens. */
struct site {
	struct layer_record *record;
	int workspace_fd;
	int stage_fd; /* -1: none yet */
	char stage_name[32];
	struct object_loss loss;
	sigset_t heard; /* before site_go_deaf() */
};

/* Open the workspace, which must be the one that the record is of. */
int site_open(struct layer_record *record, bool is_recovery, struct site *ret,
	      struct atoll_error *err);
void site_close(struct site *site);

int site_make_stage(struct site *site, struct atoll_error *err);
int site_open_stage(struct site *site, struct atoll_error *err); /* 0 also if there is none */
int site_remove_stage(struct site *site, struct atoll_error *err);

/* What is at a path of the host's: 0, or a negative errno: -ELOOP through a link, -EXDEV on
 * another file system, -ENOENT, -ENOTDIR. */
int site_stat(const struct site *site, const char *path, struct stat *ret);

/* object_print() of a directory; 0 for anything else. */
uint64_t site_tree_print(const struct site *site, const char *path);

/* "N.new" and "N.old". */
struct stage_name {
	char text[32];
};
struct stage_name stage_new(const struct op *op);
struct stage_name stage_old(const struct op *op);

/*
 * From here to site_hear() the process is deaf to Ctrl-C and the like, so that nothing is left
 * lying about. Whoever copies looks whether one of them waits, and ends with -EINTR; what it does
 * then is up to it.
 */
void site_go_deaf(struct site *site);
void site_hear(struct site *site);

/* ---- apply-plan.c ---- */

enum fate {
	FATE_LEFT, /* not asked for */
	FATE_APPLIED,
	FATE_MERGED,
	FATE_HELD,
	FATE_CONFLICT,
};

struct plan_item {    /* of the step with slot i + 1 */
	char *merged; /* its content, if it is not that of the layer */
	size_t merged_size;
	unsigned char digest[32]; /* of the layer's part of it: SHA-256 */
	struct stat staged;	  /* once it is on the disk */
};

struct plan {
	struct site *site;
	struct layer_changes *changes;
	const struct atoll_apply_options *options;
	struct known *known;
	struct journal journal;
	struct plan_item *items;
	size_t n_items;
	size_t *order;	     /* indices of changes by path, bytewise */
	enum fate *fates;    /* of each change */
	bool *named;	     /* of each change: a path that was asked for is exactly its */
	struct holds *holds; /* not the plan's */
	char **why;	     /* it conflicts */
	void *puts;	     /* paths of PUT steps; see <search.h> */
	bool is_stuck;	     /* a conflict that force does not overcome */
};

int plan_make(struct site *site, struct layer_changes *changes, struct known *known,
	      const struct atoll_apply_options *options, struct holds *holds, struct plan *ret,
	      struct atoll_error *err);
void apply_plan_done(struct plan *plan);

/* Add an OPEN where a directory does not let its owner write, and DIR lines. */
int plan_add_directories(struct site *site, struct journal *journal, struct atoll_error *err);

/* ---- stage.c ---- */

/* Fill the stage for an apply, and apply-N/ with what undo needs. */
int stage_plan(struct plan *plan, struct atoll_error *err);
/* Fill the stage for an undo from apply-N/. */
int stage_saved(struct site *site, struct journal *journal, struct atoll_error *err);

/* ---- apply-steps.c ---- */

/* All steps of a journal that has its commit line, and the end. If one cannot be done, all go
 * back, and the error says why. */
int steps_run(struct site *site, struct journal *journal, struct atoll_error *err);
int steps_go_back(struct site *site, struct journal *journal, struct atoll_error *err);
/* What the host has now is ours; see applied-files.h. */
int steps_note(const struct site *site, const struct journal *journal, struct atoll_error *err);
int steps_finish(struct site *site, struct journal *journal, struct atoll_error *err);
/* Nothing was changed: remove the stage, what was copied, and the journal. */
int steps_forget(struct site *site, const struct journal *journal, struct atoll_error *err);

/* A journal from its beginning to its end, deaf to signals: `stage` puts what it needs into the
 * stage, and the commit follows. Before the commit a failure is forgotten with all traces. */
int steps_carry_out(struct site *site, struct journal *journal,
		    int (*stage)(void *data, struct atoll_error *err), void *data,
		    struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/isolate.h"

#include <stdbool.h>

struct layer_record;
struct run;
struct spec;

/*
 * The record of a run in mode `layer`
 *
 * It is made just before the start and is whole from then on: should the supervisor be killed, what
 * was written until then can be seen and applied like that of any other run.
 */
struct run_layer {
	struct layer_record *record; /* NULL in another mode */
	struct cell_layer cell;
	char *top;
	bool is_tidy;	 /* no rest of an earlier run is left to be removed */
	int64_t tidy_ns; /* when to do that; 0: not yet decided */
	bool is_read;	 /* run_layer_read() is done, and this came of it: */
	bool is_empty;
	struct atoll_error problem; /* no text: none */
};

/* Nothing that a command can reach may hold the records of runs: what is in them is applied to the
 * host later. They are hidden by default; this is for a store that somebody has put elsewhere. */
int layer_check_reach(const struct spec *spec, struct atoll_error *err);

/* Note in a record what the contract hides and protects in its workspace. */
int layer_note_rules(struct layer_record *record, const struct spec *spec, struct atoll_error *err);

/* Make one, if the contract says so, and tell the back end. */
int run_layer_open(struct run *run, struct atoll_error *err);
/* Note whom to end, should somebody discard it meanwhile. */
void run_layer_started(const struct run *run);
/* Nothing has happened: remove what earlier runs left, for a moment. */
void run_layer_idle(struct run *run);
/* When to call that, if nothing happens until then. */
int64_t run_layer_wait_ms(const struct run *run);
/* Nobody inside writes any more: tell result and record what has changed. run_layer_close() does it
 * where nobody else has. */
void run_layer_read(struct run *run);
/* All inside has ended: keep what was written. Nothing was, or it never began: no record stays. */
void run_layer_close(struct run *run);

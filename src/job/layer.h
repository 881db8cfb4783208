/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/isolate.h"

#include <stdbool.h>

struct layer_record;
struct run;

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
	bool is_tidy; /* no rest of an earlier run is left to be removed */
};

/* Make one, if the contract says so, and tell the back end. */
int run_layer_open(struct run *run, struct atoll_error *err);
/* Note whom to end, should somebody discard it meanwhile. */
void run_layer_started(const struct run *run);
/* Nothing has happened: remove what earlier runs left, for a moment. */
void run_layer_idle(struct run *run);
/* All inside has ended: keep what was written. Nothing was, or it never began: no record stays. */
void run_layer_close(struct run *run);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box-types.h"

#include <atoll/error.h>
#include <atoll/layer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What became of steps, kept
 *
 * A step that has ended is known for a while by its sandbox's holder and by process.c. Here it is
 * kept as long as its sandbox is there, also while the daemon is not: how it ended, and the last
 * RESULTS_TAIL bytes of what it printed. That of a job is kept longer than its sandbox, for
 * RESULTS_JOB_DAYS.
 *
 * A database of its own (results.db beside the daemon's): it is written in the background, several
 * at a time, and what waits to be written is found as well. If it cannot be written the results are
 * those that holders know; a line in the log says so, and it is tried again. Those of jobs survive
 * a loss of power from the moment on that they are told (results_is_waiting()).
 */

struct daemon;

#define RESULTS_TAIL	 (64U << 10)
#define RESULTS_STEPS	 1000  /* of one box; the oldest go */
#define RESULTS_JOBS	 20000 /* of one tenant; its oldest go */
#define RESULTS_JOB_DAYS 7

struct result_step {
	char box[BOX_ID_SIZE];
	uint64_t number;
	char key[64]; /* of the request; "" */
	char tenant[40];
	bool is_job;
	int64_t start_ms, end_ms;
	char *view;   /* the step as the API shows it: a JSON object */
	char *labels; /* of a job: a JSON object; else NULL */
	char sandbox[ATOLL_ID_SIZE];
	struct {
		char *data; /* the last `kept` bytes */
		uint64_t kept, size;
	} streams[2];
};

struct results;

/* How many bytes each tenant has in the database of this directory; for any thread. */
void results_measure(const char *dir, void (*each)(const char *tenant, uint64_t bytes, void *data),
		     void *data);
int results_open(struct daemon *daemon, const char *dir, struct results **ret,
		 struct atoll_error *err);
/* Writes what waits. */
void results_close(struct results *results);
/* Takes all that `step` points to. One that is there already is replaced. */
void results_add(struct results *results, struct result_step *step);
/* False: there is none. result_done() frees. */
bool results_find(struct results *results, const char *box, uint64_t number,
		  struct result_step *ret);
bool results_find_key(struct results *results, const char *box, const char *key,
		      struct result_step *ret);
/* It is not on the disk yet, but will be; false also while nothing can be written. */
bool results_is_waiting(const struct results *results, const char *box, uint64_t number);
void result_done(struct result_step *step);
/* The next ones behind `after` of a box (UINT64_MAX: from the newest), newest first; `each` gets no
 * output and keeps nothing. Returns how many. */
size_t results_list(struct results *results, const char *box, uint64_t before, size_t limit,
		    void (*each)(const struct result_step *step, void *data), void *data);
/* Jobs of a tenant that began before, newest first. */
size_t results_list_jobs(struct results *results, const char *tenant, int64_t before_ms,
			 size_t limit, void (*each)(const struct result_step *step, void *data),
			 void *data);
/* A box is gone: so are its steps, unless they are a job's. */
void results_forget(struct results *results, const char *box);
/* Steps of boxes that ended while nobody looked. */
void results_clean(struct results *results);

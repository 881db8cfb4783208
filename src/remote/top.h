/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "remote/remote.h"

enum top_order {
	ORDER_CPU,
	ORDER_MEMORY,
	ORDER_NETWORK,
	ORDER_AGE,
	ORDER_ID,
	ORDER_COUNT,
};

struct top_row {
	char id[40], state[12];
	char what[96]; /* labels, or the template */
	double cpu;
	uint64_t memory, bytes_in, bytes_out, processes, steps;
	int64_t start_ms;
};

struct top_step {
	int64_t number, pid;
	char user[32], command[256];
	int64_t start_ms;
};

struct top {
	struct top_row *rows;
	size_t n, selected, first;
	char selected_id[40];
	enum top_order order;
	char problem[256]; /* why there is nothing new */
	int64_t seen_ns;   /* when it was last asked */

	/* Looking inside one. */
	bool is_inside;
	struct top_step *steps;
	size_t n_steps, selected_step;

	/* A question at the foot. */
	bool asks;
	char question[160];
	char said[160]; /* what became of the latest deed */
};

/* ---- top-data.c ---- */

void top_fetch(struct top *top);
void top_fetch_steps(struct top *top);
void top_sort(struct top *top);
/* Pause what runs, let go on what is paused; end it. What became of it is `said`. */
void top_toggle(struct top *top);
void top_kill(struct top *top);
const struct top_row *top_row(const struct top *top); /* NULL: none is selected */
void top_free(struct top *top);

/* ---- top-show.c ---- */

void top_show(struct top *top);
/* All of it, once, for what is no terminal. */
void top_print(const struct top *top);
/* How many rows the table has room for. */
size_t top_room(const struct top *top);

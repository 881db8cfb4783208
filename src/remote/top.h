/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `atoll top`: the state of the screen. */

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
	char problem[256]; /* the error of the last request, or "" */
	int64_t seen_ns;   /* the time of the last request */

	/* The steps of the selected sandbox. */
	bool is_inside;
	struct top_step *steps;
	size_t n_steps, selected_step;

	/* A question in the last line. */
	bool asks;
	char question[160];
	char said[160]; /* the result of the last action */
};

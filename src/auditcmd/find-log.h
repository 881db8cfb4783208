/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct atoll_error;

/* Finds event logs in the store. */

/* An event log of the store. */
struct events_entry {
	char id[16];
	uint64_t time_ns; /* the time of the last write */
	uint64_t size;
	char *workspace; /* NULL if no step has started */
	json_t *start;	 /* the "start" event of the first step, or NULL */
};
/* All event logs, the latest first. Fills in workspace and start only if `with_start`. */
int events_list(bool with_start, struct events_entry **ret, size_t *ret_n, struct atoll_error *err);
void events_list_free(struct events_entry *entries, size_t n);

/* Finds the log that `word` names, as in events_open(). `ret_id` is "" for a path. */
int events_find(const char *word, char ret_id[16], char ret_path[PATH_MAX],
		struct atoll_error *err);
/* Is there a sandbox of that id? Its log may get further steps. */
bool events_has_sandbox(const char *id);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct atoll_error;
struct layer_record;

/*
 * What we put onto the host ourselves
 *
 * An apply and an undo change the host's files, later than the run began. That is no change of the
 * host's own, so records/ID/known has what they left, one line each: "INO CTIME_NS PATH". Whatever
 * still looks exactly like that is as we know it.
 */
struct known;

/* An empty one if there is no file. */
int known_load(const struct layer_record *record, struct known **ret, struct atoll_error *err);
void known_free(struct known *known);

/* Is what the host has at `path` what we left there? Takes NULL. */
bool known_has(const struct known *known, const char *path, const struct stat *st);

/* Not in the run's eyes yet: changed on the host later than the run began, and not by us. */
bool known_is_foreign(const struct layer_record *record, const struct known *known,
		      const char *path, const struct stat *st);

/* `st` NULL: nothing is there. */
int known_set(struct known *known, const char *path, const struct stat *st);
int known_save(const struct layer_record *record, struct known *known, struct atoll_error *err);

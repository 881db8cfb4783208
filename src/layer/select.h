/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/apply.h"

#include <stddef.h>

struct atoll_changes;
struct plan;

/* Which changes are asked for. */

/* Indices by path, bytewise; NULL if memory ran out. */
size_t *select_order(const struct atoll_changes *list);

/* By path; list->n if there is none. */
size_t select_find(const struct atoll_changes *list, const size_t *order, const char *path);

/*
 * Each change's fate: LEFT, HELD or APPLIED. What the plan's `holds` name is HELD. Whoever asks for
 * something beneath a directory that is new asks for that, too; and a directory goes only if
 * everything in it goes.
 */
int select_changes(struct plan *plan, struct atoll_error *err);

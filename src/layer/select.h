/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/apply.h"

#include <stddef.h>

struct atoll_changes;

/* Which changes are asked for. */

/* Indices by path, bytewise; NULL if memory ran out. */
size_t *select_order(const struct atoll_changes *list);

/*
 * Each change's fate: LEFT, HELD or APPLIED. Whoever asks for something beneath a directory that is
 * new asks for that, too; and a directory goes only if everything in it goes.
 */
int select_changes(const struct layer_record *record, const struct atoll_changes *list,
		   const size_t *order, const struct atoll_apply_options *options, enum fate *fates,
		   struct atoll_error *err);

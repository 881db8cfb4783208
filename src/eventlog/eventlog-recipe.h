/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct buf;
struct eventlog;

/* What the job was made of, for a receipt: called before eventlog_start(). `recipe` has words, each
 * ended by a NUL (job/recipe.c). */
void eventlog_recipe(struct eventlog *eventlog, uint32_t step, const struct buf *recipe,
		     char *const *argv);

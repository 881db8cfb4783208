/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

struct events;
struct report;

/* Adds the diffs of changed files to the list of changes, or makes the list from the layer. Returns
 * a sentence that says where the diffs come from, or why there are none. */
json_t *report_diffs(struct report *report, const struct events *events);

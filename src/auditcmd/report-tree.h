/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

struct report;

/* The tree of processes. */
json_t *report_tree(const struct report *report);

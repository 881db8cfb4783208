/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_result;
struct json;

/* The number of changes in the layer of a run, and the commands for them. */
void summary_layer_text(const struct atoll_result *result, FILE *out);

/* The keys "record", "changes" and "layer_note". */
void summary_layer_json(const struct atoll_result *result, struct json *json);

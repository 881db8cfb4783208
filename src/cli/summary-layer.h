/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_result;
struct json;

/* What a run has written to its layer, and what can be done with it. */
void summary_layer_text(const struct atoll_result *result, FILE *out);

/* The keys "record", "changes" and "layer_note". */
void summary_layer_json(const struct atoll_result *result, struct json *json);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_result;
struct json;

/* The network's part of a summary: who was talked to, who could not be reached, who was refused and
 * by which flag that would be otherwise. */
void summary_network_text(const struct atoll_result *result, FILE *out);
void summary_network_json(const struct atoll_result *result, struct json *json);

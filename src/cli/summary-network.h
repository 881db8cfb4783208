/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_result;
struct json;

/* The network in a summary: connections, failed connections, and refused connections with the
 * option that would allow them. */
void summary_network_text(const struct atoll_result *result, FILE *out);
void summary_network_json(const struct atoll_result *result, struct json *json);

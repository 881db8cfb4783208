/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

struct events;
struct report;

/* The result of verifying the log. */
json_t *report_proof(const struct report *report, const struct events *events);

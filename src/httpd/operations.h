/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/route.h"

struct api_call;

/* /healthz, /readyz, /metrics. */
extern const struct api_route operations_routes[];
/* Writes one line about a finished call to stderr, as JSON. */
void operations_log_call(const struct api_call *call, bool is_broken, int64_t ns);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct atoll_error;

/* "2026-11-16T10:45:00Z", "2026-11-16 10:45", "10:45", "5m": ns since 1970. */
int log_read_since(const char *text, uint64_t *ret_ns, struct atoll_error *err);

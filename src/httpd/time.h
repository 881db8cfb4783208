/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Times in RFC 3339, UTC. */

/* "2026-11-15T19:27:23.749Z". */
void api_time(int64_t ms, char ret[32]);
/* "2026-11-15T19:27:23.749000000Z". */
void api_time_ns(int64_t ns, char ret[32]);
/* Parses any RFC 3339 time; false: the text is none. */
bool api_parse_time(const char *text, int64_t *ret_ms);

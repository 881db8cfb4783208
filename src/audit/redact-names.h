/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/redact.h"

/* What a name says about its value: "PGPASSWORD", "--api-key", "clientSecret", "http.extraheader".
 */
enum redact_telling redact_name(const char *name, size_t size);

/* Is the value long and random enough for a key? A path, a word and a version are not. Examines the
 * first 256 bytes only. */
bool redact_looks_random(const char *value, size_t size);

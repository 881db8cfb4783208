/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct build;
struct tenant;

/* A new one, which waits for its steps. `name` may have a tag, "NAME:TAG"; `tags` is a list of
 * more, or NULL. NULL: refused, and `err` says why (EINVAL, EDQUOT). */
struct build *build_new(struct tenant *tenant, const char *name, json_t *tags, uint32_t cpus,
			uint32_t memory_mib, struct atoll_error *err);
struct build *build_find(struct tenant *tenant, const char *name, const char *id);
/* How many are under way. */
size_t build_count(struct tenant *tenant);
void build_log(struct build *build, bool is_error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void build_log_text(struct build *build, bool is_error, const char *text, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The file `gone` of a layer
 *
 * Where a file system holds no whiteouts or no attributes, a layer's deleted names and opaque
 * directories stand in a file beside it: paths, each ended by a NUL, an opaque directory's with a
 * "/" before that ("/" alone: the root). The names in it are a stranger's.
 */
struct gone;

/* `text` is copied. NULL with -EBADMSG for what is no such file: a path that is absolute, empty,
 * with "." or "..", or not ended. */
int gone_parse(const char *text, size_t size, struct gone **ret);
void gone_free(struct gone *gone);

/* All of these take NULL for a layer without the file. Path "" is the root. */
bool gone_is_deleted(const struct gone *gone, const char *path);
bool gone_is_opaque(const struct gone *gone, const char *path);
/* The names that are deleted in `dir`: the first one's index, and how many. */
size_t gone_find(const struct gone *gone, const char *dir, size_t *ret_first);
const char *gone_name(const struct gone *gone, size_t i);

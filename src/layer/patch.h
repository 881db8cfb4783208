/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct buf;

/* What git needs to know of content that is no text, in its own forms. */

/* The name of a blob: SHA-1 of "blob SIZE", a NUL and the content, as 40 hexadecimal digits. */
#define PATCH_NAME_SIZE 41
void patch_blob_name(const void *data, size_t size, char ret[PATCH_NAME_SIZE]);

/* "GIT binary patch" that makes `data` of whatever was there. */
void patch_add_literal(struct buf *out, const void *data, size_t size);

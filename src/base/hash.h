/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#define HASH_HEX_SIZE 65 /* 64 digits and the NUL */

/* SHA-256 as lower-case hexadecimal. */
void hash_sha256_hex(const void *data, size_t size, char ret_hex[HASH_HEX_SIZE]);

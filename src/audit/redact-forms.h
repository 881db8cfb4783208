/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/redact.h"

/* The number of bytes at the beginning of `text` that are a token of a known form; 0: none. The
 * first
 * `*ret_keep` bytes only name the form and may stay. */
size_t redact_form(const char *text, size_t size, size_t *ret_keep);

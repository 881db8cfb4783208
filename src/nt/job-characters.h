/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters that a reviewer sees: no controls, no marks that turn the direction of writing, no
 * characters without width. Whole blocks are refused where one character of them is invisible. */
bool job_is_visible(uint32_t c);

/* The character in `size` bytes of valid UTF-8. */
uint32_t job_decode(const char *text, size_t size);

/* Lines of Windows end with a carriage return and a line feed: the former is left out. Returns the
 * new size. */
size_t job_copy_lines(const char *text, size_t size, char *ret);

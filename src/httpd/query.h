/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Paths and queries, decoded
 *
 * Decoded words follow each other in one allocation, each with a NUL at its end. The allocation is
 * at most twice as large as the text, so nothing has to be counted before. An invalid escape stays
 * as written, as browsers do it; so does "%00", because readers disagree about a NUL inside a word.
 */

/* "%41+b" is "A b"; with `is_form` a plus is a space. `ret` has room for size + 1; returns the
 * length. */
size_t query_decode(const char *text, size_t size, bool is_form, char *ret);

/* "a=1&b=2" (a question mark before it is skipped) becomes "a\0" "1\0" "b\0" "2\0". NULL: out of
 * memory. */
char *query_split(const char *text, size_t size, size_t *ret_size);
/* The value of the first parameter of that name, or NULL. */
const char *query_find(const char *words, size_t size, const char *name);

/* "/a/b%2Fc" becomes "a\0" "b/c\0"; "/" becomes nothing. */
char *query_segments(const char *path, size_t size, size_t *ret_size);
/* The n-th word, or NULL. */
const char *query_word(const char *words, size_t size, size_t n);

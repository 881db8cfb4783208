/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Environment blocks
 *
 * CreateProcess takes all variables in one block: NAME=VALUE and a NUL each, one more NUL at the
 * end, sorted by name without regard to case. Names that differ in case only are one variable. The
 * block here is UTF-8; the Win32 code converts it to UTF-16 as a whole.
 */

/* Make the block from a NULL-terminated list of NAME=VALUE; of two with the same name the later one
 * counts. Drive variables (=C:=C:\dir) keep their leading "=". The caller frees `*ret`. Returns the
 * size with all NULs, -EINVAL for an entry without a name or without "=", or -ENOMEM. */
int nt_environment_block(const char *const *env, char **ret);

/* Order of two names as Windows sorts them: ASCII letters as upper case, then byte by byte. */
int nt_environment_compare(const char *a, const char *b);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/*
 * Text for a terminal
 *
 * Names of files and other texts come from the sandbox. Control characters, invalid UTF-8 and
 * characters that change the direction of text are printed as backslash escapes: so a terminal
 * executes none of them, and a line stays one line.
 */
void print_escaped(FILE *out, const char *text);

/* "atoll: TEXT" on standard error, escaped. */
void print_problem(const char *text);

/* Prints `text`, wrapped at 80 columns and indented; the cursor is at column `at`. Ends with a
 * newline. */
void print_wrapped(FILE *out, int at, int indent, const char *text);

/* Prints `text` as one word in shell syntax, without control characters. */
void print_word(FILE *out, const char *text);

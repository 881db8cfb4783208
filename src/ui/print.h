/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/*
 * Text for a terminal
 *
 * Names of files and the like come from the sandbox. Control characters, invalid UTF-8 and the
 * marks that turn the direction of writing are shown as \n, \t, \xNN; a terminal must not obey them
 * and a line must stay one line.
 */
void print_escaped(FILE *out, const char *text);

/* "atoll: TEXT" on standard error, escaped. */
void print_problem(const char *text);

/* Words from `text`, broken at 80 columns and indented; the cursor stands at column `at`. Ends with
 * a newline. */
void print_wrapped(FILE *out, int at, int indent, const char *text);

/* A word that a shell reads as `text`, and a terminal obeys nothing of. */
void print_word(FILE *out, const char *text);

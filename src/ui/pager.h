/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Long output for people
 *
 * On a terminal the output goes through $PAGER, or through less at its usual path, never through a
 * program that $PATH finds. If standard output is not a terminal, or PAGER is empty or "cat", the
 * output goes to standard output directly.
 */
struct pager {
	FILE *out;
	pid_t pid;	  /* 0: there is none */
	bool is_terminal; /* the output ends at a terminal: escape control characters */
	bool has_colours;
};

void pager_open(struct pager *pager);
/* Waits for the end of the pager. 0, or a negative errno if the output could not be written. */
int pager_close(struct pager *pager);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Long output for people
 *
 * On a terminal it goes through $PAGER, or through less if that is installed where it always is;
 * never through a program of that name that happens to be found first. Elsewhere, and with PAGER
 * set to nothing or to "cat", it is standard output as it is.
 */
struct pager {
	FILE *out;
	pid_t pid;	  /* 0: there is none */
	bool is_terminal; /* a terminal reads this in the end: colours, and nothing that it obeys */
	bool has_colours;
};

void pager_open(struct pager *pager);
/* Until the person has read it. 0, or a negative errno if it could not be written. */
int pager_close(struct pager *pager);

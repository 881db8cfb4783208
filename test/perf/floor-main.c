/* SPDX-License-Identifier: Apache-2.0 */
#include "floor.h"

#include <stdio.h>
#include <sys/wait.h>

/* The floor as a program that is started for one command: floor COMMAND... */
int main(int argc, char **argv)
{
	int status;

	if (argc < 2) {
		fprintf(stderr, "usage: floor COMMAND...\n");
		return 2;
	}
	status = floor_run(argv + 1);
	if (status < 0)
		perror("floor");
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "floor.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The floor as a program that is started for one command: floor [--seen] COMMAND... */
int main(int argc, char **argv)
{
	bool is_seen = argc > 1 && strcmp(argv[1], "--seen") == 0;
	int status;

	if (argc < 2 + is_seen) {
		fprintf(stderr, "usage: floor [--seen] COMMAND...\n");
		return 2;
	}
	status = floor_run(argv + 1 + is_seen, is_seen);
	if (status < 0)
		perror("floor");
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the Windows reader of job files, for test_nt_job.py
 *
 *	nt-keys             every key of a job file, with "refused" behind those that Windows lacks
 *	nt-keys FILE        reads a job file; prints "ok", or why not
 */
#include "nt/nt.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	static char text[JOB_TEXT_MAX + 2];
	static struct nt_job job;
	struct atoll_error err = {0};
	const struct nt_job_key *key;
	struct job_tree tree;
	size_t size;
	FILE *file;
	int r;

	if (argc < 2) {
		for (size_t i = 0; (key = nt_job_key_at(i)); i++)
			printf("%s%s\n", key->name, key->is_refused ? " refused" : "");
		return 0;
	}
	file = fopen(argv[1], "r");
	if (!file)
		return 1;
	size = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	nt_job_init(&job);
	r = job_tree_read("job", text, size, &tree, &err);
	if (r == 0) {
		r = nt_job_load(&job, "job", &tree, &err);
		job_tree_done(&tree);
	}
	puts(r < 0 ? err.text : "ok");
	return 0;
}

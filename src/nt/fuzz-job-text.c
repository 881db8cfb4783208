/* SPDX-License-Identifier: Apache-2.0 */
/* Job files for Windows. Whatever is read, a job of it or a reason follows. */
#include "nt/nt-job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct nt_job job;
	struct atoll_error err;
	struct job_tree tree;

	if (job_tree_read("f", (const char *)data, size, &tree, &err) < 0)
		return 0;
	nt_job_init(&job);
	nt_job_load(&job, "f", &tree, &err);
	job_tree_done(&tree);
	return 0;
}

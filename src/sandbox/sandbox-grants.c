/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Other --write-at grants for a branch of a sandbox
 *
 * A branch has its parent's contract. Its --write-at grants, volumes for example, can differ: the
 * daemon replaces these lines before the branch starts for the first time, and the contract's
 * digest with them. Parent and branches share the file `job` by a hard link, so the file is
 * replaced by a rename and never changed in place.
 */

#define RECIPE_MAX (4 << 20)
#define KEY	   "write-at"

static void free_job(struct atoll_job **job)
{
	atoll_job_free(*job);
}

static int read_recipe(const struct layer_record *record, struct buf *out)
{
	cleanup_buf struct buf text = BUF_INIT(RECIPE_MAX);
	cleanup_fd int fd = openat(record->fd, "job", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	return r < 0 ? r : recipe_without(text.data ? text.data : "", text.used, KEY, out);
}

static int write_recipe(const struct layer_record *record, const struct buf *recipe)
{
	cleanup_fd int fd = -1;
	int r;

	if (unlinkat(record->fd, "job.new", 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(record->fd, "job.new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	r = fd < 0 ? -errno : fd_write_all(fd, recipe->data, recipe->used);
	if (r == 0 && renameat(record->fd, "job.new", record->fd, "job") < 0)
		r = -errno;
	return r;
}

static void add_word(struct buf *out, const char *word)
{
	buf_add(out, word, strlen(word) + 1);
}

static int replace(struct layer_record *record, char *const *grants, size_t n,
		   struct atoll_error *err)
{
	cleanup_with(free_job) struct atoll_job *job = NULL;
	cleanup_buf struct buf recipe = BUF_INIT(RECIPE_MAX);
	int r = read_recipe(record, &recipe);

	for (size_t i = 0; r == 0 && i < n; i++) {
		add_word(&recipe, "set");
		add_word(&recipe, KEY);
		add_word(&recipe, grants[i]);
	}
	if (r == 0)
		r = buf_error(&recipe);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the recipe of sandbox '%s'",
				 record->info.id);
	r = recipe_follow(&(struct recipe){.words = &recipe}, &job, err);
	if (r == 0)
		r = spec_digest(job->spec, record->info.digest, err);
	if (r < 0)
		return r;
	r = write_recipe(record, &recipe);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "store the sandbox's recipe")
		     : layer_record_save_soon(record, err);
}

int sandbox_set_grants(const char *id, char *const *grants, size_t n, struct atoll_error *err)
{
	struct layer_record *record;
	int held, r = sandbox_open(id, &record, err);

	if (r < 0)
		return r;
	held = layer_record_hold(record);
	r = held < 0 ? error_set(err, ATOLL_FAULT_POLICY, -held, "lock sandbox '%s'",
				 record->info.id)
		     : layer_record_lock(record, false, err);
	if (r == 0)
		r = replace(record, grants, n, err);
	if (held >= 0)
		close(held);
	layer_record_close(record);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/state.h"
#include "isolate/isolate.h"
#include "job/job-layer.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/apply-discard.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Open and create sandboxes, in the client
 *
 * sandbox_open() finds a record, sandbox_job() makes its job again. A creation checks that this
 * host can enforce the contract, makes a record, writes the job's recipe into it and begins the
 * event log. No process is started. sandbox-history.c has checkpoints and forks, sandbox-end.c the
 * end.
 */

#define RECIPE_MAX (4 << 20)

/* ---- open ---- */

/* The latest sandbox whose workspace contains the current directory. */
static int find_latest(char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	const struct atoll_record *latest = NULL;
	struct atoll_record *records;
	char here[PATH_MAX];
	size_t n;
	int r = atoll_records_list(false, &records, &n, err);

	if (r < 0)
		return r;
	if (!getcwd(here, sizeof here))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		if (records[i].kind == ATOLL_RECORD_SANDBOX &&
		    path_is_within(here, records[i].workspace) &&
		    (!latest || records[i].start_ns > latest->start_ns))
			latest = &records[i];
	}
	if (latest)
		memcpy(ret_id, latest->id, ATOLL_ID_SIZE);
	else
		r = error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
			      "there is no sandbox of this directory; atoll create makes one");
	atoll_records_free(records, n);
	return r;
}

int sandbox_open(const char *id, struct layer_record **ret, struct atoll_error *err)
{
	struct layer_record *record;
	char latest[ATOLL_ID_SIZE];
	int r = id ? 0 : find_latest(latest, err);

	if (r == 0)
		r = layer_record_open(id ? id : latest, &record, err);
	if (r != 0)
		return r;
	if (record->info.kind != ATOLL_RECORD_SANDBOX) {
		r = error_set(err, ATOLL_FAULT_REQUEST, 0,
			      "'%s' is the record of a run, not a sandbox (atoll create makes one)",
			      record->info.id);
		layer_record_close(record);
		return r;
	}
	*ret = record;
	return 0;
}

int sandbox_job(const struct layer_record *record, bool is_held, struct atoll_job **ret,
		struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RECIPE_MAX);
	const struct recipe recipe = {&text, NULL, record->info.digest, is_held};
	cleanup_fd int fd = openat(record->fd, "job", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the recipe of sandbox '%s'",
				 record->info.id);
	r = recipe_follow(&recipe, ret, err);
	return r < 0 ? error_context(err, r, "sandbox %s", record->info.id) : 0;
}

/* ---- create ---- */

/* Refuse at creation what would make every step fail. */
static int check_host(const struct atoll_job *job, struct atoll_error *err)
{
	cleanup_with(plan_done) struct plan plan = {0};
	struct cell_extra extra = {0};
	const struct plan_line *missing;
	struct cell *cell = NULL;
	char store[PATH_MAX];
	char **env;
	int r;

	if (isolate_choose(NULL) != isolate_backends[0])
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"a sandbox that lives on needs user namespaces with mounts, and this host "
			"%s (see `atoll doctor`); single commands run with `atoll run --direct`",
			isolate_lack());
	/* A run can have its layer in memory. The layers of a sandbox must outlive its processes,
	 * and the file system must support whiteouts. */
	if (job->spec->workspace_mode == SPEC_WORKSPACE_LAYER &&
	    layer_store_needs_memory(job->spec->workspace))
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"layers of steps cannot be kept in %.200s: it lies in the workspace, or "
			"on a file system that cannot hold them (a container's root, NFS); set "
			"XDG_STATE_HOME to a place on ext4, XFS, btrfs or tmpfs",
			state_path(store, NULL) < 0 ? "~/.local/state/atoll" : store);
	if (job->spec->n_descriptors)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "a sandbox that lives on cannot have descriptors of the caller's "
				 "(%s)",
				 job->spec->descriptors_origin);
	env = env_build(job->spec, &(struct env_extra){0}, err);
	if (!env)
		return -ENOMEM;
	r = isolate_backends[0]->prepare(job->spec, env, &extra, &plan, &cell, err);
	missing = r == 0 ? plan_first_missing(&plan) : NULL;
	if (missing)
		r = error_set(err, ATOLL_FAULT_HOST, 0, "this host cannot enforce %s (%s)%s%s",
			      missing->clause, missing->mechanism, missing->note ? ": " : "",
			      missing->note ? missing->note : "");
	isolate_backends[0]->release(cell);
	env_free(env);
	return r;
}

/* A spare record may have an older file: write over it and truncate. */
static int write_job(const struct layer_record *record, const struct atoll_job *job,
		     struct atoll_error *err)
{
	cleanup_fd int fd =
		openat(record->fd, "job", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : buf_error(&job->recipe);

	if (r == 0)
		r = fd_write_all(fd, job->recipe.data, job->recipe.used);
	if (r == 0 && ftruncate(fd, (off_t)job->recipe.used) < 0)
		r = -errno;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "store the sandbox's recipe") : 0;
}

static int fill_record(struct layer_record *record, const struct atoll_job *job, const char *name,
		       bool is_quick, struct atoll_error *err)
{
	int r = layer_store_keep_bounds(&record->store, err);
	char disk[24];

	if (r == 0)
		r = spec_digest(job->spec, record->info.digest, err);
	if (r == 0)
		r = write_job(record, job, err);
	if (r == 0)
		r = layer_note_rules(record, job->spec, err);
	if (r == 0 && job->spec->limits[SPEC_DISK].value != SPEC_UNLIMITED) {
		snprintf(disk, sizeof disk, "%" PRIu64, job->spec->limits[SPEC_DISK].value);
		r = layer_record_set(record, LAYER_DISK, disk, err);
	}
	if (r < 0)
		return r;
	if (is_quick)
		return layer_record_save_soon(record, err);
	return name ? layer_record_name(record, name, err) : layer_record_save(record, err);
}

static int create(struct atoll_job *job, const char *name, bool is_quick,
		  char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	char *const none[] = {(char *)"sh", NULL};
	cleanup_record struct layer_record *record = NULL;
	int r = spec_set_command(job->spec, none, "command line", err);

	if (r == 0)
		r = job_finish(job, err);
	if (r == 0 && !is_quick)
		r = check_host(job, err);
	/* The daemon's own places lie in its store. */
	if (r == 0 && !is_quick)
		r = layer_places_note(job->spec, err);
	if (r == 0)
		r = layer_record_create(ATOLL_RECORD_SANDBOX, job->spec->workspace, &record, err);
	if (r != 0)
		return r;
	r = fill_record(record, job, name, is_quick, err);
	/* A sandbox that is started at once: its holder begins the log. */
	if (r == 0 && !is_quick)
		r = sandbox_log_begin(record->info.id, job->spec, NULL, err);
	if (r == 0)
		memcpy(ret_id, record->info.id, ATOLL_ID_SIZE);
	else
		layer_record_remove(record, NULL);
	return r;
}

int atoll_sandbox_create(struct atoll_job *job, const char *name, char ret_id[ATOLL_ID_SIZE],
			 struct atoll_error *err)
{
	return create(job, name, false, ret_id, err);
}

int sandbox_create_quickly(struct atoll_job *job, char ret_id[ATOLL_ID_SIZE],
			   struct atoll_error *err)
{
	return create(job, NULL, true, ret_id, err);
}

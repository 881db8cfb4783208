/* SPDX-License-Identifier: Apache-2.0 */
#include "box/make.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/scope.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/work.h"
#include "job/job.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

#include <atoll/step.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The sandbox of a box, made and started; on a thread
 *
 * From a contract, or by branching off a checkpoint of another one, whose contract it then has.
 */

static void free_job(struct atoll_job **job)
{
	atoll_job_free(*job);
}

/* A home of nobody's: what a contract hides and refuses by default are places in the caller's home,
 * and the caller is the daemon, whose home no box has anything to do with. */
static struct atoll_job *new_job(const char *dir, struct atoll_error *err)
{
	struct atoll_job *job = calloc(1, sizeof *job);

	if (!job) {
		error_oom(err);
		return NULL;
	}
	job->spec = spec_new("/", dir, err);
	if (!job->spec) {
		free(job);
		return NULL;
	}
	recipe_begin(job, "/", dir);
	return job;
}

/* A job file's text that is no file. Who asks was looked at already, so nobody need trust it. */
static int load_text(struct atoll_job *job, const char *name, const char *text,
		     struct atoll_error *err)
{
	job->is_trusted = true;
	hash_sha256_hex(text, strlen(text), job->file_hash);
	recipe_add(job, (const char *const[]){"load", name, "", text}, 4);
	return spec_load(job->spec, name, NULL, text, strlen(text), err);
}

static int set_limits(struct atoll_job *job, const struct daemon_config *config,
		      struct atoll_error *err)
{
	const struct {
		const char *key, *unit;
		uint32_t value;
	} limits[] = {
		{"memory", "M", config->base_memory_mib},
		{"disk", "M", config->base_disk_mib},
		{"cpus", "", config->base_cpus},
		{"pids", "", config->base_pids},
	};
	char text[24];
	int r = atoll_job_set(job, "record", config->base_record, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(limits); i++) {
		snprintf(text, sizeof text, "%u%s", limits[i].value, limits[i].unit);
		r = atoll_job_set(job, limits[i].key, text, err);
	}
	return r;
}

static int create(struct make *make, struct atoll_error *err)
{
	cleanup_with(free_job) struct atoll_job *job = new_job(make->workspace, err);
	int r;

	if (!job)
		return -ENOMEM;
	r = load_text(job, make->name, make->contract, err);
	if (r == 0)
		r = atoll_job_set(job, "workspace", make->workspace, err);
	if (r == 0 && make->config)
		r = set_limits(job, make->config, err);
	for (size_t i = 0; r == 0 && i < make->n_grants; i++)
		r = atoll_job_set(job, "write-at", make->grants[i], err);
	return r < 0 ? r : sandbox_create_quickly(job, make->sandbox, err);
}

int make_forks(const char *from, const char *checkpoint, size_t count, char (*ids)[ATOLL_ID_SIZE],
	       struct atoll_error *err)
{
	int r;

	memset(ids, 0, count * sizeof *ids);
	r = atoll_sandbox_fork(from, checkpoint, count, ids, err);
	for (size_t i = 0; r < 0 && i < count && ids[i][0]; i++)
		atoll_sandbox_remove(ids[i], true, NULL);
	return r;
}

static int branch(struct make *make, struct atoll_error *err)
{
	char ids[1][ATOLL_ID_SIZE];
	int r = make_forks(make->from, make->checkpoint, 1, ids, err);

	if (r < 0)
		return r;
	memcpy(make->sandbox, ids[0], ATOLL_ID_SIZE);
	r = make->n_grants ? sandbox_set_grants(ids[0], make->grants, make->n_grants, err) : 0;
	if (r < 0) {
		atoll_sandbox_remove(ids[0], true, NULL);
		make->sandbox[0] = '\0';
	}
	return r;
}

int make_sandbox(struct make *make, struct atoll_error *err)
{
	int r = make->from && make->from[0] ? branch(make, err) : create(make, err);

	if (r < 0)
		return r;
	if (make->recorded)
		make->recorded(make);
	r = sandbox_start_new(make->sandbox, err);
	if (r == 0 && make->rules)
		r = atoll_sandbox_set_network(make->sandbox, make->rules, err);
	if (r < 0) {
		atoll_sandbox_remove(make->sandbox, true, NULL);
		make->sandbox[0] = '\0';
	}
	return r;
}

/* ---- a holder for one that is there ---- */

struct starting {
	struct work_item item;
	char sandbox[ATOLL_ID_SIZE];
};

static void run_starting(struct work_item *item)
{
	atoll_sandbox_start(((struct starting *)item)->sandbox, NULL);
}

static void free_starting(struct work_item *item)
{
	free(item);
}

bool start_holder_behind(struct daemon *daemon, const struct tenant *owner, const char *sandbox)
{
	struct starting *starting = calloc(1, sizeof *starting);

	if (!starting)
		return false;
	starting->item =
		(struct work_item){.run = run_starting, .done = free_starting, .owner = owner};
	snprintf(starting->sandbox, sizeof starting->sandbox, "%s", sandbox);
	work_submit(daemon_work(daemon), &starting->item, WORK_NOW);
	return true;
}

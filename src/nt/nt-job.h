/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/job-text.h"
#include "nt/nt-plan.h"
#include "spec/spec.h"

/*
 * A job for Windows: a command and its contract, from a job file and flags
 *
 * The keys are those of the job files of the Linux programs (src/spec/schema.json). Every key of
 * theirs is either understood here or refused with "not available on Windows"; test_nt_job.py
 * compares the lists. Strings belong to the tree of the job file or to the caller's arguments, both
 * of which outlive the job.
 *
 *	nt_job_init()  →  nt_job_load()  →  nt_job_option()  →  nt_request_make() (nt-request.h)
 */

#define NT_JOB_COMMAND_MAX   1024
#define NT_JOB_RULES_MAX     256
#define NT_JOB_VARIABLES_MAX 256
#define NT_JOB_HOSTS_MAX     256

enum nt_workspace_mode {
	NT_WORKSPACE_LAYER, /* a private copy is written; apply takes changes over */
	NT_WORKSPACE_DIRECT,
	NT_WORKSPACE_READ_ONLY,
};

enum nt_network {
	NT_NETWORK_OFF,
	NT_NETWORK_RULES,
	NT_NETWORK_OPEN,
};

struct nt_job_rule {
	enum spec_access access;
	const char *path;
	bool is_flag; /* relative paths count from the current directory, not from the workspace */
};

struct nt_job {
	const char *command[NT_JOB_COMMAND_MAX + 1]; /* ends with NULL */
	size_t n_command;
	const char *workspace, *cwd; /* NULL: not said */
	bool workspace_is_flag;
	enum nt_workspace_mode mode;
	struct nt_job_rule rules[NT_JOB_RULES_MAX];
	size_t n_rules;
	enum nt_network network;
	const char *hosts[NT_JOB_HOSTS_MAX]; /* that may be talked to, of NT_NETWORK_RULES */
	size_t n_hosts;
	uint64_t limits[SPEC_LIMIT_COUNT]; /* SPEC_UNLIMITED: none */
	bool is_written[SPEC_LIMIT_COUNT]; /* the job says it; otherwise the preset counts */
	struct {
		const char *name, *value; /* value NULL: the caller's */
	} variables[NT_JOB_VARIABLES_MAX];
	size_t n_variables;
	unsigned accepted; /* NT_WEAKER_... */
};

void nt_job_init(struct nt_job *job);

/* Take in the tree of a job file. Returns 0 or -EINVAL. */
int nt_job_load(struct nt_job *job, const char *name, const struct job_tree *tree,
		struct atoll_error *err);

/* One flag: "--write" with its value. Returns 0, -EINVAL, or -ENOENT for an unknown flag. */
int nt_job_option(struct nt_job *job, const char *flag, const char *value, struct atoll_error *err);

/* Keys of job files, for the test that compares them with the schema: "network.allow". NULL behind
 * the last one. A refused key is known and not available on Windows. */
struct nt_job_key {
	const char *name;
	bool is_refused;
};
const struct nt_job_key *nt_job_key_at(size_t i);

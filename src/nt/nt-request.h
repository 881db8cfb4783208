/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt-job.h"

/*
 * From a job to the contract of this host
 *
 * nt_request_make() resolves every path of a job, finds out which protected names exist, and fills
 * in the struct nt_contract that the planner needs. It asks the host through struct nt_host and
 * changes nothing.
 *
 *	layer       the root is a private copy of the workspace in the store; trusted names are held
 *		    when changes are applied
 *	direct      the root is the workspace; protected names that exist get a denial, some that do
 *		    not exist get a placeholder in the root's top directory, the others are weaker
 *	read-only   no root
 *
 * A directory for temporary files in the store is always a root.
 */

#define NT_PLACEHOLDERS_MAX 64

enum nt_file_kind {
	NT_NOTHING,
	NT_IS_FILE,
	NT_IS_DIRECTORY,
};

struct nt_host {
	const char *home, *caller, *store; /* in the form of nt_path_read() */
	struct nt_sid user, logon;
	unsigned n_processors;
	void *context;
	/* What there is at a path, without following a link; or a negative errno. */
	int (*kind)(void *context, const char *path);
	/* The capability SID of a root, for ever the same. Returns 0 or a negative errno. */
	int (*sid_of)(void *context, const char *root, struct nt_sid *ret, struct atoll_error *err);
};

struct nt_request {
	const struct nt_job *job;
	char *workspace; /* of the host */
	char *work_root; /* the directory that the command works in: a copy, or the workspace */
	char *cwd;	 /* where the command starts */
	char *temp;
	struct nt_root roots[NT_ROOTS_MAX + 1];
	size_t n_roots;
	struct nt_protected protected[NT_PROTECTED_MAX + 1];
	size_t n_protected;
	const char *placeholders[NT_PLACEHOLDERS_MAX];
	size_t n_placeholders;
	size_t n_absent;   /* protected names that do not exist and get no placeholder */
	bool has_patterns; /* lines with * or ?: found after the run only */
	struct nt_contract contract;
	char **strings; /* everything above that is not the job's */
	size_t n_strings;
};

/* Returns 0, -EINVAL for a path that Windows has no one form for, -ENOMEM, or the host's errno. */
int nt_request_make(const struct nt_job *job, const struct nt_host *host, struct nt_request *ret,
		    struct atoll_error *err);
void nt_request_done(struct nt_request *request);

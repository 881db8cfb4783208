/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>

struct spec;

/*
 * How these meet
 *
 * The life of a job, and the public API:
 *   job.c      a contract from file and flags, finished once
 *   trust.c    which job files from a workspace may widen the contract
 *   env.c      the command's environment
 *   run.c      prepare, start, supervise, report
 *   relay.c    the command's input and output, passed on through pipes or a terminal
 *   terminal.c the caller's terminal meanwhile
 *   doctor.c   what the back ends find out about this host, in words
 */
struct atoll_job {
	struct spec *spec;
	char file_hash[65]; /* of the job file's content; "" if there was none */
	bool is_finished;
};

/* Fill in and check; may be called again. */
int job_finish(struct atoll_job *job, struct atoll_error *err);

/* Was this content approved with atoll_trust()? 1, 0 or a negative errno. A list that lies where
 * this job, if there is one, can write is not believed. */
int trust_has(const char *hash, const struct spec *spec, struct atoll_error *err);

/* The command's environment, NULL-terminated. env_free() takes NULL. */
char **env_build(const struct spec *spec, bool has_terminal, struct atoll_error *err);
void env_free(char **env);

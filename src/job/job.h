/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "job/job-file.h"

#include <atoll/atoll.h>

struct secrets;
struct spec;

/*
 * How these meet
 *
 * The life of a job, and the public API:
 *   job.c      a contract from file and flags, finished once
 *   recipe.c   the same contract again, later
 *   job-file.c a job file opened, and who could have written it
 *   job-trust.c    which job files may widen the contract
 *   env.c      the command's environment
 *   run.c      prepare, start, supervise, report
 *   job-layer.c    the record of what it writes, in mode `layer`
 *   sandbox.c  what lives on: made, listed, forked, removed; checkpoints.c  its checkpoints
 *   hold*.c    the process that holds one
 *   exec.c     one step in it
 *   run-signals.c  the caller's signals meanwhile
 *   run-relay.c    the command's input and output, passed on through pipes or a terminal
 *   terminal.c the caller's terminal meanwhile
 *   netctl.c, netctl-config.c  the process that makes the network's connections
 *   connections.c  what it tells of them
 *   apply-discard.c   what is decided about records later, and written down
 *   record*.c  writing the record; notices.c  what the first process tells for it
 *   run-questions.c, answers.c  what a person is asked about them, and has said for always
 *   secrets.c  credentials that it alone gets
 *   doctor.c   what the back ends find out about this host, in words
 */
struct atoll_job {
	struct spec *spec;
	struct job_file file; /* where it was found; all 0 if there was none */
	char file_hash[65];   /* of the job file's content; "" if there was none */
	bool is_finished;
	bool is_trusted; /* somebody has looked already: made from a recipe */
	bool is_held;	 /* nothing is built from it: see struct recipe */
	/* All that it was made of, as it came: texts, each with its NUL. See recipe.c. */
	struct buf recipe;
};

/* ---- recipe.c ---- */

void recipe_begin(struct atoll_job *job, const char *home, const char *caller);
void recipe_add(struct atoll_job *job, const char *const *words, size_t n);
struct recipe {
	const struct buf *words; /* as in struct atoll_job */
	char *const *argv;	 /* the command; NULL: any */
	const char *digest;	 /* of the contract as it must be; NULL: any */
	/* Nothing is built from this job, as for a step, whose sandbox the holder builds. The lines
	 * about atoll's own programs, which the digest does not cover, are left out. */
	bool is_held;
};

/* The same job once more, finished, with all that has changed on the host since. -ESTALE if it
 * would not be the same contract. */
int recipe_follow(const struct recipe *recipe, struct atoll_job **ret, struct atoll_error *err);

/* The same words, but those that set `key`. -EBADMSG. */
int recipe_without(const char *data, size_t size, const char *key, struct buf *out);

/* Fill in and check; may be called again. */
int job_finish(struct atoll_job *job, struct atoll_error *err);

/* Was this content approved, at this place, with atoll_trust()? 1, 0 or a negative errno. A list
 * that lies where this job, if there is one, can write is not believed. */
int trust_has(const char *hash, const struct job_file *file, const struct spec *spec,
	      struct atoll_error *err);
/* Refuse a job file that gives more than the default, could be a run's or another user's work, and
 * was not approved. `job` is filled in. */
int trust_check(const struct atoll_job *job, struct atoll_error *err);

/* What the command's environment depends on besides the contract. */
struct env_extra {
	bool has_terminal;
	const struct secrets *secrets; /* NULL in a plan */
	const char *token;	       /* for the proxy; "" or NULL for none */
	uint16_t proxy_port;	       /* on the host's loopback; 0: in a namespace of its own */
	size_t user;		       /* of the contract's, by number */
};

/* The command's environment, NULL-terminated. env_free() takes NULL. */
char **env_build(const struct spec *spec, const struct env_extra *extra, struct atoll_error *err);
void env_free(char **env);

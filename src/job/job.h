/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/atoll.h>

struct secrets;
struct spec;

/*
 * How these meet
 *
 * The life of a job, and the public API:
 *   job.c      a contract from file and flags, finished once
 *   recipe.c   the same contract again, later
 *   trust.c    which job files from a workspace may widen the contract
 *   env.c      the command's environment
 *   run.c      prepare, start, supervise, report
 *   layer.c    the record of what it writes, in mode `layer`
 *   sandbox.c  what lives on: made, listed, forked, removed; steps.c  its checkpoints
 *   hold*.c    the process that holds one
 *   exec.c     one step in it
 *   signals.c  the caller's signals meanwhile
 *   relay.c    the command's input and output, passed on through pipes or a terminal
 *   terminal.c the caller's terminal meanwhile
 *   network.c, network-config.c  the process that makes the network's connections
 *   connections.c  what it tells of them
 *   decide.c   what is decided about records later, and written down
 *   record*.c  writing the record; notices.c  what the first process tells for it
 *   questions.c, answers.c  what a person is asked about them, and has said for always
 *   secrets.c  credentials that it alone gets
 *   store.c    files of the user's own words
 *   doctor.c   what the back ends find out about this host, in words
 */
struct atoll_job {
	struct spec *spec;
	char file_hash[65]; /* of the job file's content; "" if there was none */
	bool is_finished;
	bool is_trusted; /* somebody has looked already: made from a recipe */
	/* All that it was made of, as it came: texts, each with its NUL. See recipe.c. */
	struct buf recipe;
};

/* ---- recipe.c ---- */

void recipe_begin(struct atoll_job *job, const char *home, const char *caller);
void recipe_add(struct atoll_job *job, const char *const *words, size_t n);
/* The same job once more, finished, with all that has changed on the host since. `argv` is the
 * command; NULL: any. -ESTALE if it would not be the same contract (`digest`, unless NULL). */
int recipe_follow(const char *data, size_t size, char *const *argv, const char *digest,
		  struct atoll_job **ret, struct atoll_error *err);

/* The same words, but those that set `key`. -EBADMSG. */
int recipe_without(const char *data, size_t size, const char *key, struct buf *out);

/* Fill in and check; may be called again. */
int job_finish(struct atoll_job *job, struct atoll_error *err);

/* Was this content approved with atoll_trust()? 1, 0 or a negative errno. A list that lies where
 * this job, if there is one, can write is not believed. */
int trust_has(const char *hash, const struct spec *spec, struct atoll_error *err);

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

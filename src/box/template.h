/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Templates that are built
 *
 * A build takes a template, makes a box from it, carries out steps in that box, and keeps what its
 * files are then under a name, as a snapshot is kept; and with it what boxes that are made from it
 * begin with: an environment, a working directory, a user, and a command that is started. Nothing
 * of a build runs out here: an archive of files is looked at by the importer, which refuses a
 * hostile one, and unpacked in the box.
 *
 *   template.c        all that boxes can be made from
 *   template-builds.c which builds there are
 *   template-build.c  builds, step by step
 *   template-copy.c   files that were uploaded
 *   template-run.c    one command of a build, and what it prints
 *   template-start.c  a template's own command, when a box is made, and waiting until it is ready
 *   template-tags.c   names for what was built
 *
 * A build that was under way when the daemon ended is lost, with its box; what was built before
 * stays.
 */

struct box;
struct build_run;
struct daemon;
struct daemon_tenant;
struct kind_shape;
struct tenant;
struct work;

#define BUILD_STEPS_MAX 1000
#define BUILD_LOGS_MAX	20000
#define BUILD_LINE_MAX	4096
#define BUILD_LOG_MAX	(1U << 20) /* bytes of all lines */
/* What boxes of a template begin with: {"env": {...}, "workdir", "user", "start", "ready",
 * "build"}; each but "env" a text, or left out. */

enum build_state {
	BUILD_WAITING, /* for its steps */
	BUILD_BUILDING,
	BUILD_READY,
	BUILD_ERROR,
};

struct build_line {
	int64_t time_ms;
	bool is_error;
	char *text;
};

struct build {
	char id[40];
	char name[128]; /* of the template: also its id */
	struct tenant *tenant;
	enum build_state state;
	json_t *tags;		   /* texts, at least one */
	uint32_t cpus, memory_mib; /* 0: as what it is built from */
	int64_t made_ms;

	struct build_line *lines;
	size_t n_lines, room, log_bytes;

	/* Of BUILD_ERROR. */
	char reason[1024];
	char step[16]; /* "base", "3", "finalize" */

	/* template-build.c's */
	struct work *work;
	json_t *request; /* what is to be done */
	json_t *settings;
	size_t at; /* the step at hand */
	struct box *box;
	uint64_t gone;
	struct build_run *run;
	struct build *next;
};

struct template_tag {
	char tag[64], build[40];
	int64_t made_ms;
};

/* The next of a template's behind `*at`, which is NULL at first; false: no more. */
struct kind;
/* More names for what `target` ("NAME:TAG") is: `err` ENOENT if there is none. */
typedef void template_done(const struct atoll_error *err, void *data);
/* Runs a shell's command in the build's box; `done` gets its exit status, or -1 and why.
 * `arguments` are "$1"... of the command; ends with NULL; may be NULL. */
typedef void build_ran(struct build *build, int status, const char *why);

int kinds_load(struct daemon *daemon, struct atoll_error *err);
void kinds_free(struct daemon *daemon);
struct kind *kind_find(struct daemon_tenant *tenant, const char *ref);
bool kind_has(const struct daemon *daemon, const char *sandbox);
void kind_plain(const char *ref, char ret[160]);
struct kind *kind_add(struct daemon_tenant *tenant, const char *id, const char *name,
		      const char *sandbox, const struct kind_shape *shape);
void kind_drop(struct daemon *daemon, struct kind *kind);
/* The contract of a new box; the caller's to free. `rules`: of its network. */
int kind_contract(const struct kind *kind, const char *rules, char **ret, struct atoll_error *err);

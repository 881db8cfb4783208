/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"

#include <jansson.h>

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

/* A new one, which waits for its steps. `name` may have a tag, "NAME:TAG"; `tags` is a list of
 * more, or NULL. NULL: refused, and `err` says why (EINVAL, EDQUOT). */
struct build *build_new(struct tenant *tenant, const char *name, json_t *tags, uint32_t cpus,
			uint32_t memory_mib, struct atoll_error *err);
struct build *build_find(struct tenant *tenant, const char *name, const char *id);
/* How many are under way. */
size_t build_count(struct tenant *tenant);
/* Begins. `request` is E2B's: fromTemplate or fromImage, steps, startCmd, readyCmd. 0, or a
 * negative errno: it makes no sense (EINVAL), was begun already (EBUSY), or too many are under way
 * (EAGAIN). What fails later is told by its state. */
int build_begin(struct build *build, json_t *request, struct atoll_error *err);

/* Boxes of builds that an earlier daemon had under way. */
void builds_forget_lost(struct daemon *daemon);

/* Where an archive of a tenant's files with this hash (64 hexadecimal digits) is, or is to be put.
 * -EINVAL: no hash. */
int build_files_path(struct tenant *tenant, const char *hash, char ret[PATH_MAX],
		     struct atoll_error *err);

/* At the start, before anything is sent: what a daemon that was killed has left there is removed.
 */
void build_files_tidy(struct daemon *daemon);
/* One was put there: if there are too many of the tenant's, the oldest go. */
void build_files_forget(const char *path, const char *tenant);

/* ---- template-tags.c ---- */

struct template_tag {
	char tag[64], build[40];
	int64_t made_ms;
};
/* The next of a template's behind `*at`, which is NULL at first; false: no more. */
struct kind;
bool template_tag_next(struct tenant *tenant, const char *name, const struct kind **at,
		       struct template_tag *ret);
/* More names for what `target` ("NAME:TAG") is: `err` ENOENT if there is none. */
typedef void template_done(const struct atoll_error *err, void *data);
void template_add_tag(struct tenant *tenant, const char *target, const char *tag,
		      template_done *done, void *data);

/* ---- between its files ---- */

/* What the template of a box says, or NULL. */
json_t *template_settings(const struct box *box);
/* A text of it, or NULL. */
const char *template_setting(const struct box *box, const char *name);
/* Its command is started, if there is one, and waited for until it is ready; then, or at once,
 * `done` as box_create() promises it. */
void template_start(struct box *box, box_done *done, void *data);

void build_log(struct build *build, bool is_error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void build_log_text(struct build *build, bool is_error, const char *text, size_t size);

/* Runs a shell's command in the build's box; `done` gets its exit status, or -1 and why.
 * `arguments` are "$1"... of the command; ends with NULL; may be NULL. */
typedef void build_ran(struct build *build, int status, const char *why);
void build_run(struct build *build, const char *user, const char *command,
	       const char *const *arguments, build_ran *done);
/* The n-th argument of the step at hand, or NULL if it is "" or missing. */
const char *build_argument(const struct build *build, size_t n);
/* A build_ran: on to the next one if `status` is 0. */
void build_step_done(struct build *build, int status, const char *why);
/* Its end; `step` NULL: the one at hand. */
void build_fail(struct build *build, const char *step, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void build_copy(struct build *build);
/* Nothing of it is told any more. */
void build_run_drop(struct build *build);

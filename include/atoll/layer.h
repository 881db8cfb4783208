/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was written, seen and taken
 *
 * In mode `layer` a run writes nothing of the host's: its changes are kept in a record, and the
 * host's files do not move until somebody applies them. A sandbox is a record that lives on: steps
 * are executed in it, and each state can be a checkpoint to return to or to branch from.
 *
 *	struct atoll_changes *changes;
 *
 *	atoll_changes_open(NULL, &changes, &err);            // of the latest run
 *	for (size_t i = 0; i < changes->n; i++)
 *		puts(changes->items[i].path);
 *	atoll_changes_close(changes);
 *	atoll_apply(NULL, &(struct atoll_apply_options){0}, &report, &err);
 *
 * Wherever a record is named, `id` may be its id, an unambiguous beginning of that, or NULL for the
 * latest one whose workspace contains the current directory.
 */

#include <atoll/atoll.h>
#include <sys/stat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- records ---- */

#define ATOLL_ID_SIZE 16 /* with its end; ids are 8 characters of a-z and 2-7 */

enum atoll_record_kind {
	ATOLL_RECORD_RUN,
	ATOLL_RECORD_SANDBOX,
};

enum atoll_record_state {
	ATOLL_RECORD_LIVE,    /* its command, or a process of the sandbox, is running */
	ATOLL_RECORD_KEPT,    /* ended or idle; its changes wait */
	ATOLL_RECORD_APPLIED, /* all that is not held back is on the host */
	ATOLL_RECORD_BROKEN,  /* an apply or undo was interrupted, and could not be finished yet */
};

struct atoll_record {
	char id[ATOLL_ID_SIZE];
	enum atoll_record_kind kind;
	enum atoll_record_state state;
	uint64_t start_ns, end_ns; /* since 1970; 0: not yet */
	uint64_t bytes;		   /* of disk, of its own layers; 0 unless it was asked for */
	uint64_t n_checkpoints;
	int32_t status;		    /* as `atoll run` gave it; -1: none yet */
	bool is_memory;		    /* its writable layer was a tmpfs */
	char name[64];		    /* a sandbox's, if it has one */
	char parent[ATOLL_ID_SIZE]; /* what a sandbox was forked from, or "" */
	char digest[65];	    /* of the contract */
	char *workspace;
	char *command; /* of a run or of the latest step, for people */
};

ATOLL_PUBLIC int atoll_records_list(bool with_bytes, struct atoll_record **ret, size_t *ret_n,
				    struct atoll_error *err);
ATOLL_PUBLIC void atoll_records_free(struct atoll_record *records, size_t n);
/* Throw its changes away. A live one is refused unless `is_forced`, which ends it. */
ATOLL_PUBLIC int atoll_record_discard(const char *id, bool is_forced, struct atoll_error *err);

/*
 * Bounds of the store; 0 stands for the usual: 14 days since something was last done with it, 10
 * GiB. First goes what is older. If the rest is too large the oldest go: first what was applied,
 * then, if it is older than a day, what was not. What is live, locked, broken, or needed by another
 * is kept.
 */
struct atoll_gc_options {
	uint64_t max_age_s, max_bytes;
	bool is_any_age; /* instead of `max_age_s`: all of them */
	bool is_dry;	 /* only say */
	void (*removed)(const struct atoll_record *record, const char *why, void *data);
	void *data;
};
ATOLL_PUBLIC int atoll_gc(const struct atoll_gc_options *options, struct atoll_error *err);

/* ---- changes ---- */

#define ATOLL_DIGEST_SIZE 32 /* SHA-256 */

enum atoll_change_kind {
	ATOLL_ADDED,
	ATOLL_CHANGED,
	ATOLL_DELETED,
	ATOLL_RENAMED, /* and perhaps changed: `parts` */
};

/* What differs of something that is there before and after. */
enum {
	ATOLL_PART_CONTENT = 1, /* or a link's target */
	ATOLL_PART_TYPE = 2,
	ATOLL_PART_MODE = 4,
	ATOLL_PART_XATTRS = 8,
	ATOLL_PART_OWNER = 16,
	ATOLL_PART_TIME = 32, /* and nothing else */
};

struct atoll_change {
	char *path; /* beneath the workspace: any bytes but NUL, no "." and "..", no "/" in front */
	char *from; /* of what was renamed; else NULL */
	enum atoll_change_kind kind;
	unsigned parts;
	struct stat before, after; /* st_mode 0 where there is nothing */
	/* What the host would execute or trust: why, in words ("git hooks"); applied only if it is
	 * named. NULL mostly. */
	const char *mark;
	/* The host's own changed since the run began: how; NULL if it did not. */
	const char *conflict;
	uint32_t link_group; /* names of one file have the same; 0: no other name */
	bool is_binary;	     /* known after atoll_change_text() */
	/* Set by atoll_change_text(): the digest of the content that the text was made from, a
	 * file's bytes or a link's target as they are after the run. */
	bool has_digest;
	unsigned char digest[ATOLL_DIGEST_SIZE];
};

struct atoll_changes {
	struct atoll_change *items; /* marked ones first, then by path, bytewise */
	size_t n;
	size_t n_marked, n_conflicts;
	const struct atoll_record *record; /* whose they are */
	/* Of which size on a file is not compared by lines but named with its sizes; the caller may
	 * set less, for memory. */
	size_t text_max;
};

ATOLL_PUBLIC int atoll_changes_open(const char *id, struct atoll_changes **ret,
				    struct atoll_error *err);
ATOLL_PUBLIC void atoll_changes_close(struct atoll_changes *changes);

/* A unified diff of one; the caller's to free(). Binary files are named with their sizes. `*ret` is
 * "" for what has no text (a directory, a mode). */
ATOLL_PUBLIC int atoll_change_text(struct atoll_changes *changes, size_t i, char **ret,
				   size_t *ret_size, size_t *ret_added, size_t *ret_removed,
				   struct atoll_error *err);

/* ---- apply ---- */

enum atoll_apply_fate {
	ATOLL_FATE_LEFT, /* not asked for; or something else conflicts */
	ATOLL_FATE_APPLIED,
	ATOLL_FATE_MERGED, /* three ways, and applied */
	ATOLL_FATE_HELD,   /* marked, and not named */
	ATOLL_FATE_CONFLICT,
};

struct atoll_apply_options {
	/* Only these and what lies beneath them, from the current directory; NULL: all. What is
	 * marked has to be named itself. */
	char *const *paths;
	/* Instead of paths: decide about each; NULL: all that `paths` say. A marked one is asked
	 * about, too. */
	bool (*pick)(const struct atoll_change *change, void *data);
	/* Not NULL: called for each file, link and directory that is about to be put on the host,
	 * when its copy is made and no command can change it any more. `change` has the copy's
	 * mark and mode, `digest` is that of its content. False: it is held back. */
	bool (*approves)(const struct atoll_change *change,
			 const unsigned char digest[ATOLL_DIGEST_SIZE], void *data);
	void *data;
	bool merges;	/* three ways, for text, where the host has changed as well */
	bool is_forced; /* what conflicts is overwritten; undo brings it back */
	bool is_dry;	/* only say */
	/* What became of each, once that is known; `why` is for what is held or conflicts, and may
	 * be NULL. */
	void (*told)(const struct atoll_change *change, enum atoll_apply_fate fate, const char *why,
		     void *data);
};

struct atoll_apply_report {
	char record[ATOLL_ID_SIZE]; /* which one it was; filled in also if it failed, once known */
	uint64_t n_applied, n_merged;
	uint64_t n_held;      /* marked, and not named */
	uint64_t n_conflicts; /* then nothing was applied */
	uint64_t n_dropped;   /* parts that this host cannot keep: `dropped` says which */
	char dropped[256];
};

/* All or nothing. -EEXIST (ATOLL_FAULT_POLICY) if something conflicts; the text names the first,
 * and atoll_changes_open() all of them. */
ATOLL_PUBLIC int atoll_apply(const char *id, const struct atoll_apply_options *options,
			     struct atoll_apply_report *ret, struct atoll_error *err);
/* Take the latest apply of a record back. What the host changed since then is a conflict. */
ATOLL_PUBLIC int atoll_undo(const char *id, bool is_forced, struct atoll_apply_report *ret,
			    struct atoll_error *err);

/* ---- export, import ---- */

/* What became of an archive. */
struct atoll_archive_report {
	uint64_t n_entries, n_bytes; /* of the files, with their holes */
	uint64_t n_marked;	     /* what the host would execute or trust: export, what is in it;
				      * import, what was held back */
	uint64_t n_dropped;	     /* what could not be kept: `dropped` says which, in words */
	char dropped[256];
};

/* Bounds of an export that is made for somebody else. Of a patch, files are read into memory. */
struct atoll_export_limits {
	uint64_t max_bytes; /* that are written; 0: any */
	uint64_t max_file;  /* content of a file that a patch takes; 0: 512 MiB */
	/* Called from time to time; false: nobody wants it any more (-ECANCELED). May be NULL. */
	bool (*is_wanted)(void *data);
	void *data;
};

/* A patch for `git apply`, written to a descriptor. `limits` may be NULL: a person's own. `ret`,
 * which may be NULL, has the number of
 * files in it and of those that are marked; these are named at the patch's head. Of a sandbox that
 * is live what is written is copied first, here as in a tar: the marks are those of the very bytes.
 */
ATOLL_PUBLIC int atoll_export_patch(const char *id, const struct atoll_export_limits *limits,
				    int fd, struct atoll_archive_report *ret,
				    struct atoll_error *err);

/* How a tar says that something was deleted. */
enum atoll_tar {
	ATOLL_TAR_PLAIN, /* not at all: the report counts them */
	ATOLL_TAR_OCI,	 /* as a layer of a container image does: an empty file ".wh.NAME" */
};

/* What was added and changed, whole, as a tar, written to a descriptor. `limits` may be NULL. */
ATOLL_PUBLIC int atoll_export_tar(const char *id, enum atoll_tar form,
				  const struct atoll_export_limits *limits, int fd,
				  struct atoll_archive_report *ret, struct atoll_error *err);

/* Bounds of an import; 0 stands for the usual: 20 GiB, a million, a thousand bytes out of one. */
struct atoll_import_options {
	uint64_t max_bytes, max_entries, max_ratio;
	bool keeps_outside_links; /* symbolic links that lead out of the tree; never followed */
	/* What the host would execute or trust (hooks, a git config that starts a program, settings
	 * of editors and agents) is held back, unless one of these paths, from the top of the tree,
	 * is it or above it; NULL-terminated, may be NULL. */
	char *const *taken;
	bool keeps_marked; /* all of it: the directory is nobody's workspace on this host */
	/* Called for each that is held back; may be NULL. */
	void (*held)(const char *path, const char *mark, void *data);
	void *data;
};

/*
 * Unpack a stranger's archive into a directory: tar, also compressed by gzip, bzip2, xz or zstd,
 * and zip. `dir` does not exist yet, or is empty. All or nothing: -EINVAL (ATOLL_FAULT_POLICY) if
 * anything in it is hostile or too much, and then nothing is there.
 */
ATOLL_PUBLIC int atoll_import(int archive_fd, const char *dir,
			      const struct atoll_import_options *options,
			      struct atoll_archive_report *ret, struct atoll_error *err);

/* ---- sandboxes ---- */

/* Make one from a job, whose command is not used. Nothing is started before the first step. */
ATOLL_PUBLIC int atoll_sandbox_create(struct atoll_job *job, const char *name,
				      char ret_id[ATOLL_ID_SIZE], struct atoll_error *err);

/* One step: as atoll_job_run(), in the sandbox. `env` adds to its environment ("K=V"), may be NULL;
 * `cwd` NULL: the contract's. */
ATOLL_PUBLIC int atoll_sandbox_exec(const char *id, char *const argv[], char *const env[],
				    const char *cwd, const struct atoll_run_options *options,
				    struct atoll_result *ret, struct atoll_error *err);

struct atoll_checkpoint {
	char name[64]; /* given, or "step-7" */
	uint64_t number;
	uint64_t time_ns;
	bool is_current; /* the sandbox stands on it */
	int32_t status;	 /* of the step before it; -1: none */
	char *command;
};

/* `name` NULL: "step-N". `ret_name` may be NULL. */
ATOLL_PUBLIC int atoll_sandbox_checkpoint(const char *id, const char *name, char ret_name[64],
					  struct atoll_error *err);
/* Processes that still run are ended: `*ret_ended` says how many. */
ATOLL_PUBLIC int atoll_sandbox_rollback(const char *id, const char *name, uint64_t *ret_ended,
					struct atoll_error *err);
/* `name` NULL: its present state, which becomes a checkpoint. `ret_ids` has room for `count`. */
ATOLL_PUBLIC int atoll_sandbox_fork(const char *id, const char *name, size_t count,
				    char (*ret_ids)[ATOLL_ID_SIZE], struct atoll_error *err);
ATOLL_PUBLIC int atoll_sandbox_history(const char *id, struct atoll_checkpoint **ret, size_t *ret_n,
				       struct atoll_error *err);
ATOLL_PUBLIC void atoll_history_free(struct atoll_checkpoint *list, size_t n);
/* End all that runs in it, and forget it with all its layers that no other sandbox needs. Refused
 * while a step is running, unless `is_forced`. */
ATOLL_PUBLIC int atoll_sandbox_remove(const char *id, bool is_forced, struct atoll_error *err);
/* Several: whose layers nobody needs is looked for once. All that can be are removed; of each that
 * cannot `failed`, if not NULL, hears why, and the first one's failure is returned. */
ATOLL_PUBLIC int atoll_sandboxes_remove(const char *const *ids, size_t n, bool is_forced,
					void (*failed)(const struct atoll_error *err, void *data),
					void *data);

#ifdef __cplusplus
}
#endif

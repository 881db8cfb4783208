/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct atoll_error;
struct layer_record;

/*
 * The journal of an apply or an undo
 *
 * While one is under way, records/ID/journal says what it does:
 *
 *   atoll-journal 2 apply 3 ...  a header: what it is, which apply
 *   put ...  take ...  meta ...  the steps, each with what was there and what will be
 *   commit HASH                  all that is needed is on the disk; from here on it goes forward
 *   abort                        something was in the way: it goes back
 *   done                         all steps are done
 *
 * The header is written before anything else is made, the steps and the commit at once. Without a
 * commit line an interrupted one is forgotten: nothing of the host's has been changed. The last two
 * are written over room that came with the commit, so that a full disk does not stop them. At the
 * end an apply's journal moves to apply-N/journal, where undo reads it.
 */

enum journal_kind {
	JOURNAL_APPLY,
	JOURNAL_UNDO,
};

enum journal_state {
	JOURNAL_BEGUN,
	JOURNAL_COMMITTED,
	JOURNAL_ABORTED,
	JOURNAL_DONE,
};

enum op_kind {
	OP_OPEN, /* a directory lets its owner write, until a META at the end */
	OP_TAKE, /* away, with all beneath it */
	OP_PUT,	 /* new there, or in place of what was there */
	OP_META, /* owner, mode, time, attributes of what stays */
	OP_DIR,	 /* nothing is done: a directory in which other steps are, and its time */
};

/* An object, as far as one can be told from another. */
struct op_object {
	uint64_t ino, size;
	uint32_t mode, uid, gid; /* mode 0: nothing */
	int64_t mtime_ns;
};

/*
 * One step. Its names in the stage: "N.new" what is put, "N.old" what was there, both only for a
 * while; in apply-N/: "N" what was there, a copy. For a META both are empty and carry attributes.
 */
struct op {
	enum op_kind kind;
	uint64_t slot;
	char *path;
	struct op_object before, after;
	uint64_t tree;	    /* of a directory that goes: object_print() of what is in it */
	uint64_t staged_ns; /* of a PUT: the copy's time of change when it was vetted; 0: any */
	bool has_xattrs;    /* of a META: attributes are to be made those of the stage's */
	bool is_foreign;    /* what was there the host had changed itself, and force overcame it */
};

struct journal {
	enum journal_kind kind;
	enum journal_state state;
	uint64_t number;  /* of the apply */
	bool is_unvetted; /* version 1: nobody vetted what is staged, so it only goes back */
	bool is_all;	  /* of an apply: nothing is left but what is held */
	struct op *ops;
	size_t n, room;
	uint64_t last_slot;
};

/* Add a step; the path is copied. */
struct op *journal_add(struct journal *journal, enum op_kind kind, const char *path);
void journal_done(struct journal *journal); /* frees what it holds */
/* How many of its steps are changes of the run's, or of what is brought back. */
uint64_t journal_count(const struct journal *journal);
/* In the order in which they can be done: OPEN, TAKE, PUT from the top down, META from below. */
void journal_sort(struct journal *journal);
/* What goes with a directory above it, or is replaced anyway, needs no TAKE of its own. */
int journal_drop_covered(struct journal *journal, struct atoll_error *err);

void op_object_from(struct op_object *object, const struct stat *st);
bool op_object_is(const struct op_object *object, const struct stat *st);
/* With what object_set_attributes() looks at. */
struct stat op_object_stat(const struct op_object *object);

/* Each of these is on the disk when it returns 0. */
int journal_begin(const struct layer_record *record, const struct journal *journal,
		  struct atoll_error *err);
int journal_commit(const struct layer_record *record, struct journal *journal,
		   struct atoll_error *err);
int journal_mark(const struct layer_record *record, struct journal *journal,
		 enum journal_state state, struct atoll_error *err);
/* Moved to `to` beneath the record, or removed if that is NULL. */
int journal_end(const struct layer_record *record, const char *to, struct atoll_error *err);

/* From `path` beneath the record. -ENOENT without a text if there is none. */
int journal_read(const struct layer_record *record, const char *path, struct journal *ret,
		 struct atoll_error *err);

/* Called before every step that changes something on the disk, if a test has set it. */
extern void (*layer_step_hook)(const char *step);
#define LAYER_STEP(step)                                                                           \
	do {                                                                                       \
		if (layer_step_hook)                                                               \
			layer_step_hook(step);                                                     \
	} while (0)

/* Paths in files of ours: what is not plain is %XX. */
struct buf;
void journal_escape(struct buf *out, const char *path);
bool journal_unescape(char *text);

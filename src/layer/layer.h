/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/obeyed.h"
#include "layer/places.h"
#include "layer/user-config.h"
#include <atoll/layer.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What may it write
 *
 * A workspace in mode `layer` is an overlay: the host's directory at the bottom (the base), sealed
 * layers of earlier steps on it, and a writable one on top. This room knows what these layers mean:
 *
 *   store.c    where records live; how much they may take; sweeping
 *   record.c   one record: its directory, its lock, what is known about it (meta)
 *   stack.c    looking at several layers and the base as one tree, by descriptor
 *   changes.c  what differs between the base and the top of a stack: a list
 *   marks.c    what of it the host would execute or trust
 *   text.c     unified diffs; merge.c three-way merges; patch.c for `git apply`
 *   journal.c, apply.c, undo.c   all or nothing, also through kill -9
 *   roots.c    what was written beside the workspace, where that is kept
 *   places.c   the directories that runs have written, for the trust in job files
 *   disk-kept.c  how much disk a record keeps, with its layers
 *
 * The store is $XDG_STATE_HOME/atoll or ~/.local/state/atoll, and its owner's alone:
 *
 *   records/ID/meta        lines "key=value", replaced as a whole
 *   records/ID/lock        locked (OFD) by whoever changes the record, and only meanwhile; by a run
 *                          as long as it lasts
 *   records/ID/held        locked likewise by a sandbox's holder as long as it lives: the record is
 *                          LIVE, and neither swept nor discarded; apply and undo do not need it
 *   records/ID/checkpoints of a sandbox, a line each: NUMBER TIME_NS STATUS NAME LAYERS COMMAND,
 *                          where LAYERS are ids with commas between, the topmost first, or "-",
 *                          and perhaps a "+" and others, of the root: these are needed just as
 *                          those of `layers=` and `roots=` in meta
 *   records/ID/top/upper   the writable layer, in the form of overlayfs with `userxattr`:
 *   records/ID/top/work    a deleted name is a character device 0:0, a directory that hides what is
 *                          beneath has user.overlay.opaque "y", what was copied up has
 *                          user.overlay.origin
 *   records/ID/top/gone    where a file system cannot hold these: deleted names and opaque
 *                          directories, each ended by a NUL, the latter with a "/" at the end
 *   records/ID/base/       what text files were when the run began, for a merge
 *   records/ID/apply-N/    a journal, and what undo needs
 *   records/ID/socket      of a live sandbox; records/ID/job: what it is made of
 *   layers/LAYER/          a sealed layer, as `top` without `work`; several records may need one.
 *                          Those of roots (roots.c) are never the workspace's
 *   spare/N/               a record that a run has not written to, for the next one: spare.c
 *   trash/                 what is to be removed, when there is time
 *   places                 directories that runs have written: places.h
 *
 * Mount options have no redirect_dir, metacopy or index, so a directory of the host's that is
 * renamed inside is copied by the program that does so (EXDEV), and every file in a layer is whole.
 *
 * Whoever reads the record of a run reads what a stranger wrote: names of any bytes, links to
 * anywhere, fifos. Everything is walked by descriptor, without following links.
 */

struct layer_store {
	int fd;	    /* the store's directory */
	char *path; /* for people, and for the back end */
};

/* $XDG_STATE_HOME/atoll or ~/.local/state/atoll, plain and absolute; it need not be there. */
int layer_store_path(char ret[PATH_MAX], struct atoll_error *err);

/* `create` makes it. -ENOENT without an error's text if there is none. */
int layer_store_open(bool create, struct layer_store *ret, struct atoll_error *err);
void layer_store_close(struct layer_store *store);

/* Can a writable layer live there, or does it take a tmpfs? Asked of the file system's kind. */
bool layer_store_can_overlay(const struct layer_store *store);
/* Does the layer of this workspace take one, here? Also before there is a store. */
bool layer_store_needs_memory(const char *workspace);

/* Before a run: sweep what is old (cheaply: at most once an hour), and refuse if the disk would
 * fall below its floor (init_space_floor()). */
int layer_store_keep_bounds(const struct layer_store *store, struct atoll_error *err);
/* A file of this name in a store: somebody (the daemon) decides about each record himself, and
 * nothing in it goes because it is old or much. */
#define LAYER_STORE_HELD "held"

/* atoll_gc(), of records and layers. */
int layer_gc(const struct atoll_gc_options *options, struct atoll_error *err);

/* ---- one record ---- */

#define LAYER_DEPTH_MAX 48 /* sealed layers; then they are made one */

/* What became of an apply or undo that was interrupted, when somebody went on with it. */
struct layer_recovery {
	bool is_there; /* there was one */
	bool is_undo;
	bool is_done; /* else nothing of it is on the host */
	uint64_t n;   /* if it is: changes */
};

struct layer_record {
	struct layer_store store; /* its own descriptor */
	int fd;			  /* records/ID */
	int lock_fd;		  /* -1: not locked by us */
	struct atoll_record info;
	uint64_t workspace_dev, workspace_ino; /* the base as it was */
	uint32_t workspace_mode;
	uint64_t
		base_time_ns; /* what changed on the host later than this was not seen by the run */
	uint32_t owner_uid, owner_gid; /* of the workspace: whose the layer's files are */
	char **layers;		       /* ids of sealed layers, the topmost first */
	size_t n_layers;
	uint64_t n_applies; /* how many there were; the latest is apply-N of this number */
	char **keys,
		**values; /* other lines of `meta`, for other rooms: layer_record_get(), _set() */
	size_t n_keys;
	bool is_sealing;		/* a seal is not yet in the saved meta */
	bool is_ahead;			/* its directories were made ahead: spare.c */
	struct layer_recovery recovery; /* by layer_recover() */
};

/* A new one with an id of its own and an empty top/upper and top/work (owned by the workspace's
 * owner), locked, not yet seen by others before layer_record_save(). */
int layer_record_create(enum atoll_record_kind kind, const char *workspace,
			struct layer_record **ret, struct atoll_error *err);
/* By id, beginning or NULL; see <atoll/layer.h>. */
int layer_record_open(const char *id, struct layer_record **ret, struct atoll_error *err);
void layer_record_close(struct layer_record *record); /* lets the lock go; takes NULL */
/* -EBUSY (ATOLL_FAULT_POLICY) if somebody has it. The meta is read again once it is locked. */
int layer_record_lock(struct layer_record *record, bool waits, struct atoll_error *err);
/* The same for who removes it: a record that cannot be made whole, because the disk is full, can go
 * all the same. Never waits. */
int layer_record_lock_to_remove(struct layer_record *record, struct atoll_error *err);
/* Lock `held`, for a sandbox's holder: a descriptor, which is the lock, or -EBUSY if there is one;
 * -ENOENT if the record was removed meanwhile. */
int layer_record_hold(const struct layer_record *record);
bool layer_record_is_held(const struct layer_record *record);
int layer_record_save(struct layer_record *record, struct atoll_error *err);
/* The same without waiting for the disk: whole after kill -9, and after a power loss perhaps as it
 * was before, on some file systems (XFS) damaged. */
int layer_record_save_soon(struct layer_record *record, struct atoll_error *err);
/* Give a sandbox a name that no other has, and save it. */
int layer_record_name(struct layer_record *record, const char *name, struct atoll_error *err);
const char *layer_record_get(const struct layer_record *record, const char *key);
int layer_record_set(struct layer_record *record, const char *key, const char *value,
		     struct atoll_error *err); /* value NULL: removes; needs layer_record_save() */
/* Paths for a struct cell_layer: of the top, and of each sealed layer. The caller's; NULL without
 * memory. A sealed layer is removed when its id stands in no record's meta and checkpoints any
 * more.
 */
char *layer_top_path(const struct layer_record *record);
char *layer_sealed_path(const struct layer_record *record, const char *layer);
/* Put a sealed layer on top of `layers`. */
int layer_record_push(struct layer_record *record, const char *layer);
/* Remove it with what nobody else needs. It has to be locked; only layer_record_close() may follow.
 */
int layer_record_remove(struct layer_record *record, struct atoll_error *err);
/* The same at once: its files are only put aside, for layer_store_tidy(). Removing directories can
 * take milliseconds each where the disk is busy. */
int layer_record_drop(struct layer_record *record, struct atoll_error *err);
/* One of several: the ids of its layers are added to `lost`, and layer_names_drop() removes those
 * that nobody else needs, when all are gone: to find that out all other records are read. */
struct layer_names {
	char (*ids)[ATOLL_ID_SIZE];
	size_t n, room;
};
int layer_record_drop_first(struct layer_record *record, struct layer_names *lost,
			    struct atoll_error *err);
void layer_names_drop(const struct layer_store *store, struct layer_names *lost);
void layer_names_done(struct layer_names *names);
/* That of a run, likewise; the next one may use it, if nobody has written to it. */
int layer_record_recycle(struct layer_record *record, struct atoll_error *err);
/* That of a sandbox, one of several: it is emptied, and the next one may use it. */
int layer_record_recycle_first(struct layer_record *record, struct layer_names *lost,
			       struct atoll_error *err);
/* Remove what was put aside, for at most so long. Is something left? */
bool layer_store_tidy(const struct layer_store *store, int64_t most_ns);
/* Is it much? */
bool layer_store_is_littered(const struct layer_store *store);
/* Make ready what the next run takes, if nothing is. */
void layer_store_prepare(const struct layer_store *store);

/* ---- what it keeps: disk-kept.c, record-remove.c ---- */

/* Disk that the files beneath a directory of atoll's own take, links not followed. */
uint64_t layer_tree_bytes(int dir_fd, const char *name);

#define LAYER_DISK	"disk"	    /* a key in the meta: limits.disk of the contract, in bytes */
#define LAYER_INHERITED "inherited" /* another: layers that a branch began with */
/* Disk that a record takes, with the layers that its meta and its checkpoints name, but those that
 * it was branched with. Layers of records that share some, each once: layer_names_bytes(). */
uint64_t layer_record_kept(const struct layer_record *record);
uint64_t layer_names_bytes(const struct layer_store *store, const struct layer_names *names);
/* Of several records: the disk of one's own directory; its layers are added to `names`, each once.
 * And these, without those that are in `others`. All of one record, by id, on its own: 0 if it is
 * gone. */
uint64_t layer_kept_add(const struct layer_store *store, const char *id, struct layer_names *names);
uint64_t layer_names_bytes_but(const struct layer_store *store, const struct layer_names *names,
			       const struct layer_names *others);
uint64_t layer_kept_all(const char *id);
/* All that a record stands on now is inherited. Needs layer_record_save(). */
int layer_record_inherit(struct layer_record *record, struct atoll_error *err);
/* -EDQUOT (ATOLL_FAULT_POLICY) if a copy of the top would be more than limits.disk. */
int layer_check_copy(const struct layer_record *record, struct atoll_error *err);

/* Is there anything in top/upper? */
bool layer_top_is_empty(const struct layer_record *record);
/* The top becomes a sealed layer under a new id (by rename: its size does not matter), and a new
 * empty top is made. `meta` is not saved. */
int layer_seal_top(struct layer_record *record, struct atoll_error *err);
/* Take that back, as long as `meta` is not saved, nothing written to the new top, and the layer
 * named nowhere. */
void layer_unseal_top(struct layer_record *record);
/* The same, by copying: the top stays as it is. Nobody may write meanwhile. */
int layer_copy_top(struct layer_record *record, struct atoll_error *err);
/* Such a copy that nothing names, at once: it takes room. */
void layer_drop_copy(const struct layer_record *record, const char *layer);
/* An empty top in the place of this one, which may be mounted. Once that is saved, or not, it is
 * thrown away, for layer_store_tidy(), or takes its place again. */
int layer_reset_top(struct layer_record *record, struct atoll_error *err);
void layer_reset_end(struct layer_record *record, bool is_done);
/* Several sealed layers become one, if there are more than LAYER_DEPTH_MAX / 2. */
int layer_flatten(struct layer_record *record, struct atoll_error *err);
/* What a tmpfs held, before it goes: copied to top/. `top_fd` has upper/ in it. */
int layer_take_in(struct layer_record *record, int top_fd, struct atoll_error *err);

/* At the end of a run or step: keep what text files were before, for merges (at most 1 MiB each, 64
 * MiB together); only what the host has not changed meanwhile. */
int layer_keep_base(struct layer_record *record, struct atoll_error *err);

/* ---- what was written beside the workspace ---- */

#define LAYER_ROOTS_MAX 12	/* then they are made one */
#define LAYER_ROOTS	"roots" /* their key in the meta */
/* Another one: what a live cell was built on, where `roots` does not name it any more. */
#define LAYER_ROOTS_BELOW "roots-below"

/* Sealed layers of the root, the topmost first. */
struct layer_roots {
	char ids[LAYER_ROOTS_MAX + 1][ATOLL_ID_SIZE];
	size_t n;
};
/* Of a record; of a text with blanks or commas between. What is no id is left out. */
void layer_roots_get(const struct layer_record *record, struct layer_roots *ret);
void layer_roots_read(const char *text, struct layer_roots *ret);
int layer_roots_set(struct layer_record *record, const struct layer_roots *roots,
		    struct atoll_error *err); /* needs layer_record_save() */
/* Once it is saved: remove those of these lists (values of the two keys; NULL: none) that nobody
 * needs any more. */
void layer_roots_drop(const struct layer_record *record, const char *roots, const char *below);
bool layer_roots_are(const struct layer_roots *a, const struct layer_roots *b);

/* What a live sandbox has written: directories in the form of an overlay's upper one, and where in
 * the root each belongs. The first has the path "", and is the root itself. Nobody may write
 * meanwhile. */
struct layer_part {
	const char *path;
	int fd;
};
struct layer_root {
	const struct layer_part *parts;
	size_t n;
	const char *const *left_out; /* names right in the root that are not kept; NULL behind */
	/* Whose what belongs to an id of the sandbox's becomes, for root; else NULL. */
	uint32_t (*kept_id)(const void *data, bool is_group, uint32_t id);
	const void *data;
	uint32_t owner;	    /* the sandbox's root, as an id of that kind */
	uint64_t max_bytes; /* of all that is kept of a root; 0: any number */
};
bool layer_root_leaves_out(const struct layer_root *root, const char *name);
/* Is something there that was changed at `since` or later? Times of change cannot be set back from
 * inside. */
struct timespec;
bool layer_root_has_changed(const struct layer_root *root, const struct timespec *since);
/* Copy it into a layer that is put on `below`; the record's list is then that. `meta` is not saved.
 * -EDQUOT (ATOLL_FAULT_POLICY) where it is too much: then nothing is kept. */
int layer_keep_root(struct layer_record *record, const struct layer_root *root,
		    const struct layer_roots *below, struct atoll_error *err);

/* ---- a stack as one tree ---- */

struct layer_result;

struct layer_stack {
	int base_fd;	/* the workspace on the host; -1 if it is gone */
	int *layer_fds; /* the topmost first; each a directory like top/upper */
	void **gone;	/* of each, from its file `gone`; private to stack.c */
	size_t n;
	/* Not NULL: what is there after the run are these copies over the base, and no layer is
	 * read: see result.h. Not the stack's own. */
	const struct layer_result *result;
};

int layer_stack_open(const struct layer_record *record, struct layer_stack *ret,
		     struct atoll_error *err);
void layer_stack_close(struct layer_stack *stack);

/* What is at a path in the layers alone, and in the whole. */
enum layer_presence {
	LAYER_ABSENT,  /* the layers say nothing about it: the base shows through */
	LAYER_PRESENT, /* here, in layer `index` */
	LAYER_DELETED, /* deleted */
	LAYER_COVERED, /* not there, and an opaque directory above hides the base's */
};
enum layer_presence layer_stack_look(const struct layer_stack *stack, const char *path,
				     size_t *ret_index, struct stat *ret);
/* Open what is there after or before the run, never through a link (openat2 beneath): regular files
 * and directories for reading, else O_PATH. Negative errno. */
int layer_stack_open_after(const struct layer_stack *stack, const char *path);
int layer_stack_open_before(const struct layer_stack *stack, const char *path);
/* Is this the errno of a path that something else stands at than a moment ago: gone, a link, a file
 * in the place of a directory? A command that still runs does that; who reads begins again. */
static inline bool layer_has_moved(int code)
{
	return code == -ENOENT || code == -ENOTDIR || code == -ELOOP || code == -ESTALE ||
	       code == -ENXIO;
}
/* The same of what was a regular file when it was looked at, in one call: in the topmost layer, or
 * in the base. Fails where that does not do, and then the others above have the answer. */
int layer_stack_open_quickly(const struct layer_stack *stack, const char *path, bool is_before,
			     struct stat *ret);

/* ---- changes ---- */

/* What a struct atoll_changes really is. */
struct layer_changes {
	struct atoll_changes list; /* first */
	struct layer_record *record;
	struct layer_stack stack;
	bool owns_record;
	struct layer_result *frozen; /* not NULL: copies, which the stack reads; see freeze.h */
	int frozen_fd;
	char frozen_name[32];
};
/* Of a record that is open; it stays the caller's unless `owns` and this succeeds. */
int layer_changes_read(struct layer_record *record, bool owns, struct layer_changes **ret,
		       struct atoll_error *err);
/* As atoll_changes_open(), of a record that commands may still write: what is read, marked and
 * written are the same bytes. */
int layer_changes_open_frozen(const char *id, struct layer_changes **ret, struct atoll_error *err);
/* Remove copies that somebody who was killed, or had locked himself in, has left. */
void layer_freeze_sweep(const struct layer_record *record);

/* A tree that is to become the workspace `root`, where all of it is new: remove what is marked and
 * `is_held`, what lies in a directory before the directory; `note` is called for each that is gone.
 */
int layer_tree_hold_back(int dir_fd, const char *root,
			 bool (*is_held)(const struct atoll_change *change, bool is_outside_link,
					 void *data),
			 void (*note)(const struct atoll_change *change, void *data), void *data,
			 struct atoll_error *err);

/* ---- texts ---- */

/* A unified diff of two texts with three lines around; 1 if it is no text, with nothing written. */
struct buf;
int layer_diff_text(const char *before, size_t n_before, const char *after, size_t n_after,
		    struct buf *out, size_t *ret_added, size_t *ret_removed);
/* Three ways. 1 if both changed the same lines, 2 if one is no text: then `out` is not to be used.
 */
int layer_merge_text(const char *base, size_t n_base, const char *ours, size_t n_ours,
		     const char *theirs, size_t n_theirs, struct buf *out);

/* atoll_record_discard() without a word about it in the log. */
int layer_record_discard(const char *id, bool is_forced, struct atoll_error *err);

/* ---- apply ---- */

int layer_apply(struct layer_record *record, const struct atoll_apply_options *options,
		struct atoll_apply_report *ret, struct atoll_error *err);
int layer_undo(struct layer_record *record, bool is_forced, struct atoll_apply_report *ret,
	       struct atoll_error *err);
/* If an apply or undo was interrupted: finish it, or take it back if it had not begun to change the
 * host's. Done by whoever applies or undoes; 0 also where there was nothing to do. What became of
 * it is then in record->recovery. */
int layer_recover(struct layer_record *record, struct atoll_error *err);

/* Note a path or pattern that the contract hides or protects, under the key "hide", "protect" or
 * "obeyed": what it matches is marked. To be done before the record is saved; what lies outside the
 * workspace is left out. */
int layer_record_add_rule(struct layer_record *record, const char *key, const char *pattern,
			  struct atoll_error *err);
/* Rules are kept a line each. A newline in a path is compared as another character: two paths may
 * become alike, and then both are marked. */
void layer_rule_fold(char *path);

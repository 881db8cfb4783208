/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

/*
 * The store from within: ids, what it holds, and its parts one by one
 */

#define STORE_ID_LENGTH 8

/* A story that is told to its end: `code` is for programs, and no words of the system follow. */
#define store_refuse(err, fault, code, ...) (error_set(err, fault, 0, __VA_ARGS__), -(code))

/* Is it written like an id? */
bool store_is_id(const char *text);
void store_new_id(char ret[ATOLL_ID_SIZE]);

/* A directory of the store's own ("records", "layers", "trash"), made if it is not there. */
int store_make_dir(const struct layer_store *store, const char *name, struct atoll_error *err);

/* Wait until nobody else gives names. The descriptor is the lock; or a negative errno. */
int store_lock(const struct layer_store *store);

/* The ids in "records" or "layers", in no order; none where the directory is missing. */
struct store_ids {
	char (*items)[ATOLL_ID_SIZE];
	size_t n;
};
int store_list(const struct layer_store *store, const char *dir, struct store_ids *ret,
	       struct atoll_error *err);
void store_ids_done(struct store_ids *ids);

/* Has a directory, open for reading, no names? */
bool store_dir_is_empty(int fd);
/* Or only some of these? */
bool store_dir_has_only(int fd, const char *const *names);

/* What is free, and what has to stay so, of the file system of a directory. */
int store_space(int fd, uint64_t *ret_free, uint64_t *ret_floor);

/* A record by its id as such. -ENOENT without a text where it has no meta (yet). */
int record_open_id(const struct layer_store *store, const char *id, struct layer_record **ret,
		   struct atoll_error *err);
/* Read it anew. -ENOENT without a text where there is none. */
int record_read_meta(struct layer_record *record, struct atoll_error *err);
/* Lock what nobody else knows yet. */
int record_lock_new(struct layer_record *record);
/* Does somebody hold it? */
bool record_is_locked(const struct layer_record *record);
/* Is it still the one of this id? It may be gone, or a later run's. */
bool record_is_there(const struct layer_record *record);
/* A run that never began: its maker was killed before. Nobody needs to hear of it. */
bool record_is_void(const struct layer_record *record);
/* Make a record that was put aside the new one's, with an empty top and locked: spare.c. */
bool record_take_spare(struct layer_record *record);
/* As long as somebody has it open it is not put aside. -ENOENT: it is about to be. */
int record_share(const struct layer_record *record);
/* Nobody's any more: the sweep may be long in coming, and what it said is to be gone now. Not to
 * its very beginning: what is written after that ext4 takes for a file to be replaced, and writes
 * it to the disk at once. */
void record_blank_meta(const struct layer_record *record);
/* The same with all that a sandbox has left: its top is empty then. False: it cannot be used. */
bool record_blank(const struct layer_record *record);
/* Has a directory only attributes that every top has? */
bool record_has_usual_xattrs(int fd);
/* Move it to the trash. */
int record_throw_away(struct layer_record *record, struct atoll_error *err);
/* New directories in this one are to be far from each other: a hint that only ext4 takes. */
void store_spread(int dir_fd);
/* Remove those that have been there since before. */
void store_drop_spares(const struct layer_store *store, int64_t older_s);
/* A new, empty top, with the workspace's owner and mode; replaces nothing that is there. */
int record_make_top(struct layer_record *record, struct atoll_error *err);
/* An id that no sealed layer has, and its path in the store; layers/ is there then. */
int record_new_layer(const struct layer_record *record, char ret_id[ATOLL_ID_SIZE],
		     char ret_path[32]);
/* What a list shows: live, or an apply that was interrupted. */
enum atoll_record_state record_state(const struct layer_record *record);

#define META_MAX ((size_t)4 << 20)

/* meta: as text, and back. */
struct buf;
void meta_format(const struct layer_record *record, struct buf *out);
int meta_parse(struct layer_record *record, char *text, struct atoll_error *err);
/* Forget what meta_parse() filled in. */
void meta_done(struct layer_record *record);

/* Move a directory of the store's to the trash; it may be gone already. */
int store_throw_away(const struct layer_store *store, int dir_fd, const char *path,
		     struct atoll_error *err);
/* Empty that until `deadline_ns` (of the monotonic clock; 0: to the end). 1 if something is left.
 */
int store_empty_trash(const struct layer_store *store, int64_t deadline_ns);
/* All records, the latest first. With `with_layers` the bytes of sealed layers count as those of
 * every record that names them. */
int store_records(const struct layer_store *store, bool with_bytes, bool with_layers,
		  struct atoll_record **ret, size_t *ret_n, struct atoll_error *err);
/* All layers that records name. */
int layer_names_read(const struct layer_store *store, struct layer_names *ret);
/* Those of one more; sorted they are not. */
int layer_names_add(struct layer_names *names, const struct layer_store *store, const char *record);
bool layer_names_have(const struct layer_names *names, const char *id); /* of sorted ones */
bool layer_names_find(const struct layer_names *names, const char *id); /* of any */
int layer_names_put(struct layer_names *names, const char *id);

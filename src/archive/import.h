/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "archive/archive.h"

#include <linux/openat2.h>
#include <sys/stat.h>

/* Between import.c, which reads entries, and import-objects.c, which makes what they say. */

struct archive_entry;

#define WALK (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

struct directory {
	char *path;
	size_t turn; /* of two with the same path the later one holds */
	mode_t mode;
	struct timespec mtime;
	bool has_mtime;
};

/* What is left out, in words. */
enum drop {
	DROP_BITS,
	DROP_ATTRIBUTES,
	DROP_LISTS,
	DROP_COUNT,
};

struct import {
	struct archive *archive;
	int top_fd;
	struct atoll_import_options limits;
	mode_t mask; /* the caller's */
	uint64_t n_entries, n_bytes, n_written;
	uint64_t dropped[DROP_COUNT];
	struct directory *dirs;
	size_t n_dirs;
};

/* The entry at hand. */
struct item {
	struct archive_entry *entry;
	const char *shown;
	char path[ARC_NAME_MAX];
	size_t depth;
	char *leaf; /* in `path` */
	int parent; /* the directory that it lies in */
};

/* The archive is hostile, or the file system said no: each tells it and gives a negative errno. */
int import_refuse(const struct item *item, struct atoll_error *err, const char *why);
int import_failed(const struct item *item, struct atoll_error *err, int errnum, const char *what);
int import_damaged(struct import *import, struct atoll_error *err);

/* Bounds, counted before something is made: bytes of a file with its holes, and those written. */
int import_count_bytes(struct import *import, const struct item *item, uint64_t n,
		       struct atoll_error *err);
int import_check_ratio(struct import *import, const struct item *item, size_t n,
		       struct atoll_error *err);

/* A directory's mode and time are for the end. `entry` NULL: nobody told of it. */
int import_note_directory(struct import *import, const char *path, size_t length, mode_t mode,
			  struct archive_entry *entry, struct atoll_error *err);

/* Make the entry at hand in the directory that is open as its `parent`. */
int import_make(struct import *import, const struct item *item, struct atoll_error *err);

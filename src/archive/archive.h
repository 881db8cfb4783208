/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How does it travel
 *
 * A record's changes leave as a tar, and a workspace comes in from one. What comes in was written
 * by a stranger, and libarchive, which reads it, is large; so a program of its own does both,
 * `atoll-archive`, which locks itself in before it reads a byte (archive-confine.c) and is linked
 * by nobody else:
 *
 *   call.c    in the library: makes the directory, starts the program, waits, and puts the
 *             directory in its place or removes it
 *   archive-main.c    the program
 *   archive-confine.c    what it may still do: one directory by Landlock, few calls by seccomp
 *   import.c  from an archive to a directory, import-objects.c the kinds of things in it
 *   entry-names.c what an entry may be called, and where a link may lead
 *   export.c  from a record to a tar
 *
 * Import is all or nothing. Everything is unpacked into a fresh directory beside the one that was
 * named, which is renamed at the end; the first entry that is not as it should be ends it, and the
 * directory is removed. Refused are: names that are absolute or have "..", or go through a symbolic
 * link; links that lead out of the tree; hard links to what the archive has not brought before; the
 * same name twice; devices, fifos and sockets; whiteouts of container layers (".wh.NAME") and
 * attributes that mean something to overlayfs; more bytes, entries or depth than allowed, and more
 * bytes from fewer than a person's files would give. Left out, and counted: set-id and sticky bits,
 * owners, access lists, attributes other than "user.". A name ends at a NUL, as tar has it.
 *
 * Functions here are called arc_: libarchive has taken the room's name.
 */

#define ARC_PROGRAM   "atoll-archive"
#define ARC_DIR_FD    3 /* import: the directory to fill */
#define ARC_ANSWER_FD 4 /* where the program says how it went */

/* Written once, byte for byte, at the end. No answer: it was killed. */
struct arc_answer {
	int32_t code; /* 0 or a negative errno */
	struct atoll_error err;
	struct atoll_archive_report report;
};

/* How deep a tree may be, and how long a name with all its directories. */
#define ARC_DEPTH_MAX 256
#define ARC_NAME_MAX  4096 /* with its end */

/* So much may come from anything; only beyond it the ratio counts. */
#define ARC_RATIO_FREE (UINT64_C(64) << 20)

/* An entry's name made plain: no "." or empty component, no slash at the end; "" is the top.
 * `*ret_depth` is the number of its components. -EINVAL with the story for one that is refused. */
int arc_clean_name(const char *name, char ret[ARC_NAME_MAX], size_t *ret_depth,
		   struct atoll_error *err);

/*
 * Does a symbolic link stay in the tree, wherever the tree's other links lead? `depth` is that of
 * the link itself. Only ".." at the front is taken, and no more of them than there are directories
 * above: what follows goes down, and where it goes through another link, that one was asked, too.
 */
bool arc_link_stays(const char *target, size_t depth);

/* Is this the name of a whiteout in a container image's layer? */
bool arc_is_whiteout(const char *clean_name);

/* Is this an attribute that a workspace may have? `*ret_is_hostile`: it means something to
 * overlayfs. */
bool arc_takes_attribute(const char *name, bool *ret_is_hostile);

struct archive;

/*
 * A reader of tars or of zips. For tars the locale has to be "C": in one that knows UTF-8
 * libarchive composes the characters of names, and two names become one. For zips it has to know
 * UTF-8, or names that are marked so would be lost; and only a file will do, because modes and
 * links stand at a zip's end. NULL: out of memory.
 */
struct archive *arc_reader_new(bool is_zip);

/* Fill the directory from an archive that is open for reading and stays the caller's. */
int arc_import(struct archive *archive, int dir_fd, const struct atoll_import_options *options,
	       struct atoll_archive_report *ret, struct atoll_error *err);

/* A record's changes to descriptor 1; locks itself in on the way. */
int arc_export(const char *id, enum atoll_tar form, uint64_t max_bytes,
	       struct atoll_archive_report *ret, struct atoll_error *err);

/* Lock this process in: it may fill `write_fd`, a directory (or -1), and read beneath the `n`
 * directories of `read_fds`, and move bytes between descriptors that are open. `size_max` is the
 * most that one file may have, or 0. */
int arc_lock_in(int write_fd, const int *read_fds, size_t n, uint64_t size_max,
		struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct atoll_error;

/*
 * Files, links and directories, copied with all that belongs to them
 *
 * Content with its holes (shared where the file system can), owner, mode, times, extended
 * attributes and access lists, and names of one file stay names of one file. Nothing is ever
 * followed: names are looked up in a directory that is open, without links.
 */

/* The signals by which a person or a system ends a program. If one of them is blocked and waits,
 * and is not ignored, copying ends with -EINTR. */
void object_stop_signals(sigset_t *ret);

/* Parts that could not be kept here, for people. */
struct object_loss {
	uint64_t n;
	char text[256]; /* the first few */
};
void object_lose(struct object_loss *loss, const char *path, const char *what);

/* One run of copying into one directory. */
struct object_copier {
	int to_fd;		  /* not ours */
	struct object_loss *loss; /* may be NULL */
	bool is_ours;		  /* what is copied is; see layer-tree.h */
	bool is_alone;		  /* the next file gets no other name */
	bool is_passing;	  /* the copies are for now, and need not be on the disk */
	uid_t owner_uid;	  /* whose what belongs to an id of base/ids.h becomes */
	gid_t owner_gid;
	/* Names that have been copied of files with several names. */
	struct object_name {
		uint64_t dev, ino;
		char *path; /* beneath to_fd */
	} * names;
	size_t n_names;
	size_t n_unsynced; /* written and not yet known to be on the disk */
};
void object_copier_done(struct object_copier *copier);

/*
 * Copy what is open as `fd` (O_PATH for what is neither file nor directory) to `to` in the copier's
 * directory. With `is_deep` a directory's content as well. A directory is made with mode 0700
 * unless `is_exact`, so that more can be put into it. `path` names it for people.
 */
int object_copy(struct object_copier *copier, int fd, const char *to, bool is_deep, bool is_exact,
		const char *path, struct atoll_error *err);
/* The same for a file whose content is `data`, and all else that of `fd`. */
int object_copy_with(struct object_copier *copier, int fd, const char *data, size_t size,
		     const char *to, const char *path, struct atoll_error *err);
/* All that was copied is on the disk when this returns 0. */
int object_copier_sync(struct object_copier *copier, struct atoll_error *err);

/* The content of a file, with its holes, into an empty one. -EAGAIN if it became shorter meanwhile.
 */
int object_copy_data(int from_fd, int to_fd, off_t size);

/* Extended attributes of a file or directory become those of another. Attributes of overlayfs are
 * left out. */
int object_copy_xattrs(int from_fd, int to_fd, struct object_loss *loss, const char *path,
		       struct atoll_error *err);

/* Owner, mode and time of what is open for reading. Owners that only root can give are a loss. */
int object_set_attributes(int fd, const struct stat *wanted, struct object_loss *loss,
			  const char *path, struct atoll_error *err);

/* Remove a name with all beneath it, also where modes are in the way. 0 if it is not there. */
int object_remove(int dir_fd, const char *name);

/* Call for everything beneath a directory, parents first. `path` is beneath `fd`; not 0 ends it. */
typedef int object_seen_fn(const char *path, const struct stat *st, void *data);
int object_walk(int fd, object_seen_fn *seen, void *data);
/* A number that is another one as soon as something beneath a directory is changed. 0: nothing is
 * in it, or it cannot be read. */
uint64_t object_print(int fd);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box-types.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Files, watches and ports in a box
 *
 * A small program of ours (src/guest/) runs inside, as the user who is asked for, under the same
 * contract as everything there, and does what a request says: names mean inside what they mean to a
 * program there, and there is no path to get wrong out here. What it says is believed as little as
 * anything from inside: a descriptor that it hands out is looked at (a plain file) before it is
 * used.
 *
 * Paths are as the E2B protocol has them: "" is the home, "~/x" and "x" are in it. Names that a
 * person may give are cut by a NUL; everything else is bytes.
 */

struct guest_entry {
	char *path; /* absolute, plain */
	char *name;
	char type; /* 'f', 'd', 'l' for a link that leads nowhere, '?' */
	bool is_link;
	char *target;	      /* of a link, resolved; NULL */
	uint32_t mode;	      /* with the type's bits, of the thing itself (lstat) */
	uint32_t permissions; /* of what a link leads to */
	uint64_t size;
	int64_t mtime_ns;
	char owner[64], group[64];
	struct box_pairs metadata; /* user.e2b.* */
};

/* `err->errnum`: ENOENT, ENOTDIR, EISDIR, EEXIST, ELOOP, ENOSPC, EACCES, EPERM, EINVAL (a path that
 * makes no sense), ESRCH (no such user), ENOTCONN (the guest is gone). Entries are the callee's for
 * the length of the call. */
typedef void guest_done(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
			void *data);
/* `fd` is the callee's from then on; -1 on failure. */
typedef void guest_opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
			  void *data);

void guest_stat(struct box *box, const char *user, const char *path, guest_done *done, void *data);

/* A list may have 250,000 entries: they are handed out in pieces of some hundred, so that nobody
 * waits for all of them to be read. `list` is the callee's, NULL on failure. */
struct guest_list;
typedef void guest_listed(struct guest_list *list, const struct atoll_error *err, void *data);

void guest_list(struct box *box, const char *user, const char *path, uint32_t depth,
		guest_listed *done, void *data);
/* The next piece; it goes with the next call. 0: there are no more, or no memory, which
 * guest_list_has_failed() tells. */
size_t guest_list_next(struct guest_list *list, const struct guest_entry **ret);
bool guest_list_has_failed(const struct guest_list *list);
/* Is what comes next the last piece? */
bool guest_list_is_short(const struct guest_list *list);
void guest_list_free(struct guest_list *list); /* NULL is fine */
/* With its parents. EEXIST: a directory; ENOTDIR: something else is there. */
void guest_make_dir(struct box *box, const char *user, const char *path, guest_done *done,
		    void *data);
void guest_move(struct box *box, const char *user, const char *from, const char *to,
		guest_done *done, void *data);
void guest_remove(struct box *box, const char *user, const char *path, guest_done *done,
		  void *data);
/* To be read. A plain file's own descriptor, or a pipe that the guest fills for what has no size
 * (as in /proc): fstat() tells. EISDIR. */
void guest_open(struct box *box, const char *user, const char *path, guest_opened *done,
		void *data);
/* To be written from its beginning: parents are made, what is there is cut and gets the user as
 * owner, and its user.e2b.* attributes become these. EISDIR. */
void guest_write(struct box *box, const char *user, const char *path,
		 const struct box_pairs *metadata, guest_opened *done, void *data);
/* Puts sources one behind the other into `to`, and removes them. */
void guest_compose(struct box *box, const char *user, char *const *from, size_t n, const char *to,
		   guest_done *done, void *data);
/* A connection to a port on the loopback inside, or ECONNREFUSED. Use recv(2) and send(2) with
 * MSG_DONTWAIT: somebody inside may have a duplicate, and can make it a blocking one. */
void guest_connect(struct box *box, uint16_t port, guest_opened *done, void *data);

enum guest_event {
	GUEST_CREATE,
	GUEST_WRITE,
	GUEST_REMOVE,
	GUEST_RENAME,
	GUEST_CHMOD,
	GUEST_LOST, /* so many that some were dropped; or the guest is gone: nothing comes any more
		     */
};

struct guest_watch;
typedef void guest_watched(enum guest_event event, const char *name,
			   const struct guest_entry *entry, void *data);

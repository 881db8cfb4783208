/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/fd.h"
#include "base/loop.h"
#include "guest/guest-wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * The program inside a box
 *
 * It runs as the user for whom it acts, under the same contract as everything there, and so may do
 * nothing that a command could not: no path has to be kept from it. What is careful here is about
 * others inside who change files meanwhile, about memory, and about time: one process, one loop,
 * and nothing that waits. Work that may be long is done in slices, and stops while the daemon does
 * not read.
 *
 *   guest-serve.c   questions in, packets out
 *   guest-path.c    what a path in a question means; parents
 *   location.c   where a path leads, for root inside: which links it follows
 *   entry.c   a file as the daemon is told of it
 *   owners.c  names of users and groups
 *   guest-work.c    long work in slices
 *   guest-walk.c    a tree, name by name
 *   ahead.c   what a large directory holds, looked at in two processes
 *   guest-list.c, guest-remove.c, compose.c, move.c (between file systems)   such work
 *   open.c    files to read and to write
 *   guest-connect.c ports
 *   file-watch.c   what changes; file-watch-scan.c: and in directories that are new;
 * file-watch-places.c: which directory a watch has where
 */

struct work;

struct server {
	struct loop loop;
	struct loop_watch socket;
	struct loop_timer turn; /* of work */
	struct out *first, **last;
	size_t n_waiting; /* bytes that the socket did not take yet */
	struct work *works, **last_work;
	size_t n_works;
	struct watcher *watcher;
	size_t n_relays;
};

/* A question, as it is read. Strings point into the packet. */
struct question {
	struct server *server;
	uint64_t id;
	enum guest_question kind;
	uint32_t number, flags;
	const char *home, *owner;
	const char *args[GUEST_STRINGS_MAX];
	size_t n_args;
	int fd; /* -1, or what came along; whoever takes it sets it to -1 */
};

/* Above this, work stands still; above four times as much, questions wait in the socket. */
#define WAITING_MAX (256U << 10)

/* ---- guest-serve.c ---- */

/* Until the other side ends. */
int serve(struct server *server, int socket_fd);
/* The last word on a question. `errnum` 0: it went well. `packet` holds entries, or is NULL. The
 * descriptor is closed when it was sent. */
void answer(struct server *server, uint64_t id, int errnum, const char *path, struct buf *packet,
	    size_t n, int fd);
void answer_entry(struct server *server, uint64_t id, const char *path);
/* Any packet. Takes what `body` holds. */
void say(struct server *server, const struct guest_head *head, struct buf *body, int fd);

/* ---- guest-path.c ---- */

#define PATH_SIZE 4096

/* Absolute and plain; 0, or a negative errno: -EINVAL for "~name". */
int path_of(const struct question *question, const char *text, char ret[PATH_SIZE]);

struct owner {
	bool is_other; /* than who we are: to be set */
	uid_t uid;
	gid_t gid;
};
/* -ESRCH. */
int owner_of(const struct question *question, struct owner *ret);
/* The directories that lead to `path`, 0755. */
int make_parents(const char *path, const struct owner *owner);
/* One directory, which is the owner's; -EEXIST as mkdir(2). */
int make_directory(const char *path, const struct owner *owner);

/* ---- location.c ---- */

#define LOCATION_MADE_MAX 64

enum {
	LOCATION_MAKES = 1,	 /* directories on the way that are missing */
	LOCATION_KEEPS_LINK = 2, /* the last name may be a link, and is meant itself */
	LOCATION_TELLS = 4,	 /* nothing changes, and the client alone learns something */
};

/* Who can have chosen what lies under a name. */
enum location_hands {
	LOCATION_ROOT,	 /* root alone */
	LOCATION_STICKY, /* everybody, but directories only that everybody can write to */
	LOCATION_OTHERS,
};

/* A name in a directory. */
struct location {
	int fd; /* AT_FDCWD: `name` is the whole path */
	char name[PATH_SIZE];
	struct owner owner;
	bool is_strict, makes, follows, follows_last, tells;
	enum location_hands hands; /* of the directory, if `is_strict` */
	int made[LOCATION_MADE_MAX];
	size_t n_made;
};
/* 0, or a negative errno: -ELOOP for a link that is not followed. location_done() in any case. */
int location_find(const struct question *question, const char *path, unsigned flags,
		  struct location *ret);
/* Directories that were made become the owner's: last. */
void location_give(struct location *place);
void location_done(struct location *place);
/* The other one has its descriptors from now on. */
void location_take(struct location *from, struct location *ret);
/* A new directory in that of `place`. A descriptor of it, and of no other one that was put in its
 * place, or a negative errno. */
int location_make(const struct location *place, const char *name, mode_t mode);
/* Through no link that location_find() has not looked at. A descriptor or a negative errno. */
int location_open(const struct location *place, int flags, mode_t mode);
/* May root move this name away for the owner? Not out of a directory that the owner has put in the
 * place of another one and may not write to. */
bool location_may_take(const struct location *place);
/* Would this path be followed? For questions that only tell something to the daemon. */
int location_check(const struct question *question, const char *path, bool may_be_link);

/* ---- entry.c ---- */

/* What the kernel says of a name in the current directory. */
struct look {
	struct stat st;
	bool may_have_attributes;
};
/* 0 or a negative errno. */
int entry_look(const char *name, struct look *ret);
/* `name` is looked at from the current directory, unless that was done: `look` is NULL or what was
 * found. `path` is what is told. -errno of lstat(2). `ret` may be NULL. */
int put_entry(struct buf *packet, const char *name, const char *path, const struct look *look,
	      struct stat *ret);
int set_metadata(int fd, const char *const *pairs, size_t n);

/* ---- owners.c ---- */

/* Digits if there is no name. Until the next call for the same kind. */
const char *user_name(uid_t uid);
const char *group_name(gid_t gid);
/* Look again whether the files have changed; once for each question. */
void owners_refresh(void);
bool user_find(const char *name, uid_t *ret_uid, gid_t *ret_gid);

/* ---- guest-work.c ---- */

/* Embedded first in what it works on. `step` does a bit: WORK_ON, or WORK_DONE when it has answered
 * and everything may go; then `end` frees it. */
enum work_state {
	WORK_ON,
	WORK_DONE,
};
struct work {
	struct server *server;
	uint64_t id;
	bool is_question; /* answered with EAGAIN if there is too much already */
	enum work_state (*step)(struct work *work);
	void (*end)(struct work *work);
	struct work *next;
};
/* Does the first slice at once. false: there is too much work; it has ended. */
bool work_start(struct server *server, struct work *work);
/* Go on, if the daemon has read enough. */
void work_resume(struct server *server);

/* ---- the questions ---- */

void ask_stat(struct question *question);
void ask_list(struct question *question);
void ask_make_dir(struct question *question);
void ask_move(struct question *question);
void ask_remove(struct question *question);
void ask_open(struct question *question);
void ask_stream(struct question *question);
void ask_write(struct question *question);
void ask_compose(struct question *question);
void ask_connect(struct question *question);
void ask_watch(struct question *question);
void ask_unwatch(struct question *question);

/* ---- guest-remove.c ---- */

/* Removes a tree, whose place it takes, then answers: with `errnum` and the path `about`, and if
 * that is 0 and `has_entry` with the entry of `about`. If it cannot be removed, with that. */
void remove_then_answer(struct server *server, uint64_t id, const char *path,
			struct location *place, int errnum, const char *about, bool has_entry);

/* ---- move.c ---- */

/* From one file system to another: copies, then removes. Answers. Takes both places. */
void move_by_copy(struct question *question, const char *from, struct location *source,
		  const char *to, struct location *target);

/* ---- compose.c ---- */

/* The next bytes of a file to another, a few MiB at most; 0 at the end, or a negative errno. */
ssize_t copy_some(int from_fd, int to_fd);

/* ---- guest-walk.c ---- */

/*
 * Down a tree and up again, in the order of names' bytes, never through a link
 *
 * What it stands at can be looked at by its name in the current directory, without walking the
 * whole path each time; `path` is that path, cut off nowhere: what is deeper than a path can be is
 * left out. Few descriptors are held, however deep it goes.
 */
enum walk_place {
	WALK_END,
	WALK_ENTRY, /* the next name */
	WALK_UP,    /* all of a directory was seen: `path` is that directory's */
};

struct walk {
	char path[PATH_SIZE];
	const struct look *look; /* of the name that was returned last; NULL: not looked at */
	size_t root_length;
	struct level *levels;
	size_t n_levels, room;
	size_t names_bytes;
	bool has_left_out; /* names whose path would be too long */
};

/* The root itself may be a link. 0 or a negative errno. */
int walk_open(struct walk *walk, const char *root);
/* The same for a directory that was opened; takes the descriptor. */
int walk_begin(struct walk *walk, int fd, const char *root);
/* The directory that it is in; right after it was entered. */
int walk_fd(const struct walk *walk);
/* `*ret_name` until the next call. A negative errno where a directory cannot be returned to, once:
 * then the walk goes on above it. -EBUSY: another one is in its place. */
int walk_next(struct walk *walk, const char **ret_name);
/* The names of the directory it is in are going to be looked at, all of them. */
void walk_look_ahead(struct walk *walk);
/* Into the directory that was returned last. -E2BIG: so many names that memory is in danger. */
int walk_enter(struct walk *walk, const char *name);
void walk_close(struct walk *walk);

/* ---- ahead.c ---- */

struct ahead;
typedef const char *ahead_name(const void *names, size_t i);
/* The names in this directory, in the order in which they will be taken. NULL: they are few, or it
 * cannot be: then nothing was looked at. */
struct ahead *ahead_start(int dir_fd, ahead_name *name, const void *names, size_t n);
/* NULL: not looked at; it is the caller's to do. Fine with NULL. */
const struct look *ahead_take(struct ahead *ahead, size_t i);
void ahead_free(struct ahead *ahead);

/* ---- file-watch.c ---- */

/* Read on, if the daemon has read enough. */
void watcher_resume(struct server *server);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/guard.h"

#include <sys/socket.h>

/*
 * The calls that the guard makes in a caller's stead
 *
 * Each function stands for a few system calls that differ in their arguments' order. It returns a
 * negative errno for the caller, or 0 when it has answered itself or when the answer is 0.
 *
 *	read the arguments  →  resolve  →  guard_permit()  →  act  →  answer
 */
int call_open(struct call *call);
int call_openat2(struct call *call);
int call_restrict(struct call *call);
int call_mkdir(struct call *call);
int call_mknod(struct call *call);
int call_symlink(struct call *call);
int call_unlink(struct call *call);
int call_rename(struct call *call);
int call_link(struct call *call);
int call_truncate(struct call *call);
int call_chmod(struct call *call);
int call_xattr(struct call *call);
int call_watch(struct call *call);
int call_times(struct call *call);
int call_owner(struct call *call);
int call_bind(struct call *call);
int call_listen(struct call *call);
int call_connect(struct call *call);
int call_fallocate(struct call *call);
int call_memfd(struct call *call);
int call_exec(struct call *call);
/* Which programs were seen already. */
void call_exec_forget(void);
int call_refused(struct call *call);

/* What they share; in guard.c. */

/* Does writing there go through the guard? Elsewhere the kernel decides alone. */
bool call_is_ours(struct call *call, const struct target *target);

/* For what is not left to the kernel when it is not ours: is it none of the sandbox's at all? */
bool call_is_out_of_reach(const struct call *call, const struct target *target);

/* The caller's umask becomes ours for what is created next. */
int call_take_umask(struct call *call);

int call_read_path(struct call *call, int arg, char path[PATH_MAX]);

/* The object that the arguments from `first` on mean: a path, or with `at` a directory's descriptor
 * and a path. Of the AT_ flags, AT_SYMLINK_FOLLOW counts, and AT_EMPTY_PATH. */
int call_resolve(struct call *call, int first, bool at, int flags, struct target *ret);

/* For the record: what is not ours, and will be refused. By call->action. */
void call_see(struct call *call, const struct target *target);

/* Tell the kernel to go on by itself if the object is not ours. True if so: then all is answered.
 */
bool call_leave(struct call *call, const struct target *target);

/* Let a child wait and answer in the guard's stead: 1 in the child, 0 in the guard, which then
 * leaves the call alone, or a negative errno. */
int call_hand_over(struct call *call);

/* The caller's own descriptor, shared: for what cannot be done with one opened anew. */
int call_get_fd(struct call *call, int fd);

/* What the caller is called; "" if it is gone. */
void call_read_program(struct call *call, char ret[16]);

/* call-inet.c */

/* May this be connected to, as far as it is an address of the Internet's kind? */
int call_permit_peer(struct call *call, const struct sockaddr_storage *address, socklen_t size);
/* For the record: an address that there is no way to. */
void call_see_peer(struct call *call, const struct sockaddr_storage *address, socklen_t size,
		   int result);
int call_send(struct call *call);
/* With a network: remember who connects from the port that this socket of the caller's has by now.
 */
void call_note_peer(struct call *call, int fd);

/* One more file: -ENOSPC past the limit. */
int call_count_one(struct call *call, const struct target *target);

/* Ask, and refuse what needs special care where nothing special can be done. */
int call_permit_plain(struct call *call, const struct target *target, enum names_action action,
		      bool is_dir);

/* Of an object without a name, or the source of a hard link: may its content be written? A pointer
 * file of git's never in this way. `is_dir`: the object is a directory. */
int call_permit_content(struct call *call, const struct target *target, bool is_dir);

/* The same for a name that is about to be made, which also counts. */
int call_permit_new(struct call *call, const struct target *target, enum names_action action);

/* Something was made: remember it, or take it back if it must not be. */
int call_keep_or_undo(struct call *call, const struct target *target, enum names_action action);

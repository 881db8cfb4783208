/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Which object a caller means
 *
 * A path is taken from the caller's memory once, and then walked by descriptor from the caller's
 * own starting point (its root is ours, its working directory and descriptors are reached through
 * /proc). What comes out is either a directory and a name in it, which may or may not exist, or an
 * object that has no name to go by ("/proc/self/fd/2", "."). The real path of both, links resolved,
 * is what rules are asked about.
 */
struct target {
	int parent;	 /* O_PATH; -1 if `object` is set */
	int object;	 /* O_PATH; -1 if there is a parent and a name */
	bool wants_dir;	 /* the path ended in a slash */
	bool is_foreign; /* on no mount of the sandbox, whatever `path` looks like: a descriptor
			  * that the contract handed in, a memfd */
	char name[NAME_MAX + 1];
	char path[PATH_MAX + NAME_MAX + 2];
};

#define TARGET_INIT                                                                                \
	{                                                                                          \
		.parent = -1, .object = -1                                                         \
	}

void target_done(struct target *target);
#define cleanup_target cleanup_with(target_done)

/* Which processes are not the sandbox's own, although the caller can name them in /proc: the guard,
 * and without a pid namespace the warden (else 0). */
void resolve_keep_out(pid_t guard, pid_t warden);

/* Copy a NUL-terminated string of at most `size` - 1 bytes out of a process: 0, -EFAULT,
 * -ENAMETOOLONG, or -ESRCH if the process is gone or not ours to read. */
int resolve_read_string(pid_t tid, uint64_t address, char *ret, size_t size);
int resolve_read_memory(pid_t tid, uint64_t address, void *ret, size_t size);

/* Umask and thread group of a thread. */
/* Under which ids it looks at files, as we see them. */
int resolve_read_ids(pid_t tid, uid_t *ret_uid, gid_t *ret_gid);
int resolve_read_status(pid_t tid, mode_t *ret_umask, pid_t *ret_tgid);

/* A descriptor of the caller as an O_PATH descriptor of ours. */
int resolve_caller_fd(pid_t tid, int fd);

/* `follow`: a symbolic link as the last component is followed, as open() does. `openat2_flags` are
 * RESOLVE_ flags of the caller, or 0. */
int resolve_path(pid_t tid, int dir_fd, const char *path, bool follow, uint64_t openat2_flags,
		 struct target *ret);

/* Where the walk of a path begins: O_PATH, the root or a directory of the caller's. */
int resolve_start(pid_t tid, int dir_fd, const char *path, uint64_t openat2_flags);

/* Does this lie in a proc filesystem? */
bool resolve_is_proc(int fd);

/* The object behind a descriptor of the caller. */
int resolve_fd(pid_t tid, int fd, struct target *ret);

/* Where a descriptor of ours points, links resolved. */
int resolve_fd_path(int fd, char *ret, size_t size);

/* O_PATH descriptor of what is there now: the object, or the name in the parent (not followed). */
int target_open_path(const struct target *target);

/* A mount of the sandbox's has gone: what is remembered about mounts holds no longer. */
void resolve_forget_mounts(void);

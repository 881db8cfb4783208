/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/call.h"

#include <fcntl.h>

/* Flags of open() that the guard passes on. */
#define OPEN_FLAGS                                                                                 \
	(O_ACCMODE | O_APPEND | O_CREAT | O_DIRECTORY | O_EXCL | O_NOATIME | O_NONBLOCK | O_SYNC | \
	 O_DSYNC | O_TRUNC | O_TMPFILE | O_DIRECT | O_LARGEFILE)

/* What open() and openat2() share. Each answers, or returns a negative errno for the caller. */

bool open_is_to_read(uint64_t flags);

/* An object that is there, opened anew with these flags for the caller. */
int open_again(struct call *call, int object, uint64_t flags);

/* Where the guard decides about reading (without namespaces). */
int open_to_read(struct call *call, int dir_fd, const char *path, uint64_t flags, uint64_t resolve);

/* To write, to make or to truncate. `resolve`: RESOLVE_ flags of openat2(), or 0. */
int open_to_change(struct call *call, int dir_fd, const char *path, uint64_t flags, mode_t mode,
		   uint64_t resolve);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* A line of /proc/self/mountinfo (proc(5)). */
struct mounts_line {
	char dev[24];	  /* "8:1" */
	char root[4096];  /* the directory of its file system that it shows */
	char point[4096]; /* and where */
};

/* The next line of such a text, which `*text` moves on in; false behind the last. */
bool mounts_next(const char **text, struct mounts_line *ret);

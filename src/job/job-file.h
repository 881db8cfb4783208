/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/error.h>

/*
 * A job file: opened once, with all that decides who could have written it
 */
struct job_file {
	/* Absolute, as it was named from the current directory; "." and ".." taken out as text.
	 * NULL: standard input that is no file. */
	char *spelled;
	char *real; /* without links; NULL if it has no name (any more) */
	/* Every directory that a name was looked up in, links followed; each ended by a NUL. */
	struct buf dirs;
	/* What the directories and the file are, whatever their names: layer_place_identify(). */
	struct buf ids;
	char *git;	  /* the git tree that one of these lies in; NULL: none */
	char others[160]; /* who else could have written it, in words; "": nobody */
};

/* Walk to a job file name by name, and open it; "-" is standard input. The descriptor is for
 * reading, of a plain file unless it is standard input; or a negative errno. */
int job_file_open(const char *path, struct job_file *ret, struct atoll_error *err);
void job_file_done(struct job_file *file);

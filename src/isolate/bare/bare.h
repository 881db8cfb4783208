/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/ns/cell.h"

/*
 * The process tier on a host that grants no namespaces
 *
 * There is no root of its own, so Landlock says what may be read, and the guard stands among the
 * host's files:
 *
 *   bare-backend.c   what is asked, what is weaker, who has accepted it
 *   rights.c    grants → one Landlock ruleset; hidden paths are left out by granting what lies
 *               beside them
 *   private.c   a directory that stands in for a private home and /tmp
 *   bare-start.c     the warden, who ends everything, and the guard beneath it
 *   bare-describe.c  the lines of the plan
 *
 * Everything that describes a contract (the list of mounts, the limits, the control group) is made
 * by ns/, and means the same here.
 *
 * What is weaker, and has to be accepted by name:
 *
 *   hide       what is not shown cannot be read or listed, but it is there: names that are guessed,
 *              sizes, times and modes can be seen, and so can /proc
 *   processes  the host's processes can be seen (not looked into, signalled or traced), and the end
 *              of everything is in the hands of two processes of atoll's, not of the kernel
 *   network    one proxy on the host's loopback stands for it: programs that know no proxy have
 *              none, and nothing is looked up or published
 *   pids       RLIMIT_NPROC counts the user's other processes as well, unless a control group
 *              counts
 */

/* The words above that this host needs; NULL-terminated, at most 8. */
size_t bare_weaker(const struct cell *cell, const char *ret[8]);
bool bare_accepts(const struct spec *spec, const char *word);

/* Make cell->bare->ruleset_fd and the zones. */
int bare_make_rights(struct cell *cell, struct atoll_error *err);
/* One more place, with everything allowed (`is_writable`) or reading only. */
int bare_allow_private(const struct cell *cell, const char *path, bool is_writable,
		       struct atoll_error *err);

/* The private directory: made and locked, with "home" and "tmp" in it and the contract; what runs
 * that were killed have left is removed before. */
int bare_make_private(struct cell *cell, struct atoll_error *err);
/* The command's environment, with the private places in it. */
int bare_set_environment(struct cell *cell, struct atoll_error *err);
/* What is left if those who should have ended everything were killed together. */
void bare_sweep_own(const struct cell_bare *bare);
/* Without allocation, whatever lies in it. */
void bare_remove_private(const struct cell_bare *bare);

int bare_start(struct cell *cell, const int stdio[3], struct cell_handle *ret,
	       struct atoll_error *err);
void bare_stop(struct cell *cell, const struct cell_handle *handle);

void bare_describe(const struct cell *cell, struct plan *plan);

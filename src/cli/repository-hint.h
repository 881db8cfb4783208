/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stdio.h>

/*
 * A hint if git does not find the repository
 *
 * The sandbox contains the workspace and nothing above or beside it. If the workspace is a
 * subdirectory of a repository, or a work tree of another repository, git reports that there is
 * none. So if a command that mentions git fails, one line names the repository and the options that
 * make it visible.
 */

/* `here` is the workspace; `command` is the command that ran in it. Prints nothing if the
 * repository is in the workspace. */
void repository_hint(const struct atoll_result *result, const char *here, char *const command[],
		     FILE *out);

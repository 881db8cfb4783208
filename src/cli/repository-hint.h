/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stdio.h>

/*
 * A repository that git does not find
 *
 * Inside there is the workspace and nothing above or beside it. Where that is a part of a
 * repository, or a work tree whose repository lies elsewhere, git says that there is none, which
 * is true inside and no help. So if a command failed that has to do with git, one line says where
 * the repository is, and how the command would see it.
 */

/* `here` is the workspace, and `command` what was run in it. Says nothing if all is well. */
void repository_hint(const struct atoll_result *result, const char *here, char *const command[],
		     FILE *out);

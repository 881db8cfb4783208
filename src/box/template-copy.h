/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <limits.h>

struct build;
struct daemon;
struct tenant;

/* Where an archive of a tenant's files with this hash (64 hexadecimal digits) is, or is to be put.
 * -EINVAL: no hash. */
int build_files_path(struct tenant *tenant, const char *hash, char ret[PATH_MAX],
		     struct atoll_error *err);
/* At the start, before anything is sent: what a daemon that was killed has left there is removed.
 */
void build_files_tidy(struct daemon *daemon);
/* One was put there: if there are too many of the tenant's, the oldest go. */
void build_files_forget(const char *path, const char *tenant);
void build_copy(struct build *build);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stddef.h>

struct daemon;
struct tenant;
struct volume;
struct volume_claim;

/* What a box with these mounts (a JSON list of {name, path}) is to be granted, each as --write-at
 * takes it; volume_grants_free(). -EINVAL: no such volume, or no such place. */
int volume_grants(struct tenant *tenant, const char *mounts, char ***ret, size_t *ret_n,
		  struct atoll_error *err);
void volume_grants_free(char **grants, size_t n);
/* -EBUSY: a box has it, or is being made with it. */
int volume_check_unused(struct daemon *daemon, const struct volume *volume,
			struct atoll_error *err);
void volume_claim(struct daemon *daemon, struct volume_claim *claim);
/* Fine also if it was never claimed. */
void volume_unclaim(struct daemon *daemon, struct volume_claim *claim);

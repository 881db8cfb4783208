/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>

struct block;
struct blocks;
struct wish;

/*
 * E2B's network rules as a contract's
 *
 * `network` is the object of that name as a client sent it (NULL: none). `*ret` becomes the
 * `network` section of a job file, as JSON, for a contract or atoll_sandbox_set_network(); the
 * caller's to free. Values of header transforms are written to files in `secrets_dir` (made if it
 * is not there, 0700), which belongs to this box alone and goes with it; the section only names
 * them. Each time under names of their own: other rules, which may still hold or come back, must
 * not find these values under theirs. NULL: nothing is written, only checked.
 *
 * EINVAL with a text for people: what makes no sense, and what our egress cannot do.
 */
struct tenant;

/*
 * In values of headers "${e2b.secrets.NAME}" stands for what `tenant` has stored by that name
 * (secret.h); a name that is not there is ENOENT.
 */
int box_network_section(struct tenant *tenant, const char *network, bool has_internet,
			const char *secrets_dir, char **ret, struct atoll_error *err);

struct network_address;

int wish_add_block(struct wish *wish, struct blocks *blocks, const struct block *block);

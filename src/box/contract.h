/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <limits.h>

struct box_sizes;
struct config_tenant;

/* A tenant's contract, if it keeps to what a tenant may say, over ours: what it says counts, and
 * what it does not say is as in `base`. JSON, the caller's to free. `grants` is what the
 * configuration lets him name; NULL: it is no tenant's, and nothing is checked. Secrets are
 * still named: contract_place_secrets() in box/secret.h. */
int contract_merge(const char *own, const char *base, const struct config_tenant *grants,
		   char **ret, struct atoll_error *err);
/* The directory that it names as its workspace; `ret` is left as it is if there is none. */
int contract_workspace(const char *contract, char ret[PATH_MAX], struct atoll_error *err);
int contract_sizes(const char *contract, struct box_sizes *ret, struct atoll_error *err);

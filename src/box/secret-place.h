/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/secret.h"

#include <atoll/error.h>

struct tenant;

/* A text with all "${e2b.secrets.NAME}" replaced by their values, at most SECRET_VALUE_MAX bytes.
 */
int secret_expand(struct tenant *tenant, const char *text, char ret[SECRET_VALUE_MAX + 1],
		  struct atoll_error *err);
/* In a contract of a tenant's (JSON, replaced): the values are put into `dir`, made if need be, and
 * the contract names the files. */
int contract_place_secrets(struct tenant *tenant, const char *dir, char **contract,
			   struct atoll_error *err);

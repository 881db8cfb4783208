/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>

struct config_tenant;
struct daemon;
struct db;

int tenants_load(struct daemon *daemon, struct atoll_error *err);
/* Names, quotas and keys once more, after somebody else has changed them. */
int tenants_reload(struct daemon *daemon, struct atoll_error *err);
void tenants_free(struct daemon *daemon);

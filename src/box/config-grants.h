/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>

struct config_tenant;
struct daemon_config;

int config_grant_workspace(struct config_tenant *tenant, const char *path, struct atoll_error *err);
int config_grant_near(struct config_tenant *tenant, const char *line, struct atoll_error *err);
void config_tenant_done(struct config_tenant *tenant);
/* What is said of this tenant, or nothing; never NULL. */
const struct config_tenant *config_find_tenant(const struct daemon_config *config,
					       const char *name);
/* May he name this directory? */
bool config_has_workspace(const struct config_tenant *tenant, const char *path);
/* Does one grant contradict something else? */
int config_check_grants(const struct daemon_config *config, struct atoll_error *err);

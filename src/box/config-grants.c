/* SPDX-License-Identifier: Apache-2.0 */
#include "box/config-grants.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/config.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * What of the machine a tenant may name in his contracts; nothing, if nothing is said
 *
 * Whole directories, and by their own name: what lies beneath one is the tenant's to change, so a
 * path into it could lead anywhere by the time it is used.
 */

#define GRANTS_MAX 64

static int put(char ***list, size_t *n, const char *text, struct atoll_error *err)
{
	char **grown = *n < GRANTS_MAX ? reallocarray(*list, *n + 1, sizeof *grown) : NULL;

	if (*n == GRANTS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "more than %d entries", GRANTS_MAX);
	if (!grown)
		return error_oom(err);
	*list = grown;
	grown[*n] = strdup(text);
	if (!grown[*n])
		return error_oom(err);
	++*n;
	return 0;
}

int config_grant_workspace(struct config_tenant *tenant, const char *path, struct atoll_error *err)
{
	char real[PATH_MAX];
	struct stat st;

	if (path[0] != '/')
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is no absolute path", path);
	if (!realpath(path, real) || stat(real, &st) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "'%s'", path);
	if (!S_ISDIR(st.st_mode) || streq(real, "/"))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is no directory that can be a workspace", path);
	return put(&tenant->workspaces, &tenant->n_workspaces, real, err);
}

/* Read by who will have to read it. */
int config_grant_near(struct config_tenant *tenant, const char *line, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	struct spec *spec = spec_new("/", "/", err);
	int r = spec ? 0 : -ENOMEM;

	buf_add_str(&text, "{\"network\":{\"near\":[");
	json_quote(&text, line, strlen(line));
	buf_add_str(&text, "]}}");
	if (r == 0 && buf_error(&text) < 0)
		r = error_set(err, ATOLL_FAULT_REQUEST, E2BIG, "near");
	if (r == 0)
		r = spec_load(spec, "near", NULL, text.data, text.used, err);
	spec_free(spec);
	return r < 0 ? r : put(&tenant->near, &tenant->n_near, line, err);
}

void config_tenant_done(struct config_tenant *tenant)
{
	for (size_t i = 0; i < tenant->n_workspaces; i++)
		free(tenant->workspaces[i]);
	for (size_t i = 0; i < tenant->n_near; i++)
		free(tenant->near[i]);
	free(tenant->workspaces);
	free(tenant->near);
}

const struct config_tenant *config_find_tenant(const struct daemon_config *config, const char *name)
{
	static const struct config_tenant nothing;

	for (size_t i = 0; i < config->n_tenants; i++) {
		if (streq(config->tenants[i].name, name))
			return &config->tenants[i];
	}
	return &nothing;
}

bool config_has_workspace(const struct config_tenant *tenant, const char *path)
{
	for (size_t i = 0; i < tenant->n_workspaces; i++) {
		if (streq(tenant->workspaces[i], path))
			return true;
	}
	return false;
}

/* What is a template's home is never written; what is a workspace may be. */
int config_check_grants(const struct daemon_config *config, struct atoll_error *err)
{
	char real[PATH_MAX];

	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct config_tenant *tenant = &config->tenants[i];

		for (size_t k = 0; k < config->n_templates; k++) {
			if (realpath(config->templates[k].path, real) &&
			    config_has_workspace(tenant, real))
				return error_set(err, ATOLL_FAULT_REQUEST, 0,
						 "'%s' cannot be both the template '%s', which is "
						 "never written, and a workspace of tenant '%s'",
						 real, config->templates[k].name, tenant->name);
		}
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "box/volume-mounts.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/base-template.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/volume.h"
#include "spec/spec.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Volumes in boxes
 *
 * A box's contract says of each volume that it may be written, at a place of the box's own
 * (`--write-at`), with all that holds for such a grant. A box names its volumes by their names,
 * which are its tenant's, so another tenant's cannot be meant. They are looked up when the box is
 * made; as long as a box has one, whether it runs or not, the volume cannot be removed, and so the
 * name keeps its meaning. Forks have the same ones and write to the same files. A snapshot has
 * none: whoever makes a box from it says which it is to have.
 */

#define MOUNTS_MAX 16

/* ---- what a box is granted ---- */

void volume_grants_free(char **grants, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(grants[i]);
	free(grants);
}

static const struct volume *find_name(const struct volume *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (streq(list[i].name, name))
			return &list[i];
	return NULL;
}

/* Would the contract take these places? Asked with other names for the host's directories, because
 * what it says is for somebody who does not know them. */
static int check_places(json_t *mounts, struct atoll_error *err)
{
	const char *contract = template_base_contract();
	char *const none[] = {(char *)"true", NULL};
	struct spec *spec = spec_new("/", "/", err);
	json_t *mount;
	size_t i;
	int r = spec ? spec_load(spec, "base", NULL, contract, strlen(contract), err) : -ENOMEM;

	if (r == 0)
		r = spec_set_workspace(spec, "/workspace", "base", err);
	if (r == 0)
		r = spec_set_command(spec, none, "base", err);
	json_array_foreach(mounts, i, mount)
	{
		cleanup_free char *text = NULL;

		if (r == 0 && asprintf(&text, "%s=/volume/%s",
				       json_string_value(json_object_get(mount, "path")),
				       json_string_value(json_object_get(mount, "name"))) < 0) {
			text = NULL;
			r = error_oom(err);
		}
		if (r == 0)
			r = spec_add_write_at(spec, text, "volumeMounts", err);
	}
	if (r == 0)
		r = spec_finish(spec, err);
	spec_free(spec);
	/* To whoever asks over the network it is the request that makes no sense. */
	if (r < 0 && err->fault == ATOLL_FAULT_POLICY)
		err->fault = ATOLL_FAULT_REQUEST;
	return r;
}

static int add_grant(const struct daemon *daemon, const struct volume *list, size_t n,
		     json_t *mount, char **ret, struct atoll_error *err)
{
	const char *name = json_string_value(json_object_get(mount, "name")),
		   *path = json_string_value(json_object_get(mount, "path"));
	const struct volume *volume = name ? find_name(list, n, name) : NULL;

	if (!name || !path || path[0] != '/' || strchr(path, '='))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "volumeMounts: each has a name, and an absolute path without '='");
	if (!volume)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "volumeMounts: there is no volume '%.64s'", name);
	if (asprintf(ret, "%s=%s/volumes/%s/data", path, daemon->dir, volume->id) < 0) {
		*ret = NULL;
		return error_oom(err);
	}
	return 0;
}

static int add_grants(struct tenant *tenant, json_t *mounts, char **grants, struct atoll_error *err)
{
	cleanup_free struct volume *list = NULL;
	json_t *mount;
	size_t i, n = 0;
	int r = volume_list(tenant, &list, &n, err);

	json_array_foreach(mounts, i, mount)
	{
		if (r == 0)
			r = add_grant(tenant->daemon, list, n, mount, &grants[i], err);
	}
	return r;
}

int volume_grants(struct tenant *tenant, const char *text, char ***ret, size_t *ret_n,
		  struct atoll_error *err)
{
	json_t *mounts = json_loads(text, 0, NULL);
	size_t n = json_array_size(mounts);
	char **grants = calloc(n + 1, sizeof *grants);
	int r = 0;

	if (!grants)
		r = error_oom(err);
	else if (!json_is_array(mounts) || n > MOUNTS_MAX)
		r = error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
			      "volumeMounts: is no list, or has more than %d", MOUNTS_MAX);
	if (r == 0)
		r = add_grants(tenant, mounts, grants, err);
	if (r == 0)
		r = check_places(mounts, err);
	json_decref(mounts);
	if (r < 0) {
		volume_grants_free(grants, grants ? n : 0);
		return r;
	}
	*ret = grants;
	*ret_n = n;
	return 0;
}

/* ---- who has one ---- */

void volume_claim(struct daemon *daemon, struct volume_claim *claim)
{
	claim->next = daemon->claims;
	daemon->claims = claim;
}

void volume_unclaim(struct daemon *daemon, struct volume_claim *claim)
{
	struct volume_claim **at = &daemon->claims;

	while (*at && *at != claim)
		at = &(*at)->next;
	if (*at)
		*at = claim->next;
}

static bool has_name(const char *text, const char *name)
{
	json_t *mounts = text ? json_loads(text, 0, NULL) : NULL, *mount;
	bool found = false;
	size_t i;

	json_array_foreach(mounts, i, mount)
	{
		const char *one = json_string_value(json_object_get(mount, "name"));

		found = found || (one && streq(one, name));
	}
	json_decref(mounts);
	return found;
}

int volume_check_unused(struct daemon *daemon, const struct volume *volume, struct atoll_error *err)
{
	struct tenant *tenant = tenant_find(daemon, volume->tenant);
	const struct daemon_box *box = tenant ? inner_tenant(tenant)->oldest : NULL;

	for (; box; box = box->newer)
		if (has_name(box->box.mounts, volume->name))
			return error_set(err, ATOLL_FAULT_REQUEST, EBUSY,
					 "volume '%s' is in use by sandbox %s; kill that first",
					 volume->name, box->box.id);
	for (const struct volume_claim *claim = daemon->claims; claim; claim = claim->next)
		if (claim->tenant == tenant && has_name(claim->mounts, volume->name))
			return error_set(err, ATOLL_FAULT_REQUEST, EBUSY,
					 "volume '%s' is in use by a sandbox that is being made",
					 volume->name);
	return 0;
}

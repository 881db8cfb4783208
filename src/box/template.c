/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/base-template.h"
#include "box/box-remove.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config.h"
#include "box/contract.h"
#include "box/daemon-state.h"
#include "box/db.h"
#include "box/pool.h"
#include "box/snapshot.h"
#include "box/tenant-disk.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What boxes are made from
 *
 * `base` is a contract: the host's tools, and a home of its own. Everything else is a sandbox that
 * is never started, with a checkpoint that others branch off: a snapshot of a box, or what was
 * built. It belongs to a tenant, as its row says, and nobody else finds it.
 *
 * They are asked for as [NAMESPACE/]NAME[:TAG]; the namespace is "local" and the tag "default" if
 * nothing is said, and ids are written with neither.
 */

#define NAMESPACE "local/"
#define TAG	  ":default"

/* ---- names ---- */

/* In its one form: without the usual namespace, and without the usual tag. */
void kind_plain(const char *ref, char ret[160])
{
	size_t length;

	if (starts_with(ref, NAMESPACE))
		ref += strlen(NAMESPACE);
	snprintf(ret, 160, "%s", ref);
	length = strlen(ret);
	if (length > strlen(TAG) && streq(ret + length - strlen(TAG), TAG))
		ret[length - strlen(TAG)] = '\0';
}

struct kind *kind_find(struct daemon_tenant *tenant, const char *ref)
{
	char plain[160];

	kind_plain(ref, plain);
	for (struct kind *kind = tenant->tenant.daemon->kinds; kind; kind = kind->next) {
		if ((!kind->tenant || kind->tenant == tenant) && streq(kind->id, plain))
			return kind;
	}
	return NULL;
}

bool kind_has(const struct daemon *daemon, const char *sandbox)
{
	const struct kind *kind = daemon->kinds;

	while (kind && !streq(kind->sandbox, sandbox))
		kind = kind->next;
	return kind;
}

bool template_find(struct tenant *tenant, const char *ref, char ret_id[128])
{
	const struct kind *kind = kind_find(inner_tenant(tenant), ref);

	if (kind)
		snprintf(ret_id, 128, "%s", kind->id);
	return kind;
}

/* ---- the contract of base ---- */

/* `network` is a line of it, which each box has its own of. */
int kind_contract(const struct kind *kind, const char *rules, char **ret, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	const char *network = strstr(kind->contract, "network:");

	if (!network)
		return contract_merge("{}", kind->contract, NULL, ret, err);
	buf_add(&text, kind->contract, (size_t)(network - kind->contract));
	buf_addf(&text, "network: %s", rules);
	buf_add_str(&text, network + strcspn(network, "\n"));
	*ret = buf_take(&text);
	return *ret ? 0 : error_oom(err);
}

/* ---- all of them ---- */

static struct kind *add_kind(struct daemon *daemon, const char *id)
{
	struct kind *kind = calloc(1, sizeof *kind), **last = &daemon->kinds;

	if (!kind)
		return NULL;
	snprintf(kind->id, sizeof kind->id, "%s", id);
	while (*last)
		last = &(*last)->next;
	*last = kind;
	return kind;
}

static int add_own(struct daemon *daemon, const char *id, struct atoll_error *err)
{
	const struct daemon_config *config = daemon->config;
	struct kind *kind = add_kind(daemon, id);

	if (!kind)
		return error_oom(err);
	kind->contract = strdup(template_base_contract());
	kind->cpus = config->base_cpus;
	kind->memory_mib = config->base_memory_mib;
	kind->disk_mib = config->base_disk_mib;
	return kind->contract ? 0 : error_oom(err);
}

struct kind *kind_add(struct daemon_tenant *tenant, const char *id, const char *name,
		      const char *sandbox, const struct kind_shape *shape)
{
	struct kind *kind = add_kind(tenant->tenant.daemon, id);

	if (!kind)
		return NULL;
	kind->tenant = tenant;
	snprintf(kind->name, sizeof kind->name, "%s", name);
	snprintf(kind->sandbox, sizeof kind->sandbox, "%s", sandbox);
	kind->cpus = shape->cpus;
	kind->memory_mib = shape->memory_mib;
	kind->disk_mib = shape->disk_mib;
	kind->has_rules = shape->has_rules;
	return kind;
}

static void kind_free(struct kind *kind)
{
	free(kind->contract);
	free(kind->home);
	json_decref(kind->settings);
	free(kind);
}

void kind_drop(struct daemon *daemon, struct kind *kind)
{
	struct kind **at = &daemon->kinds;

	while (*at != kind)
		at = &(*at)->next;
	*at = kind->next;
	pool_forget(daemon, kind);
	kind_free(kind);
}

void kinds_free(struct daemon *daemon)
{
	while (daemon->kinds) {
		struct kind *next = daemon->kinds->next;

		kind_free(daemon->kinds);
		daemon->kinds = next;
	}
}

/* ---- those of the configuration ---- */

/* An archive is unpacked once; who changes it gives it another name, or removes what is there. */
static int unpack(struct daemon *daemon, const struct config_template *wanted, char ret[PATH_MAX],
		  struct atoll_error *err)
{
	cleanup_fd int fd = open(wanted->path, O_RDONLY | O_CLOEXEC);
	struct atoll_archive_report report;
	char dir[PATH_MAX];
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "archive '%s'", wanted->path);
	r = daemon_subdir(daemon, "homes", dir, err);
	if (r < 0)
		return r;
	snprintf(ret, PATH_MAX, "%.*s/%s", PATH_MAX - 160, dir, wanted->name);
	if (access(ret, F_OK) == 0)
		return 0;
	/* A home inside, and no workspace of the host's. */
	return atoll_import(fd, ret, &(struct atoll_import_options){.keeps_marked = true}, &report,
			    err);
}

static int add_configured(struct daemon *daemon, const struct config_template *wanted,
			  struct atoll_error *err)
{
	char home[PATH_MAX];
	struct kind *kind;
	struct stat st;
	int r = 0;

	if (stat(wanted->path, &st) < 0)
		r = error_set(err, ATOLL_FAULT_REQUEST, errno, "'%s'", wanted->path);
	else if (S_ISDIR(st.st_mode))
		snprintf(home, sizeof home, "%s", wanted->path);
	else
		r = unpack(daemon, wanted, home, err);
	if (r == 0)
		r = add_own(daemon, wanted->name, err);
	if (r < 0)
		return error_context(err, r, "template '%s'", wanted->name);
	kind = daemon->kinds;
	while (kind->next)
		kind = kind->next;
	kind->home = strdup(home);
	return kind->home ? 0 : error_oom(err);
}

int kinds_load(struct daemon *daemon, struct atoll_error *err)
{
	int r = add_own(daemon, "base", err);

	if (r == 0)
		r = add_own(daemon, "code-interpreter-v1", err);
	for (size_t i = 0; r == 0 && i < daemon->config->n_templates; i++)
		r = add_configured(daemon, &daemon->config->templates[i], err);
	return r < 0 ? r : snapshots_load(daemon, err);
}

/* ---- away with one ---- */

int template_remove(struct tenant *tenant, const char *ref)
{
	struct kind *kind = kind_find(inner_tenant(tenant), ref);
	struct daemon *daemon = tenant->daemon;

	if (!kind || !kind->tenant)
		return -ENOENT;
	db_write(daemon->db, DB_SOON, NULL, NULL,
		 "DELETE FROM snapshots WHERE tenant = ? AND id = ?", "ss", tenant->id, kind->id);
	stored_note_gone(daemon, kind->sandbox, tenant);
	remove_sandbox(daemon, kind->sandbox, NULL, NULL);
	kind_drop(daemon, kind);
	return 0;
}

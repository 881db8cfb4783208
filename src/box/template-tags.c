/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template-tags.h"

#include "base/error.h"
#include "base/str.h"
#include "box/box-remove.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/db.h"
#include "box/life.h"
#include "box/make.h"
#include "box/snapshot.h"
#include "box/template.h"
#include "box/tenant-disk.h"
#include "box/work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Names for what was built, and what its boxes begin with
 *
 * Each tag has a sandbox of its own, which shares its layers with the others: so one can be removed
 * or built anew, and the others stay what they are.
 */

static const char put_sql[] =
	"INSERT OR REPLACE INTO snapshots(id, tenant, name, box, made_ms, sandbox, template, shape)"
	" VALUES(?,?,?,'',?,?,?,?)";

/* ---- what boxes begin with ---- */

char *kind_shape_text(const struct kind_shape *shape, json_t *settings)
{
	json_t *object = json_pack("{s:I, s:I, s:I, s:b}", "cpus", (json_int_t)shape->cpus,
				   "memory_mib", (json_int_t)shape->memory_mib, "disk_mib",
				   (json_int_t)shape->disk_mib, "has_rules", shape->has_rules);
	char *text = NULL;

	if (object && settings)
		json_object_set(object, "settings", settings);
	if (object)
		text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static bool has_name(const struct box_pairs *pairs, const char *name)
{
	for (size_t i = 0; i < pairs->n; i++) {
		if (streq(pairs->items[i].name, name))
			return true;
	}
	return false;
}

int kind_environment(const struct kind *kind, const struct box_pairs *request,
		     struct box_pairs *ret)
{
	json_t *env = json_object_get(kind->settings, "env"), *value;
	struct box_pairs all = {
		.items = calloc(json_object_size(env) + request->n + 1, sizeof *all.items)};
	const char *name;
	int r;

	if (!all.items)
		return -ENOMEM;
	json_object_foreach(env, name, value)
	{
		if (json_is_string(value) && !has_name(request, name))
			all.items[all.n++] =
				(struct box_pair){(char *)name, (char *)json_string_value(value)};
	}
	for (size_t i = 0; i < request->n; i++)
		all.items[all.n++] = request->items[i];
	r = pairs_copy(&all, ret);
	free(all.items);
	return r;
}

/* ---- which there are ---- */

static const char *tag_of(const struct kind *kind)
{
	const char *colon = strchr(kind->id, ':');

	return colon ? colon + 1 : "default";
}

bool template_tag_next(struct tenant *tenant, const char *name, const struct kind **at,
		       struct template_tag *ret)
{
	char plain[160];

	kind_plain(name, plain);
	for (const struct kind *kind = *at ? (*at)->next : tenant->daemon->kinds; kind;
	     kind = kind->next) {
		const char *build = json_string_value(json_object_get(kind->settings, "build"));

		if (kind->tenant != inner_tenant(tenant) || !build || !streq(kind->name, plain))
			continue;
		*at = kind;
		*ret = (struct template_tag){.made_ms = kind->made_ms};
		snprintf(ret->tag, sizeof ret->tag, "%s", tag_of(kind));
		snprintf(ret->build, sizeof ret->build, "%s", build);
		return true;
	}
	return false;
}

/* ---- one more ---- */

struct tagging {
	struct work_item item;
	struct later later;
	struct tenant *tenant;
	char target[160], id[160], from[ATOLL_ID_SIZE], made[ATOLL_ID_SIZE];
	int64_t made_ms;
	template_done *done;
	void *data;
	int code;
	struct atoll_error error;
};

static void report(struct tagging *tagging)
{
	tagging->done(&tagging->error, tagging->data);
	free(tagging);
}

static void report_later(struct later *later)
{
	report((struct tagging *)((char *)later - offsetof(struct tagging, later)));
}

static void run_tagging(struct work_item *item)
{
	struct tagging *tagging = (struct tagging *)item;
	char ids[1][ATOLL_ID_SIZE];

	tagging->error = (struct atoll_error){0};
	tagging->code = make_forks(tagging->from, KIND_CHECKPOINT, 1, ids, &tagging->error);
	if (tagging->code < 0)
		return;
	memcpy(tagging->made, ids[0], ATOLL_ID_SIZE);
	/* It may have come along. */
	tagging->code = atoll_sandbox_checkpoint(ids[0], KIND_CHECKPOINT, NULL, &tagging->error);
	if (tagging->code == -EEXIST) {
		tagging->code = 0;
		tagging->error = (struct atoll_error){0};
	}
	if (tagging->code < 0)
		atoll_sandbox_remove(ids[0], true, NULL);
}

static void written(int code, void *data)
{
	struct tagging *tagging = data;
	struct tenant *tenant = tagging->tenant;
	struct kind *from = kind_find(inner_tenant(tenant), tagging->target);
	struct kind *old = kind_find(inner_tenant(tenant), tagging->id), *kind = NULL;

	if (code == 0 && from) {
		const struct kind_shape shape = {from->cpus, from->memory_mib, from->disk_mib,
						 from->has_rules};

		kind = kind_add(inner_tenant(tenant), tagging->id, from->name, tagging->made,
				&shape);
	}
	if (!kind) {
		error_set(&tagging->error, ATOLL_FAULT_HOST, code ? -code : ENOENT,
			  "write the daemon's database");
		remove_sandbox(tenant->daemon, tagging->made, NULL, NULL);
	} else {
		kind->settings = json_incref(from->settings);
		kind->made_ms = tagging->made_ms;
		tenant->daemon->is_stored_dirty = true;
		if (old) {
			stored_note_gone(tenant->daemon, old->sandbox, tenant);
			remove_sandbox(tenant->daemon, old->sandbox, NULL, NULL);
			kind_drop(tenant->daemon, old);
		}
	}
	report(tagging);
}

static void tagged(struct work_item *item)
{
	struct tagging *tagging = (struct tagging *)item;
	struct tenant *tenant = tagging->tenant;
	const struct kind *from = kind_find(inner_tenant(tenant), tagging->target);
	const struct kind_shape shape = {from ? from->cpus : 0, from ? from->memory_mib : 0,
					 from ? from->disk_mib : 0, from && from->has_rules};
	char *text = from ? kind_shape_text(&shape, from->settings) : NULL;

	if (tagging->code == 0 && !text) {
		remove_sandbox(tenant->daemon, tagging->made, NULL, NULL);
		error_set(&tagging->error, ATOLL_FAULT_REQUEST, ENOENT, "template '%s' not found",
			  tagging->target);
		tagging->code = -ENOENT;
	}
	if (tagging->code < 0) {
		free(text);
		report(tagging);
		return;
	}
	tagging->made_ms = daemon_now_ms();
	db_write(tenant->daemon->db, DB_FIRM, written, tagging, put_sql, "sssisss", tagging->id,
		 tenant->id, tagging->id, tagging->made_ms, tagging->made, tagging->target, text);
	free(text);
}

static int check_tag(struct tagging *tagging, const char *tag)
{
	const struct kind *from = kind_find(inner_tenant(tagging->tenant), tagging->target);
	char ref[320];

	if (!from || !from->tenant || !from->settings)
		return error_set(&tagging->error, ATOLL_FAULT_REQUEST, ENOENT,
				 "template '%s' not found", tagging->target);
	if (!str_is_plain_name(tag, strlen(tag)) || strlen(tag) >= 32 ||
	    tag[strspn(tag, "abcdefghijklmnopqrstuvwxyz0123456789-_.")])
		return error_set(&tagging->error, ATOLL_FAULT_REQUEST, EINVAL,
				 "'%.40s' is no tag: a-z, 0-9, '-', '_', '.'", tag);
	snprintf(ref, sizeof ref, "%s:%s", from->name, tag);
	kind_plain(ref, tagging->id);
	if (kinds_count(inner_tenant(tagging->tenant)) >= KINDS_MAX)
		return error_set(&tagging->error, ATOLL_FAULT_POLICY, EDQUOT,
				 "%d snapshots and tags are the most", KINDS_MAX);
	memcpy(tagging->from, from->sandbox, ATOLL_ID_SIZE);
	return 0;
}

void template_add_tag(struct tenant *tenant, const char *target, const char *tag,
		      template_done *done, void *data)
{
	struct tagging *tagging = calloc(1, sizeof *tagging);

	if (!tagging)
		abort();
	tagging->tenant = tenant;
	tagging->done = done;
	tagging->data = data;
	kind_plain(target, tagging->target);
	if (check_tag(tagging, tag) < 0 || streq(tagging->id, tagging->target)) {
		daemon_call_later(tenant->daemon, &tagging->later, report_later);
		return;
	}
	tagging->item = (struct work_item){.run = run_tagging, .done = tagged, .owner = tenant};
	work_submit(daemon_work(tenant->daemon), &tagging->item, WORK_NOW);
}

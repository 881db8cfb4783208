/* SPDX-License-Identifier: Apache-2.0 */
#include "box/snapshot.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-remove.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/db-file.h"
#include "box/db.h"
#include "box/make.h"
#include "box/op.h"
#include "box/template-start.h"
#include "box/template-tags.h"
#include "box/template.h"
#include "box/tenant-disk.h"
#include "layer/layer.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Snapshots: what a box's files are at a moment, kept when the box is gone
 *
 * A branch of the sandbox, with a checkpoint of its own that boxes branch off later. It shares
 * layers with the box, and nothing of it runs. Volumes are not in it.
 */

static const char put_sql[] =
	"INSERT OR REPLACE INTO snapshots(id, tenant, name, box, made_ms, sandbox, template, shape)"
	" VALUES(?,?,?,?,?,?,?,?)";

/* ---- on a thread ---- */

int snapshot_run(struct box_op *op)
{
	char ids[1][ATOLL_ID_SIZE];
	int r = make_forks(op->sandbox, NULL, 1, ids, &op->error);

	if (r < 0)
		return r;
	/* Volumes are no part of it, and may be gone when a box is made from it. */
	if (op->box->box.mounts)
		r = sandbox_set_grants(ids[0], NULL, 0, &op->error);
	if (r == 0)
		r = atoll_sandbox_checkpoint(ids[0], KIND_CHECKPOINT, NULL, &op->error);
	if (r < 0) {
		atoll_sandbox_remove(ids[0], true, NULL);
		return r;
	}
	memcpy(op->made, ids[0], ATOLL_ID_SIZE);
	op->kept = layer_kept_all(ids[0]);
	return 0;
}

/* ---- afterwards ---- */

/* Its contract says something else about the network than others' do. */
static bool has_rules(const struct box *box)
{
	return box->network || !box->has_internet;
}

static void show(const struct kind *kind, struct snapshot *ret)
{
	*ret = (struct snapshot){.made_ms = kind->made_ms};
	snprintf(ret->box, sizeof ret->box, "%s", kind->box);
	if (kind->name[0]) {
		snprintf(ret->id, sizeof ret->id, "local/%s%s", kind->id,
			 strchr(kind->id, ':') ? "" : ":default");
		snprintf(ret->name, sizeof ret->name, "local/%s", kind->name);
	} else {
		snprintf(ret->id, sizeof ret->id, "%s:default", kind->id);
	}
}

static void finish(struct box_op *op, const struct snapshot *snapshot)
{
	struct daemon_box *mine = op->box;

	op->snapped(snapshot, &op->error, op->data);
	box_next_op(mine);
}

static void snapshot_written(int code, void *data)
{
	struct box_op *op = data;
	struct daemon_box *mine = op->box;
	struct daemon_tenant *tenant = inner_tenant(mine->box.tenant);
	const struct kind_shape shape = {mine->box.cpus, mine->box.memory_mib, mine->box.disk_mib,
					 has_rules(&mine->box)};
	struct kind *old = kind_find(tenant, op->name), *kind = NULL;
	struct snapshot snapshot;

	if (code == 0)
		kind = kind_add(tenant, op->name, op->has_name ? op->name : "", op->made, &shape);
	if (!kind) {
		error_set(&op->error, ATOLL_FAULT_HOST, code ? -code : ENOMEM,
			  "write the daemon's database");
		remove_sandbox(mine->box.daemon, op->made, NULL, NULL);
		finish(op, NULL);
		return;
	}
	kind->name[strcspn(kind->name, ":")] = '\0';
	kind->made_ms = op->made_ms;
	kind->settings = json_incref(template_settings(&mine->box));
	memcpy(kind->box, mine->box.id, sizeof kind->box);
	/* What the name meant before. */
	if (old) {
		stored_note_gone(mine->box.daemon, old->sandbox, mine->box.tenant);
		remove_sandbox(mine->box.daemon, old->sandbox, NULL, NULL);
		kind_drop(mine->box.daemon, old);
	}
	show(kind, &snapshot);
	finish(op, &snapshot);
}

void snapshot_after(struct box_op *op)
{
	const struct box *box = &op->box->box;
	const struct kind_shape sizes = {box->cpus, box->memory_mib, box->disk_mib, has_rules(box)};
	char *shape;

	if (op->code == 0 && stored_check(box->tenant, op->kept, &op->error) < 0) {
		remove_sandbox(box->daemon, op->made, NULL, NULL);
		op->code = -EDQUOT;
	}
	if (op->code < 0) {
		finish(op, NULL);
		return;
	}
	stored_add(box->tenant, op->kept);
	op->made_ms = daemon_now_ms();
	/* What its boxes begin with is what this one began with. */
	shape = kind_shape_text(&sizes, template_settings(box));
	db_write(box->daemon->db, DB_FIRM, snapshot_written, op, put_sql, "ssssisss", op->name,
		 box->tenant->id, op->has_name ? op->name : "", box->id, op->made_ms, op->made,
		 box->template_id, shape ? shape : "{}");
	free(shape);
}

/* ---- asked for ---- */

size_t kinds_count(const struct daemon_tenant *tenant)
{
	size_t n = 0;

	for (const struct kind *kind = tenant->tenant.daemon->kinds; kind; kind = kind->next)
		n += kind->tenant == tenant;
	return n;
}

static int check_name(const char *plain, struct atoll_error *err)
{
	size_t n = strspn(plain, "abcdefghijklmnopqrstuvwxyz0123456789-_.");
	size_t m = plain[n] == ':'
			   ? strspn(plain + n + 1, "abcdefghijklmnopqrstuvwxyz0123456789-_.")
			   : 0;

	if (n < 64 && m < 32 && str_is_plain_name(plain, n) &&
	    (m == 0 || str_is_plain_name(plain + n + 1, m)) && !plain[n + (plain[n] ? 1 + m : 0)] &&
	    (plain[n] != ':' || m > 0))
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
			 "'%.64s' is no name of a snapshot: a-z, 0-9, '-', '_', '.', and perhaps "
			 "':TAG'",
			 plain);
}

void box_snapshot(struct box *box, const char *name, snapshot_done *done, void *data)
{
	struct box_op *op = op_new(OP_SNAPSHOT, NULL, data);
	const struct kind *other;

	op->snapped = done;
	op->has_name = name && name[0];
	if (op->has_name)
		kind_plain(name, op->name);
	else
		daemon_random_name(op->name, 20);
	other = kind_find(inner_tenant(box->tenant), op->name);
	if (op->has_name && check_name(op->name, &op->error) == 0 && other && !other->tenant)
		error_set(&op->error, ATOLL_FAULT_REQUEST, EEXIST, "'%s' is a template of ours",
			  op->name);
	else if (!op->error.fault && kinds_count(inner_tenant(box->tenant)) >= KINDS_MAX)
		error_set(&op->error, ATOLL_FAULT_POLICY, EDQUOT, "%d snapshots are the most",
			  KINDS_MAX);
	box_queue(inner(box), op);
}

/* ---- which there are ---- */

/* `plain` is a name as kind_plain() writes it; NULL: any. */
static bool matches(const struct kind *kind, const struct daemon_tenant *tenant, const char *box_id,
		    const char *plain)
{
	if (kind->tenant != tenant || !kind->box[0] || (box_id && !streq(kind->box, box_id)))
		return false;
	return !plain || streq(kind->id, plain) || (kind->name[0] && streq(kind->name, plain));
}

/* Kinds are in the order in which they were made, so the last ones are wanted: a ring of as many as
 * there is room for, up to the one that is named `after`. */
size_t snapshot_list(struct tenant *tenant, const char *box_id, const char *name, const char *after,
		     struct snapshot *ret, size_t room)
{
	const struct daemon_tenant *mine = inner_tenant(tenant);
	cleanup_free const struct kind **ring = calloc(room, sizeof *ring);
	char plain[160], last[160];
	bool is_found = !after;
	size_t n = 0;

	if (name)
		kind_plain(name, plain);
	if (after)
		kind_plain(after, last);
	for (const struct kind *kind = tenant->daemon->kinds; kind && ring; kind = kind->next) {
		if (!matches(kind, mine, box_id, name ? plain : NULL))
			continue;
		is_found = !after || streq(kind->id, last);
		if (after && is_found)
			break;
		ring[n++ % room] = kind;
	}
	if (!is_found)
		return 0;
	for (size_t i = 0; i < n && i < room; i++)
		show(ring[(n - 1 - i) % room], &ret[i]);
	return n < room ? n : room;
}

static int read_row(struct daemon *daemon, sqlite3_stmt *row, struct atoll_error *err)
{
	struct tenant *tenant = tenant_find(daemon, db_text(row, 1));
	json_t *shape = json_loads(db_text(row, 6), 0, NULL);
	const struct kind_shape sizes = {
		(uint32_t)json_integer_value(json_object_get(shape, "cpus")),
		(uint32_t)json_integer_value(json_object_get(shape, "memory_mib")),
		(uint32_t)json_integer_value(json_object_get(shape, "disk_mib")),
		json_is_true(json_object_get(shape, "has_rules"))};
	json_t *settings = json_incref(json_object_get(shape, "settings"));
	struct kind *kind = NULL;

	json_decref(shape);
	if (tenant)
		kind = kind_add(inner_tenant(tenant), db_text(row, 0), db_text(row, 2),
				db_text(row, 5), &sizes);
	if (!kind) {
		json_decref(settings);
		return tenant ? error_oom(err) : 0;
	}
	kind->settings = settings;
	kind->name[strcspn(kind->name, ":")] = '\0';
	snprintf(kind->box, sizeof kind->box, "%s", db_text(row, 3));
	kind->made_ms = sqlite3_column_int64(row, 4);
	return 0;
}

/* Its removal is two things, of which the last daemon may have done one. */
static bool is_gone(const struct daemon *daemon, const char *sandbox)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof path, "%s/atoll/records/%s", daemon->dir, sandbox);
	return access(path, F_OK) < 0 && errno == ENOENT;
}

static void drop_gone(struct daemon *daemon)
{
	struct kind *kind = daemon->kinds;

	while (kind) {
		const struct kind *ghost = kind;

		kind = kind->next;
		if (ghost->tenant && is_gone(daemon, ghost->sandbox))
			template_remove(&ghost->tenant->tenant, ghost->id);
	}
}

int snapshots_load(struct daemon *daemon, struct atoll_error *err)
{
	sqlite3_stmt *row = db_prepare(daemon->db,
				       "SELECT id, tenant, name, box, made_ms, sandbox, shape FROM "
				       "snapshots ORDER BY made_ms",
				       err);
	int r = row ? 0 : -EIO;

	while (r == 0 && (r = db_step(daemon->db, &row, err)) == 1)
		r = read_row(daemon, row, err);
	sqlite3_finalize(row);
	if (r == 0)
		drop_gone(daemon);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "box/row.h"

#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-network-values.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/db-file.h"
#include "box/db.h"
#include "box/life.h"
#include "box/table.h"
#include "box/tenant-disk.h"

/* Before json.h: see there. */
#include <jansson.h>

#include <stdio.h>
#include <unistd.h>

/* A box as a row of the database. */

#define PAIRS_MAX (4U << 20)

enum {
	FLAG_PAUSES = 1,
	FLAG_PAUSES_MEMORY = 2,
	FLAG_WAKES = 4,
	FLAG_INTERNET = 8,
};

const char row_select[] =
	"SELECT id, sandbox, tenant, state, keeps_memory, template, alias, access_token,"
	" traffic_token, start_ms, end_ms, timeout_s, flags, cpus, memory_mib, disk_mib, pairs,"
	" network, mounts, cpu_s, gib_s, bytes_in, bytes_out, steps"
	" FROM boxes ORDER BY start_ms, id";

static const char row_put[] =
	"INSERT OR REPLACE INTO boxes(id, sandbox, tenant, state, keeps_memory, template, alias,"
	" access_token, traffic_token, start_ms, end_ms, timeout_s, flags, cpus, memory_mib,"
	" disk_mib, pairs, network, mounts, cpu_s, gib_s, bytes_in, bytes_out, steps)"
	" VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

/* ---- writing ---- */

static void put_pairs(struct json *json, const char *key, const struct box_pairs *pairs)
{
	json_open(json, key, '{');
	for (size_t i = 0; i < pairs->n; i++)
		json_str(json, pairs->items[i].name, pairs->items[i].value);
	json_close(json, '}');
}

static int64_t flags_of(const struct box *box)
{
	return (box->pauses_at_end ? FLAG_PAUSES : 0) |
	       (box->pauses_memory ? FLAG_PAUSES_MEMORY : 0) | (box->wakes ? FLAG_WAKES : 0) |
	       (box->has_internet ? FLAG_INTERNET : 0);
}

void row_insert(struct daemon_box *mine, db_done *done, void *data)
{
	cleanup_buf struct buf pairs = BUF_INIT(PAIRS_MAX);
	struct json json = {.out = &pairs};
	const struct box *box = &mine->box;
	const struct box_usage *usage = &mine->usage;

	json_open(&json, NULL, '{');
	put_pairs(&json, "metadata", &box->metadata);
	put_pairs(&json, "environment", &box->environment);
	put_pairs(&json, "labels", &box->labels);
	json_close(&json, '}');
	db_write(box->daemon->db, DB_SOON, done, data, row_put, "sssiissssiiiiiiisssddiii", box->id,
		 box->sandbox, box->tenant->id, (int64_t)box->state, (int64_t)box->keeps_memory,
		 box->template_id, box->alias, box->access_token, box->traffic_token, box->start_ms,
		 box->end_ms, (int64_t)(box->timeout_s > INT64_MAX ? INT64_MAX : box->timeout_s),
		 flags_of(box), (int64_t)box->cpus, (int64_t)box->memory_mib,
		 (int64_t)box->disk_mib, pairs.data ? pairs.data : "{}", box->network, box->mounts,
		 usage->cpu_s, usage->gib_s, (int64_t)usage->bytes_in, (int64_t)usage->bytes_out,
		 (int64_t)usage->n_steps);
}

/* ---- what could not be written ---- */

/* A disk may be full for a while. What somebody was told is written when there is room again. */
struct row_change {
	struct daemon *daemon;
	char id[BOX_ID_SIZE];
	struct row_change *next;
};

static struct row_change *new_change(const struct box *box)
{
	struct row_change *change = calloc(1, sizeof *change);

	if (!change)
		abort(); /* as db_write() */
	change->daemon = box->daemon;
	memcpy(change->id, box->id, sizeof change->id);
	return change;
}

/* With the next counts of what it uses. */
static void updated(int code, void *data)
{
	struct row_change *change = data;
	struct daemon_box *box = code < 0 ? table_find(change->daemon, change->id) : NULL;

	if (box) {
		box->written_steps = UINT64_MAX;
		inner_tenant(box->box.tenant)->is_dirty = true;
	}
	free(change);
}

void row_update(struct daemon_box *box)
{
	if (box->is_listed)
		row_insert(box, updated, new_change(&box->box));
}

static void removed(int code, void *data)
{
	struct row_change *change = data;

	if (code < 0) {
		change->next = change->daemon->removals;
		change->daemon->removals = change;
		return;
	}
	free(change);
}

static void write_removal(struct row_change *change)
{
	db_write(change->daemon->db, DB_SOON, removed, change, "DELETE FROM boxes WHERE id = ?",
		 "s", change->id);
}

void row_remove(struct daemon_box *box)
{
	stored_note_gone(box->box.daemon, box->box.sandbox, box->box.tenant);
	write_removal(new_change(&box->box));
}

void rows_tick(struct daemon *daemon)
{
	struct row_change *change = daemon->removals, *next;

	daemon->removals = NULL;
	for (; change; change = next) {
		next = change->next;
		write_removal(change);
	}
}

void rows_free(struct daemon *daemon)
{
	while (daemon->removals) {
		struct row_change *next = daemon->removals->next;

		free(daemon->removals);
		daemon->removals = next;
	}
}

/* ---- reading ---- */

static bool read_pairs(const json_t *all, const char *key, struct box_pairs *ret)
{
	json_t *object = json_object_get(all, key), *value;
	const char *name;

	ret->items = calloc(json_object_size(object) + 1, sizeof *ret->items);
	if (!ret->items)
		return false;
	json_object_foreach(object, name, value)
	{
		struct box_pair *pair = &ret->items[ret->n];

		pair->name = strdup(name);
		pair->value = strdup(json_string_value(value) ? json_string_value(value) : "");
		ret->n++;
		if (!pair->name || !pair->value)
			return false;
	}
	return true;
}

static bool read_all_pairs(const char *text, struct box *box)
{
	json_t *all = json_loads(text, 0, NULL);
	bool is_read = all && read_pairs(all, "metadata", &box->metadata) &&
		       read_pairs(all, "environment", &box->environment) &&
		       read_pairs(all, "labels", &box->labels);

	json_decref(all);
	return is_read;
}

static void copy_text(sqlite3_stmt *statement, int column, char *ret, size_t size)
{
	snprintf(ret, size, "%s", db_text(statement, column));
}

static void read_texts(sqlite3_stmt *statement, struct box *box)
{
	copy_text(statement, 0, box->id, sizeof box->id);
	copy_text(statement, 1, box->sandbox, sizeof box->sandbox);
	copy_text(statement, 5, box->template_id, sizeof box->template_id);
	copy_text(statement, 6, box->alias, sizeof box->alias);
	copy_text(statement, 7, box->access_token, sizeof box->access_token);
	copy_text(statement, 8, box->traffic_token, sizeof box->traffic_token);
	if (sqlite3_column_type(statement, 17) != SQLITE_NULL)
		box->network = strdup(db_text(statement, 17));
	if (sqlite3_column_type(statement, 18) != SQLITE_NULL)
		box->mounts = strdup(db_text(statement, 18));
}

static void read_numbers(sqlite3_stmt *statement, struct daemon_box *mine)
{
	struct box *box = &mine->box;
	int64_t timeout_s = sqlite3_column_int64(statement, 11);
	int64_t flags = sqlite3_column_int64(statement, 12);

	box->state = sqlite3_column_int(statement, 3) == BOX_PAUSED ? BOX_PAUSED : BOX_RUNNING;
	box->keeps_memory = sqlite3_column_int(statement, 4);
	box->start_ms = sqlite3_column_int64(statement, 9);
	box->end_ms = sqlite3_column_int64(statement, 10);
	box->timeout_s = timeout_s == INT64_MAX ? UINT64_MAX : (uint64_t)timeout_s;
	box->pauses_at_end = flags & FLAG_PAUSES;
	box->pauses_memory = flags & FLAG_PAUSES_MEMORY;
	box->wakes = flags & FLAG_WAKES;
	box->has_internet = flags & FLAG_INTERNET;
	box->cpus = (uint32_t)sqlite3_column_int64(statement, 13);
	box->memory_mib = (uint32_t)sqlite3_column_int64(statement, 14);
	box->disk_mib = (uint32_t)sqlite3_column_int64(statement, 15);
	mine->is_from_row = true;
	mine->usage = (struct box_usage){
		.cpu_s = sqlite3_column_double(statement, 19),
		.gib_s = sqlite3_column_double(statement, 20),
		.bytes_in = (uint64_t)sqlite3_column_int64(statement, 21),
		.bytes_out = (uint64_t)sqlite3_column_int64(statement, 22),
		.n_steps = (uint64_t)sqlite3_column_int64(statement, 23),
	};
}

struct daemon_box *row_read(struct daemon *daemon, sqlite3_stmt *statement)
{
	struct tenant *tenant = tenant_find(daemon, db_text(statement, 2));
	struct daemon_box *mine = tenant ? calloc(1, sizeof *mine) : NULL;
	char path[PATH_MAX];

	if (!mine)
		return NULL;
	mine->box.daemon = daemon;
	mine->box.tenant = tenant;
	mine->ops_last = &mine->ops;
	read_texts(statement, &mine->box);
	read_numbers(statement, mine);
	secrets_path(mine, path);
	mine->has_secrets = access(path, F_OK) == 0;
	if (!read_all_pairs(db_text(statement, 16), &mine->box)) {
		box_free(mine);
		return NULL;
	}
	return mine;
}

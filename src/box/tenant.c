/* SPDX-License-Identifier: Apache-2.0 */
#include "box/tenant.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/db-file.h"
#include "box/db.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Who may ask
 *
 * A key is 160 random bits, so its hash needs no salt and no slow function, and finding it by its
 * hash gives nothing away: who guesses does not know what his guess hashes near to.
 */

#define KEY_PREFIX "e2b_"
#define KEY_DIGITS 40

/* ---- in memory ---- */

static struct daemon_tenant *find_id(struct daemon *daemon, const char *id)
{
	struct daemon_tenant *tenant = daemon->tenants;

	while (tenant && !streq(tenant->tenant.id, id))
		tenant = tenant->next;
	return tenant;
}

struct tenant *tenant_find(struct daemon *daemon, const char *name_or_id)
{
	struct daemon_tenant *tenant = find_id(daemon, name_or_id);

	for (tenant = tenant ? tenant : daemon->tenants; tenant; tenant = tenant->next) {
		if (streq(tenant->tenant.name, name_or_id) || streq(tenant->tenant.id, name_or_id))
			return &tenant->tenant;
	}
	return NULL;
}

struct tenant *tenant_next(struct daemon *daemon, const struct tenant *after)
{
	struct daemon_tenant *next = after ? inner_tenant(after)->next : daemon->tenants;

	return next ? &next->tenant : NULL;
}

static int compare_keys(const void *a, const void *b)
{
	return memcmp(((const struct key *)a)->hash, ((const struct key *)b)->hash, 32);
}

struct tenant *tenant_find_key(struct daemon *daemon, const char *text, size_t size)
{
	struct key wanted, *key;

	hash_sha256(text, size, wanted.hash);
	key = bsearch(&wanted, daemon->keys, daemon->n_keys, sizeof wanted, compare_keys);
	return key ? &key->tenant->tenant : NULL;
}

bool tenant_has_keys(const struct daemon *daemon)
{
	return daemon->n_keys > 0;
}

/* ---- from the database ---- */

static uint64_t column_or_none(sqlite3_stmt *statement, int column)
{
	return sqlite3_column_type(statement, column) == SQLITE_NULL
		       ? UINT64_MAX
		       : (uint64_t)sqlite3_column_int64(statement, column);
}

static uint64_t number_or_none(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? (uint64_t)json_integer_value(value) : UINT64_MAX;
}

static void read_budget(const char *text, struct config_budget *ret)
{
	json_t *object = json_loads(text, 0, NULL);

	*ret = (struct config_budget){
		.cpu_s = number_or_none(object, "cpu_s"),
		.gib_s = number_or_none(object, "gib_s"),
		.bytes = number_or_none(object, "bytes"),
		.steps = number_or_none(object, "steps"),
		.then = json_is_true(json_object_get(object, "ends")) ? CONFIG_BUDGET_END
								      : CONFIG_BUDGET_PAUSE,
	};
	json_decref(object);
}

static int read_tenant(struct daemon *daemon, sqlite3_stmt *row, struct atoll_error *err)
{
	struct daemon_tenant *tenant = find_id(daemon, db_text(row, 0));
	struct daemon_tenant **last = &daemon->tenants;

	if (!tenant) {
		tenant = calloc(1, sizeof *tenant);
		if (!tenant)
			return error_oom(err);
		while (*last)
			last = &(*last)->next;
		*last = tenant;
		tenant->tenant.daemon = daemon;
		snprintf(tenant->tenant.id, sizeof tenant->tenant.id, "%s", db_text(row, 0));
	}
	snprintf(tenant->tenant.name, sizeof tenant->tenant.name, "%s", db_text(row, 1));
	tenant->tenant.max_boxes = column_or_none(row, 2);
	tenant->tenant.max_memory_mib = column_or_none(row, 3);
	tenant->tenant.max_disk_mib = column_or_none(row, 4);
	tenant->tenant.max_cpus = column_or_none(row, 5);
	read_budget(db_text(row, 6), &tenant->budget);
	return 0;
}

static int read_tenants(struct daemon *daemon, struct atoll_error *err)
{
	sqlite3_stmt *row = db_prepare(daemon->db,
				       "SELECT id, name, max_boxes, max_memory_mib, max_disk_mib,"
				       " max_cpus, budget FROM tenants ORDER BY made_ms, id",
				       err);
	int r = row ? 0 : -EIO;

	while (r == 0 && (r = db_step(daemon->db, &row, err)) == 1)
		r = read_tenant(daemon, row, err);
	sqlite3_finalize(row);
	return r;
}

static int read_key(struct key **keys, size_t *n, struct daemon *daemon, sqlite3_stmt *row,
		    struct atoll_error *err)
{
	struct daemon_tenant *tenant = find_id(daemon, db_text(row, 1));
	struct key *more;

	if (!tenant || sqlite3_column_bytes(row, 0) != 32)
		return 0;
	more = realloc(*keys, (*n + 1) * sizeof **keys);
	if (!more)
		return error_oom(err);
	*keys = more;
	memcpy(more[*n].hash, sqlite3_column_blob(row, 0), 32);
	more[(*n)++].tenant = tenant;
	return 0;
}

static int read_keys(struct daemon *daemon, struct atoll_error *err)
{
	sqlite3_stmt *row =
		db_prepare(daemon->db, "SELECT hash, tenant FROM keys ORDER BY hash", err);
	struct key *keys = NULL;
	int r = row ? 0 : -EIO;
	size_t n = 0;

	while (r == 0 && (r = db_step(daemon->db, &row, err)) == 1)
		r = read_key(&keys, &n, daemon, row, err);
	sqlite3_finalize(row);
	if (r < 0) {
		free(keys);
		return r;
	}
	free(daemon->keys);
	daemon->keys = keys;
	daemon->n_keys = n;
	return 0;
}

static int read_usage(struct daemon *daemon, struct atoll_error *err)
{
	sqlite3_stmt *row = db_prepare(
		daemon->db, "SELECT tenant, cpu_s, gib_s, bytes_in, bytes_out, steps FROM usage",
		err);
	int r = row ? 0 : -EIO;

	while (r == 0 && (r = db_step(daemon->db, &row, err)) == 1) {
		struct daemon_tenant *tenant = find_id(daemon, db_text(row, 0));

		r = 0;
		if (!tenant)
			continue;
		tenant->usage = (struct box_usage){
			.cpu_s = sqlite3_column_double(row, 1),
			.gib_s = sqlite3_column_double(row, 2),
			.bytes_in = (uint64_t)sqlite3_column_int64(row, 3),
			.bytes_out = (uint64_t)sqlite3_column_int64(row, 4),
			.n_steps = (uint64_t)sqlite3_column_int64(row, 5),
		};
	}
	sqlite3_finalize(row);
	return r;
}

int tenants_load(struct daemon *daemon, struct atoll_error *err)
{
	int r = read_tenants(daemon, err);

	if (r == 0)
		r = read_keys(daemon, err);
	return r < 0 ? r : read_usage(daemon, err);
}

int tenants_reload(struct daemon *daemon, struct atoll_error *err)
{
	int r = read_tenants(daemon, err);

	return r < 0 ? r : read_keys(daemon, err);
}

void tenants_free(struct daemon *daemon)
{
	while (daemon->tenants) {
		struct daemon_tenant *next = daemon->tenants->next;

		loop_drop_lane(daemon->loop, &daemon->tenants->tenant.own.lane);
		loop_drop_lane(daemon->loop, &daemon->tenants->tenant.visitors.lane);
		free(daemon->tenants);
		daemon->tenants = next;
	}
	free(daemon->keys);
	daemon->keys = NULL;
}

/* ---- new ones; also without a daemon, by commands ---- */

static int64_t or_null(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static void budget_text(const struct config_budget *budget, char *ret, size_t size)
{
	int at = snprintf(ret, size, "{\"ends\":%s",
			  budget->then == CONFIG_BUDGET_END ? "true" : "false");
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {{"cpu_s", budget->cpu_s},
		       {"gib_s", budget->gib_s},
		       {"bytes", budget->bytes},
		       {"steps", budget->steps}};

	for (size_t i = 0; i < 4; i++) {
		if (numbers[i].value != UINT64_MAX)
			at += snprintf(ret + at, size - (size_t)at, ",\"%s\":%llu", numbers[i].name,
				       (unsigned long long)numbers[i].value);
	}
	snprintf(ret + at, size - (size_t)at, "}");
}

static bool is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

	return n < 64 && !name[n] && str_is_plain_name(name, n);
}

/* Quotas of one that is there become these. */
int tenant_put(struct db *db, const struct config_tenant *tenant, struct atoll_error *err)
{
	static const char sql[] =
		"INSERT INTO tenants(id, name, made_ms, max_boxes, max_memory_mib, max_disk_mib,"
		" max_cpus, budget) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(name) DO "
		"UPDATE"
		" SET max_boxes=?4, max_memory_mib=?5, max_disk_mib=?6, max_cpus=?7, budget=?8";
	const uint64_t numbers[] = {tenant->max_boxes, tenant->max_memory_mib, tenant->max_disk_mib,
				    tenant->max_cpus};
	sqlite3_stmt *statement;
	char id[24], budget[256];
	int r;

	if (!is_name(tenant->name))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "tenant '%s': a name has 1 to 63 of a-z, 0-9, '-', '_' and '.'",
				 tenant->name);
	statement = db_prepare(db, sql, err);
	if (!statement)
		return -EIO;
	snprintf(id, sizeof id, "t");
	daemon_random_name(id + 1, 15);
	budget_text(&tenant->budget, budget, sizeof budget);
	sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 2, tenant->name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 3, daemon_now_ms());
	for (int i = 0; i < 4; i++) {
		if (numbers[i] != UINT64_MAX)
			sqlite3_bind_int64(statement, 4 + i, or_null(numbers[i]));
	}
	sqlite3_bind_text(statement, 8, budget, -1, SQLITE_STATIC);
	r = db_step(db, &statement, err);
	sqlite3_finalize(statement);
	return r;
}

int key_put(struct db *db, const char *tenant_name, const char *label, char ret[48],
	    struct atoll_error *err)
{
	sqlite3_stmt *statement =
		db_prepare(db,
			   "INSERT INTO keys(hash, tenant, label, start, made_ms)"
			   " SELECT ?1, id, ?2, ?3, ?4 FROM tenants WHERE name = ?5 OR id = ?5",
			   err);
	unsigned char hash[HASH_SIZE];
	char key[48], start[16];
	int r;

	if (!statement)
		return -EIO;
	memcpy(key, KEY_PREFIX, sizeof KEY_PREFIX);
	daemon_random_hex(key + strlen(KEY_PREFIX), KEY_DIGITS);
	snprintf(start, sizeof start, "%.12s", key);
	hash_sha256(key, strlen(key), hash);
	sqlite3_bind_blob(statement, 1, hash, sizeof hash, SQLITE_STATIC);
	sqlite3_bind_text(statement, 2, label ? label : "", -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 3, start, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 4, daemon_now_ms());
	sqlite3_bind_text(statement, 5, tenant_name, -1, SQLITE_STATIC);
	r = db_step(db, &statement, err);
	sqlite3_finalize(statement);
	if (r == 0 && sqlite3_changes(db_reader(db)) == 0)
		r = error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "tenant '%s'", tenant_name);
	if (r == 0)
		memcpy(ret, key, sizeof key);
	return r;
}

int tenant_new_key(struct tenant *tenant, const char *label, char ret[48], struct atoll_error *err)
{
	int r = key_put(tenant->daemon->db, tenant->id, label, ret, err);

	return r < 0 ? r : read_keys(tenant->daemon, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "daemon/daemon-options.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/*
 * `atoll serve key new|ls|rm`, `atoll serve tenant add|ls|rm`
 *
 * They write the daemon's database, and tell a daemon that runs. One that does not finds it later.
 */

struct commands {
	const struct serve_options *options;
	struct db *db;
};

static int each_row(struct commands *commands, const char *sql, const char *first,
		    void (*show)(sqlite3_stmt *row), struct atoll_error *err)
{
	sqlite3_stmt *row = db_prepare(commands->db, sql, err);
	int r = row ? 0 : -EIO;

	if (row && first)
		sqlite3_bind_text(row, 1, first, -1, SQLITE_STATIC);
	while (r == 0 && (r = db_step(commands->db, &row, err)) == 1) {
		if (show)
			show(row);
		r = 0;
	}
	sqlite3_finalize(row);
	return r;
}

static void show_date(int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[32];
	struct tm tm;

	strftime(text, sizeof text, "%Y-%m-%d %H:%M", localtime_r(&seconds, &tm));
	printf("%s", text);
}

/* ---- keys ---- */

static int key_new(struct commands *commands, const char *word, struct atoll_error *err)
{
	const char *tenant = commands->options->tenant;
	char key[48];
	int r = key_put(commands->db, tenant ? tenant : DEFAULT_TENANT, commands->options->label,
			key, err);

	(void)word;
	if (r == 0)
		puts(key);
	return r;
}

static void show_key(sqlite3_stmt *row)
{
	printf("%-14s %-20s ", db_text(row, 0), db_text(row, 1));
	show_date(sqlite3_column_int64(row, 2));
	printf("  %s\n", db_text(row, 3));
}

static int key_ls(struct commands *commands, const char *word, struct atoll_error *err)
{
	(void)word;
	printf("%-14s %-20s %-16s  %s\n", "KEY", "TENANT", "MADE", "LABEL");
	return each_row(commands,
			"SELECT keys.start, tenants.name, keys.made_ms, keys.label FROM keys"
			" JOIN tenants ON tenants.id = keys.tenant ORDER BY keys.made_ms",
			NULL, show_key, err);
}

/* By its beginning, as `key ls` shows it, or whole. */
static int key_rm(struct commands *commands, const char *word, struct atoll_error *err)
{
	char start[13];
	int r;

	if (strlen(word) < 12)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s': the 12 characters that `atoll serve key ls` shows", word);
	snprintf(start, sizeof start, "%s", word);
	r = each_row(commands, "DELETE FROM keys WHERE start = ?", start, NULL, err);
	if (r == 0 && sqlite3_changes(db_reader(commands->db)) == 0)
		r = error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "key '%s'", start);
	return r;
}

/* ---- tenants ---- */

static int tenant_add(struct commands *commands, const char *word, struct atoll_error *err)
{
	struct config_tenant tenant = commands->options->quotas;

	if (strlen(word) >= sizeof tenant.name)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "tenant '%s'", word);
	snprintf(tenant.name, sizeof tenant.name, "%s", word);
	return tenant_put(commands->db, &tenant, err);
}

static void show_quota(sqlite3_stmt *row, int column)
{
	if (sqlite3_column_type(row, column) == SQLITE_NULL)
		printf(" %12s", "-");
	else
		printf(" %12lld", (long long)sqlite3_column_int64(row, column));
}

static void show_tenant(sqlite3_stmt *row)
{
	printf("%-20s", db_text(row, 0));
	for (int i = 1; i <= 4; i++)
		show_quota(row, i);
	printf(" %12.1f\n", sqlite3_column_double(row, 5));
}

static int tenant_ls(struct commands *commands, const char *word, struct atoll_error *err)
{
	(void)word;
	printf("%-20s %12s %12s %12s %12s %12s\n", "TENANT", "SANDBOXES", "MEMORY MiB", "DISK MiB",
	       "CPUS", "CPU-SECONDS");
	return each_row(commands,
			"SELECT name, max_boxes, max_memory_mib, max_disk_mib, max_cpus,"
			" coalesce(cpu_s, 0) FROM tenants LEFT JOIN usage ON usage.tenant = id"
			" ORDER BY made_ms",
			NULL, show_tenant, err);
}

static int tenant_rm(struct commands *commands, const char *word, struct atoll_error *err)
{
	int r;

	if (streq(word, DEFAULT_TENANT))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is always there", word);
	r = each_row(commands,
		     "DELETE FROM tenants WHERE name = ?1 AND NOT EXISTS (SELECT 1 FROM boxes"
		     " WHERE boxes.tenant = tenants.id) AND NOT EXISTS (SELECT 1 FROM snapshots"
		     " WHERE snapshots.tenant = tenants.id)",
		     word, NULL, err);
	if (r == 0 && sqlite3_changes(db_reader(commands->db)) == 0)
		r = error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
			      "tenant '%s': there is none, or it still has sandboxes or snapshots",
			      word);
	return r;
}

/* ---- */

static const struct {
	const char *noun, *verb;
	int (*run)(struct commands *commands, const char *word, struct atoll_error *err);
	bool has_word, changes;
} table[] = {
	{"key", "new", key_new, false, true},	   {"key", "ls", key_ls, false, false},
	{"key", "rm", key_rm, true, true},	   {"tenant", "add", tenant_add, true, true},
	{"tenant", "ls", tenant_ls, false, false}, {"tenant", "rm", tenant_rm, true, true},
};

static bool has_default(struct commands *commands)
{
	sqlite3_stmt *row = db_prepare(
		commands->db, "SELECT 1 FROM tenants WHERE name = '" DEFAULT_TENANT "'", NULL);
	bool has = row && sqlite3_step(row) == SQLITE_ROW;

	sqlite3_finalize(row);
	return has;
}

static int run_on(struct commands *commands, size_t i, struct atoll_error *err)
{
	const struct config_tenant usual = config_free_tenant(DEFAULT_TENANT);
	char *const *words = commands->options->words;
	char path[PATH_MAX];
	int r = daemon_make_dir(commands->options->dir, err);

	if (r < 0)
		return r;
	snprintf(path, sizeof path, "%.*s/state.db", PATH_MAX - 16, commands->options->dir);
	r = db_open(path, NULL, &commands->db, err);
	/* Keys can be made before the first start. */
	if (r == 0 && !has_default(commands))
		r = tenant_put(commands->db, &usual, err);
	if (r == 0)
		r = table[i].run(commands, words[2], err);
	db_close(commands->db);
	if (r == 0 && table[i].changes) {
		r = control_reload(commands->options->dir, err);
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

int commands_run(const struct serve_options *options, struct atoll_error *err)
{
	struct commands commands = {.options = options};
	char *const *words = options->words;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (!streq(words[0], table[i].noun) || !words[1] || !streq(words[1], table[i].verb))
			continue;
		if (!words[2] != !table[i].has_word || (words[2] && words[3]))
			break;
		return run_on(&commands, i, err);
	}
	return error_set(
		err, ATOLL_FAULT_REQUEST, 0,
		"serve: what is '%s%s%s'? There are key new, key ls, key rm KEY, tenant add "
		"NAME, tenant ls, tenant rm NAME",
		words[0], words[1] ? " " : "", words[1] ? words[1] : "");
}

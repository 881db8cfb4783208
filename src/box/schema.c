/* SPDX-License-Identifier: Apache-2.0 */
#include "box/schema.h"

/*
 * Each is what leads from the version before it to the next. What has been released is never
 * changed: add a line.
 */
const char *const schema_steps[] = {
	"CREATE TABLE tenants("
	" id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, made_ms INTEGER NOT NULL,"
	" max_boxes INTEGER, max_memory_mib INTEGER, max_disk_mib INTEGER, max_cpus INTEGER,"
	" budget TEXT"
	") WITHOUT ROWID;"
	/* Of a key only a hash is kept, and its first digits, to tell it from others. */
	"CREATE TABLE keys("
	" hash BLOB PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenants(id) ON DELETE CASCADE,"
	" label TEXT NOT NULL, start TEXT NOT NULL, made_ms INTEGER NOT NULL"
	") WITHOUT ROWID;"
	"CREATE TABLE boxes("
	" id TEXT PRIMARY KEY, sandbox TEXT NOT NULL, tenant TEXT NOT NULL, state INTEGER NOT NULL,"
	" keeps_memory INTEGER NOT NULL, template TEXT NOT NULL, alias TEXT NOT NULL,"
	" access_token TEXT NOT NULL, traffic_token TEXT NOT NULL,"
	" start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, timeout_s INTEGER NOT NULL,"
	" flags INTEGER NOT NULL, cpus INTEGER NOT NULL, memory_mib INTEGER NOT NULL,"
	" disk_mib INTEGER NOT NULL, pairs TEXT NOT NULL, network TEXT, mounts TEXT,"
	" cpu_s REAL NOT NULL DEFAULT 0, gib_s REAL NOT NULL DEFAULT 0,"
	" bytes_in INTEGER NOT NULL DEFAULT 0, bytes_out INTEGER NOT NULL DEFAULT 0,"
	" steps INTEGER NOT NULL DEFAULT 0"
	") WITHOUT ROWID;"
	"CREATE TABLE snapshots("
	" id TEXT NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL, box TEXT NOT NULL,"
	" made_ms INTEGER NOT NULL, sandbox TEXT NOT NULL, template TEXT NOT NULL,"
	" shape TEXT NOT NULL, PRIMARY KEY(tenant, id)"
	") WITHOUT ROWID;"
	"CREATE TABLE templates("
	" id TEXT NOT NULL, tenant TEXT NOT NULL, made_ms INTEGER NOT NULL, sandbox TEXT NOT NULL,"
	" shape TEXT NOT NULL, PRIMARY KEY(tenant, id)"
	") WITHOUT ROWID;"
	"CREATE TABLE usage("
	" tenant TEXT PRIMARY KEY, cpu_s REAL NOT NULL, gib_s REAL NOT NULL,"
	" bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, steps INTEGER NOT NULL"
	") WITHOUT ROWID;",
	/* Values are sealed: box/secret.h. */
	"CREATE TABLE secrets("
	" tenant TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL,"
	" made_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL, metadata TEXT NOT NULL,"
	" sealed BLOB NOT NULL, PRIMARY KEY(tenant, name)"
	") WITHOUT ROWID;",
};

const int schema_version = sizeof schema_steps / sizeof *schema_steps;

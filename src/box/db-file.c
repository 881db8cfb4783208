/* SPDX-License-Identifier: Apache-2.0 */
#include "box/db-file.h"

#include "base/error.h"
#include "box/db.h"
#include "box/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The database's file: opening it, its version, and reading it at the start. */

#define BUSY_MS 10000

int db_errno(int code)
{
	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CONSTRAINT:
		return -EEXIST;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
		return -EACCES;
	default:
		return -EIO;
	}
}

/* ---- opening ---- */

static int fail_with(struct atoll_error *err, sqlite3 *db, const char *what)
{
	const int code = sqlite3_errcode(db);

	return error_set(err, ATOLL_FAULT_HOST, 0, "%s: %s%s", what, sqlite3_errmsg(db),
			 (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB
				 ? "; put a backup in its place, or move it away and start with "
				   "none: sandboxes that are there then are removed"
				 : "");
}

static int run(sqlite3 *db, const char *sql, struct atoll_error *err)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
		return 0;
	return fail_with(err, db, "the daemon's database");
}

void db_make_file(const char *path)
{
	/* Never one that is there: closing it would let go of the locks that SQLite has on it. */
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
}

int db_open_file(const char *path, sqlite3 **ret, struct atoll_error *err)
{
	int r;

	db_make_file(path);
	r = sqlite3_open_v2(path, ret,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
				    SQLITE_OPEN_NOFOLLOW,
			    NULL);
	if (r != SQLITE_OK)
		return *ret ? fail_with(err, *ret, "open the daemon's database") : error_oom(err);
	sqlite3_busy_timeout(*ret, BUSY_MS);
	sqlite3_extended_result_codes(*ret, 1);
	return run(*ret,
		   "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
		   "PRAGMA journal_size_limit=16777216; PRAGMA trusted_schema=OFF;",
		   err);
}

static int read_version(sqlite3 *db, int *ret, struct atoll_error *err)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK ||
	    sqlite3_step(statement) != SQLITE_ROW) {
		sqlite3_finalize(statement);
		return fail_with(err, db, "read the daemon's database");
	}
	*ret = sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	return 0;
}

static int step_up(sqlite3 *db, int version, struct atoll_error *err)
{
	char sql[64];
	int r = run(db, schema_steps[version], err);

	snprintf(sql, sizeof sql, "PRAGMA user_version=%d", version + 1);
	return r < 0 ? r : run(db, sql, err);
}

/* In one transaction, which also keeps a second one from doing the same. */
int db_migrate(sqlite3 *db, struct atoll_error *err)
{
	int version = 0;
	int r = run(db, "BEGIN IMMEDIATE", err);

	if (r < 0)
		return r;
	r = read_version(db, &version, err);
	if (r == 0 && version > schema_version)
		r = error_set(err, ATOLL_FAULT_HOST, 0,
			      "the daemon's database is of a later atoll (version %d, this one "
			      "knows %d): start that one, or another state directory",
			      version, schema_version);
	while (r == 0 && version < schema_version) {
		r = step_up(db, version, err);
		version++;
	}
	return r < 0 ? (run(db, "ROLLBACK", NULL), r) : run(db, "COMMIT", err);
}

/* ---- reading ---- */

sqlite3_stmt *db_prepare(struct db *db, const char *sql, struct atoll_error *err)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(db_reader(db), sql, -1, &statement, NULL) != SQLITE_OK) {
		fail_with(err, db_reader(db), "read the daemon's database");
		return NULL;
	}
	return statement;
}

const char *db_text(sqlite3_stmt *statement, int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);

	return text ? text : "";
}

int db_step(struct db *db, sqlite3_stmt **statement, struct atoll_error *err)
{
	int code = sqlite3_step(*statement);

	if (code == SQLITE_ROW)
		return 1;
	if (code != SQLITE_DONE)
		fail_with(err, db_reader(db), "read the daemon's database");
	sqlite3_finalize(*statement);
	*statement = NULL;
	return code == SQLITE_DONE ? 0 : db_errno(code);
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <sqlite3.h>

struct db;

/* A statement on it, with text parameters; NULL and an error. */
sqlite3_stmt *db_prepare(struct db *db, const char *sql, struct atoll_error *err);
/* The text of a column, never NULL. */
const char *db_text(sqlite3_stmt *statement, int column);
/* All that one statement gives: 1 for each row, 0 at the end (finalized, *statement is NULL). */
int db_step(struct db *db, sqlite3_stmt **statement, struct atoll_error *err);

/* For db.c: what is about the file (state-file.c). */

/* A negative errno for a code of SQLite's; 0 for a good one. */
int db_errno(int code);
/* Makes it, for nobody else to read; what SQLite puts beside it has the same mode. */
void db_make_file(const char *path);
int db_open_file(const char *path, sqlite3 **ret, struct atoll_error *err);
/* To this version, or a refusal. */
int db_migrate(sqlite3 *db, struct atoll_error *err);

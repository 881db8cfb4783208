/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <sqlite3.h>

/* For db.c: what is about the file (state-file.c). */

/* A negative errno for a code of SQLite's; 0 for a good one. */
int db_errno(int code);
/* Makes it, for nobody else to read; what SQLite puts beside it has the same mode. */
void db_make_file(const char *path);
int db_open_file(const char *path, sqlite3 **ret, struct atoll_error *err);
/* To this version, or a refusal. */
int db_migrate(sqlite3 *db, struct atoll_error *err);

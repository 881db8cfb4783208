/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

#include <atoll/error.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The database: what has to survive the daemon
 *
 * SQLite with a write-ahead log. One thread writes, in order, all that has come in since it began
 * its last transaction as one: a thousand creations a second are a few hundred transactions. What
 * was written survives a kill of the daemon at any moment; DB_FIRM survives a loss of power, too,
 * and waits for the disk. What is DB_SOON is on the disk DB_SOON_MS later: a loss of power takes
 * what was written last, never something from the middle, and never the database.
 *
 * All but db_open() on the loop's thread.
 */

struct db;
#define DB_SOON_MS 1000

enum db_rank {
	DB_SOON,
	DB_FIRM,
};

/* 0, or a negative errno: it is not written. On the loop's thread. */
typedef void db_done(int code, void *data);
/* The first row's first column, or NULL if there is no row or it cannot be read (`code`). */
typedef void db_found(int code, const char *text, size_t size, void *data);

/* Makes it, or brings an older one up to date; refuses one of a later version, or a damaged one. */
int db_open(const char *path, struct loop *loop, struct db **ret, struct atoll_error *err);
/* Writes what still waits, and calls all that is to be called. */
void db_close(struct db *db);
/*
 * `sql` is a constant: statements are kept by its address. `types` says what follows, for each
 * question mark: 's' a text or NULL, 'i' an int64_t, 'd' a double, 'b' bytes and their size_t. All
 * is copied. `done` may be NULL: then a failure is only counted.
 */
void db_write(struct db *db, enum db_rank rank, db_done *done, void *data, const char *sql,
	      const char *types, ...);
/* Behind all that was written before. */
void db_find(struct db *db, db_found *found, void *data, const char *sql, const char *types, ...);
/* How many writes failed, and how many wait. */
uint64_t db_failures(const struct db *db);
size_t db_waiting(const struct db *db);
/* For reading when there is time: at the start. A connection of the loop's thread. */
sqlite3 *db_reader(struct db *db);

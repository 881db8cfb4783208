/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "box/db.h"
#include "box/schema.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* The database: what is written is there again, whatever happened to who wrote it. */

static char path[PATH_MAX];

static void fresh(void)
{
	close(test_tempdir());
	snprintf(path, sizeof path, "%s/state.db", test_tempdir_path());
}

static struct loop loop;
static int n_done, last_code;
static char found[64];

static void done(int code, void *data)
{
	last_code = code;
	if (++n_done == *(int *)data)
		loop_stop(&loop);
}

static void put_found(int code, const char *text, size_t size, void *data)
{
	(void)data;
	last_code = code;
	snprintf(found, sizeof found, "%.*s", text ? (int)size : 6, text ? text : "(none)");
	loop_stop(&loop);
}

static const char put[] = "INSERT INTO usage VALUES(?,?,?,?,?,?)";

static void put_row(struct db *db, const char *name, enum db_rank rank, int *until)
{
	db_write(db, rank, done, until, put, "sddiii", name, 1.5, 2.5, (int64_t)3, (int64_t)4,
		 (int64_t)5);
}

static struct db *open_db(void)
{
	struct atoll_error err = {0};
	struct db *db = NULL;

	CHECK(loop_init(&loop) == 0);
	if (db_open(path, &loop, &db, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return db;
}

static void close_db(struct db *db)
{
	db_close(db);
	loop_done(&loop);
}

TEST(what_was_written_is_found_also_after_a_restart)
{
	struct db *db;
	int until = 100;
	char name[16];

	fresh();
	db = open_db();
	n_done = 0;
	for (int i = 0; i < until; i++) {
		snprintf(name, sizeof name, "t%d", i);
		put_row(db, name, i % 2 ? DB_FIRM : DB_SOON, &until);
	}
	loop_run(&loop);
	CHECK_INT(n_done, 100);
	CHECK_INT(db_failures(db), 0);
	close_db(db);
	db = open_db();
	db_find(db, put_found, NULL, "SELECT tenant FROM usage WHERE tenant = ? AND cpu_s > ?",
		"sd", "t99", 1.0);
	loop_run(&loop);
	CHECK_STR(found, "t99");
	db_find(db, put_found, NULL, "SELECT tenant FROM usage WHERE tenant = ? AND cpu_s > ?",
		"sd", "t100", 1.0);
	loop_run(&loop);
	CHECK_STR(found, "(none)");
	CHECK_INT(last_code, 0);
	close_db(db);
}

TEST(what_fails_alone_does_not_take_others_with_it)
{
	int until = 3;
	struct db *db;

	fresh();
	db = open_db();
	n_done = 0;
	put_row(db, "a", DB_SOON, &until);
	put_row(db, "a", DB_SOON, &until); /* the same once more */
	put_row(db, "b", DB_SOON, &until);
	loop_run(&loop);
	CHECK_INT(db_failures(db), 1);
	db_find(db, put_found, NULL, "SELECT count(*) FROM usage", "");
	loop_run(&loop);
	CHECK_STR(found, "2");
	close_db(db);
}

TEST(a_kill_loses_nothing_that_was_told_written)
{
	struct db *db;
	int until = 50, status;
	pid_t pid;

	fresh();
	pid = fork();
	if (pid == 0) {
		char name[16];

		db = open_db();
		n_done = 0;
		for (int i = 0; i < until; i++) {
			snprintf(name, sizeof name, "t%d", i);
			put_row(db, name, DB_SOON, &until);
		}
		loop_run(&loop);
		raise(SIGKILL);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status));
	db = open_db();
	db_find(db, put_found, NULL, "SELECT count(*) FROM usage", "");
	loop_run(&loop);
	CHECK_STR(found, "50");
	close_db(db);
}

static void run_sql(const char *sql)
{
	sqlite3 *db;

	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

TEST(one_of_a_later_version_is_left_alone)
{
	struct atoll_error err = {0};
	struct db *db = NULL;
	char sql[64];

	fresh();
	snprintf(sql, sizeof sql, "PRAGMA user_version=%d", schema_version + 1);
	run_sql(sql);
	CHECK(db_open(path, NULL, &db, &err) < 0);
	CHECK(strstr(err.text, "of a later atoll"));
}

TEST(one_that_is_damaged_is_told)
{
	struct atoll_error err = {0};
	struct db *db = NULL;
	FILE *file;

	fresh();
	file = fopen(path, "w");
	CHECK(file &&
	      fputs("this is no database, and long enough to be looked at as one", file) > 0);
	for (int i = 0; i < 100; i++)
		fputs("................................", file);
	fclose(file);
	CHECK(db_open(path, NULL, &db, &err) < 0);
	CHECK(strstr(err.text, "not a database"));
	CHECK(strstr(err.text, "backup"));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "box/db.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "box/db-file.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define VALUES_MAX     32
#define STATEMENTS_MAX 64

struct value {
	char type;
	size_t size;
	union {
		int64_t number;
		double real;
		char *text; /* into the operation's own memory; NULL */
	};
};

struct op {
	struct op *next;
	const char *sql;
	enum db_rank rank;
	db_done *done;
	db_found *found;
	void *data;
	int code;
	char *answer; /* of a db_found */
	size_t answer_size;
	size_t n_values;
	struct value values[];
};

struct ops {
	struct op *first, **last;
};

struct db {
	struct loop *loop;
	struct loop_watch watch;
	sqlite3 *reader, *writer;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t has_some;
	struct ops asked, ended;
	size_t n_waiting;
	uint64_t n_failed;
	bool is_closing;

	/* The thread's own. */
	int64_t soft_ns; /* since when something is written that is not on the disk; 0: nothing */
	bool is_firm;	 /* the last transaction waited for the disk, and the next one would */
	struct {
		const char *sql;
		sqlite3_stmt *statement;
	} statements[STATEMENTS_MAX];
	size_t n_statements;
};

static void ops_init(struct ops *ops)
{
	*ops = (struct ops){.last = &ops->first};
}

static void ops_put(struct ops *ops, struct op *op)
{
	op->next = NULL;
	*ops->last = op;
	ops->last = &op->next;
}

static void ops_join(struct ops *to, struct ops *from)
{
	if (!from->first)
		return;
	*to->last = from->first;
	to->last = from->last;
	ops_init(from);
}

/* ---- the writer ---- */

static sqlite3_stmt *statement_for(struct db *db, const char *sql)
{
	sqlite3_stmt *statement;

	for (size_t i = 0; i < db->n_statements; i++) {
		if (db->statements[i].sql == sql)
			return db->statements[i].statement;
	}
	if (db->n_statements == STATEMENTS_MAX ||
	    sqlite3_prepare_v3(db->writer, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) !=
		    SQLITE_OK)
		return NULL;
	db->statements[db->n_statements].sql = sql;
	db->statements[db->n_statements++].statement = statement;
	return statement;
}

static void bind(sqlite3_stmt *statement, const struct op *op)
{
	for (size_t i = 0; i < op->n_values; i++) {
		const struct value *value = &op->values[i];
		const int at = (int)i + 1;

		if (value->type == 'i')
			sqlite3_bind_int64(statement, at, value->number);
		else if (value->type == 'd')
			sqlite3_bind_double(statement, at, value->real);
		else if (!value->text)
			sqlite3_bind_null(statement, at);
		else if (value->type == 'b')
			sqlite3_bind_blob64(statement, at, value->text, value->size, SQLITE_STATIC);
		else
			sqlite3_bind_text64(statement, at, value->text, value->size, SQLITE_STATIC,
					    SQLITE_UTF8);
	}
}

static void keep_answer(struct op *op, sqlite3_stmt *statement)
{
	const unsigned char *text = sqlite3_column_text(statement, 0);

	op->answer_size = text ? (size_t)sqlite3_column_bytes(statement, 0) : 0;
	op->answer = text ? malloc(op->answer_size + 1) : NULL;
	if (op->answer)
		memcpy(op->answer, text, op->answer_size + 1);
	else if (text)
		op->code = -ENOMEM;
}

static void do_op(struct db *db, struct op *op)
{
	sqlite3_stmt *statement = statement_for(db, op->sql);
	int code;

	if (!statement) {
		op->code = -EIO;
		return;
	}
	bind(statement, op);
	code = sqlite3_step(statement);
	op->code = db_errno(code);
	if (code == SQLITE_ROW && op->found)
		keep_answer(op, statement);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
}

/* ---- on the disk ---- */

/* The log's file alone: commits are in it in their order, so what a loss of power takes is what was
 * written last. */
static void sync_log(struct db *db)
{
	sqlite3_file *file = NULL;

	db->soft_ns = 0;
	if (sqlite3_file_control(db->writer, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) ==
		    SQLITE_OK &&
	    file && file->pMethods)
		file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
}

static bool is_sync_due(const struct db *db)
{
	return db->soft_ns && clock_monotonic_ns() - db->soft_ns >= DB_SOON_MS * INT64_C(1000000);
}

/* Until something is asked for; or, if something is not on the disk, until it has to be. */
static void wait_for_some(struct db *db)
{
	int64_t until_ns = db->soft_ns + DB_SOON_MS * INT64_C(1000000);
	struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};

	if (!db->soft_ns)
		pthread_cond_wait(&db->has_some, &db->mutex);
	else
		pthread_cond_timedwait(&db->has_some, &db->mutex, &until);
}

/* One without values, which is in every batch: it is not parsed each time. */
static int do_plain(struct db *db, const char *sql)
{
	sqlite3_stmt *statement = statement_for(db, sql);

	if (!statement)
		return sqlite3_exec(db->writer, sql, NULL, NULL, NULL);
	sqlite3_step(statement);
	return sqlite3_reset(statement); /* what the step has come to */
}

static void set_firm(struct db *db, bool is_firm)
{
	const char *sql = is_firm ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL";

	if (is_firm != db->is_firm && sqlite3_exec(db->writer, sql, NULL, NULL, NULL) == SQLITE_OK)
		db->is_firm = is_firm;
}

/* All of it, or nothing: what failed on its own has failed already. */
static void do_batch(struct db *db, struct ops *batch)
{
	static const char begin[] = "BEGIN IMMEDIATE", commit[] = "COMMIT";
	bool is_firm = false;
	int code = 0;

	for (const struct op *op = batch->first; op; op = op->next)
		is_firm = is_firm || op->rank == DB_FIRM;
	set_firm(db, is_firm);
	code = do_plain(db, begin);
	for (struct op *op = batch->first; op && code == SQLITE_OK; op = op->next) {
		do_op(db, op);
		/* A full disk may have taken back everything. */
		if (op->code < 0 && sqlite3_get_autocommit(db->writer))
			code = op->code == -ENOSPC ? SQLITE_FULL : SQLITE_IOERR;
	}
	if (code == SQLITE_OK)
		code = do_plain(db, commit);
	if (code == SQLITE_OK) {
		db->soft_ns = is_firm ? 0 : db->soft_ns ? db->soft_ns : clock_monotonic_ns();
		return;
	}
	if (!sqlite3_get_autocommit(db->writer))
		sqlite3_exec(db->writer, "ROLLBACK", NULL, NULL, NULL);
	for (struct op *op = batch->first; op; op = op->next)
		op->code = op->code < 0 ? op->code : db_errno(code);
}

static void *write_on(void *data)
{
	const uint64_t one = 1;
	struct db *db = data;
	struct ops batch;

	pthread_mutex_lock(&db->mutex);
	for (;;) {
		while (!db->asked.first && !db->is_closing && !is_sync_due(db))
			wait_for_some(db);
		if (!db->asked.first && db->is_closing)
			break;
		ops_init(&batch);
		ops_join(&batch, &db->asked);
		pthread_mutex_unlock(&db->mutex);
		if (batch.first)
			do_batch(db, &batch);
		/* Whoever waits for the batch need not wait for the disk as well. */
		pthread_mutex_lock(&db->mutex);
		if (batch.first) {
			ops_join(&db->ended, &batch);
			(void)!write(db->watch.fd, &one, sizeof one);
		}
		if (is_sync_due(db)) {
			pthread_mutex_unlock(&db->mutex);
			sync_log(db);
			pthread_mutex_lock(&db->mutex);
		}
	}
	pthread_mutex_unlock(&db->mutex);
	return NULL;
}

/* ---- the loop's side ---- */

static void report(struct db *db, struct op *op)
{
	if (op->found)
		op->found(op->code, op->code < 0 ? NULL : op->answer, op->answer_size, op->data);
	else if (op->done)
		op->done(op->code, op->data);
	(void)db;
	free(op->answer);
	free(op);
}

static void remove_ended(struct db *db)
{
	struct ops ended;
	struct op *next;

	ops_init(&ended);
	pthread_mutex_lock(&db->mutex);
	ops_join(&ended, &db->ended);
	for (const struct op *op = ended.first; op; op = op->next) {
		db->n_waiting--;
		db->n_failed += op->code < 0;
	}
	pthread_mutex_unlock(&db->mutex);
	for (struct op *op = ended.first; op; op = next) {
		next = op->next;
		report(db, op);
	}
}

static void some_ended(struct loop_watch *watch, uint32_t events)
{
	struct db *db = (struct db *)((char *)watch - offsetof(struct db, watch));
	uint64_t count;

	(void)events;
	(void)!read(watch->fd, &count, sizeof count);
	remove_ended(db);
}

static int start_writer(struct db *db)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&db->thread, NULL, write_on, db);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	db->has_thread = r == 0;
	return r;
}

int db_open(const char *path, struct loop *loop, struct db **ret, struct atoll_error *err)
{
	struct db *db = calloc(1, sizeof *db);
	pthread_condattr_t monotonic;
	int r;

	if (!db)
		return error_oom(err);
	db->loop = loop;
	db->watch = (struct loop_watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					.ready = some_ended};
	ops_init(&db->asked);
	ops_init(&db->ended);
	pthread_mutex_init(&db->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&db->has_some, &monotonic);
	pthread_condattr_destroy(&monotonic);
	r = db_open_file(path, &db->writer, err);
	db->is_firm = true; /* as it is opened */
	if (r == 0)
		r = db_migrate(db->writer, err);
	if (r == 0)
		r = db_open_file(path, &db->reader, err);
	if (r == 0 && loop) {
		r = db->watch.fd < 0 ? -errno : loop_watch(loop, &db->watch, EPOLLIN);
		if (r == 0)
			r = start_writer(db);
		if (r < 0)
			error_set(err, ATOLL_FAULT_HOST, -r, "start the database's thread");
	}
	if (r < 0) {
		db_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

void db_close(struct db *db)
{
	if (!db)
		return;
	pthread_mutex_lock(&db->mutex);
	db->is_closing = true;
	pthread_cond_signal(&db->has_some);
	pthread_mutex_unlock(&db->mutex);
	if (db->has_thread)
		pthread_join(db->thread, NULL);
	remove_ended(db);
	/* What these have said in turn. */
	while (db->asked.first) {
		ops_join(&db->ended, &db->asked);
		do_batch(db, &db->ended);
		remove_ended(db);
	}
	for (size_t i = 0; i < db->n_statements; i++)
		sqlite3_finalize(db->statements[i].statement);
	sqlite3_close(db->reader);
	sqlite3_close(db->writer);
	if (db->watch.fd >= 0) {
		if (db->loop)
			loop_unwatch(db->loop, &db->watch);
		close(db->watch.fd);
	}
	pthread_cond_destroy(&db->has_some);
	pthread_mutex_destroy(&db->mutex);
	free(db);
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) : 0;
}

/* One piece of memory: the operation, its values, and behind them their bytes. */
static struct op *op_new(const char *sql, const char *types, va_list list)
{
	struct value values[VALUES_MAX] = {0};
	const size_t n = strlen(types);
	size_t size = 0;
	struct op *op;
	char *at;

	if (n > VALUES_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		values[i].type = types[i];
		if (types[i] == 'i') {
			values[i].number = va_arg(list, int64_t);
		} else if (types[i] == 'd') {
			values[i].real = va_arg(list, double);
		} else {
			values[i].text = va_arg(list, char *);
			values[i].size =
				types[i] == 'b' ? va_arg(list, size_t) : text_size(values[i].text);
			size += values[i].size;
		}
	}
	op = calloc(1, sizeof *op + sizeof *values * n + size);
	if (!op)
		return NULL;
	op->sql = sql;
	op->n_values = n;
	at = (char *)&op->values[n];
	for (size_t i = 0; i < n; i++) {
		op->values[i] = values[i];
		if (values[i].type == 'i' || values[i].type == 'd' || !values[i].text)
			continue;
		op->values[i].text = memcpy(at, values[i].text, values[i].size);
		at += values[i].size;
	}
	return op;
}

static void hand_in(struct db *db, struct op *op)
{
	pthread_mutex_lock(&db->mutex);
	ops_put(&db->asked, op);
	db->n_waiting++;
	pthread_cond_signal(&db->has_some);
	pthread_mutex_unlock(&db->mutex);
}

void db_write(struct db *db, enum db_rank rank, db_done *done, void *data, const char *sql,
	      const char *types, ...)
{
	struct op *op;
	va_list list;

	va_start(list, types);
	op = op_new(sql, types, list);
	va_end(list);
	if (!op)
		abort(); /* a few hundred bytes: nothing sensible can follow */
	op->rank = rank;
	op->done = done;
	op->data = data;
	hand_in(db, op);
}

void db_find(struct db *db, db_found *found, void *data, const char *sql, const char *types, ...)
{
	struct op *op;
	va_list list;

	va_start(list, types);
	op = op_new(sql, types, list);
	va_end(list);
	if (!op)
		abort();
	op->found = found;
	op->data = data;
	hand_in(db, op);
}

uint64_t db_failures(const struct db *db)
{
	return db->n_failed;
}

size_t db_waiting(const struct db *db)
{
	return db->n_waiting;
}

/* ---- reading ---- */

sqlite3 *db_reader(struct db *db)
{
	return db->reader;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "box/results.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/db-file.h"
#include "box/work.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>

/* What waits to be written: beyond this some of the tenant that has most is dropped, and a line
 * says so. */
#define WAITING_MAX (64U << 20)
/* What could not be written is tried again, with the next result or then. */
#define AGAIN_NS (2 * INT64_C(1000000000))
/* So long a result may wait for others. */
#define SOON_NS (10 * INT64_C(1000000))

struct waiting {
	struct result_step step; /* `view` NULL: forget the box */
	struct waiting *next;
	size_t bytes;
};

struct results {
	struct daemon *daemon;
	struct loop *loop;	     /* outlives the daemon, which is gone when this is closed */
	sqlite3 *reader;	     /* the loop's thread */
	sqlite3 *writer;	     /* one thread at a time: `item` */
	sqlite3_stmt *insert, *trim; /* the writer's, once they were needed */
	bool waits_for_disk;	     /* as the writer was told; it is NORMAL at first */
	struct work_item item;
	bool is_writing, is_failing, is_dropping;
	struct loop_timer again;
	struct waiting *first, **last; /* not handed over yet */
	size_t bytes;
	struct waiting *written; /* being written; also found */
	int failed;		 /* by the thread: SQLite's code */
};

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS steps(box TEXT NOT NULL, number INTEGER NOT NULL, key TEXT, "
	"tenant TEXT, is_job INTEGER, start_ms INTEGER, end_ms INTEGER, view TEXT, labels TEXT, "
	"sandbox TEXT, out BLOB, out_size INTEGER, err BLOB, err_size INTEGER, "
	"PRIMARY KEY(box, number)) WITHOUT ROWID;"
	"CREATE INDEX IF NOT EXISTS steps_key ON steps(box, key) WHERE key <> '';"
	"CREATE INDEX IF NOT EXISTS steps_job ON steps(tenant, start_ms) WHERE is_job;";

#define COLUMNS                                                                                    \
	"box, number, key, tenant, is_job, start_ms, end_ms, view, labels, sandbox, out, "         \
	"out_size, err, err_size"

void result_done(struct result_step *step)
{
	free(step->view);
	free(step->labels);
	free(step->streams[0].data);
	free(step->streams[1].data);
	*step = (struct result_step){0};
}

/* ---- writing, on a thread ---- */

static void bind_stream(sqlite3_stmt *statement, int at, const struct result_step *step, int i)
{
	sqlite3_bind_blob(statement, at, step->streams[i].data, (int)step->streams[i].kept,
			  SQLITE_STATIC);
	sqlite3_bind_int64(statement, at + 1, (sqlite3_int64)step->streams[i].size);
}

/* Made once: there may be a thousand steps a second. */
static int prepare(sqlite3 *db, const char *text, sqlite3_stmt **statement)
{
	return *statement ? SQLITE_OK
			  : sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, statement,
					       NULL);
}

static int finish(sqlite3_stmt *statement)
{
	int r;

	sqlite3_step(statement);
	r = sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return r;
}

static int write_step(struct results *results, const struct result_step *step)
{
	int r = prepare(results->writer,
			"INSERT OR REPLACE INTO steps(" COLUMNS
			") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
			&results->insert);
	sqlite3_stmt *statement = results->insert;

	if (r != SQLITE_OK)
		return r;
	sqlite3_bind_text(statement, 1, step->box, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)step->number);
	sqlite3_bind_text(statement, 3, step->key, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 4, step->tenant, -1, SQLITE_STATIC);
	sqlite3_bind_int(statement, 5, step->is_job);
	sqlite3_bind_int64(statement, 6, step->start_ms);
	sqlite3_bind_int64(statement, 7, step->end_ms);
	sqlite3_bind_text(statement, 8, step->view, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 9, step->labels, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 10, step->sandbox, -1, SQLITE_STATIC);
	bind_stream(statement, 11, step, 0);
	bind_stream(statement, 13, step, 1);
	return finish(statement);
}

/* Those of long ago. */
static int trim_steps(struct results *results, const struct result_step *step)
{
	int r = prepare(results->writer,
			"DELETE FROM steps WHERE box = ?1 AND number <= ?2 AND NOT is_job",
			&results->trim);

	if (r != SQLITE_OK)
		return r;
	sqlite3_bind_text(results->trim, 1, step->box, -1, SQLITE_STATIC);
	sqlite3_bind_int64(results->trim, 2, (sqlite3_int64)(step->number - RESULTS_STEPS));
	return finish(results->trim);
}

static int run_with(sqlite3 *db, const char *text, const char *box, int64_t number)
{
	sqlite3_stmt *statement;
	int r = sqlite3_prepare_v2(db, text, -1, &statement, NULL);

	if (r != SQLITE_OK)
		return r;
	if (box)
		sqlite3_bind_text(statement, 1, box, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, box ? 2 : 1, number);
	sqlite3_step(statement);
	return sqlite3_finalize(statement);
}

static int write_one(struct results *results, const struct result_step *step)
{
	int r;

	if (!step->view)
		return run_with(results->writer,
				"DELETE FROM steps WHERE box = ?1 AND NOT is_job AND ?2", step->box,
				1);
	r = write_step(results, step);
	return r == SQLITE_OK && step->number > RESULTS_STEPS ? trim_steps(results, step) : r;
}

/* Jobs of long ago; a look at an index, if there are none. */
static int trim_old_jobs(sqlite3 *db)
{
	const int64_t day_ms = 86400000;

	return run_with(db, "DELETE FROM steps WHERE is_job AND end_ms < ?1", NULL,
			(int64_t)(clock_real_ns() / 1000000) - RESULTS_JOB_DAYS * day_ms);
}

/* The oldest of a tenant that has too many, and of no other one. */
static int trim_jobs_of(sqlite3 *db, const char *tenant)
{
	return run_with(db,
			"DELETE FROM steps WHERE is_job AND tenant = ?1 AND start_ms < (SELECT "
			"start_ms FROM steps WHERE is_job AND tenant = ?1 ORDER BY start_ms DESC "
			"LIMIT 1 OFFSET ?2)",
			tenant, RESULTS_JOBS);
}

static int trim_jobs(sqlite3 *db, const struct waiting *written)
{
	const char *last = "";
	int r = trim_old_jobs(db);

	for (const struct waiting *at = written; at && r == SQLITE_OK; at = at->next) {
		if (!at->step.is_job || streq(at->step.tenant, last))
			continue;
		last = at->step.tenant;
		r = trim_jobs_of(db, last);
	}
	return r;
}

static void write_all(struct work_item *item)
{
	struct results *results = (struct results *)((char *)item - offsetof(struct results, item));
	bool has_job = false;
	int r;

	for (const struct waiting *at = results->written; at; at = at->next)
		has_job |= at->step.is_job;
	/* A job's end is told when it survives a loss of power; a step's result goes with its
	 * sandbox, whose processes do not. */
	if (has_job != results->waits_for_disk &&
	    sqlite3_exec(results->writer,
			 has_job ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", NULL,
			 NULL, NULL) == SQLITE_OK)
		results->waits_for_disk = has_job;
	r = sqlite3_exec(results->writer, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	for (struct waiting *at = results->written; r == SQLITE_OK && at; at = at->next)
		r = write_one(results, &at->step);
	if (r == SQLITE_OK && has_job)
		r = trim_jobs(results->writer, results->written);
	if (r == SQLITE_OK)
		r = sqlite3_exec(results->writer, "COMMIT", NULL, NULL, NULL);
	if (r != SQLITE_OK)
		sqlite3_exec(results->writer, "ROLLBACK", NULL, NULL, NULL);
	results->failed = r;
}

/* ---- handing over, on the loop's thread ---- */

static void free_list(struct waiting *at)
{
	for (struct waiting *next; at; at = next) {
		next = at->next;
		result_done(&at->step);
		free(at);
	}
}

static void start_writing(struct results *results)
{
	results->is_writing = true;
	results->failed = SQLITE_ABORT; /* also if no thread ever comes to it */
	results->written = results->first;
	results->first = NULL;
	results->last = &results->first;
	results->bytes = 0;
	work_submit(daemon_work(results->daemon), &results->item, WORK_LATER);
}

static void write_again(struct loop_timer *timer)
{
	struct results *results = container_of(timer, struct results, again);

	if (results->first && !results->is_writing &&
	    !work_is_closing(daemon_work(results->daemon)))
		start_writing(results);
}

/* A disk that is full is tried again with the next result or after a while, not in a loop. */
static void put_back(struct results *results)
{
	struct waiting **end = &results->written;

	while (*end) {
		results->bytes += (*end)->bytes;
		end = &(*end)->next;
	}
	*end = results->first;
	if (!results->first)
		results->last = end;
	results->first = results->written;
	results->written = NULL;
}

static void on_written(struct work_item *item)
{
	struct results *results = (struct results *)((char *)item - offsetof(struct results, item));

	results->is_writing = false;
	if (results->failed != SQLITE_OK) {
		if (!results->is_failing && results->failed != SQLITE_ABORT)
			fprintf(stderr, "atoll: results of steps cannot be written: %s\n",
				sqlite3_errstr(results->failed));
		results->is_failing = true;
		put_back(results);
		loop_arm(results->loop, &results->again, clock_monotonic_ns() + AGAIN_NS);
		return;
	}
	results->is_failing = results->is_dropping = false;
	free_list(results->written);
	results->written = NULL;
	if (results->first && !work_is_closing(daemon_work(results->daemon)))
		start_writing(results);
}

/* Many steps end in a moment, and to write one takes as long as to write all of them. */
static void write_soon(struct results *results)
{
	const int64_t at_ns = clock_monotonic_ns() + SOON_NS;

	if (results->again.place && results->again.at_ns <= at_ns)
		return;
	if (loop_arm(results->loop, &results->again, at_ns) < 0)
		start_writing(results);
}

/* Of the tenants of which something waits, the one with most; "" if nothing does. */
static void find_heaviest(const struct results *results, char ret[40])
{
	struct {
		const char *id;
		size_t bytes;
	} sums[64] = {{"", 0}};
	size_t n = 1, most = 0;

	for (const struct waiting *at = results->first; at; at = at->next) {
		size_t i = 0;

		while (i < n && !streq(sums[i].id, at->step.tenant))
			i++;
		if (i == n && n < ARRAY_SIZE(sums))
			sums[n++].id = at->step.tenant;
		if (i < n)
			sums[i].bytes += at->bytes;
		if (i < n && sums[i].bytes > sums[most].bytes)
			most = i;
	}
	snprintf(ret, 40, "%.39s", sums[most].id);
}

/* Too much waits to be written: the oldest of the tenant that has most go, some more than need to,
 * because it takes long to find them. */
static void drop_some(struct results *results)
{
	char tenant[40];

	find_heaviest(results, tenant);
	for (struct waiting **at = &results->first;
	     *at && (*at)->next && results->bytes > WAITING_MAX / 8 * 7;) {
		struct waiting *waiting = *at;

		if (!streq(waiting->step.tenant, tenant)) {
			at = &waiting->next;
			continue;
		}
		*at = waiting->next;
		results->bytes -= waiting->bytes;
		waiting->next = NULL;
		free_list(waiting);
	}
}

static void add(struct results *results, struct waiting *waiting)
{
	/* What was asked for by a key is asked for again by it, and a job is told as ended when it
	 * is written; the rest its holder knows for a while. */
	const bool is_now = waiting->step.key[0] || waiting->step.is_job;

	*results->last = waiting;
	results->last = &waiting->next;
	results->bytes += waiting->bytes;
	if (results->bytes > WAITING_MAX && results->first->next) {
		if (!results->is_dropping)
			fprintf(stderr,
				"atoll: results of steps are dropped: more than %u MiB wait "
				"to be written\n",
				WAITING_MAX >> 20);
		results->is_dropping = true;
		drop_some(results);
	}
	if (!results->is_writing && is_now)
		start_writing(results);
	else if (!results->is_writing)
		write_soon(results);
}

void results_add(struct results *results, struct result_step *step)
{
	struct waiting *waiting = calloc(1, sizeof *waiting);

	if (!waiting || !step->view) {
		free(waiting);
		result_done(step);
		return;
	}
	waiting->step = *step;
	waiting->bytes = sizeof *waiting + strlen(step->view) + step->streams[0].kept +
			 step->streams[1].kept;
	*step = (struct result_step){0};
	add(results, waiting);
}

void results_forget(struct results *results, const char *box)
{
	struct waiting *waiting = calloc(1, sizeof *waiting);

	if (!waiting)
		return;
	snprintf(waiting->step.box, sizeof waiting->step.box, "%s", box);
	waiting->bytes = sizeof *waiting;
	add(results, waiting);
}

/* ---- finding ---- */

static bool copy_step(const struct result_step *from, struct result_step *ret)
{
	*ret = *from;
	ret->view = strdup(from->view);
	ret->labels = from->labels ? strdup(from->labels) : NULL;
	for (int i = 0; i < 2; i++) {
		ret->streams[i].data = malloc(from->streams[i].kept + 1);
		if (!ret->streams[i].data)
			ret->streams[i].kept = 0;
		else if (from->streams[i].kept > 0)
			memcpy(ret->streams[i].data, from->streams[i].data, from->streams[i].kept);
	}
	return ret->view != NULL;
}

/* `key` NULL: by number. */
static const struct result_step *find_waiting(const struct waiting *at, const char *box,
					      uint64_t number, const char *key)
{
	for (; at; at = at->next) {
		if (at->step.view && streq(at->step.box, box) &&
		    (key ? streq(at->step.key, key) : at->step.number == number))
			return &at->step;
	}
	return NULL;
}

bool results_is_waiting(const struct results *results, const char *box, uint64_t number)
{
	return !results->is_failing && (find_waiting(results->first, box, number, NULL) ||
					find_waiting(results->written, box, number, NULL));
}

static void read_stream(sqlite3_stmt *row, int at, struct result_step *ret, int i)
{
	size_t size = (size_t)sqlite3_column_bytes(row, at);

	ret->streams[i].data = malloc(size + 1);
	if (!ret->streams[i].data)
		size = 0;
	else if (size > 0)
		memcpy(ret->streams[i].data, sqlite3_column_blob(row, at), size);
	ret->streams[i].kept = size;
	ret->streams[i].size = (uint64_t)sqlite3_column_int64(row, at + 1);
}

static void read_text(sqlite3_stmt *row, int at, char *ret, size_t size)
{
	const unsigned char *text = sqlite3_column_text(row, at);

	snprintf(ret, size, "%s", text ? (const char *)text : "");
}

static bool read_row(sqlite3_stmt *row, bool with_output, struct result_step *ret)
{
	const unsigned char *view = sqlite3_column_text(row, 7),
			    *labels = sqlite3_column_text(row, 8);

	*ret = (struct result_step){0};
	read_text(row, 0, ret->box, sizeof ret->box);
	ret->number = (uint64_t)sqlite3_column_int64(row, 1);
	read_text(row, 2, ret->key, sizeof ret->key);
	read_text(row, 3, ret->tenant, sizeof ret->tenant);
	ret->is_job = sqlite3_column_int(row, 4);
	ret->start_ms = sqlite3_column_int64(row, 5);
	ret->end_ms = sqlite3_column_int64(row, 6);
	ret->view = strdup(view ? (const char *)view : "{}");
	ret->labels = labels ? strdup((const char *)labels) : NULL;
	read_text(row, 9, ret->sandbox, sizeof ret->sandbox);
	if (with_output) {
		read_stream(row, 10, ret, 0);
		read_stream(row, 12, ret, 1);
	} else {
		ret->streams[0].size = (uint64_t)sqlite3_column_int64(row, 11);
		ret->streams[1].size = (uint64_t)sqlite3_column_int64(row, 13);
	}
	return ret->view != NULL;
}

static bool find(struct results *results, const char *box, uint64_t number, const char *key,
		 struct result_step *ret)
{
	const struct result_step *waiting = find_waiting(results->first, box, number, key);
	sqlite3_stmt *row;
	bool is_found;

	if (!waiting)
		waiting = find_waiting(results->written, box, number, key);
	if (waiting)
		return copy_step(waiting, ret);
	if (sqlite3_prepare_v2(results->reader,
			       key ? "SELECT " COLUMNS " FROM steps WHERE box = ?1 AND key = ?2 "
				     "AND key <> ''"
				   : "SELECT " COLUMNS " FROM steps WHERE box = ?1 AND number = ?2",
			       -1, &row, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(row, 1, box, -1, SQLITE_STATIC);
	if (key)
		sqlite3_bind_text(row, 2, key, -1, SQLITE_STATIC);
	else
		sqlite3_bind_int64(row, 2, (sqlite3_int64)number);
	is_found = sqlite3_step(row) == SQLITE_ROW && read_row(row, true, ret);
	sqlite3_finalize(row);
	return is_found;
}

bool results_find(struct results *results, const char *box, uint64_t number,
		  struct result_step *ret)
{
	return find(results, box, number, NULL, ret);
}

bool results_find_key(struct results *results, const char *box, const char *key,
		      struct result_step *ret)
{
	return find(results, box, 0, key, ret);
}

static size_t list(sqlite3_stmt *rows, void (*each)(const struct result_step *step, void *data),
		   void *data)
{
	struct result_step step;
	size_t n = 0;

	while (sqlite3_step(rows) == SQLITE_ROW) {
		if (read_row(rows, false, &step))
			each(&step, data);
		result_done(&step);
		n++;
	}
	sqlite3_finalize(rows);
	return n;
}

size_t results_list(struct results *results, const char *box, uint64_t before, size_t limit,
		    void (*each)(const struct result_step *step, void *data), void *data)
{
	sqlite3_stmt *rows;

	if (sqlite3_prepare_v2(results->reader,
			       "SELECT " COLUMNS " FROM steps WHERE box = ?1 AND number < ?2 "
			       "ORDER BY number DESC LIMIT ?3",
			       -1, &rows, NULL) != SQLITE_OK)
		return 0;
	sqlite3_bind_text(rows, 1, box, -1, SQLITE_STATIC);
	sqlite3_bind_int64(rows, 2, before > INT64_MAX ? INT64_MAX : (int64_t)before);
	sqlite3_bind_int64(rows, 3, (int64_t)limit);
	return list(rows, each, data);
}

size_t results_list_jobs(struct results *results, const char *tenant, int64_t before_ms,
			 size_t limit, void (*each)(const struct result_step *step, void *data),
			 void *data)
{
	sqlite3_stmt *rows;

	if (sqlite3_prepare_v2(results->reader,
			       "SELECT " COLUMNS " FROM steps WHERE is_job AND tenant = ?1 AND "
			       "start_ms < ?2 ORDER BY start_ms DESC LIMIT ?3",
			       -1, &rows, NULL) != SQLITE_OK)
		return 0;
	sqlite3_bind_text(rows, 1, tenant, -1, SQLITE_STATIC);
	sqlite3_bind_int64(rows, 2, before_ms);
	sqlite3_bind_int64(rows, 3, (int64_t)limit);
	return list(rows, each, data);
}

void results_clean(struct results *results)
{
	sqlite3_stmt *rows;
	char box[BOX_ID_SIZE];

	if (sqlite3_prepare_v2(results->reader, "SELECT DISTINCT box FROM steps WHERE NOT is_job",
			       -1, &rows, NULL) != SQLITE_OK)
		return;
	while (sqlite3_step(rows) == SQLITE_ROW) {
		read_text(rows, 0, box, sizeof box);
		if (!box_find_any(results->daemon, box))
			results_forget(results, box);
	}
	sqlite3_finalize(rows);
}

/* ---- how much it is ---- */

void results_measure(const char *dir, void (*each)(const char *tenant, uint64_t bytes, void *data),
		     void *data)
{
	char path[PATH_MAX + 16];
	sqlite3_stmt *rows = NULL;
	sqlite3 *db = NULL;

	snprintf(path, sizeof path, "%s/results.db", dir);
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) ==
		    SQLITE_OK &&
	    sqlite3_prepare_v2(db,
			       "SELECT tenant, SUM(512 + LENGTH(view) + LENGTH(out) + LENGTH(err)) "
			       "FROM steps GROUP BY tenant",
			       -1, &rows, NULL) == SQLITE_OK) {
		while (sqlite3_step(rows) == SQLITE_ROW) {
			const unsigned char *tenant = sqlite3_column_text(rows, 0);

			if (tenant)
				each((const char *)tenant, (uint64_t)sqlite3_column_int64(rows, 1),
				     data);
		}
	}
	sqlite3_finalize(rows);
	sqlite3_close_v2(db);
}

/* ---- opening ---- */

static int open_database(const char *path, bool is_writer, sqlite3 **ret, struct atoll_error *err)
{
	int r;

	db_make_file(path);
	r = sqlite3_open_v2(path, ret,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_busy_timeout(*ret, 5000);
	if (r == SQLITE_OK && is_writer)
		r = sqlite3_exec(*ret, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", NULL,
				 NULL, NULL);
	if (r == SQLITE_OK && is_writer)
		r = sqlite3_exec(*ret, schema, NULL, NULL, NULL);
	if (r == SQLITE_OK)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, 0, "open '%s': %s", path, sqlite3_errstr(r));
}

int results_open(struct daemon *daemon, const char *dir, struct results **ret,
		 struct atoll_error *err)
{
	struct results *results = calloc(1, sizeof *results);
	char path[PATH_MAX];
	mode_t before;
	int r;

	if (!results)
		return error_oom(err);
	results->daemon = daemon;
	results->loop = daemon_loop(daemon);
	results->last = &results->first;
	results->item = (struct work_item){.run = write_all, .done = on_written};
	results->again.fire = write_again;
	snprintf(path, sizeof path, "%s/results.db", dir);
	before = umask(0077);
	r = open_database(path, true, &results->writer, err);
	if (r == 0)
		r = open_database(path, false, &results->reader, err);
	umask(before);
	if (r < 0) {
		results_close(results);
		return r;
	}
	*ret = results;
	return 0;
}

/* The threads have ended by then, or never were. */
void results_close(struct results *results)
{
	if (!results)
		return;
	loop_disarm(results->loop, &results->again);
	if (results->writer && !results->is_writing && results->first) {
		results->written = results->first;
		results->first = NULL;
		write_all(&results->item);
	}
	free_list(results->written);
	free_list(results->first);
	sqlite3_finalize(results->insert);
	sqlite3_finalize(results->trim);
	sqlite3_close_v2(results->reader);
	sqlite3_close_v2(results->writer);
	free(results);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-eventlog.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder-rules.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * The event log of a sandbox
 *
 * The holder has the log open while it lives: only the holder sees all steps. It opens the log with
 * the first step. For each step it logs start, connections, denials, changes of files, and the end.
 * The client of an attached step reports the result and the hash of the output, which it has seen.
 * If the client is gone without a report, the holder logs what pid 1 has reported. If the disk is
 * full, holder_eventlog_check() stops all processes inside until the log can be written again.
 */

/* After a step of this length its last line is flushed to the disk; the same for the holder's end.
 */
#define LONG_NS INT64_C(60000000000)

/* The exit status of `atoll exec` for a step that could not start because of the host. */
#define NOT_STARTED_CODE 242

int holder_eventlog_open(struct holder *holder, struct atoll_error *err)
{
	int r;

	if (holder->eventlog || holder->spec->record == SPEC_RECORD_OFF)
		return 0;
	r = eventlog_reopen(holder->spec, holder->record->info.id, &holder->eventlog, err);
	/* Earlier holders have logged the changes that are there now. */
	if (r == 0)
		holder_eventlog_add_changes(holder, 0, NULL);
	return r == 0 ? holder_rules_open(holder, err) : r;
}

int holder_eventlog_begin(struct holder *holder, struct atoll_error *err)
{
	int r = holder_eventlog_open(holder, err);

	return r < 0 ? r : eventlog_flush(holder->eventlog, err);
}

/* ---- start of a step ---- */

/* The mechanisms that enforce the contract: the same for all steps of a cell. */
static const struct plan *mechanisms(struct holder *holder)
{
	if (!holder->has_plan && holder->backend->describe) {
		holder->plan = (struct plan){.is_brief = true};
		holder->backend->describe(holder->cell, &holder->plan);
		holder->has_plan = true;
	}
	return holder->has_plan ? &holder->plan : NULL;
}

void holder_eventlog_drop_plan(struct holder *holder)
{
	if (holder->has_plan)
		plan_done(&holder->plan);
	holder->has_plan = false;
}

static int write_start(struct holder *holder, const struct holder_client *client,
		       const char *invocation, struct atoll_error *err)
{
	struct eventlog_start start = {.step = eventlog_step(holder->eventlog, client->step_id),
				       .plan = mechanisms(holder)};
	cleanup_free char **texts = NULL;
	struct init_step_head head;
	size_t n;

	memcpy(&head, invocation, sizeof head);
	n = 1 + (size_t)head.n_argv + head.n_env;
	texts = calloc(n + 2, sizeof *texts);
	if (!texts)
		return error_oom(err);
	invocation += sizeof head;
	/* A NULL separates arguments and variables. invocation_copy() or invocation_build() has
	 * checked the texts. */
	for (size_t i = 0; i < n; i++) {
		texts[i <= head.n_argv ? i : i + 1] = (char *)invocation;
		invocation += strlen(invocation) + 1;
	}
	start.cwd = texts[0];
	start.argv = texts + 1;
	start.env = texts + head.n_argv + 2;
	return eventlog_start(holder->eventlog, &start, err);
}

int holder_eventlog_start_step(struct holder *holder, struct holder_client *client,
			       int invocation_fd, struct atoll_error *err)
{
	struct stat st;
	char *invocation;
	int r = holder_eventlog_open(holder, err);

	if (r < 0 || !holder->eventlog)
		return r;
	if (fstat(invocation_fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read the step's invocation");
	invocation = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, invocation_fd, 0);
	if (invocation == MAP_FAILED)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read the step's invocation");
	client->start_ns = clock_monotonic_ns();
	r = write_start(holder, client, invocation, err);
	munmap(invocation, (size_t)st.st_size);
	/* If the disk is full the start is written later: then the end must be logged as well. */
	client->is_logged = r == 0 || eventlog_is_stuck(holder->eventlog, NULL);
	return r < 0 ? error_context(err, r, "the record cannot be written") : 0;
}

void holder_eventlog_refuse_step(struct holder *holder, struct holder_client *client,
				 const struct atoll_error *why)
{
	struct atoll_result *result = client->is_logged ? calloc(1, sizeof *result) : NULL;
	struct atoll_error problem = {0};

	client->is_logged = false;
	if (!result)
		return;
	result->end = ATOLL_NOT_STARTED;
	result->code = NOT_STARTED_CODE;
	for (int i = 0; i < ATOLL_RESOURCE_COUNT; i++)
		result->usage[i].limit = ATOLL_UNLIMITED;
	eventlog_end(holder->eventlog, eventlog_step(holder->eventlog, client->step_id), result,
		     why->text);
	(void)!eventlog_seal(holder->eventlog, false, false, &problem); /* the loop tries again */
	free(result);
}

/* ---- while steps run ---- */

/* The step of a connection is not known, unless only one step runs. */
void holder_eventlog_add_connection(void *data, const struct atoll_connection *connection)
{
	const struct holder *holder = data;
	uint32_t step = 0;
	size_t n = 0;

	for (size_t i = 0; i < holder->n_places; i++) {
		const struct holder_client *client = &holder->clients[i];

		if (!client_has_step(client))
			continue;
		step = client->step_id;
		n++;
	}
	eventlog_connection(holder->eventlog, n == 1 ? eventlog_step(holder->eventlog, step) : 0,
			    connection);
}

/* ---- end of a step ---- */

/* The result as far as the holder has seen it. */
static void fill_result(const struct holder *holder, const struct holder_client *client,
			struct atoll_result *ret)
{
	const struct init_message *end = &client->end;

	ret->wall_ns = (uint64_t)(clock_monotonic_ns() - client->start_ns);
	ret->end = ATOLL_SIGNALED;
	ret->code = SIGKILL;
	if (end->type == INIT_FAILED) {
		ret->end = ATOLL_NOT_STARTED;
		ret->code = end->code;
	} else if (end->type == INIT_ENDED && !WIFSIGNALED(end->wait_status)) {
		ret->end = ATOLL_EXITED;
		ret->code = WEXITSTATUS(end->wait_status);
	} else if (end->type == INIT_ENDED) {
		ret->code = WTERMSIG(end->wait_status);
	}
	for (int i = 0; i < ATOLL_RESOURCE_COUNT; i++)
		ret->usage[i].limit = ATOLL_UNLIMITED;
	ret->usage[ATOLL_WALL].used = ret->wall_ns / 1000000;
	ret->usage[ATOLL_WALL].limit = holder->spec->limits[SPEC_WALL].value;
}

/* `report` NULL: the client of an attached step is gone without one. */
static void write_end(struct holder *holder, struct holder_client *client,
		      const struct attached_report *report)
{
	struct atoll_result *result = calloc(1, sizeof *result);
	const uint32_t step = eventlog_step(holder->eventlog, client->step_id);
	struct atoll_error problem = {0};
	int r;

	client->is_logged = false;
	if (!result)
		return;
	if (holder->is_live)
		notices_read_all(&holder->notices);
	if (report) {
		memcpy(result, report->result, sizeof report->result);
		eventlog_output_end(holder->eventlog, step, &report->said);
	} else {
		fill_result(holder, client, result);
	}
	holder_eventlog_add_changes(holder, step, result);
	eventlog_direct_changes(holder->eventlog, step);
	eventlog_end(holder->eventlog, step, result,
		     report ? NULL : "its caller was gone before its end");
	r = eventlog_seal(holder->eventlog, false, result->wall_ns > LONG_NS, &problem);
	(void)r; /* the loop tries again */
	free(result);
}

void holder_eventlog_end_attached(struct holder *holder, struct holder_client *client,
				  const struct attached_report *report)
{
	const struct holder_ack heard = {.magic = HOLDER_ACK_MAGIC};

	if (client->is_logged)
		write_end(holder, client, report);
	send(client->fd, &heard, sizeof heard, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void holder_eventlog_end_detached(struct holder *holder, struct holder_client *client,
				  struct atoll_result *result)
{
	struct attached_report report = {0};

	eventlog_output_finish(&client->detached->output, &report.said);
	memcpy(report.result, result, sizeof report.result);
	write_end(holder, client, &report);
}

void holder_eventlog_end_unreported(struct holder *holder, struct holder_client *client)
{
	if (client->is_logged)
		write_end(holder, client, NULL);
}

/* ---- changes ---- */

/* Identifies a change, so that it is logged once. */
static uint64_t hash_change(const struct atoll_change *change)
{
	const uint64_t parts[] = {change->kind, change->after.st_ino, change->after.st_mode,
				  (uint64_t)change->after.st_ctim.tv_sec,
				  (uint64_t)change->after.st_ctim.tv_nsec};
	uint64_t x = UINT64_C(14695981039346656037);

	for (const char *c = change->path; *c; c++)
		x = (x ^ (unsigned char)*c) * UINT64_C(1099511628211);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		x = (x ^ parts[i]) * UINT64_C(1099511628211);
	return x;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool is_reported(const struct holder *holder, uint64_t hash)
{
	return holder->n_reported &&
	       bsearch(&hash, holder->reported, holder->n_reported, sizeof hash, compare);
}

static void count(struct atoll_result *result, const struct atoll_change *change)
{
	result->n_added += change->kind == ATOLL_ADDED;
	result->n_deleted += change->kind == ATOLL_DELETED;
	result->n_changed += change->kind == ATOLL_CHANGED || change->kind == ATOLL_RENAMED;
	result->n_marked += change->mark != NULL;
}

/* Log all differences to the host that are not in holder->reported. Sealed layers never change: if
 * the top layer is empty and the sealed ones were read, nothing is new, and reading them again is
 * skipped. */
void holder_eventlog_add_changes(struct holder *holder, uint32_t step, struct atoll_result *result)
{
	struct layer_changes *changes;
	struct atoll_error err;
	uint64_t *reported;

	if (!holder->eventlog || holder->spec->workspace_mode != SPEC_WORKSPACE_LAYER ||
	    (result && holder->has_sealed_changes && layer_top_is_empty(holder->record)) ||
	    layer_changes_read(holder->record, false, &changes, &err) < 0)
		return;
	reported = calloc(changes->list.n + 1, sizeof *reported);
	for (size_t i = 0; reported && i < changes->list.n; i++) {
		const struct atoll_change *change = &changes->list.items[i];

		reported[i] = hash_change(change);
		if (!result || is_reported(holder, reported[i]))
			continue;
		eventlog_change(holder->eventlog, step, changes, i);
		count(result, change);
	}
	if (reported) {
		qsort(reported, changes->list.n, sizeof *reported, compare);
		free(holder->reported);
		holder->reported = reported;
		holder->n_reported = changes->list.n;
		holder->has_sealed_changes = true;
		holder->has_stale_changes = false;
	}
	atoll_changes_close(&changes->list);
}

/* ---- joined layers ---- */

struct reported_name {
	const char *path;
	const struct stat *after; /* NULL: the file was renamed, and this is its old name */
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct reported_name *)a)->path,
		      ((const struct reported_name *)b)->path);
}

/* The names of the changes in `before` that were logged. A renamed file has two: in a joined layer
 * it can appear as an added and a deleted one. */
static struct reported_name *list_reported_names(const struct holder *holder,
						 const struct atoll_changes *before, size_t *ret_n)
{
	struct reported_name *names = calloc(2 * before->n + 1, sizeof *names);
	size_t n = 0;

	for (size_t i = 0; names && i < before->n; i++) {
		const struct atoll_change *change = &before->items[i];

		if (!is_reported(holder, hash_change(change)))
			continue;
		names[n++] = (struct reported_name){change->path, &change->after};
		if (change->from)
			names[n++] = (struct reported_name){.path = change->from};
	}
	if (names)
		qsort(names, n, sizeof *names, compare_names);
	*ret_n = n;
	return names;
}

/* Directories are the same if the name is: their entries have names of their own. */
static bool is_same(const struct stat *a, const struct stat *b)
{
	if ((a->st_mode & S_IFMT) != (b->st_mode & S_IFMT))
		return false;
	return !S_ISREG(a->st_mode) ||
	       (a->st_mode == b->st_mode && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec);
}

static bool has_name(const struct reported_name *names, size_t n, const struct atoll_change *change)
{
	const struct reported_name name = {.path = change->path};
	const struct reported_name *found =
		n ? bsearch(&name, names, n, sizeof *names, compare_names) : NULL;

	return found && (!found->after || is_same(found->after, &change->after));
}

struct layer_changes *holder_eventlog_before_join(struct holder *holder)
{
	struct layer_changes *changes;
	struct atoll_error err;

	if (!holder->eventlog || layer_changes_read(holder->record, false, &changes, &err) < 0)
		return NULL;
	return changes;
}

void holder_eventlog_after_join(struct holder *holder, struct layer_changes *before)
{
	cleanup_free struct reported_name *names = NULL;
	struct layer_changes *changes;
	struct atoll_error err;
	size_t n_names, n = 0;
	uint64_t *reported;

	names = list_reported_names(holder, &before->list, &n_names);
	if (!names || layer_changes_read(holder->record, false, &changes, &err) < 0)
		return;
	reported = calloc(changes->list.n + 1, sizeof *reported);
	for (size_t i = 0; reported && i < changes->list.n; i++) {
		if (has_name(names, n_names, &changes->list.items[i]))
			reported[n++] = hash_change(&changes->list.items[i]);
	}
	if (reported) {
		qsort(reported, n, sizeof *reported, compare);
		free(holder->reported);
		holder->reported = reported;
		holder->n_reported = n;
	}
	atoll_changes_close(&changes->list);
}

/* ---- lines for other processes ---- */

int holder_eventlog_add_decision(struct holder *holder, const struct holder_request *request,
				 struct atoll_error *err)
{
	int r = holder_eventlog_open(holder, err);

	if (r < 0 || !holder->eventlog)
		return r;
	if (streq(request->name, "fork"))
		eventlog_layer_change(holder->eventlog, "fork", NULL, UINT64_MAX, request->command);
	else
		eventlog_decision(holder->eventlog, request->name, request->command);
	return eventlog_seal(holder->eventlog, false, false, err);
}

int holder_eventlog_add_outcome(struct holder *holder, struct eventlog_outcome *outcome,
				struct atoll_error *err)
{
	int r = holder_eventlog_open(holder, err);

	if (r < 0 || !holder->eventlog)
		return r;
	outcome->about[sizeof outcome->about - 1] = '\0';
	outcome->result[sizeof outcome->result - 1] = '\0';
	outcome->why[sizeof outcome->why - 1] = '\0';
	eventlog_outcome(holder->eventlog, outcome);
	return eventlog_seal(holder->eventlog, false, false, err);
}

void holder_eventlog_add_change(struct holder *holder, const char *kind, const char *name,
				uint64_t ended)
{
	struct atoll_error err = {0};

	if (holder_eventlog_open(holder, &err) < 0 || !holder->eventlog)
		return;
	eventlog_layer_change(holder->eventlog, kind, name, ended, NULL);
	eventlog_seal(holder->eventlog, false, false, &err);
}

/* The changes that the rollback removed and the ones that are there again were logged before. The
 * next step's changes are new, so this must happen before it ends. */
void holder_eventlog_reread_changes(struct holder *holder)
{
	if (!holder->has_stale_changes)
		return;
	holder->has_stale_changes = false;
	holder_eventlog_add_changes(holder, 0, NULL);
}

/* ---- the disk is full ---- */

static void send_stuck(struct holder *holder, const struct atoll_error *problem)
{
	struct init_message message = {.type = INIT_HELD};

	if (problem)
		message.error = *problem;
	for (size_t i = 0; i < holder->n_places; i++) {
		const struct holder_client *client = &holder->clients[i];

		if (client->state >= CLIENT_RUNNING && client->fd >= 0)
			send(client->fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
}

void holder_eventlog_check(struct holder *holder)
{
	/* The disk was full for too long: end the steps. The sandbox and its changes stay. */
	static const struct init_message unrecorded = {.type = INIT_LIMIT,
						       .limit = EVENTLOG_STUCK,
						       .limit_value = EVENTLOG_STUCK_NS / 1000000,
						       .limit_used = EVENTLOG_STUCK_NS / 1000000};
	const struct atoll_error *problem;
	struct atoll_error err;

	if (!holder->eventlog)
		return;
	if (!holder->is_stuck && eventlog_is_stuck(holder->eventlog, &problem)) {
		holder->is_stuck = true;
		holder->stuck_ns = clock_monotonic_ns();
		if (holder->is_live && !holder->is_frozen)
			holder_ask_init(holder, INIT_FREEZE, &err);
		send_stuck(holder, problem);
		eventlog_stop(holder->eventlog, 0, true, "disk full");
	} else if (holder->is_stuck && !eventlog_try_again(holder->eventlog)) {
		holder->is_stuck = false;
		eventlog_stop(holder->eventlog, 0, false, "disk full");
		if (!holder->is_frozen)
			holder_send_order(holder, INIT_THAW, 0, 0);
		send_stuck(holder, NULL);
	} else if (holder->is_stuck && holder->is_live &&
		   clock_monotonic_ns() - holder->stuck_ns >= EVENTLOG_STUCK_NS) {
		holder_close_cell(holder, &unrecorded);
	}
}

/* Log the removal for the client that removes the sandbox; without struct holder_ack it opens the
 * log again itself. */
static struct holder_client *note_removal(struct holder *holder)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		if (client->state == CLIENT_FREE || !client->is_removing || client->fd < 0)
			continue;
		eventlog_layer_change(holder->eventlog, HOLDER_REMOVE, NULL, UINT64_MAX, NULL);
		return client;
	}
	return NULL;
}

static void seal_last(struct holder *holder)
{
	const struct holder_ack heard = {.magic = HOLDER_ACK_MAGIC};
	const struct holder_client *remover = note_removal(holder);
	const bool took_long = clock_monotonic_ns() - holder->born_ns > LONG_NS;
	struct atoll_error err = {0};

	if (eventlog_seal(holder->eventlog, true, took_long, &err) == 0 && remover)
		send(remover->fd, &heard, sizeof heard, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void holder_eventlog_close(struct holder *holder)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].state != CLIENT_FREE)
			holder_eventlog_end_unreported(holder, &holder->clients[i]);
	}
	holder_rules_close(holder);
	if (holder->eventlog)
		seal_last(holder);
	eventlog_close(holder->eventlog);
	holder->eventlog = NULL;
	free(holder->reported);
	holder->reported = NULL;
	holder->n_reported = 0;
	holder->has_sealed_changes = false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdint.h>

struct atoll_connection;
struct atoll_result;
struct attached_report;
struct holder;
struct holder_client;
struct holder_request;
struct layer_changes;
struct eventlog_outcome;

/* Open the event log, unless it is open or the contract has none (`record: off`). */
int holder_eventlog_open(struct holder *holder, struct atoll_error *err);
/* The same, and flush: the log says that the sandbox exists. */
int holder_eventlog_begin(struct holder *holder, struct atoll_error *err);
/* Log the start of client->step_id; `invocation_fd` is the file that pid 1 gets. On failure the
 * step must not start. */
int holder_eventlog_start_step(struct holder *holder, struct holder_client *client,
			       int invocation_fd, struct atoll_error *err);
/* The step was not executed: log its end if the log has its start, or will have it. */
void holder_eventlog_refuse_step(struct holder *holder, struct holder_client *client,
				 const struct atoll_error *why);
/* The cell or its contract has changed: describe the mechanisms again at the next step. */
void holder_eventlog_drop_plan(struct holder *holder);
/* Log a network connection. `data` is the holder. */
void holder_eventlog_add_connection(void *data, const struct atoll_connection *connection);
/* Log the end of an attached step as its client reports it, and acknowledge. */
void holder_eventlog_end_attached(struct holder *holder, struct holder_client *client,
				  const struct attached_report *report);
/* Log the end of a detached step. */
void holder_eventlog_end_detached(struct holder *holder, struct holder_client *client,
				  struct atoll_result *result);
/* Log the end of an attached step whose client is gone without a report. */
void holder_eventlog_end_unreported(struct holder *holder, struct holder_client *client);
/* Log the changes that were not logged before, and count them in `result`. NULL: only mark the
 * present changes as logged. */
void holder_eventlog_add_changes(struct holder *holder, uint32_t step, struct atoll_result *result);
/* Call these before and after an operation that may join layers: joined files get other inodes, and
 * changes that were logged stay logged. NULL if there is no log. The caller closes the result with
 * atoll_changes_close(). */
struct layer_changes *holder_eventlog_before_join(struct holder *holder);
void holder_eventlog_after_join(struct holder *holder, struct layer_changes *before);
/* Handle HOLDER_NOTE and HOLDER_OUTCOME. */
int holder_eventlog_add_decision(struct holder *holder, const struct holder_request *request,
				 struct atoll_error *err);
int holder_eventlog_add_outcome(struct holder *holder, struct eventlog_outcome *outcome,
				struct atoll_error *err);
/* Log a "checkpoint" or "rollback" that was made; a failure to log does not undo it. */
void holder_eventlog_add_change(struct holder *holder, const char *kind, const char *name,
				uint64_t ended);
/* After a rollback was answered: read the changes of the layers that are there now. */
void holder_eventlog_reread_changes(struct holder *holder);
/* The disk is full: stop all processes until the log can be written; end the cell after a while. */
void holder_eventlog_check(struct holder *holder);
void holder_eventlog_close(struct holder *holder);

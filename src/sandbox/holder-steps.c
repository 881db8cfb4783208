/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-steps.h"

#include "base/clock.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"
#include "sandbox/holder-attached.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-checkpoint.h"
#include "sandbox/holder-detached-end.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <linux/sockios.h>

/*
 * The life of every step in the holder, attached or detached
 *
 * The states are those of its place (enum client_state in holder-client.h):
 *   1. holder_start_step() logs the start and orders pid 1 to start the step: CLIENT_RUNNING
 *   2. holder_handle_message(): INIT_ENDED or INIT_FAILED arrives: CLIENT_ENDED
 *   3. holder_finish_steps(), later in the same round of the loop. A detached step waits here for
 *      the end of its output. Then a checkpoint, if the contract has one after every step:
 *      CLIENT_ENDING
 *   4. attached_finish() sends the end to the client: CLIENT_OVER, until the connection is closed.
 *      detached_finish() stores the end for the watchers: CLIENT_FREE
 * holder_lose_steps() does 3 and 4 at once if the cell is gone.
 */

/* A client that does not read: denials are dropped once so many bytes wait in its socket. */
#define WAITING_MAX (64 << 10)

/* How long the latest step waits to be written into the record: many short steps cause one write.
 */
#define NOTE_NS INT64_C(1000000000)

size_t holder_count_running(const struct holder *holder)
{
	size_t n = 0;

	for (size_t i = 0; i < holder->n_places; i++)
		n += holder->clients[i].state == CLIENT_RUNNING;
	return n;
}

int holder_start_step(struct holder *holder, struct holder_client *client, int invocation_fd,
		      const int stdio[3], struct atoll_error *err)
{
	int r;

	client->step_id = ++holder->n_steps;
	client_set_state(client, CLIENT_RUNNING);
	r = holder_eventlog_start_step(holder, client, invocation_fd, err);
	if (r == 0)
		r = holder->backend->exec(holder->cell, &holder->handle, client->step_id,
					  invocation_fd, stdio, err);
	if (r < 0) {
		holder_eventlog_refuse_step(holder, client, err);
		client_set_state(client, CLIENT_REQUEST);
		client->step_id = 0;
	}
	return r;
}

/* ---- messages of pid 1 ---- */

static struct holder_client *find_client(struct holder *holder, uint32_t step)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].state != CLIENT_FREE && holder->clients[i].step_id == step)
			return &holder->clients[i];
	}
	return NULL;
}

void holder_spread_denial(struct holder *holder, const struct init_message *message)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		const struct holder_client *client = &holder->clients[i];
		int waiting = 0;

		if (!client_has_step(client))
			continue;
		/* If the step is known, other steps do not get the denial. */
		if (message->step && message->step != client->step_id)
			continue;
		if (client->detached)
			detached_add_denial(client->detached, &message->denial);
		if (client->fd < 0)
			continue;
		ioctl(client->fd, SIOCOUTQ, &waiting);
		if (waiting < WAITING_MAX)
			client_send_message(client, message, -1);
	}
}

void holder_handle_message(struct holder *holder, const struct init_message *message, int fd)
{
	struct holder_client *client = message->step ? find_client(holder, message->step) : NULL;

	switch (message->type) {
	case INIT_DENIAL:
		eventlog_denial(holder->eventlog, 0, &message->denial);
		holder_spread_denial(holder, message);
		break;
	case INIT_LIMIT:
		holder->limit = *message;
		holder_lose_steps(holder, message);
		break;
	case INIT_STARTED:
		if (client && client->detached)
			detached_handle_message(holder, client, message, fd);
		else if (client)
			attached_handle_started(holder, client);
		if (client)
			client_send_message(client, message, -1);
		break;
	case INIT_TERMINAL:
	case INIT_STOPPED:
		if (client && client->detached)
			detached_handle_message(holder, client, message, fd);
		else if (client)
			client_send_message(client, message, fd);
		break;
	case INIT_ENDED:
	case INIT_FAILED:
		if (client && client->state == CLIENT_RUNNING) {
			client->end = *message;
			client_set_state(client, CLIENT_ENDED);
		}
		break;
	default:
		break;
	}
}

/* ---- end ---- */

static int32_t status_of(const struct init_message *end)
{
	if (end->type == INIT_FAILED)
		return end->code;
	return WIFSIGNALED(end->wait_status) ? 128 + WTERMSIG(end->wait_status)
					     : WEXITSTATUS(end->wait_status);
}

/* For `atoll ls`. If another process has locked the record the note is dropped. */
void holder_note_step(struct holder *holder, bool is_now)
{
	struct layer_record *record = holder->record;
	const bool was_locked = record->lock_fd >= 0;
	struct atoll_error err = {0};

	if (holder->note_ns == INT64_MAX || (!is_now && clock_monotonic_ns() < holder->note_ns))
		return;
	holder->note_ns = INT64_MAX;
	if (layer_record_lock(record, false, &err) < 0)
		return;
	free(record->info.command);
	record->info.command = strdup(holder->noted);
	record->info.status = holder->noted_status;
	layer_record_save_soon(record, &err);
	if (!was_locked)
		sandbox_unlock_record(record);
}

static void note_step(struct holder *holder, const struct holder_client *client)
{
	memcpy(holder->noted, client->command, sizeof holder->noted);
	holder->noted_status = status_of(&client->end);
	if (holder->note_ns == INT64_MAX)
		holder->note_ns = clock_monotonic_ns() + NOTE_NS;
	/* The caller of a single `atoll exec` may list sandboxes next: do not wait. */
	if (!client->detached)
		holder_note_step(holder, true);
}

static void finish_step(struct holder *holder, struct holder_client *client)
{
	struct atoll_error failure = {0};
	const struct checkpoint_step note = {client->command, status_of(&client->end)};

	/* Before the checkpoint: a cell that ends during it must not replace this end. */
	client_set_state(client, CLIENT_ENDING);
	if (client->end.type == INIT_ENDED && !client->is_cut &&
	    holder->spec->checkpoints_every_step)
		holder_checkpoint(holder, NULL, &note, NULL, &failure);
	note_step(holder, client);
	if (client->detached)
		detached_finish(holder, client);
	else
		attached_finish(holder, client, &failure);
}

/* By a signal; a shell whose command got SIGKILL exits with 128 + SIGKILL. */
static bool is_by_signal(const struct holder_client *client)
{
	const int status = client->end.wait_status;

	return client->state == CLIENT_ENDED && client->end.type == INIT_ENDED &&
	       (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL));
}

void holder_finish_steps(struct holder *holder)
{
	/* The kernel kills by SIGKILL if memory is over the sandbox's limit: read the counters
	 * first. */
	for (size_t i = 0; i < holder->n_places; i++) {
		if (is_by_signal(&holder->clients[i])) {
			holder_check_counters(holder, true);
			break;
		}
	}
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		if (client->state == CLIENT_ENDED &&
		    (!client->detached || detached_is_drained(client->detached)))
			finish_step(holder, client);
	}
}

void holder_lose_steps(struct holder *holder, const struct init_message *limit)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		if (client->state != CLIENT_RUNNING && client->state != CLIENT_ENDED)
			continue;
		/* The step ended by itself before the cell. */
		if (client->state == CLIENT_ENDED && !(limit && is_by_signal(client)))
			finish_step(holder, client);
		else if (client->detached)
			detached_lose(holder, client, limit);
		else
			attached_lose(holder, client, limit);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-attached.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-checkpoint.h"
#include "sandbox/holder-client.h"
#include "sandbox/holder-detached-end.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-invocation.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <linux/sockios.h>

/*
 * Attached steps, and the ends of all steps
 *
 * attached_start() handles HOLDER_EXEC of `atoll exec` (exec.c): log the start, order pid 1 to
 * start the step, keep the connection. holder_handle_message() then forwards pid 1's messages to
 * the client, which copies the streams itself. The step ends in this order:
 *   1. INIT_ENDED or INIT_FAILED arrives: has_end
 *   2. holder_finish_steps(), later in the same round of the loop: checkpoint if the contract has
 *      one after every step, write the result file, send the end to the client: is_over
 *   3. the client sends its report for the event log and closes: the place is free
 * Detached steps share 1 and 2; detached_finish() replaces the rest.
 */

/* A client that does not read: denials are dropped once so many bytes wait in its socket. */
#define WAITING_MAX (64 << 10)

/* How long the latest step waits to be written into the record: many short steps cause one write.
 */
#define NOTE_NS INT64_C(1000000000)

size_t holder_count_running(const struct holder *holder)
{
	size_t n = 0;

	for (size_t i = 0; i < holder->n_places; i++) {
		const struct holder_client *client = &holder->clients[i];

		n += client->is_used && client->step_id && !client->is_over && !client->has_end &&
		     !client->is_ending;
	}
	return n;
}

/* ---- start ---- */

/* The order is documented at struct holder_request. `stdio` gets -1 for a terminal. */
static bool assign_fds(struct holder_client *client, uint32_t mask, int *fds, size_t n,
		       int stdio[3])
{
	size_t at = 3;

	if (n != 3U + (size_t)__builtin_popcount(mask & 7) + (size_t)__builtin_popcount(mask & 6))
		return false;
	client->result_fd = take_fd(&fds[1]);
	client->life_fd = take_fd(&fds[2]);
	for (int i = 0; i < 3; i++)
		stdio[i] = mask & 1U << i ? fds[at++] : -1;
	for (int i = 1; i < 3; i++) {
		if (mask & 1U << i)
			client->drains[i - 1] = take_fd(&fds[at++]);
	}
	return true;
}

static void reset_connections(struct holder *holder)
{
	if (holder_count_running(holder) == 0 && holder->net_result)
		holder->net_result->n_connections = 0;
}

static int begin_step(struct holder *holder, struct holder_client *client, int invocation_fd,
		      const int stdio[3], struct atoll_error *err)
{
	cleanup_fd int invocation = -1;
	struct cell_usage usage;
	int r = holder_open_cell(holder, err);

	if (r < 0)
		return r;
	reset_connections(holder);
	invocation = invocation_copy(holder, invocation_fd, err);
	if (invocation < 0)
		return invocation;
	holder->backend->account(holder->cell, &usage);
	client->cpu_ms = usage.cpu_ms;
	client->step_id = ++holder->n_steps;
	r = holder_eventlog_start_step(holder, client, invocation, err);
	if (r == 0)
		r = holder->backend->exec(holder->cell, &holder->handle, client->step_id,
					  invocation, stdio, err);
	if (r < 0) {
		holder_eventlog_refuse_step(holder, client, err);
		client->step_id = 0;
	}
	return r;
}

int attached_start(struct holder *holder, struct holder_client *client,
		   const struct holder_request *request, int *fds, size_t n,
		   struct atoll_error *err)
{
	int stdio[3], r;

	if (holder->is_ending)
		return error_set(err, ATOLL_FAULT_HOST, ESHUTDOWN, "the sandbox is being ended");
	if (holder->is_frozen)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY, "the sandbox is frozen");
	if (!assign_fds(client, request->stdio, fds, n, stdio))
		return error_set(err, ATOLL_FAULT_BUG, EBADMSG, "the step's descriptors");
	snprintf(client->command, sizeof client->command, "%.*s", (int)sizeof request->command - 1,
		 request->command);
	/* A limit is ending the cell. This step arrived later: start it in a new cell. */
	if (holder->limit.type == INIT_LIMIT)
		holder_close_cell(holder, NULL);
	r = begin_step(holder, client, fds[0], stdio, err);
	if (r != -EPIPE && r != -ECONNRESET)
		return r;
	/* The cell has just ended, by a limit for example, and its messages are not read yet. */
	holder_read_messages(holder);
	holder_close_cell(holder, NULL);
	return begin_step(holder, client, fds[0], stdio, err);
}

/* ---- messages of pid 1 ---- */

static struct holder_client *find_client(struct holder *holder, uint32_t step)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].is_used && holder->clients[i].step_id == step)
			return &holder->clients[i];
	}
	return NULL;
}

static void send_message(const struct holder_client *client, const struct init_message *message,
			 int fd)
{
	if (client->fd >= 0)
		fd_send(client->fd, message, sizeof *message, &fd, fd >= 0);
}

static void write_result(struct holder *holder, const struct holder_client *client,
			 const struct atoll_error *checkpoint)
{
	const struct atoll_result *net = holder->net_result;
	struct attached_result *result = calloc(1, sizeof *result);
	ssize_t done;
	size_t n;

	if (!result || client->result_fd < 0 || !net || !holder->cell) {
		free(result);
		return;
	}
	holder->backend->account(holder->cell, &result->usage);
	result->usage.cpu_ms -= client->cpu_ms;
	if (checkpoint)
		result->checkpoint = *checkpoint;
	result->n_published = net->n_published;
	memcpy(result->published, net->published, sizeof result->published);
	memcpy(result->network_note, net->network_note, sizeof result->network_note);
	result->n_connections = net->n_connections;
	n = net->n_connections < ATOLL_CONNECTIONS_MAX ? net->n_connections : ATOLL_CONNECTIONS_MAX;
	memcpy(result->connections, net->connections, n * sizeof *net->connections);
	done = pwrite(client->result_fd, result,
		      offsetof(struct attached_result, connections) + n * sizeof *net->connections,
		      0);
	(void)done; /* the client may have truncated its file: then its result is incomplete */
	free(result);
}

void holder_spread_denial(struct holder *holder, const struct init_message *message)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		const struct holder_client *client = &holder->clients[i];
		int waiting = 0;

		if (!client->is_used || !client->step_id || client->is_over)
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
			send_message(client, message, -1);
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
			write_result(holder, client, NULL);
		if (client)
			send_message(client, message, -1);
		break;
	case INIT_TERMINAL:
	case INIT_STOPPED:
		if (client && client->detached)
			detached_handle_message(holder, client, message, fd);
		else if (client)
			send_message(client, message, fd);
		break;
	case INIT_ENDED:
	case INIT_FAILED:
		if (client && !client->is_over) {
			client->end = *message;
			client->has_end = true;
		}
		break;
	default:
		break;
	}
}

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

	client->has_end = false;
	client->is_ending =
		true; /* a cell that ends during the checkpoint must not replace this end */
	if (client->end.type == INIT_ENDED && !client->is_cut &&
	    holder->spec->checkpoints_every_step)
		holder_checkpoint(holder, NULL, &note, NULL, &failure);
	client->is_ending = false;
	note_step(holder, client);
	if (client->detached) {
		detached_finish(holder, client);
		return;
	}
	write_result(holder, client, &failure);
	client->is_over = true;
	client->kill_ns = INT64_MAX;
	send_message(client, &client->end, -1);
	holder_close_fd(&client->life_fd);
	if (client->fd < 0)
		holder_free_client(holder, client);
}

/* By SIGKILL; a shell whose command was killed exits with 128 + SIGKILL. */
static bool is_by_signal(const struct holder_client *client)
{
	const int status = client->end.wait_status;

	return client->has_end && client->end.type == INIT_ENDED &&
	       (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL));
}

void holder_finish_steps(struct holder *holder)
{
	/* The kernel kills by SIGKILL if memory is over the sandbox's limit: read the counters
	 * first. */
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].is_used && is_by_signal(&holder->clients[i])) {
			holder_check_counters(holder, true);
			break;
		}
	}
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		if (client->is_used && client->has_end &&
		    (!client->detached || detached_is_drained(client->detached)))
			finish_step(holder, client);
	}
}

void holder_lose_steps(struct holder *holder, const struct init_message *limit)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		if (!client->is_used || !client->step_id || client->is_over || client->is_ending)
			continue;
		/* The step ended by itself before the cell. */
		if (client->has_end && !(limit && is_by_signal(client))) {
			finish_step(holder, client);
			continue;
		}
		if (client->detached) {
			detached_lose(holder, client, limit);
			continue;
		}
		write_result(holder, client, NULL);
		if (limit)
			send_message(client, limit, -1);
		client->has_end = false;
		client->is_over = true;
		client->kill_ns = INT64_MAX;
		holder_close_fd(&client->life_fd);
		if (client->fd < 0)
			holder_free_client(holder, client);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-attached.h"

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-invocation.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder-steps.h"
#include "sandbox/holder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Attached steps: the steps of `atoll exec` (exec.c is the client's side)
 *
 * attached_start() handles HOLDER_EXEC. The client keeps the other ends of the step's pipes, or the
 * terminal, and copies the streams itself. holder-steps.c forwards pid 1's messages to the client,
 * and calls the functions below at the step's start and end. The connection stays open after the
 * end for the client's report to the event log. If the client is gone, holder-client.c ends the
 * step.
 */

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
	return holder_start_step(holder, client, invocation, stdio, err);
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

void attached_handle_started(struct holder *holder, struct holder_client *client)
{
	write_result(holder, client, NULL);
}

static void close_step(struct holder *holder, struct holder_client *client)
{
	client_set_state(client, CLIENT_OVER);
	client->kill_ns = INT64_MAX;
	holder_close_fd(&client->life_fd);
	if (client->fd < 0)
		holder_free_client(holder, client);
}

void attached_finish(struct holder *holder, struct holder_client *client,
		     const struct atoll_error *checkpoint)
{
	write_result(holder, client, checkpoint);
	client_send_message(client, &client->end, -1);
	close_step(holder, client);
}

void attached_lose(struct holder *holder, struct holder_client *client,
		   const struct init_message *limit)
{
	write_result(holder, client, NULL);
	if (limit)
		client_send_message(client, limit, -1);
	close_step(holder, client);
}

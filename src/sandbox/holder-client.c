/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-client.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"
#include "sandbox/holder-attached.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-checkpoint.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-life.h"
#include "sandbox/holder-network.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder-root.h"
#include "sandbox/holder-steps.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

/* Connections to the holder, and their requests. One connection is one request (sandbox.h). */

/* A step that lives after SIGKILL gets SIGKILL again after this time. */
#define AGAIN_NS INT64_C(1000000000)

/* ---- connections ---- */

void client_set_state(struct holder_client *client, enum client_state state)
{
	static const unsigned next[] = {
		[CLIENT_FREE] = 1U << CLIENT_REQUEST,
		/* a refused step returns to CLIENT_REQUEST */
		[CLIENT_REQUEST] = 1U << CLIENT_RUNNING | 1U << CLIENT_FREE,
		[CLIENT_RUNNING] = 1U << CLIENT_ENDED | 1U << CLIENT_OVER | 1U << CLIENT_FREE |
				   1U << CLIENT_REQUEST,
		[CLIENT_ENDED] = 1U << CLIENT_ENDING | 1U << CLIENT_OVER | 1U << CLIENT_FREE,
		[CLIENT_ENDING] = 1U << CLIENT_OVER | 1U << CLIENT_FREE,
		[CLIENT_OVER] = 1U << CLIENT_FREE,
	};

	assert(next[client->state] & 1U << state);
	client->state = state;
}

void client_send_message(const struct holder_client *client, const struct init_message *message,
			 int fd)
{
	if (client->fd >= 0)
		fd_send(client->fd, message, sizeof *message, &fd, fd >= 0);
}

static bool is_own(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static struct holder_client *find_free_place(struct holder *holder)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].state == CLIENT_FREE)
			return &holder->clients[i];
	}
	return holder->n_places < HOLDER_CLIENTS_MAX ? &holder->clients[holder->n_places++] : NULL;
}

void holder_accept(struct holder *holder)
{
	cleanup_fd int fd = accept4(holder->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct holder_reply reply = {.code = -EBUSY};
	struct holder_client *client;

	if (fd < 0 || !is_own(fd))
		return;
	client = find_free_place(holder);
	if (!client) {
		error_set(&reply.error, ATOLL_FAULT_POLICY, 0,
			  "more than %d commands at the same sandbox; wait for one to end",
			  HOLDER_CLIENTS_MAX);
		send(fd, &reply, sizeof reply, MSG_NOSIGNAL);
		return;
	}
	*client = (struct holder_client){.state = CLIENT_REQUEST,
					 .fd = take_fd(&fd),
					 .result_fd = -1,
					 .life_fd = -1,
					 .drains = {-1, -1},
					 .kill_ns = INT64_MAX};
}

/* A background process may still write to these pipes. It would get SIGPIPE if the holder closed
 * them. */
static void move_drains(struct holder *holder, struct holder_client *client)
{
	for (int i = 0; i < 2; i++) {
		if (client->drains[i] >= 0 && holder->n_drains < HOLDER_DRAINS_MAX)
			holder->drains[holder->n_drains++] = take_fd(&client->drains[i]);
		holder_close_fd(&client->drains[i]);
	}
}

void holder_free_client(struct holder *holder, struct holder_client *client)
{
	holder_eventlog_end_unreported(holder, client);
	holder_close_fd(&client->fd);
	holder_close_fd(&client->result_fd);
	holder_close_fd(&client->life_fd);
	move_drains(holder, client);
	client_set_state(client, CLIENT_FREE);
	while (holder->n_places && holder->clients[holder->n_places - 1].state == CLIENT_FREE)
		holder->n_places--;
	holder->unused_since_ns = clock_monotonic_ns();
}

void holder_drain(struct holder *holder, size_t i)
{
	char data[16384];
	ssize_t got = read(holder->drains[i], data, sizeof data);

	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	close(holder->drains[i]);
	holder->drains[i] = holder->drains[--holder->n_drains];
}

/* The client is gone, perhaps by kill -9: end its attached step, with the contract's grace. */
static void handle_disconnect(struct holder *holder, struct holder_client *client)
{
	holder_close_fd(&client->fd);
	if (!client_has_step(client)) {
		holder_free_client(holder, client);
		return;
	}
	holder_send_order(holder, INIT_SIGNAL_ALL, client->step_id, SIGTERM);
	holder_send_order(holder, INIT_SIGNAL_ALL, client->step_id, SIGCONT);
	client->kill_ns =
		clock_monotonic_ns() + (int64_t)holder->spec->limits[SPEC_GRACE].value * 1000000;
}

void holder_end_orphans(struct holder *holder)
{
	const int64_t now_ns = clock_monotonic_ns();

	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		if (client->state == CLIENT_FREE || client->kill_ns > now_ns)
			continue;
		holder_send_order(holder, INIT_SIGNAL_ALL, client->step_id, SIGKILL);
		client->kill_ns = now_ns + AGAIN_NS;
	}
}

/* ---- requests ---- */

static int end_all(struct holder *holder, struct holder_client *client,
		   const struct holder_request *request, struct atoll_error *err)
{
	if (!request->is_forced && holder_count_running(holder))
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "a step is running in sandbox '%s'; wait for it, or use --force",
				 holder->record->info.id);
	holder->is_ending = true;
	if (streq(request->name, HOLDER_REMOVE)) {
		/* The files of a removed sandbox are not copied. */
		client->is_removing = holder->is_removed = holder->drops_root = true;
	}
	return 0;
}

static void send_questions(const struct holder *holder, int fd)
{
	struct {
		struct holder_reply reply;
		struct atoll_pending list[NETCTL_QUESTIONS_MAX];
	} answer = {0};

	answer.reply.count = holder_questions(holder, answer.list);
	send(fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Requests that are answered by more than a struct holder_reply. */
static bool answer_query(struct holder *holder, const struct holder_client *client,
			 const struct holder_request *request)
{
	struct {
		struct holder_reply reply;
		struct atoll_sandbox_usage usage;
	} answer = {0};

	if (request->version != HOLDER_VERSION)
		return false;
	if (request->type == HOLDER_LIST) {
		detached_send_list(holder, client->fd);
		return true;
	}
	if (request->type == HOLDER_QUESTIONS) {
		send_questions(holder, client->fd);
		return true;
	}
	if (request->type != HOLDER_USAGE)
		return false;
	holder_read_usage(holder, &answer.usage);
	send(client->fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
	return true;
}

/* Work that the client does not wait for. */
static void finish_request(struct holder *holder, const struct holder_request *request)
{
	if (request->type == HOLDER_CHECKPOINT || request->type == HOLDER_ROLLBACK)
		holder_eventlog_reread_changes(holder);
	if (request->type == HOLDER_ROLLBACK)
		layer_store_tidy(&holder->record->store, CHECKPOINTS_TIDY_NS);
}

/* Returns the code of the reply. */
static int execute_request(struct holder *holder, struct holder_client *client,
			   struct holder_request *request, int *fds, size_t n,
			   struct holder_reply *reply)
{
	int r;

	switch (request->version == HOLDER_VERSION ? request->type : UINT32_MAX) {
	case HOLDER_EXEC:
		r = attached_start(holder, client, request, fds, n, &reply->error);
		reply->pid = holder->handle.pid;
		break;
	case HOLDER_CHECKPOINT:
		r = holder_checkpoint(holder, request->name[0] ? request->name : NULL, NULL,
				      reply->name, &reply->error);
		if (r == 0)
			holder_eventlog_add_change(holder, "checkpoint", reply->name, UINT64_MAX);
		break;
	case HOLDER_ROLLBACK:
		r = holder_rollback(holder, request->name, &reply->count, &reply->error);
		if (r == 0)
			holder_eventlog_add_change(holder, "rollback", request->name, reply->count);
		break;
	case HOLDER_NOTE:
		request->command[sizeof request->command - 1] = '\0';
		return holder_eventlog_add_decision(holder, request, &reply->error);
	case HOLDER_OUTCOME:
		return holder_eventlog_add_outcome(holder, &request->outcome, &reply->error);
	case HOLDER_END:
		return end_all(holder, client, request, &reply->error);
	case HOLDER_SAVE:
		return holder_save(holder, &reply->error);
	case HOLDER_ATTACH:
		return detached_attach(holder, client, request->number, &reply->error);
	case HOLDER_STAY:
		r = holder_stay(holder, &reply->error);
		reply->pid = holder->handle.pid;
		break;
	case HOLDER_ANSWER:
		return holder_answer(holder, request, &reply->error);
	case HOLDER_FREEZE:
		return holder_freeze(holder, &reply->error);
	case HOLDER_THAW:
		return holder_thaw(holder, &reply->error);
	case HOLDER_NETWORK:
		return holder_set_network(holder, n == 1 ? fds[0] : -1, &reply->error);
	default:
		return error_set(&reply->error, ATOLL_FAULT_HOST, EPROTO,
				 "the sandbox is held by another version of atoll; end it with "
				 "`atoll rm`");
	}
	return r;
}

static void close_fds(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		holder_close_fd(&fds[i]);
}

static void handle_request(struct holder *holder, struct holder_client *client,
			   struct holder_request *request, int *fds, size_t n)
{
	struct holder_reply reply = {0};

	if (answer_query(holder, client, request)) {
		close_fds(fds, n);
		holder_free_client(holder, client);
		return;
	}
	request->name[sizeof request->name - 1] = '\0';
	reply.code = execute_request(holder, client, request, fds, n, &reply);
	/* After HOLDER_ATTACH `fd` is -1: the watcher gets a report as its answer. */
	if (client->fd >= 0)
		send(client->fd, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
	finish_request(holder, request);
	close_fds(fds, n);
	/* HOLDER_END is answered by the end of the connection. */
	if (client->state == CLIENT_REQUEST && request->type != HOLDER_END)
		holder_free_client(holder, client);
}

/* Orders that the client of an attached step may send, as a supervisor sends them to pid 1. */
static void handle_order(struct holder *holder, struct holder_client *client,
			 const struct init_order *order)
{
	switch (order->type) {
	case INIT_GO:
	case INIT_SIGNAL_COMMAND:
	case INIT_SIGNAL_GROUP:
	case INIT_SIGNAL_ALL:
		holder_send_order(holder, order->type, client->step_id, order->signal);
		break;
	default:
		break;
	}
}

static bool is_start(const char *data, ssize_t got)
{
	struct step_start_request start;

	if (got < (ssize_t)sizeof start)
		return false;
	memcpy(&start, data, sizeof start);
	return start.type == HOLDER_STEP;
}

void holder_serve_client(struct holder *holder, struct holder_client *client)
{
	static union {
		struct holder_request request;
		struct init_order order;
		struct attached_report report;
		char start[sizeof(struct step_start_request) + STEP_INVOCATION_MAX];
	} from;
	int fds[16];
	size_t n = ARRAY_SIZE(fds);
	ssize_t got = fd_receive(client->fd, &from, sizeof from, MSG_DONTWAIT, fds, &n);

	if (got == -EAGAIN)
		return;
	if (client->state == CLIENT_REQUEST && is_start(from.start, got)) {
		detached_start(holder, client, from.start, (size_t)got, fds, n);
	} else if (got == sizeof from.request && client->state == CLIENT_REQUEST) {
		handle_request(holder, client, &from.request, fds, n);
		return;
	} else if (got == sizeof from.report && client->state >= CLIENT_RUNNING) {
		holder_eventlog_end_attached(holder, client, &from.report);
	} else if (got == sizeof from.order && client->state >= CLIENT_RUNNING) {
		handle_order(holder, client, &from.order);
	} else {
		handle_disconnect(holder, client);
	}
	for (size_t i = 0; got > 0 && i < n; i++)
		holder_close_fd(&fds[i]);
}

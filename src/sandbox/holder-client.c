/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"
#include "sandbox/holder-inner.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

/* Who connects, and what he asks for. One connection is one request. */

/* What was killed and lives is killed again. */
#define AGAIN_NS INT64_C(1000000000)

/* ---- coming and going ---- */

static bool is_own(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

struct hold_client *hold_free_client(struct holder *holder)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		if (!holder->clients[i].is_used)
			return &holder->clients[i];
	}
	return holder->n_places < HOLD_CLIENTS_MAX ? &holder->clients[holder->n_places++] : NULL;
}

void hold_accept(struct holder *holder)
{
	cleanup_fd int fd = accept4(holder->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct hold_reply reply = {.code = -EBUSY};
	struct hold_client *client;

	if (fd < 0 || !is_own(fd))
		return;
	client = hold_free_client(holder);
	if (!client) {
		error_set(&reply.error, ATOLL_FAULT_POLICY, 0,
			  "more than %d commands at the same sandbox; wait for one to end",
			  HOLD_CLIENTS_MAX);
		send(fd, &reply, sizeof reply, MSG_NOSIGNAL);
		return;
	}
	*client = (struct hold_client){.is_used = true,
				       .fd = take_fd(&fd),
				       .result_fd = -1,
				       .life_fd = -1,
				       .drains = {-1, -1},
				       .kill_ns = INT64_MAX};
}

/* A background process that writes where nobody reads would be ended by that. */
static void keep_draining(struct holder *holder, struct hold_client *client)
{
	for (int i = 0; i < 2; i++) {
		if (client->drains[i] >= 0 && holder->n_drains < HOLD_DRAINS_MAX)
			holder->drains[holder->n_drains++] = take_fd(&client->drains[i]);
		hold_close_fd(&client->drains[i]);
	}
}

void hold_forget(struct holder *holder, struct hold_client *client)
{
	hold_record_end(holder, client);
	hold_close_fd(&client->fd);
	hold_close_fd(&client->result_fd);
	hold_close_fd(&client->life_fd);
	keep_draining(holder, client);
	client->is_used = false;
	while (holder->n_places && !holder->clients[holder->n_places - 1].is_used)
		holder->n_places--;
	holder->idle_ns = clock_monotonic_ns();
}

void hold_drain(struct holder *holder, size_t i)
{
	char data[16384];
	ssize_t got = read(holder->drains[i], data, sizeof data);

	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	close(holder->drains[i]);
	holder->drains[i] = holder->drains[--holder->n_drains];
}

/* The caller is gone, perhaps by kill -9: its step goes, too, and has its grace. */
static void lose_caller(struct holder *holder, struct hold_client *client)
{
	hold_close_fd(&client->fd);
	if (!client->step || client->is_over) {
		hold_forget(holder, client);
		return;
	}
	hold_order(holder, INIT_SIGNAL_ALL, client->step, SIGTERM);
	hold_order(holder, INIT_SIGNAL_ALL, client->step, SIGCONT);
	client->kill_ns =
		clock_monotonic_ns() + (int64_t)holder->spec->limits[SPEC_GRACE].value * 1000000;
}

void hold_end_orphans(struct holder *holder)
{
	const int64_t now_ns = clock_monotonic_ns();

	for (size_t i = 0; i < holder->n_places; i++) {
		struct hold_client *client = &holder->clients[i];

		if (!client->is_used || client->kill_ns > now_ns)
			continue;
		hold_order(holder, INIT_SIGNAL_ALL, client->step, SIGKILL);
		client->kill_ns = now_ns + AGAIN_NS;
	}
}

/* ---- requests ---- */

static int end_all(struct holder *holder, bool is_forced, struct atoll_error *err)
{
	if (!is_forced && hold_running(holder))
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "a step is running in sandbox '%s'; wait for it, or use --force",
				 holder->record->info.id);
	holder->is_ending = true;
	return 0;
}

static void send_questions(const struct holder *holder, int fd)
{
	struct {
		struct hold_reply reply;
		struct atoll_pending list[NETCTL_QUESTIONS_MAX];
	} answer = {0};

	answer.reply.count = hold_questions(holder, answer.list);
	send(fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What is answered by more than a reply. */
static bool take_question(struct holder *holder, const struct hold_client *client,
			  const struct hold_request *request)
{
	struct {
		struct hold_reply reply;
		struct atoll_sandbox_usage usage;
	} answer = {0};

	if (request->version != HOLD_VERSION)
		return false;
	if (request->type == HOLD_LIST) {
		hold_kept_list(holder, client->fd);
		return true;
	}
	if (request->type == HOLD_QUESTIONS) {
		send_questions(holder, client->fd);
		return true;
	}
	if (request->type != HOLD_USAGE)
		return false;
	hold_count(holder, &answer.usage);
	send(client->fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
	return true;
}

/* What nobody has to wait for. */
static void finish_turn(struct holder *holder, const struct hold_request *request)
{
	if (request->type == HOLD_CHECKPOINT || request->type == HOLD_ROLLBACK)
		hold_record_renew(holder);
	if (request->type == HOLD_ROLLBACK)
		layer_store_tidy(&holder->record->store, STEPS_TIDY_NS);
}

static void take_request(struct holder *holder, struct hold_client *client,
			 struct hold_request *request, int *fds, size_t n)
{
	struct hold_reply reply = {0};
	int r;

	if (take_question(holder, client, request)) {
		for (size_t i = 0; i < n; i++)
			hold_close_fd(&fds[i]);
		hold_forget(holder, client);
		return;
	}

	request->name[sizeof request->name - 1] = '\0';
	switch (request->version == HOLD_VERSION ? request->type : UINT32_MAX) {
	case HOLD_EXEC:
		r = hold_exec_step(holder, client, request, fds, n, &reply.error);
		reply.pid = holder->handle.pid;
		break;
	case HOLD_CHECKPOINT:
		r = hold_checkpoint(holder, request->name[0] ? request->name : NULL, NULL,
				    reply.name, &reply.error);
		if (r == 0)
			hold_record_turn(holder, "checkpoint", reply.name, UINT64_MAX);
		break;
	case HOLD_ROLLBACK:
		r = hold_rollback(holder, request->name, &reply.count, &reply.error);
		if (r == 0)
			hold_record_turn(holder, "rollback", request->name, reply.count);
		break;
	case HOLD_NOTE:
		request->command[sizeof request->command - 1] = '\0';
		r = hold_record_note(holder, request, &reply.error);
		break;
	case HOLD_OUTCOME:
		r = hold_record_outcome(holder, &request->outcome, &reply.error);
		break;
	case HOLD_END:
		r = end_all(holder, request->is_forced, &reply.error);
		client->is_remover = r == 0 && streq(request->name, HOLD_REMOVE);
		holder->is_removed = holder->is_removed || client->is_remover;
		/* Nothing of it is needed any more. */
		holder->drops_root = holder->drops_root || client->is_remover;
		break;
	case HOLD_SAVE:
		r = hold_save(holder, &reply.error);
		break;
	case HOLD_ATTACH:
		r = hold_kept_attach(holder, client, request->number, &reply.error);
		break;
	case HOLD_STAY:
		r = hold_stay(holder, &reply.error);
		reply.pid = holder->handle.pid;
		break;
	case HOLD_ANSWER:
		r = hold_answer(holder, request, &reply.error);
		break;
	case HOLD_FREEZE:
		r = hold_freeze(holder, &reply.error);
		break;
	case HOLD_THAW:
		r = hold_thaw(holder, &reply.error);
		break;
	case HOLD_NETWORK:
		r = hold_set_network(holder, n == 1 ? fds[0] : -1, &reply.error);
		break;
	default:
		r = error_set(&reply.error, ATOLL_FAULT_HOST, EPROTO,
			      "the sandbox is held by another version of atoll; end it with "
			      "`atoll rm`");
	}
	reply.code = r;
	/* Whoever is attached is told of the step next. */
	if (client->fd >= 0)
		send(client->fd, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
	finish_turn(holder, request);
	for (size_t i = 0; i < n; i++)
		hold_close_fd(&fds[i]);
	/* Whoever asked for the end waits for that of the connection. */
	if (!client->step && request->type != HOLD_END)
		hold_forget(holder, client);
}

/* What may be asked for a step is what one asks of a run's first process. */
static void take_order(struct holder *holder, struct hold_client *client,
		       const struct init_order *order)
{
	switch (order->type) {
	case INIT_GO:
	case INIT_SIGNAL_COMMAND:
	case INIT_SIGNAL_GROUP:
	case INIT_SIGNAL_ALL:
		hold_order(holder, order->type, client->step, order->signal);
		break;
	default:
		break;
	}
}

static bool is_start(const char *data, ssize_t got)
{
	struct hold_start start;

	if (got < (ssize_t)sizeof start)
		return false;
	memcpy(&start, data, sizeof start);
	return start.type == HOLD_STEP;
}

void hold_serve_client(struct holder *holder, struct hold_client *client)
{
	static union {
		struct hold_request request;
		struct init_order order;
		struct hold_report report;
		char start[sizeof(struct hold_start) + HOLD_START_MAX];
	} from;
	int fds[16];
	size_t n = ARRAY_SIZE(fds);
	ssize_t got = fd_receive(client->fd, &from, sizeof from, MSG_DONTWAIT, fds, &n);

	if (got == -EAGAIN)
		return;
	if (!client->step && is_start(from.start, got)) {
		hold_kept_start(holder, client, from.start, (size_t)got, fds, n);
	} else if (got == sizeof from.request && !client->step) {
		take_request(holder, client, &from.request, fds, n);
		return;
	} else if (got == sizeof from.report && client->step) {
		hold_record_report(holder, client, &from.report);
	} else if (got == sizeof from.order && client->step) {
		take_order(holder, client, &from.order);
	} else {
		lose_caller(holder, client);
	}
	for (size_t i = 0; got > 0 && i < n; i++)
		hold_close_fd(&fds[i]);
}

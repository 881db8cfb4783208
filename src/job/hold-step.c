/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "job/hold-inner.h"
#include "job/steps.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <linux/sockios.h>

/* So much may wait in a caller's socket before refusals are no longer told. */
#define WAITING_MAX (64 << 10)

/* The latest of many steps is noted no more often. */
#define NOTE_NS INT64_C(1000000000)

/* What was killed and lives is killed again. */
#define AGAIN_NS INT64_C(1000000000)

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

size_t hold_running(const struct holder *holder)
{
	size_t n = 0;

	for (size_t i = 0; i < holder->n_places; i++) {
		const struct hold_client *client = &holder->clients[i];

		n += client->is_used && client->step && !client->is_over && !client->has_end;
	}
	return n;
}

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
		close_fd(&client->drains[i]);
	}
}

void hold_forget(struct holder *holder, struct hold_client *client)
{
	hold_record_end(holder, client);
	close_fd(&client->fd);
	close_fd(&client->result_fd);
	close_fd(&client->life_fd);
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
	close_fd(&client->fd);
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

/* Descriptors in the order of struct hold_request; `stdio` gets -1 for a terminal. */
static bool sort_out(struct hold_client *client, uint32_t mask, int *fds, size_t n, int stdio[3])
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
	if (hold_running(holder) == 0 && holder->net_result)
		holder->net_result->n_connections = 0;
}

static int begin_step(struct holder *holder, struct hold_client *client, int words_fd,
		      const int stdio[3], struct atoll_error *err)
{
	cleanup_fd int words = -1;
	struct cell_usage usage;
	int r = hold_open_cell(holder, err);

	if (r < 0)
		return r;
	reset_connections(holder);
	words = hold_take_words(holder, words_fd, err);
	if (words < 0)
		return words;
	holder->backend->account(holder->cell, &usage);
	client->cpu_ms = usage.cpu_ms;
	client->step = ++holder->n_steps;
	r = hold_record_start(holder, client, words, err);
	if (r == 0)
		r = holder->backend->exec(holder->cell, &holder->handle, client->step, words, stdio,
					  err);
	if (r < 0) {
		hold_record_end(holder, client);
		client->step = 0;
	}
	return r;
}

static int exec_step(struct holder *holder, struct hold_client *client,
		     const struct hold_request *request, int *fds, size_t n,
		     struct atoll_error *err)
{
	int stdio[3], r;

	if (holder->is_ending)
		return error_set(err, ATOLL_FAULT_HOST, ESHUTDOWN, "the sandbox is being ended");
	if (holder->is_frozen)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY, "the sandbox is frozen");
	if (!sort_out(client, request->stdio, fds, n, stdio))
		return error_set(err, ATOLL_FAULT_BUG, EBADMSG, "the step's descriptors");
	snprintf(client->command, sizeof client->command, "%.*s", (int)sizeof request->command - 1,
		 request->command);
	r = begin_step(holder, client, fds[0], stdio, err);
	if (r != -EPIPE && r != -ECONNRESET)
		return r;
	/* Everything inside has just ended, by a limit for one, and we have not heard of it yet. */
	hold_take_messages(holder);
	hold_close_cell(holder, NULL);
	return begin_step(holder, client, fds[0], stdio, err);
}

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
		struct atoll_pending list[NET_QUESTIONS_MAX];
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

static void take_request(struct holder *holder, struct hold_client *client,
			 struct hold_request *request, int *fds, size_t n)
{
	struct hold_reply reply = {0};
	int r;

	if (take_question(holder, client, request)) {
		for (size_t i = 0; i < n; i++)
			close_fd(&fds[i]);
		hold_forget(holder, client);
		return;
	}

	request->name[sizeof request->name - 1] = '\0';
	switch (request->version == HOLD_VERSION ? request->type : UINT32_MAX) {
	case HOLD_EXEC:
		r = exec_step(holder, client, request, fds, n, &reply.error);
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
	case HOLD_END:
		r = end_all(holder, request->is_forced, &reply.error);
		break;
	case HOLD_ATTACH:
		r = hold_kept_attach(holder, client, request->number, &reply.error);
		break;
	case HOLD_STAY:
		holder->stays = holder->net.restarts = true;
		r = hold_open_cell(holder, &reply.error);
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
	for (size_t i = 0; i < n; i++)
		close_fd(&fds[i]);
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
		close_fd(&fds[i]);
}

/* ---- what is told ---- */

static struct hold_client *find_client(struct holder *holder, uint32_t step)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].is_used && holder->clients[i].step == step)
			return &holder->clients[i];
	}
	return NULL;
}

static void tell(const struct hold_client *client, const struct init_message *message, int fd)
{
	if (client->fd >= 0)
		fd_send(client->fd, message, sizeof *message, &fd, fd >= 0);
}

static void write_result(struct holder *holder, const struct hold_client *client,
			 const struct atoll_error *checkpoint)
{
	const struct atoll_result *net = holder->net_result;
	struct hold_result *result = calloc(1, sizeof *result);
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
		      offsetof(struct hold_result, connections) + n * sizeof *net->connections, 0);
	(void)done; /* whose file it is may have cut it off: that is his loss */
	free(result);
}

void hold_spread_denial(struct holder *holder, const struct init_message *message)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		const struct hold_client *client = &holder->clients[i];
		int waiting = 0;

		if (!client->is_used || !client->step || client->is_over)
			continue;
		/* Where it is known whose it was, the others are not told. */
		if (message->step && message->step != client->step)
			continue;
		if (client->kept)
			hold_kept_add_denial(client->kept, &message->denial);
		if (client->fd < 0)
			continue;
		ioctl(client->fd, SIOCOUTQ, &waiting);
		if (waiting < WAITING_MAX)
			tell(client, message, -1);
	}
}

void hold_take_message(struct holder *holder, const struct init_message *message, int fd)
{
	struct hold_client *client = message->step ? find_client(holder, message->step) : NULL;

	switch (message->type) {
	case INIT_DENIAL:
		record_denial(holder->recorder, 0, &message->denial);
		hold_spread_denial(holder, message);
		break;
	case INIT_LIMIT:
		hold_lose_steps(holder, message);
		break;
	case INIT_STARTED:
		if (client && client->kept)
			hold_kept_take_message(holder, client, message, fd);
		else if (client)
			write_result(holder, client, NULL);
		if (client)
			tell(client, message, -1);
		break;
	case INIT_TERMINAL:
	case INIT_STOPPED:
		if (client && client->kept)
			hold_kept_take_message(holder, client, message, fd);
		else if (client)
			tell(client, message, fd);
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

/* For whoever lists sandboxes; not worth waiting for, nor to be done for each of many. */
static void note_step(struct holder *holder, const struct hold_client *client)
{
	struct layer_record *record = holder->record;
	const int64_t now_ns = clock_monotonic_ns();
	struct atoll_error err = {0};

	if (client->kept && holder->noted_ns && now_ns - holder->noted_ns < NOTE_NS)
		return;
	holder->noted_ns = now_ns;
	if (layer_record_lock(record, false, &err) < 0)
		return;
	free(record->info.command);
	record->info.command = strdup(client->command);
	record->info.status = status_of(&client->end);
	layer_record_save_soon(record, &err);
	hold_unlock(record);
}

static void finish_step(struct holder *holder, struct hold_client *client)
{
	struct atoll_error failure = {0};
	const struct steps_note note = {client->command, status_of(&client->end)};

	client->has_end = false;
	client->is_ending = true; /* a cell that is lost on the way does not take its end away */
	if (client->end.type == INIT_ENDED && !client->is_cut &&
	    holder->spec->checkpoints_every_step)
		hold_checkpoint(holder, NULL, &note, NULL, &failure);
	client->is_ending = false;
	note_step(holder, client);
	if (client->kept) {
		hold_kept_finish(holder, client);
		return;
	}
	write_result(holder, client, &failure);
	client->is_over = true;
	client->kill_ns = INT64_MAX;
	tell(client, &client->end, -1);
	close_fd(&client->life_fd);
	if (client->fd < 0)
		hold_forget(holder, client);
}

/* A shell whose command was killed says so by its status. */
static bool is_by_signal(const struct hold_client *client)
{
	const int status = client->end.wait_status;

	return client->has_end && client->end.type == INIT_ENDED &&
	       (WIFSIGNALED(status) ||
		(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL));
}

void hold_finish_steps(struct holder *holder)
{
	/* The kernel may have killed it for want of memory, which is the sandbox's limit. */
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].is_used && is_by_signal(&holder->clients[i])) {
			hold_check_counters(holder, true);
			break;
		}
	}
	for (size_t i = 0; i < holder->n_places; i++) {
		struct hold_client *client = &holder->clients[i];

		if (client->is_used && client->has_end &&
		    (!client->kept || hold_kept_is_drained(client->kept)))
			finish_step(holder, client);
	}
}

void hold_lose_steps(struct holder *holder, const struct init_message *limit)
{
	for (size_t i = 0; i < holder->n_places; i++) {
		struct hold_client *client = &holder->clients[i];

		if (!client->is_used || !client->step || client->is_over || client->is_ending)
			continue;
		/* It has ended by itself, just before. */
		if (client->has_end && !(limit && is_by_signal(client))) {
			finish_step(holder, client);
			continue;
		}
		if (client->kept) {
			hold_kept_lose(holder, client, limit);
			continue;
		}
		write_result(holder, client, NULL);
		if (limit)
			tell(client, limit, -1);
		client->has_end = false;
		client->is_over = true;
		client->kill_ns = INT64_MAX;
		close_fd(&client->life_fd);
		if (client->fd < 0)
			hold_forget(holder, client);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/netctl.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "egress/egress.h"
#include "netctl/answers.h"
#include "netctl/connections.h"
#include "netctl/netctl-ask.h"
#include "netctl/netctl-open.h"
#include "netctl/netctl-process.h"
#include "netctl/netctl-replace.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LAST_NS	     (5 * INT64_C(1000000000)) /* for the last events */
#define PEM_MAX	     (64 << 10)
#define KEYSTORE_MAX (16 << 20)

void netctl_note(struct netctl *net, const char *text)
{
	if (!net->result->network_note[0])
		snprintf(net->result->network_note, sizeof net->result->network_note, "%s", text);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

/* The kernel refuses new connections from now on. */
static void close_sockets(struct netctl *net)
{
	close_fd(&net->listener_fd);
	close_fd(&net->dns_fd);
}

/* ---- the end of egress ---- */

static void drop_questions(struct netctl *net)
{
	net->n_questions = 0;
}

static void end(struct netctl *net)
{
	close_sockets(net);
	close_fd(&net->saved_listener_fd);
	close_fd(&net->saved_dns_fd);
	close_fd(&net->channel_fd);
	drop_questions(net);
	net->state = NETCTL_ENDED;
}

/* Egress ended by itself. `status` as of waitpid(), or -1. */
static void note_death(struct netctl *net, int status, const char *effect)
{
	char text[sizeof net->result->network_note], how[32] = "";

	if (status >= 0 && WIFSIGNALED(status))
		snprintf(how, sizeof how, " (signal %d)", WTERMSIG(status));
	else if (status >= 0)
		snprintf(how, sizeof how, " (status %d)", WEXITSTATUS(status));
	snprintf(text, sizeof text, "the network's process ended%s: %s", how, effect);
	netctl_note(net, text);
}

void netctl_note_lost(struct netctl *net)
{
	if (net->connected && net->state == NETCTL_SERVING)
		net->connected(net->data, NULL);
}

void netctl_handle_death(struct netctl *net, const char *why)
{
	char text[sizeof net->result->network_note];
	/* The channel closes before the process has ended: wait for its own exit status, which the
	 * note shows, before netctl_reap() kills it. */
	struct pollfd ended = {.fd = why ? -1 : net->pid_fd, .events = POLLIN};
	const char *effect =
		net->state == NETCTL_STARTING ? "there was no network" : "connections were cut";
	int status;

	if (ended.fd >= 0)
		poll(&ended, 1, 200);
	status = netctl_reap(net);
	netctl_note_lost(net);
	if (net->restarts && netctl_restart(net))
		return;
	end(net);
	if (!net->failure.text[0] && !why) {
		note_death(net, status, effect);
		return;
	}
	if (net->failure.text[0])
		snprintf(text, sizeof text, "the network could not be started: %s",
			 net->failure.text);
	else
		snprintf(text, sizeof text, "the network's process was ended (%s): %s", why,
			 effect);
	netctl_note(net, text);
}

/* ---- messages of egress ---- */

static void send_sockets(struct netctl *net)
{
	const struct egress_message message = {.type = EGRESS_SOCKETS};
	const int fds[] = {net->listener_fd, net->dns_fd};

	/* A failure means that egress has died: netctl_move() handles that. */
	netctl_send(net, &message, fds, net->dns_fd >= 0 ? 2 : 1);
	if (net->saves_sockets && net->saved_listener_fd < 0) {
		net->saved_listener_fd = take_fd(&net->listener_fd);
		net->saved_dns_fd = take_fd(&net->dns_fd);
	}
	close_sockets(net);
	net->state = NETCTL_SERVING;
}

/* Read from offset 0: egress may have left another position. */
static char *read_pem(int fd)
{
	char *text = calloc(1, PEM_MAX + 1);
	struct stat st;
	ssize_t got = -1;

	if (text && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		got = pread(fd, text, PEM_MAX, 0);
	if (got <= 0 || !strstr(text, "-----BEGIN CERTIFICATE-----")) {
		free(text);
		return NULL;
	}
	return text;
}

/* Only the first bytes are checked: Java reports a bad key store when it first needs it. */
static void read_keystore(struct netctl *net, int fd)
{
	static const unsigned char magic[] = {0xfe, 0xed, 0xfe, 0xed};
	struct stat st;
	char *data;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof magic ||
	    st.st_size > KEYSTORE_MAX)
		return;
	data = malloc((size_t)st.st_size);
	if (!data || pread(fd, data, (size_t)st.st_size, 0) != st.st_size ||
	    memcmp(data, magic, sizeof magic) != 0) {
		free(data);
		return;
	}
	net->keystore = data;
	net->extra.keystore_size = (size_t)st.st_size;
}

static void handle_ready(struct netctl *net, const struct egress_message *message, int fds[3])
{
	const struct network *network = &net->spec->network;

	if (net->state != NETCTL_STARTING)
		return;
	/* A restarted egress sends the same authority. */
	if (fds[0] >= 0 && !net->authority)
		net->authority = read_pem(fds[0]);
	if (fds[1] >= 0 && net->wants_keystore && !net->keystore)
		read_keystore(net, fds[1]);
	if (net->saves_sockets && net->authority_key_fd < 0)
		net->authority_key_fd = take_fd(&fds[net->wants_keystore ? 2 : 1]);
	for (size_t i = 0; i < network->n_listen && i < ATOLL_PUBLISHED_MAX; i++)
		net->result->published[i] =
			(struct atoll_published){network->listen[i].port, message->ports[i]};
	net->result->n_published = (uint32_t)network->n_listen < ATOLL_PUBLISHED_MAX
					   ? (uint32_t)network->n_listen
					   : ATOLL_PUBLISHED_MAX;
	net->state = NETCTL_READY;
	if (net->listener_fd >= 0)
		send_sockets(net);
}

static void handle_connection(struct netctl *net, struct atoll_connection *connection)
{
	connections_tidy(connection);
	if (net->find_process && connection->local_port)
		connection->pid =
			net->find_process(net->data, connection->local_port, connection->program);
	net->bytes += connection->sent + connection->received;
	net->sent += connection->sent;
	net->received += connection->received;
	connections_add(net->result, connection);
	if (net->connected)
		net->connected(net->data, connection);
	if (net->options->connection)
		net->options->connection(connection, net->options->data);
}

static void handle_message(struct netctl *net, struct egress_message *message, int fds[3])
{
	switch (message->type) {
	case EGRESS_READY:
		handle_ready(net, message, fds);
		break;
	case EGRESS_FAILED:
		net->failure = message->error;
		net->failure.text[sizeof net->failure.text - 1] = '\0';
		break;
	case EGRESS_CONNECTION:
		handle_connection(net, &message->connection);
		break;
	case EGRESS_QUESTION:
		netctl_receive_question(net, &message->question);
		break;
	case EGRESS_WANT:
		if (net->order_sockets)
			net->order_sockets(net->data, message->count);
		break;
	case EGRESS_LIMIT:
		snprintf(net->limit, sizeof net->limit, "%.*s", (int)sizeof message->limit - 1,
			 message->limit);
		break;
	default:
		break;
	}
}

bool netctl_read_messages(struct netctl *net)
{
	while (net->channel_fd >= 0) {
		struct egress_message message = {0};
		int fds[3] = {-1, -1, -1};
		size_t n = 3;
		ssize_t got = fd_receive(net->channel_fd, &message, sizeof message, MSG_DONTWAIT,
					 fds, &n);

		if (got == -EAGAIN)
			return true;
		if (got == sizeof message)
			handle_message(net, &message, fds);
		for (int i = 0; i < 3; i++)
			close_fd(&fds[i]);
		if (got <= 0)
			return false;
	}
	return false;
}

void netctl_attach(struct netctl *net, int listener_fd, int dns_fd)
{
	if (listener_fd >= 0) {
		close_sockets(net);
		net->listener_fd = listener_fd;
		net->dns_fd = dns_fd;
	}
	if (net->state == NETCTL_OFF || net->state == NETCTL_ENDED)
		close_sockets(net);
	else if (net->state == NETCTL_READY && net->listener_fd >= 0)
		send_sockets(net);
	if (net->options->published && net->result->n_published && net->state != NETCTL_ENDED)
		net->options->published(net->result->published, net->result->n_published,
					net->options->data);
}

/* ---- in the supervisor's loop ---- */

static bool has_open_question(const struct netctl *net)
{
	for (size_t i = 0; i < net->n_questions; i++) {
		if (net->questions[i].is_asked)
			return true;
	}
	return false;
}

void netctl_want(const struct netctl *net, struct pollfd *fds)
{
	bool is_idle = net->state == NETCTL_IDLE;
	int answer_fd = has_open_question(net) ? net->options->answer_fd : 0;

	fds[0] = (struct pollfd){.fd = is_idle ? net->listener_fd : -1, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = is_idle ? net->dns_fd : -1, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = net->channel_fd, .events = POLLIN};
	fds[3] = (struct pollfd){.fd = answer_fd > 0 ? answer_fd : -1, .events = POLLIN};
}

int64_t netctl_deadline_ns(const struct netctl *net)
{
	int64_t until_ns = net->state == NETCTL_STARTING ? net->ready_ns : INT64_MAX;

	for (size_t i = 0; i < net->n_questions; i++) {
		if (net->questions[i].until_ns < until_ns)
			until_ns = net->questions[i].until_ns;
	}
	return until_ns;
}

static void start_late(struct netctl *net)
{
	struct atoll_error err = {0};
	char text[sizeof net->result->network_note];

	if (netctl_start(net, &err) == 0)
		return;
	netctl_reap(net);
	end(net);
	snprintf(text, sizeof text, "the network could not be started: %s", err.text);
	netctl_note(net, text);
}

void netctl_move(struct netctl *net, const struct pollfd *fds)
{
	if ((fds[0].fd >= 0 && fds[0].revents) || (fds[1].fd >= 0 && fds[1].revents))
		start_late(net);
	if (fds[2].fd >= 0 && fds[2].revents && !netctl_read_messages(net))
		netctl_handle_death(net, NULL);
	if (fds[3].fd >= 0 && fds[3].revents)
		netctl_read_answer(net);
	if (net->state == NETCTL_STARTING && clock_monotonic_ns() >= net->ready_ns)
		netctl_handle_death(net, "not ready within 10 s");
	for (size_t i = 0; i < net->n_questions;) {
		if (clock_monotonic_ns() >= net->questions[i].until_ns)
			netctl_answer(net, net->questions[i].id, ATOLL_ASK_NOBODY);
		else
			i++;
	}
}

void netctl_receive_sockets(struct netctl *net, const int *fds, size_t n)
{
	const struct egress_message message = {.type = EGRESS_INSIDE, .count = (uint32_t)n};

	if (net->channel_fd >= 0)
		netctl_send(net, &message, fds, n);
}

/* ---- at the end ---- */

static void note_limit(struct netctl *net)
{
	char text[sizeof net->result->network_note], limit[32], used[32];

	if (!net->limit[0])
		return;
	spec_format_limit(SPEC_DISK, net->spec->network.limits.bytes, limit, sizeof limit);
	spec_format_limit(SPEC_DISK, net->bytes, used, sizeof used);
	if (streq(net->limit, "bytes"))
		snprintf(text, sizeof text,
			 "the limit of %s network bytes (--net-bytes) was reached; used %s: "
			 "connections were cut",
			 limit, used);
	else
		snprintf(text, sizeof text,
			 "the network's limit '%s' was reached: connections were cut", net->limit);
	netctl_note(net, text);
}

bool netctl_read_last(struct netctl *net)
{
	int64_t until_ns = clock_monotonic_ns() + LAST_NS, left_ns;
	bool is_open = shutdown(net->channel_fd, SHUT_WR) == 0;

	while (is_open && (left_ns = until_ns - clock_monotonic_ns()) > 0) {
		struct pollfd fd = {.fd = net->channel_fd, .events = POLLIN};

		if (poll(&fd, 1, (int)(left_ns / 1000000) + 1) > 0)
			is_open = netctl_read_messages(net);
	}
	return !is_open;
}

void netctl_stop(struct netctl *net)
{
	bool ends_itself = false;
	int status = -1;

	drop_questions(net);
	close_sockets(net);
	close_fd(&net->saved_listener_fd);
	close_fd(&net->saved_dns_fd);
	/* Egress may have died, which ended the command, and that was not noticed yet. */
	if (net->state == NETCTL_SERVING && !netctl_read_messages(net))
		netctl_handle_death(net, NULL);
	if (net->state == NETCTL_SERVING)
		ends_itself = netctl_read_last(net);
	if (net->channel_fd >= 0)
		status = netctl_reap(net);
	if (!ends_itself || status != 0)
		netctl_note_lost(net);
	/* The kernel closes the command's connections before the channel: the command may have
	 * ended of that before the death of egress was visible. */
	if (ends_itself && !net->restarts && status >= 0 && WIFSIGNALED(status))
		note_death(net, status, "connections were cut");
	note_limit(net);
	if (net->state != NETCTL_OFF)
		end(net);
}

void netctl_done(struct netctl *net)
{
	close_sockets(net);
	close_fd(&net->saved_listener_fd);
	close_fd(&net->saved_dns_fd);
	close_fd(&net->authority_key_fd);
	close_fd(&net->announced_fd);
	close_fd(&net->channel_fd);
	netctl_reap(net);
	close_fd(&net->slot_fd);
	secrets_done(&net->secrets);
	answers_free(net->answers, net->n_answers);
	free(net->authority);
	free(net->bundle);
	free(net->keystore);
}

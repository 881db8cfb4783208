/* SPDX-License-Identifier: Apache-2.0 */
#include "job/network.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "egress/egress.h"
#include "isolate/slots.h"
#include "job/answers.h"
#include "job/connections.h"
#include "spec/spec.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define READY_NS   (10 * INT64_C(1000000000))
#define LAST_NS	   (500 * INT64_C(1000000)) /* for the last events */
#define ASK_NS	   (60 * INT64_C(1000000000))
#define PEM_MAX	   (64 << 10)
#define BUNDLE_MAX (16 << 20)

static void note(struct net *net, const char *text)
{
	if (!net->result->network_note[0])
		snprintf(net->result->network_note, sizeof net->result->network_note, "%s", text);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

/* Who connects from now on is refused at once. */
static void close_sockets(struct net *net)
{
	close_fd(&net->listener_fd);
	close_fd(&net->dns_fd);
}

/* ---- starting it ---- */

static int make_channel(struct net *net, int *ret_theirs, struct atoll_error *err)
{
	int made[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket pair");
	net->channel_fd = fcntl(made[0], F_DUPFD_CLOEXEC, 4);
	*ret_theirs = fcntl(made[1], F_DUPFD_CLOEXEC, 4);
	close(made[0]);
	close(made[1]);
	if (net->channel_fd < 0 || *ret_theirs < 0 ||
	    fcntl(net->channel_fd, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket pair");
	return 0;
}

static int send_message(struct net *net, const struct egress_message *message, const int *fds,
			size_t n)
{
	int r = fd_send(net->channel_fd, message, sizeof *message, fds, n);

	/* One that has stopped reading is as good as dead, and must not stop us, too. */
	if (r == -EAGAIN && net->pid_fd >= 0)
		syscall(SYS_pidfd_send_signal, net->pid_fd, SIGKILL, NULL, 0);
	return r;
}

static int send_config(struct net *net, struct atoll_error *err)
{
	const struct egress_message message = {.type = EGRESS_CONFIG};
	cleanup_fd int config = -1;
	uint32_t uid = 0;
	int r;

	if (slots_are_ours()) {
		net->slot_fd = slots_take(SLOTS_DIR, SPEC_ONLINE, &uid, err);
		if (net->slot_fd < 0)
			return net->slot_fd;
	}
	config = net_write_config(net, uid, err);
	if (config < 0)
		return config;
	r = send_message(net, &message, &config, 1);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "send the network's configuration") : 0;
}

/* The configuration waits in the socket for it. */
static int start(struct net *net, struct atoll_error *err)
{
	cleanup_fd int theirs = -1;
	int r = make_channel(net, &theirs, err);

	if (r == 0)
		r = send_config(net, err);
	if (r == 0)
		r = net_spawn(net, theirs, err);
	secrets_forget(&net->secrets);
	net->state = NET_STARTING;
	net->ready_ns = clock_monotonic_ns() + READY_NS;
	return r;
}

/* ---- its end ---- */

static void drop_questions(struct net *net)
{
	net->n_questions = 0;
}

static void end(struct net *net)
{
	close_sockets(net);
	close_fd(&net->channel_fd);
	drop_questions(net);
	net->state = NET_ENDED;
}

/* It has closed the channel, or broken the rules of it: `why`. */
static void take_death(struct net *net, const char *why)
{
	char text[sizeof net->result->network_note], how[32] = "";
	/* A process that is about to end by itself ends by itself: how is worth knowing. */
	struct pollfd ended = {.fd = why ? -1 : net->pid_fd, .events = POLLIN};
	const char *effect =
		net->state == NET_STARTING ? "there was no network" : "connections were cut";
	int status;

	if (ended.fd >= 0)
		poll(&ended, 1, 200);
	status = net_reap(net);
	end(net);
	if (status >= 0 && WIFSIGNALED(status))
		snprintf(how, sizeof how, " (signal %d)", WTERMSIG(status));
	else if (status >= 0)
		snprintf(how, sizeof how, " (status %d)", WEXITSTATUS(status));
	if (net->failure.text[0])
		snprintf(text, sizeof text, "the network could not be started: %s",
			 net->failure.text);
	else if (why)
		snprintf(text, sizeof text, "the network's process was ended (%s): %s", why,
			 effect);
	else
		snprintf(text, sizeof text, "the network's process ended%s: %s", how, effect);
	note(net, text);
}

/* ---- what it says ---- */

static void hand_over(struct net *net)
{
	const struct egress_message message = {.type = EGRESS_SOCKETS};
	const int fds[] = {net->listener_fd, net->dns_fd};

	/* Its death is noticed elsewhere. */
	send_message(net, &message, fds, net->dns_fd >= 0 ? 2 : 1);
	close_sockets(net);
	net->state = NET_SERVING;
}

/* From the start of the file, wherever its position is. */
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

static void take_ready(struct net *net, const struct egress_message *message, int fd)
{
	const struct network *network = &net->spec->network;

	if (net->state != NET_STARTING)
		return;
	if (fd >= 0)
		net->authority = read_pem(fd);
	for (size_t i = 0; i < network->n_listen && i < ATOLL_PUBLISHED_MAX; i++)
		net->result->published[i] =
			(struct atoll_published){network->listen[i].port, message->ports[i]};
	net->result->n_published = (uint32_t)network->n_listen < ATOLL_PUBLISHED_MAX
					   ? (uint32_t)network->n_listen
					   : ATOLL_PUBLISHED_MAX;
	net->state = NET_READY;
	if (net->listener_fd >= 0)
		hand_over(net);
}

static void take_connection(struct net *net, struct atoll_connection *connection)
{
	connections_tidy(connection);
	if (net->whose && connection->local_port)
		connection->pid =
			net->whose(net->data, connection->local_port, connection->program);
	net->bytes += connection->sent + connection->received;
	connections_add(net->result, connection);
	if (net->options->connection)
		net->options->connection(connection, net->options->data);
}

static void send_answer(struct net *net, uint64_t id, bool is_allowed, bool is_once)
{
	const struct egress_message message = {.type = EGRESS_ANSWER,
					       .question.id = id,
					       .is_allowed = is_allowed,
					       .is_once = is_once};

	send_message(net, &message, NULL, 0);
}

/* What is shown to people: a name of ours is ASCII anyway. */
static void keep_plain(char *text)
{
	for (; *text; text++) {
		if (*text <= 0x20 || *text >= 0x7f)
			*text = '?';
	}
}

static void take_question(struct net *net, const struct egress_question *from)
{
	struct net_question *question = &net->questions[net->n_questions];

	/* A flood is answered like a person who does not answer. */
	if (!net->options->ask || net->n_questions == NET_QUESTIONS_MAX) {
		send_answer(net, from->id, false, true);
		return;
	}
	*question = (struct net_question){
		.id = from->id, .port = from->port, .until_ns = clock_monotonic_ns() + ASK_NS};
	snprintf(question->name, sizeof question->name, "%.*s", (int)sizeof from->name - 1,
		 from->name);
	keep_plain(question->name);
	if (net->whose && from->local_port)
		question->pid = net->whose(net->data, from->local_port, question->program);
	keep_plain(question->program);
	net->n_questions++;
}

static void take_message(struct net *net, struct egress_message *message, int fd)
{
	switch (message->type) {
	case EGRESS_READY:
		take_ready(net, message, fd);
		break;
	case EGRESS_FAILED:
		net->failure = message->error;
		net->failure.text[sizeof net->failure.text - 1] = '\0';
		break;
	case EGRESS_CONNECTION:
		take_connection(net, &message->connection);
		break;
	case EGRESS_QUESTION:
		take_question(net, &message->question);
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

/* Everything that has been said; false at the end. */
static bool take_messages(struct net *net)
{
	while (net->channel_fd >= 0) {
		struct egress_message message = {0};
		cleanup_fd int fd = -1;
		size_t n = 1;
		ssize_t got = fd_receive(net->channel_fd, &message, sizeof message, MSG_DONTWAIT,
					 &fd, &n);

		if (got == -EAGAIN)
			return true;
		if (got <= 0)
			return false;
		if (got == sizeof message)
			take_message(net, &message, fd);
	}
	return false;
}

/* ---- before the command starts ---- */

int net_init(struct net *net, const struct spec *spec, const struct atoll_run_options *options,
	     struct atoll_result *result, struct atoll_error *err)
{
	int r;

	*net = (struct net){.spec = spec, .options = options, .result = result, .state = NET_OFF};
	net->listener_fd = net->dns_fd = net->channel_fd = net->pid_fd = net->slot_fd = -1;
	if (!network_is_on(&spec->network))
		return 0;
	r = program_find(NET_PROGRAM, net->program, sizeof net->program);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find '" NET_PROGRAM
				 "', which is installed beside atoll and makes "
				 "the network's connections");
	r = answers_read(spec, &net->answers, &net->n_answers, err);
	if (r == 0 && network_inspects(&spec->network))
		r = net_find_trust(net->trust, sizeof net->trust, err);
	if (r == 0)
		r = secrets_read(&spec->network, &net->secrets, err);
	if (r == 0)
		net->state = NET_IDLE;
	return r;
}

/* Without namespaces the proxy listens on the host's loopback, where others could reach it: they do
 * not know the token. */
static int listen_outside(struct net *net, struct atoll_error *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unsigned char random[16];

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 1024) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen on 127.0.0.1");
	randombytes_buf(random, sizeof random);
	sodium_bin2hex(net->token, sizeof net->token, random, sizeof random);
	net->extra.proxy_port = ntohs(address.sin_port);
	net->listener_fd = take_fd(&fd);
	return 0;
}

static int make_bundle(struct net *net, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(BUNDLE_MAX);
	cleanup_fd int fd = -1;
	int r;

	if (!net->authority)
		return error_set(err, ATOLL_FAULT_BUG, 0,
				 "the network's process gave no certificate");
	fd = open(net->trust, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read '%s'", net->trust);
	if (text.used && text.data[text.used - 1] != '\n')
		buf_add_char(&text, '\n');
	buf_add_str(&text, net->authority);
	net->bundle = buf_take(&text);
	net->extra.authority = net->authority;
	net->extra.bundle = net->bundle;
	return net->bundle ? 0 : error_oom(err);
}

static int await_ready(struct net *net, struct atoll_error *err)
{
	bool is_open = true;

	while (is_open && net->state == NET_STARTING) {
		struct pollfd fd = {.fd = net->channel_fd, .events = POLLIN};
		int64_t left_ns = net->ready_ns - clock_monotonic_ns();

		if (left_ns <= 0)
			return error_set(err, ATOLL_FAULT_HOST, 0,
					 "the network's process was not ready within 10 s");
		if (poll(&fd, 1, (int)(left_ns / 1000000) + 1) > 0)
			is_open = take_messages(net);
	}
	if (net->state == NET_READY || net->state == NET_SERVING)
		return 0;
	if (net->failure.text[0]) {
		*err = net->failure;
		return error_context(err, err->errnum ? -err->errnum : -EIO, "start the network");
	}
	take_death(net, NULL);
	return error_set(err, ATOLL_FAULT_HOST, 0, "%s", net->result->network_note);
}

bool net_starts_first(const struct net *net)
{
	return net->state == NET_IDLE &&
	       (network_inspects(&net->spec->network) || net->spec->network.n_listen > 0);
}

int net_open(struct net *net, bool has_namespaces, struct atoll_error *err)
{
	const struct network *network = &net->spec->network;
	int r = 0;

	if (net->state == NET_OFF)
		return 0;
	if (!has_namespaces && net->listener_fd < 0 && network->mode != NETWORK_OFF)
		r = listen_outside(net, err);
	if (r < 0 || !net_starts_first(net))
		return r;
	r = start(net, err);
	if (r == 0)
		r = await_ready(net, err);
	if (r == 0 && network_inspects(network))
		r = make_bundle(net, err);
	if (r == 0 && net->options->published && net->result->n_published)
		net->options->published(net->result->published, net->result->n_published,
					net->options->data);
	return r;
}

void net_attach(struct net *net, int listener_fd, int dns_fd)
{
	if (listener_fd >= 0) {
		close_sockets(net);
		net->listener_fd = listener_fd;
		net->dns_fd = dns_fd;
	}
	if (net->state == NET_OFF || net->state == NET_ENDED)
		close_sockets(net);
	else if (net->state == NET_READY && net->listener_fd >= 0)
		hand_over(net);
}

/* ---- in the supervisor's loop ---- */

static bool has_open_question(const struct net *net)
{
	for (size_t i = 0; i < net->n_questions; i++) {
		if (net->questions[i].is_asked)
			return true;
	}
	return false;
}

void net_want(const struct net *net, struct pollfd *fds)
{
	bool is_idle = net->state == NET_IDLE;
	int answer_fd = has_open_question(net) ? net->options->answer_fd : 0;

	fds[0] = (struct pollfd){.fd = is_idle ? net->listener_fd : -1, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = is_idle ? net->dns_fd : -1, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = net->channel_fd, .events = POLLIN};
	fds[3] = (struct pollfd){.fd = answer_fd > 0 ? answer_fd : -1, .events = POLLIN};
}

int64_t net_deadline_ns(const struct net *net)
{
	int64_t until_ns = net->state == NET_STARTING ? net->ready_ns : INT64_MAX;

	for (size_t i = 0; i < net->n_questions; i++) {
		if (net->questions[i].until_ns < until_ns)
			until_ns = net->questions[i].until_ns;
	}
	return until_ns;
}

static void start_late(struct net *net)
{
	struct atoll_error err = {0};
	char text[sizeof net->result->network_note];

	if (start(net, &err) == 0)
		return;
	net_reap(net);
	end(net);
	snprintf(text, sizeof text, "the network could not be started: %s", err.text);
	note(net, text);
}

static void take_late_answer(struct net *net)
{
	struct atoll_answer answer;
	ssize_t got = read(net->options->answer_fd, &answer, sizeof answer);

	if (got == sizeof answer)
		net_answer(net, answer.id, (enum atoll_answer_type)answer.answer);
	else if (got >= 0 || (errno != EAGAIN && errno != EINTR))
		/* Nobody is there any more. */
		while (net->n_questions)
			net_answer(net, net->questions[0].id, ATOLL_ASK_NOBODY);
}

void net_move(struct net *net, const struct pollfd *fds)
{
	if ((fds[0].fd >= 0 && fds[0].revents) || (fds[1].fd >= 0 && fds[1].revents))
		start_late(net);
	if (fds[2].fd >= 0 && fds[2].revents && !take_messages(net))
		take_death(net, NULL);
	if (fds[3].fd >= 0 && fds[3].revents)
		take_late_answer(net);
	if (net->state == NET_STARTING && clock_monotonic_ns() >= net->ready_ns)
		take_death(net, "not ready within 10 s");
	for (size_t i = 0; i < net->n_questions;) {
		if (clock_monotonic_ns() >= net->questions[i].until_ns)
			net_answer(net, net->questions[i].id, ATOLL_ASK_NOBODY);
		else
			i++;
	}
}

void net_take_sockets(struct net *net, const int *fds, size_t n)
{
	const struct egress_message message = {.type = EGRESS_INSIDE, .count = (uint32_t)n};

	if (net->channel_fd >= 0)
		send_message(net, &message, fds, n);
}

/* ---- questions ---- */

struct net_question *net_next_question(struct net *net)
{
	for (size_t i = 0; i < net->n_questions; i++) {
		if (!net->questions[i].is_asked)
			return &net->questions[i];
	}
	return NULL;
}

void net_answer(struct net *net, uint64_t id, enum atoll_answer_type answer)
{
	struct atoll_error err = {0};
	size_t i = 0;

	while (i < net->n_questions && net->questions[i].id != id)
		i++;
	if (i == net->n_questions || answer == ATOLL_ASK_LATER)
		return;
	/* What could not be noted down holds for this run all the same, and is said. */
	if (answer == ATOLL_ASK_ALWAYS &&
	    answers_add(net->spec, net->questions[i].name, net->questions[i].port, &err) < 0)
		note(net, err.text);
	send_answer(net, id,
		    answer == ATOLL_ASK_ONCE || answer == ATOLL_ASK_RUN ||
			    answer == ATOLL_ASK_ALWAYS,
		    answer == ATOLL_ASK_ONCE || answer == ATOLL_ASK_NOBODY);
	net->n_questions--;
	memmove(&net->questions[i], &net->questions[i + 1],
		(net->n_questions - i) * sizeof *net->questions);
}

/* ---- at the end ---- */

static void note_limit(struct net *net)
{
	char text[sizeof net->result->network_note];

	if (!net->limit[0])
		return;
	if (streq(net->limit, "bytes"))
		snprintf(text, sizeof text,
			 "the network limit of %llu bytes (--net-bytes) was reached, %llu were "
			 "moved: connections were cut",
			 (unsigned long long)net->spec->network.limits.bytes,
			 (unsigned long long)net->bytes);
	else
		snprintf(text, sizeof text,
			 "the network's limit '%s' was reached: connections "
			 "were cut",
			 net->limit);
	note(net, text);
}

/* Nothing inside is left, so that every connection is about to end: what egress still says about
 * them counts. */
static void take_last(struct net *net)
{
	int64_t until_ns = clock_monotonic_ns() + LAST_NS, left_ns;
	bool is_open = shutdown(net->channel_fd, SHUT_WR) == 0;

	while (is_open && (left_ns = until_ns - clock_monotonic_ns()) > 0) {
		struct pollfd fd = {.fd = net->channel_fd, .events = POLLIN};

		if (poll(&fd, 1, (int)(left_ns / 1000000) + 1) > 0)
			is_open = take_messages(net);
	}
}

void net_stop(struct net *net)
{
	drop_questions(net);
	close_sockets(net);
	if (net->state == NET_SERVING)
		take_last(net);
	if (net->channel_fd >= 0)
		net_reap(net);
	note_limit(net);
	if (net->state != NET_OFF)
		end(net);
}

void net_done(struct net *net)
{
	close_sockets(net);
	close_fd(&net->channel_fd);
	net_reap(net);
	close_fd(&net->slot_fd);
	secrets_done(&net->secrets);
	answers_free(net->answers, net->n_answers);
	free(net->authority);
	free(net->bundle);
}

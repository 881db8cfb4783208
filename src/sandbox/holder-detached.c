/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-detached.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-client.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-invocation.h"
#include "sandbox/holder-output.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder-retention.h"
#include "sandbox/holder-steps.h"
#include "sandbox/holder-watchers.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Detached steps: start, attach, list
 *
 * detached_start() handles HOLDER_STEP: check the request, return an existing step with the same
 * key, else write the key into the record, make the pipes, order pid 1 to start the step. The
 * connection becomes the step's first watcher. While the step lives it has a place in
 * holder->clients whose fd is -1; detached_finish() frees the place, and the struct stays in
 * holder->ended for later watchers (holder-retention.c).
 */

static void refuse(int fd, int code, const struct atoll_error *error)
{
	const struct holder_reply reply = {.code = code, .error = *error};

	send(fd, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- the request ---- */

/* A copy for reports. If the invocation is longer than a report allows, only the directory and the
 * first arguments are copied. */
static char *copy_invocation(const char *invocation, size_t size, size_t *ret_size)
{
	struct init_step_head head;
	size_t at = sizeof head;
	uint32_t n = 0;
	char *copy;

	memcpy(&head, invocation, sizeof head);
	head.has_ids = head.uid = head.gid = 0;
	if (size > STEP_INVOCATION_MAX) {
		size_t end = at + strlen(invocation + at) + 1;

		for (; n < head.n_argv; n++) {
			size_t next = end + strlen(invocation + end) + 1;

			if (next > STEP_INVOCATION_MAX)
				break;
			end = next;
		}
		head.n_argv = n;
		head.n_env = 0;
		size = end;
	}
	copy = malloc(size);
	if (!copy)
		return NULL;
	memcpy(copy, invocation, size);
	memcpy(copy, &head, sizeof head);
	*ret_size = size;
	return copy;
}

static int64_t find_deadline(const struct holder *holder, uint64_t timeout_ms, int64_t now_ns,
			     uint64_t *ret_ms)
{
	const uint64_t wall_ms = holder->spec->limits[SPEC_WALL].value;

	*ret_ms = timeout_ms && timeout_ms < wall_ms ? timeout_ms : wall_ms;
	if (*ret_ms == SPEC_UNLIMITED || *ret_ms > (uint64_t)(INT64_MAX - now_ns) / 1000000)
		return INT64_MAX;
	return now_ns + (int64_t)*ret_ms * 1000000;
}

static struct detached_step *new_step(struct holder *holder, const struct step_start_request *start,
				      const char *invocation, size_t size)
{
	struct detached_step *step = calloc(1, sizeof *step), **at = &holder->detached;

	if (!step)
		return NULL;
	step->invocation = copy_invocation(invocation, size, &step->invocation_size);
	step->room = calloc(1, sizeof *step->room);
	if (!step->invocation || !step->room) {
		free(step->invocation);
		free(step->room);
		free(step);
		return NULL;
	}
	step->begin_ns = clock_monotonic_ns();
	step->start_ns = (int64_t)clock_real_ns();
	step->deadline_ns =
		find_deadline(holder, start->timeout_ms, step->begin_ns, &step->timeout_ms);
	step->has_stdin = start->has_stdin && !start->has_terminal && !start->has_channel;
	step->has_terminal = start->has_terminal && !start->has_channel;
	step->has_channel = start->has_channel;
	step->is_end_sent = start->has_channel; /* a step with a channel has no output that a
						   watcher could miss */
	step->columns = start->columns;
	step->rows = start->rows;
	step->input_fd = -1;
	step->input = (struct buf)BUF_INIT(STEP_INPUT_MAX + 1);
	for (int i = 0; i < STEP_STREAMS; i++) {
		step->streams[i].from = step->streams[i].file = -1;
		step->streams[i].need = step->streams[i].left = UINT64_MAX;
	}
	snprintf(step->key, sizeof step->key, "%.*s", (int)sizeof step->key - 1, start->key);
	snprintf(step->label, sizeof step->label, "%.*s", (int)sizeof step->label - 1,
		 start->label);
	snprintf(step->user, sizeof step->user, "%.*s", (int)sizeof step->user - 1, start->user);
	while (*at)
		at = &(*at)->next;
	*at = step;
	holder->n_detached++;
	return step;
}

/* ---- start ---- */

/* Make the command's descriptors; they stay -1 for a terminal. */
static int open_stdio(struct detached_step *step, int *channel_fd, int stdio[3],
		      struct atoll_error *err)
{
	if (step->has_terminal)
		return 0;
	if (!step->has_channel)
		return holder_output_open(step, stdio, err);
	stdio[0] = take_fd(channel_fd);
	stdio[1] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
	stdio[2] = fcntl(0, F_DUPFD_CLOEXEC, 3);
	return stdio[1] < 0 || stdio[2] < 0
		       ? error_set(err, ATOLL_FAULT_HOST, errno, "prepare the channel")
		       : 0;
}

static void name_command(const struct detached_step *step, char *ret, size_t size)
{
	const char *at = step->invocation + sizeof(struct init_step_head);
	struct init_step_head head;
	size_t used = 0;

	memcpy(&head, step->invocation, sizeof head);
	at += strlen(at) + 1;
	ret[0] = '\0';
	for (uint32_t i = 0; i < head.n_argv && used + 1 < size; i++, at += strlen(at) + 1) {
		int n = snprintf(ret + used, size - used, "%s%s", i ? " " : "", at);

		used = n < 0 || (size_t)n >= size - used ? size - 1 : used + (size_t)n;
	}
}

static int start_in_cell(struct holder *holder, struct holder_client *client, const int stdio[3],
			 const char *invocation, struct atoll_error *err)
{
	struct detached_step *step = client->detached;
	cleanup_fd int invocation_fd = -1;
	int r = holder_open_cell(holder, err);

	if (r < 0)
		return r;
	invocation_fd = invocation_build(holder, step, invocation, err);
	if (invocation_fd < 0)
		return invocation_fd;
	step->number = detached_next_number(holder);
	return holder_start_step(holder, client, invocation_fd, stdio, err);
}

static int start_step(struct holder *holder, struct holder_client *client, int *channel_fd,
		      const char *invocation, struct atoll_error *err)
{
	struct detached_step *step = client->detached;
	int stdio[3] = {-1, -1, -1};
	int r = open_stdio(step, channel_fd, stdio, err);

	if (r == 0)
		r = start_in_cell(holder, client, stdio, invocation, err);
	if (r == -EPIPE || r == -ECONNRESET) {
		/* The cell has just ended, and its messages are not read yet. */
		holder_read_messages(holder);
		holder_close_cell(holder, NULL);
		r = start_in_cell(holder, client, stdio, invocation, err);
	}
	for (int i = 0; i < 3; i++)
		holder_close_fd(&stdio[i]);
	if (r == 0)
		eventlog_output_init(&step->output, holder->spec, eventlog_id(holder->eventlog),
				     step->has_terminal);
	return r;
}

static int check_start(const struct holder *holder, struct step_start_request *start,
		       const char *invocation, size_t size, struct atoll_error *err)
{
	start->key[sizeof start->key - 1] = start->user[sizeof start->user - 1] = '\0';
	start->label[sizeof start->label - 1] = '\0';
	if (start->version != HOLDER_VERSION)
		return error_set(err, ATOLL_FAULT_HOST, EPROTO,
				 "the sandbox is held by another version of atoll; end it with "
				 "`atoll rm`");
	if (!invocation || !invocation_is_valid(invocation, size))
		return error_set(err, ATOLL_FAULT_BUG, EBADMSG, "the step's invocation");
	if (holder->is_ending)
		return error_set(err, ATOLL_FAULT_HOST, ESHUTDOWN, "the sandbox is being ended");
	if (holder->is_frozen)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY, "the sandbox is frozen");
	return 0;
}

/* The parts of a HOLDER_STEP request. */
struct start {
	struct step_start_request request;
	const char *invocation; /* NULL: the request is malformed */
	size_t size;
	int *channel_fd; /* -1: none; the step gets it */
};

/* Steps whose command has ended count as long as a background process has their output open. */
static size_t count_places(const struct holder *holder)
{
	size_t n = 0;

	for (size_t i = 0; i < holder->n_places; i++)
		n += holder->clients[i].state != CLIENT_FREE && holder->clients[i].detached;
	return n;
}

/* `client` is the connection's place. It becomes the step's place; after a failure the caller frees
 * it. */
static int start_new(struct holder *holder, struct holder_client *client, const struct start *start,
		     struct atoll_error *err)
{
	const struct step_start_request *request = &start->request;
	struct detached_step *step;
	size_t slot = 0;
	int r;

	if (holder_count_running(holder) >= INIT_STEPS_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "more than %d steps at the same time; wait for one to end",
				 INIT_STEPS_MAX);
	if (count_places(holder) >= HOLDER_DETACHED_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "background processes of %d steps have their output open; end "
				 "some, or redirect their output",
				 HOLDER_DETACHED_MAX);
	if (request->key[0]) {
		r = detached_key_add(holder, request->key, &slot, err);
		if (r < 0)
			return r;
	}
	step = new_step(holder, request, start->invocation, start->size);
	if (!step) {
		if (request->key[0])
			detached_key_remove(holder, slot);
		return error_oom(err);
	}
	client->detached = step;
	step->client = client;
	name_command(step, client->command, sizeof client->command);
	r = watcher_add(holder, step, client->fd, err);
	if (r == 0)
		r = start_step(holder, client, start->channel_fd, start->invocation, err);
	if (r < 0) {
		if (request->key[0])
			detached_key_remove(holder, slot);
		refuse(client->fd, r, err);
		step->client = NULL;
		step->over_ns = INT64_MIN; /* detached_sweep() frees it in this round */
		client->detached = NULL;
	}
	/* The watcher owns the connection now. */
	if (step->watchers)
		client->fd = -1;
	return r;
}

/* Into our own memory: the client can change its file at any time. */
static char *read_invocation(int fd, size_t *ret_size)
{
	cleanup_buf struct buf text = BUF_INIT(INIT_STEP_MAX);

	if (lseek(fd, 0, SEEK_SET) < 0 || fd_read_all(fd, &text) < 0 || text.used == 0)
		return NULL;
	*ret_size = text.used;
	return buf_take(&text);
}

/* Parse `data` and `fds`; start->invocation is NULL if they do not fit together. Returns memory
 * that the caller frees after its use of `start`, or NULL. */
static char *parse_start(const char *data, size_t size, int *fds, size_t n, struct start *ret)
{
	char *own = NULL;

	memcpy(&ret->request, data, sizeof ret->request);
	if (n != (size_t)ret->request.has_invocation_fd + ret->request.has_channel)
		return NULL;
	ret->invocation = data + sizeof ret->request;
	ret->size = size - sizeof ret->request;
	if (ret->request.has_invocation_fd)
		ret->invocation = own = read_invocation(fds[0], &ret->size);
	if (ret->request.has_channel)
		ret->channel_fd = &fds[n - 1];
	return own;
}

void detached_start(struct holder *holder, struct holder_client *client, const char *data,
		    size_t size, int *fds, size_t n)
{
	int none = -1;
	struct start start = {.channel_fd = &none};
	char *own = parse_start(data, size, fds, n, &start); /* NULL, or memory to be freed */
	struct atoll_error error = {0};
	struct detached_step *known = NULL;
	int r = check_start(holder, &start.request, start.invocation, start.size, &error);

	if (r == 0 && start.request.key[0])
		known = detached_find(holder, 0, start.request.key);
	if (known)
		r = detached_attach(holder, client, known->number, &error);
	else if (r == 0)
		r = start_new(holder, client, &start, &error);
	if (r < 0 && client->fd >= 0)
		refuse(client->fd, r, &error);
	if (!client->detached)
		holder_free_client(holder, client);
	free(own);
}

int detached_attach(struct holder *holder, struct holder_client *client, uint32_t number,
		    struct atoll_error *err)
{
	struct detached_step *step = detached_find(holder, number, NULL);
	int r;

	if (!step)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "step %u", number);
	r = watcher_add(holder, step, client->fd, err);
	if (r < 0)
		return r;
	detached_revive(holder, step);
	client->fd = -1;
	return 0;
}

static int by_number(const void *left, const void *right)
{
	const struct step_report *a = left, *b = right;

	return (a->number > b->number) - (a->number < b->number);
}

/* If there are more than fit: first the ones that live, then the latest. */
void detached_send_list(struct holder *holder, int fd)
{
	const struct detached_step *const lists[] = {holder->detached, holder->ended};
	struct holder_reply reply = {0};
	struct step_report *list = calloc(STEP_LIST_MAX, sizeof *list);
	struct iovec parts[2] = {{&reply, sizeof reply}, {list, 0}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	size_t n = 0;

	for (size_t i = 0; list && i < ARRAY_SIZE(lists); i++) {
		const struct detached_step *step = lists[i];

		for (size_t skip = i && holder->n_ended + n > STEP_LIST_MAX
					   ? holder->n_ended + n - STEP_LIST_MAX
					   : 0;
		     step && skip > 0; skip--)
			step = step->next;
		for (; step && n < STEP_LIST_MAX; step = step->next) {
			if (step->over_ns != INT64_MIN)
				watcher_fill_report(step, &list[n++]);
		}
	}
	if (n)
		qsort(list, n, sizeof *list, by_number);
	reply.count = n;
	parts[1].iov_len = n * sizeof *list;
	sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(list);
}

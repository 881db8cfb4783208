/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/holder-inner.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Steps that depend on nobody: how they begin, and are found again
 *
 * As long as it lives it has the place of a client whose connection is nobody's; who is told of it
 * are its watchers.
 */

static void refuse(int fd, int code, const struct atoll_error *error)
{
	const struct hold_reply reply = {.code = code, .error = *error};

	send(fd, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- the request ---- */

/* What is shown of it later. Words that do not fit into a message are cut: only the command is
 * kept, and of that the beginning. */
static char *copy_words(const char *words, size_t size, size_t *ret_size)
{
	struct init_step_head head;
	size_t at = sizeof head;
	uint32_t n = 0;
	char *copy;

	memcpy(&head, words, sizeof head);
	head.has_ids = head.uid = head.gid = 0;
	if (size > HOLD_START_MAX) {
		size_t end = at + strlen(words + at) + 1;

		for (; n < head.n_argv; n++) {
			size_t next = end + strlen(words + end) + 1;

			if (next > HOLD_START_MAX)
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
	memcpy(copy, words, size);
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

static struct hold_kept *new_kept(struct holder *holder, const struct hold_start *start,
				  const char *words, size_t size)
{
	struct hold_kept *kept = calloc(1, sizeof *kept), **at = &holder->kept;

	if (!kept)
		return NULL;
	kept->words = copy_words(words, size, &kept->words_size);
	kept->room = calloc(1, sizeof *kept->room);
	if (!kept->words || !kept->room) {
		free(kept->words);
		free(kept->room);
		free(kept);
		return NULL;
	}
	kept->begin_ns = clock_monotonic_ns();
	kept->start_ns = (int64_t)clock_real_ns();
	kept->deadline_ns =
		find_deadline(holder, start->timeout_ms, kept->begin_ns, &kept->timeout_ms);
	kept->has_stdin = start->has_stdin && !start->has_terminal && !start->has_channel;
	kept->has_terminal = start->has_terminal && !start->has_channel;
	kept->has_channel = start->has_channel;
	kept->was_heard = start->has_channel; /* nothing is kept of it that could be missed */
	kept->columns = start->columns;
	kept->rows = start->rows;
	kept->input_fd = -1;
	kept->input = (struct buf)BUF_INIT(HOLD_INPUT_MAX + 1);
	for (int i = 0; i < HOLD_STREAMS; i++) {
		kept->streams[i].from = kept->streams[i].file = -1;
		kept->streams[i].need = kept->streams[i].left = UINT64_MAX;
	}
	snprintf(kept->key, sizeof kept->key, "%.*s", (int)sizeof kept->key - 1, start->key);
	snprintf(kept->label, sizeof kept->label, "%.*s", (int)sizeof kept->label - 1,
		 start->label);
	snprintf(kept->user, sizeof kept->user, "%.*s", (int)sizeof kept->user - 1, start->user);
	while (*at)
		at = &(*at)->next;
	*at = kept;
	holder->n_kept++;
	return kept;
}

/* ---- its beginning ---- */

/* The command's ends; -1 for a terminal. */
static int open_stdio(struct hold_kept *kept, int *channel_fd, int stdio[3],
		      struct atoll_error *err)
{
	if (kept->has_terminal)
		return 0;
	if (!kept->has_channel)
		return hold_output_open(kept, stdio, err);
	stdio[0] = take_fd(channel_fd);
	stdio[1] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
	stdio[2] = fcntl(0, F_DUPFD_CLOEXEC, 3);
	return stdio[1] < 0 || stdio[2] < 0
		       ? error_set(err, ATOLL_FAULT_HOST, errno, "prepare the channel")
		       : 0;
}

static void name_command(const struct hold_kept *kept, char *ret, size_t size)
{
	const char *at = kept->words + sizeof(struct init_step_head);
	struct init_step_head head;
	size_t used = 0;

	memcpy(&head, kept->words, sizeof head);
	at += strlen(at) + 1;
	ret[0] = '\0';
	for (uint32_t i = 0; i < head.n_argv && used + 1 < size; i++, at += strlen(at) + 1) {
		int n = snprintf(ret + used, size - used, "%s%s", i ? " " : "", at);

		used = n < 0 || (size_t)n >= size - used ? size - 1 : used + (size_t)n;
	}
}

static int begin(struct holder *holder, struct hold_client *client, const int stdio[3],
		 const char *words, struct atoll_error *err)
{
	struct hold_kept *kept = client->kept;
	cleanup_fd int words_fd = -1;
	int r = hold_open_cell(holder, err);

	if (r < 0)
		return r;
	words_fd = hold_make_words(holder, kept, words, err);
	if (words_fd < 0)
		return words_fd;
	client->step = ++holder->n_steps;
	kept->number = hold_number(holder);
	r = hold_record_start(holder, client, words_fd, err);
	if (r == 0)
		r = holder->backend->exec(holder->cell, &holder->handle, client->step, words_fd,
					  stdio, err);
	if (r < 0) {
		hold_record_refused(holder, client, err);
		client->step = 0;
	}
	return r;
}

static int start(struct holder *holder, struct hold_client *client, int *channel_fd,
		 const char *words, struct atoll_error *err)
{
	struct hold_kept *kept = client->kept;
	int stdio[3] = {-1, -1, -1};
	int r = open_stdio(kept, channel_fd, stdio, err);

	if (r == 0)
		r = begin(holder, client, stdio, words, err);
	if (r == -EPIPE || r == -ECONNRESET) {
		/* Everything inside has just ended, and we have not heard of it yet. */
		hold_take_messages(holder);
		hold_close_cell(holder, NULL);
		r = begin(holder, client, stdio, words, err);
	}
	for (int i = 0; i < 3; i++)
		hold_close_fd(&stdio[i]);
	if (r == 0)
		eventlog_output_init(&kept->output, holder->spec, eventlog_id(holder->recorder),
				     kept->has_terminal);
	return r;
}

static int check_start(const struct holder *holder, struct hold_start *start, const char *words,
		       size_t size, struct atoll_error *err)
{
	start->key[sizeof start->key - 1] = start->user[sizeof start->user - 1] = '\0';
	start->label[sizeof start->label - 1] = '\0';
	if (start->version != HOLD_VERSION)
		return error_set(err, ATOLL_FAULT_HOST, EPROTO,
				 "the sandbox is held by another version of atoll; end it with "
				 "`atoll rm`");
	if (!words || !hold_check_words(words, size))
		return error_set(err, ATOLL_FAULT_BUG, EBADMSG, "the step's words");
	if (holder->is_ending)
		return error_set(err, ATOLL_FAULT_HOST, ESHUTDOWN, "the sandbox is being ended");
	if (holder->is_frozen)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY, "the sandbox is frozen");
	return 0;
}

/* Also those that have ended, while somebody in the background has their output open. */
static size_t count_places(const struct holder *holder)
{
	size_t n = 0;

	for (size_t i = 0; i < holder->n_places; i++)
		n += holder->clients[i].is_used && holder->clients[i].kept;
	return n;
}

/* `client` is the connection's; it is the step's afterwards, or forgotten. */
static int start_new(struct holder *holder, struct hold_client *client,
		     const struct hold_start *request, const char *words, size_t size,
		     int *channel_fd, struct atoll_error *err)
{
	struct hold_kept *kept;
	size_t slot = 0;
	int r;

	if (hold_running(holder) >= INIT_STEPS_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "more than %d steps at the same time; wait for one to end",
				 INIT_STEPS_MAX);
	if (count_places(holder) >= HOLD_STEPS_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "of %d steps processes in the background have the output open; "
				 "end some, or send theirs elsewhere",
				 HOLD_STEPS_MAX);
	if (request->key[0]) {
		r = hold_key_note(holder, request->key, &slot, err);
		if (r < 0)
			return r;
	}
	kept = new_kept(holder, request, words, size);
	if (!kept) {
		if (request->key[0])
			hold_key_forget(holder, slot);
		return error_oom(err);
	}
	client->kept = kept;
	kept->client = client;
	name_command(kept, client->command, sizeof client->command);
	r = hold_watch_step(holder, kept, client->fd, err);
	if (r == 0)
		r = start(holder, client, channel_fd, words, err);
	if (r < 0) {
		if (request->key[0])
			hold_key_forget(holder, slot);
		refuse(client->fd, r, err);
		kept->client = NULL;
		kept->over_ns = INT64_MIN; /* swept at once */
		client->kept = NULL;
	}
	/* The connection is the watcher's. */
	if (kept->watchers)
		client->fd = -1;
	return r;
}

/* In memory of ours, which the caller cannot change any more. */
static char *read_words(int fd, size_t *ret_size)
{
	cleanup_buf struct buf text = BUF_INIT(INIT_STEP_MAX);

	if (lseek(fd, 0, SEEK_SET) < 0 || fd_read_all(fd, &text) < 0 || text.used == 0)
		return NULL;
	*ret_size = text.used;
	return buf_take(&text);
}

void hold_kept_start(struct holder *holder, struct hold_client *client, const char *data,
		     size_t size, int *fds, size_t n)
{
	cleanup_free char *own = NULL;
	const char *words = data + sizeof(struct hold_start);
	struct atoll_error error = {0};
	struct hold_start request;
	struct hold_kept *known;
	int none = -1, *channel = &none, r;

	memcpy(&request, data, sizeof request);
	size -= sizeof request;
	if (n != (size_t)request.has_words_fd + request.has_channel) {
		words = NULL;
	} else if (request.has_words_fd) {
		own = read_words(fds[0], &size);
		words = own;
	}
	if (words && request.has_channel)
		channel = &fds[n - 1];
	r = check_start(holder, &request, words, size, &error);
	known = r == 0 && request.key[0] ? hold_kept_find(holder, 0, request.key) : NULL;
	if (known)
		r = hold_kept_attach(holder, client, known->number, &error);
	else if (r == 0)
		r = start_new(holder, client, &request, words, size, channel, &error);
	if (r < 0 && client->fd >= 0)
		refuse(client->fd, r, &error);
	if (!client->kept)
		hold_forget(holder, client);
}

int hold_kept_attach(struct holder *holder, struct hold_client *client, uint32_t number,
		     struct atoll_error *err)
{
	struct hold_kept *kept = hold_kept_find(holder, number, NULL);
	int r;

	if (!kept)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "step %u", number);
	r = hold_watch_step(holder, kept, client->fd, err);
	if (r < 0)
		return r;
	hold_kept_recall(holder, kept);
	client->fd = -1;
	return 0;
}

static int by_number(const void *left, const void *right)
{
	const struct hold_told *a = left, *b = right;

	return (a->number > b->number) - (a->number < b->number);
}

/* Those that live first, if there are more than fit. */
void hold_kept_list(struct holder *holder, int fd)
{
	const struct hold_kept *const lists[] = {holder->kept, holder->ended};
	struct hold_reply reply = {0};
	struct hold_told *list = calloc(HOLD_LIST_MAX, sizeof *list);
	struct iovec parts[2] = {{&reply, sizeof reply}, {list, 0}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	size_t n = 0;

	for (size_t i = 0; list && i < ARRAY_SIZE(lists); i++) {
		const struct hold_kept *kept = lists[i];

		for (size_t skip = i && holder->n_ended + n > HOLD_LIST_MAX
					   ? holder->n_ended + n - HOLD_LIST_MAX
					   : 0;
		     kept && skip > 0; skip--)
			kept = kept->next;
		for (; kept && n < HOLD_LIST_MAX; kept = kept->next) {
			if (kept->over_ns != INT64_MIN)
				hold_fill_told(kept, &list[n++]);
		}
	}
	if (n)
		qsort(list, n, sizeof *list, by_number);
	reply.count = n;
	parts[1].iov_len = n * sizeof *list;
	sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(list);
}

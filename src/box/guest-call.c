/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest-call.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/guest-link.h"
#include "box/guest-reply.h"
#include "box/guest-types.h"
#include "box/guest-watch.h"
#include "box/guest.h"
#include "box/held.h"

#include <errno.h>
#include <stdlib.h>

/* What lists hold at the moment, of all boxes, and which. */
static size_t n_bytes_held;
static struct guest_call *holders;

/* ---- a call ---- */

struct guest_call *call_new(struct box *box, const char *user, enum guest_question kind)
{
	struct guest_call *call = calloc(1, sizeof *call);

	if (!call || !(call->user = strdup(user ? user : ""))) {
		free(call);
		return NULL;
	}
	call->box = box;
	call->kind = kind;
	call->pipe[0] = call->pipe[1] = -1;
	call->last_part = &call->parts;
	return call;
}

static void add_holder(struct guest_call *call)
{
	if (call->holder_link)
		return;
	call->next_holder = holders;
	if (holders)
		holders->holder_link = &call->next_holder;
	call->holder_link = &holders;
	holders = call;
}

static void remove_holder(struct guest_call *call)
{
	if (!call->holder_link)
		return;
	*call->holder_link = call->next_holder;
	if (call->next_holder)
		call->next_holder->holder_link = call->holder_link;
	call->holder_link = NULL;
}

static void drop_parts(struct guest_call *call)
{
	/* The box may be gone when there are none. */
	if (call->n_bytes > 0) {
		n_bytes_held -= call->n_bytes;
		call->box->guest_bytes -= call->n_bytes;
	}
	remove_holder(call);
	parts_free(call->parts);
	call->parts = NULL;
	call->last_part = &call->parts;
	call->n_bytes = call->n_entries = 0;
}

void call_free(struct guest_call *call)
{
	drop_parts(call);
	buf_done(&call->packet);
	for (int i = 0; i < 2; i++)
		if (call->pipe[i] >= 0)
			close(call->pipe[i]);
	for (size_t i = 0; call->words && call->words[i]; i++)
		free((char *)call->words[i]);
	free(call->words);
	free(call->user);
	free(call);
}

static void report(struct guest_call *call, const struct guest_entry *entries, size_t n,
		   const struct atoll_error *err, int fd)
{
	if (call->watch)
		watch_armed(call->watch, err);
	else if (call->listed)
		call->listed(NULL, err, call->data);
	else if (call->opened)
		call->opened(fd, n ? entries : NULL, err, call->data);
	else if (call->done)
		call->done(entries, n, err, call->data);
}

void call_finish(struct guest_call *call, const struct atoll_error *err, int fd)
{
	report(call, NULL, 0, err, fd);
	call_free(call);
}

static void on_timer(struct loop_timer *timer)
{
	struct guest_call *call =
		(struct guest_call *)(void *)((char *)timer - offsetof(struct guest_call, timer));

	call_finish(call, &call->error, -1);
}

void call_fail_later(struct guest_call *call, const struct atoll_error *err)
{
	call->error = *err;
	call->guest = NULL;
	call->timer.fire = on_timer;
	/* Without memory for that it is told at once: better than never. */
	if (loop_arm(daemon_loop(call->box->daemon), &call->timer, 0) < 0)
		on_timer(&call->timer);
}

static int copy_words(struct guest_call *call, const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	call->words = calloc(n + 1, sizeof *call->words);
	for (size_t i = 0; call->words && i < n; i++)
		if (!(call->words[i] = strdup(words[i])))
			return -ENOMEM;
	return call->words ? 0 : -ENOMEM;
}

void call_ask(struct guest_call *call, uint32_t number, uint32_t flags, const char *const *words)
{
	struct atoll_error err = {0};

	call->number = number;
	call->flags = flags;
	if (copy_words(call, words) < 0) {
		error_oom(&err);
		call_fail_later(call, &err);
		return;
	}
	guest_ask(call);
}

/* ---- its answer ---- */

/* 0, or a negative errno: -EBADMSG makes no sense, others are a failure of ours. */
static int keep_part(struct guest_call *call, const struct guest_head *head, const char *packet)
{
	struct guest_part *part = NULL;
	int r = part_new(head, packet, &part);

	if (r < 0)
		return r;
	*call->last_part = part;
	call->last_part = &part->next;
	call->n_entries += head->n;
	call->n_bytes += head->size;
	n_bytes_held += head->size;
	call->box->guest_bytes += head->size;
	add_holder(call);
	/* The guest stops before. */
	if (call->n_entries > GUEST_LIST_MAX + 1)
		return -EBADMSG;
	return call->box->guest_bytes > GUEST_BOX_BYTES_MAX ? -EAGAIN : 0;
}

static bool takes_entry(const struct guest_call *call)
{
	switch (call->kind) {
	case GUEST_ASK_STAT:
	case GUEST_ASK_MAKE_DIR:
	case GUEST_ASK_MOVE:
	case GUEST_ASK_OPEN:
	case GUEST_ASK_STREAM:
	case GUEST_ASK_WRITE:
	case GUEST_ASK_COMPOSE:
		return true;
	default:
		return false;
	}
}

/* ---- lists ---- */

static void say_full(const struct guest_call *call, struct atoll_error *err)
{
	error_set(err, ATOLL_FAULT_HOST, 0,
		  "lists of sandbox '%s' need too much memory at once: ask for less of them, or "
		  "later",
		  call->box->id);
	err->errnum = EAGAIN;
}

/* A packet of a list: does it make sense? Looked at when it comes, not with all others. */
static int check_part(struct guest_part *part)
{
	struct guest_reply reply = {0};
	int r = part_read(part, &reply);

	reply_done(&reply);
	return r;
}

/* All of it is there. */
static void hand_out_list(struct guest_call *call)
{
	static const struct atoll_error none;
	struct guest_list *list = calloc(1, sizeof *list);
	guest_listed *listed = call->listed;
	void *data = call->data;
	struct atoll_error err = {0};

	if (list && !held_set(&list->held, call->box->tenant, call->n_bytes)) {
		free(list);
		list = NULL;
		say_full(call, &err);
	} else if (list) {
		list->parts = call->parts;
		call->parts = NULL;
		call->last_part = &call->parts;
	} else {
		error_oom(&err);
	}
	guest_remove_call(call);
	call_free(call);
	if (listed)
		listed(list, list ? &none : &err, data);
	else
		guest_list_free(list);
}

/* Is the descriptor what this question is answered with? */
static bool fd_fits(const struct guest_call *call, const struct guest_head *head, int fd)
{
	bool wants_stream = head->flags & GUEST_NEEDS_STREAM;

	if (head->number || call->kind == GUEST_ASK_STREAM)
		return fd < 0;
	if (call->kind == GUEST_ASK_OPEN && wants_stream)
		return fd < 0;
	if (call->kind == GUEST_ASK_OPEN || call->kind == GUEST_ASK_WRITE)
		return fd >= 0 && reply_fd_is_file(fd);
	if (call->kind == GUEST_ASK_CONNECT)
		return fd >= 0 && reply_fd_is_connection(fd);
	return fd < 0;
}

/* What the user himself may not, root may do for him, where the sandbox has one: whoever asks over
 * the API owns all of it, and the protocol knows no file that he cannot have. */
static bool ask_root(struct guest_call *call, const struct guest_head *head,
		     const struct atoll_error *err)
{
	if (call->is_second || (head->number != EACCES && head->number != EPERM) ||
	    streq(call->user, "root") || call->kind == GUEST_ASK_CONNECT ||
	    call->kind == GUEST_ASK_STREAM || call->is_mute)
		return false;
	guest_remove_call(call);
	drop_parts(call);
	call->is_second = true;
	call->is_sent = false;
	call->first = *err;
	guest_ask(call);
	return true;
}

static void ask_for_stream(struct guest_call *call)
{
	struct atoll_error err = {0};

	guest_remove_call(call);
	drop_parts(call);
	call->is_sent = false;
	call->kind = GUEST_ASK_STREAM;
	if (pipe2(call->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		error_set(&err, ATOLL_FAULT_HOST, errno, "make a pipe");
		call_fail_later(call, &err);
		return;
	}
	guest_ask(call);
}

static void succeed(struct guest_call *call, const struct guest_reply *reply, int fd)
{
	static const struct atoll_error none;

	if (call->kind == GUEST_ASK_STREAM)
		fd = take_fd(&call->pipe[0]);
	/* A watch that was ended while it was armed. */
	if (call->kind == GUEST_ASK_WATCH && call->is_mute)
		guest_send_unwatch(call->guest, call->id);
	guest_remove_call(call);
	report(call, reply->entries, reply->n, &none, fd);
}

/* Whether it makes sense. */
static bool conclude(struct guest_call *call, const struct guest_head *head,
		     struct guest_reply *reply, int fd)
{
	struct atoll_error err = {0};

	if (head->number) {
		reply_error((int)head->number, reply->path, &err);
		if (ask_root(call, head, &err))
			return true;
		/* That root could not either is no news, nor that it follows no links for a user;
		 * that there is no such user is ours. */
		if (call->is_second && (err.errnum == ESRCH || err.errnum == EACCES ||
					err.errnum == EPERM || err.errnum == ELOOP))
			err = call->first;
		guest_remove_call(call);
		report(call, NULL, 0, &err, -1);
		call_free(call);
		return true;
	}
	if (call->kind == GUEST_ASK_LIST) {
		hand_out_list(call);
		return true;
	}
	if (reply->n != takes_entry(call)) {
		fd_close_strange(fd);
		return false;
	}
	if (call->kind == GUEST_ASK_OPEN && (head->flags & GUEST_NEEDS_STREAM)) {
		ask_for_stream(call);
		return true;
	}
	succeed(call, reply, fd);
	call_free(call);
	return true;
}

void call_mute(struct guest_call *call, const struct atoll_error *err)
{
	struct guest_call told;

	drop_parts(call);
	told = *call;
	call->is_mute = true;
	call->done = NULL;
	call->opened = NULL;
	call->listed = NULL;
	call->watch = NULL;
	if (!told.is_mute)
		report(&told, NULL, 0, err, -1);
}

void calls_make_room(void)
{
	while (n_bytes_held > GUEST_BYTES_MAX && holders) {
		struct guest_call *most = holders;
		struct atoll_error err = {0};

		for (struct guest_call *at = holders; at; at = at->next_holder) {
			size_t box = at->box->guest_bytes, most_box = most->box->guest_bytes;

			if (box > most_box || (box == most_box && at->n_bytes > most->n_bytes))
				most = at;
		}
		say_full(most, &err);
		call_mute(most, &err);
	}
}

/* Memory is short: this one fails. */
static bool give_up(struct guest_call *call, bool is_last, int errnum)
{
	struct atoll_error err = {0};

	if (errnum == EAGAIN)
		say_full(call, &err);
	else
		error_oom(&err);
	if (!is_last) {
		call_mute(call, &err);
		return true;
	}
	guest_remove_call(call);
	drop_parts(call);
	if (!call->is_mute)
		report(call, NULL, 0, &err, -1);
	call_free(call);
	return true;
}

/* The part that came last. Of a list only whether it makes sense is of interest now. */
static int read_last(struct guest_call *call, bool is_last, struct guest_reply *ret)
{
	struct guest_part *part = call->parts;
	int r = 0;

	if (call->kind != GUEST_ASK_LIST)
		return reply_read(part, ret);
	part = container_of(call->last_part, struct guest_part, next);
	if (is_last)
		r = part_read_path(part, &ret->path);
	return r < 0 ? r : check_part(part);
}

bool call_receive(struct guest_call *call, const struct guest_head *head, const char *packet,
		  int fd, bool *ret_is_over)
{
	bool is_last = head->kind == GUEST_SAYS_DONE;
	struct guest_reply reply = {0};
	bool makes_sense;
	int r;

	*ret_is_over = is_last;
	if (!is_last && (call->kind != GUEST_ASK_LIST || fd >= 0 || call->is_mute)) {
		fd_close_strange(fd);
		return call->kind == GUEST_ASK_LIST && fd < 0;
	}
	if (is_last && !fd_fits(call, head, fd)) {
		fd_close_strange(fd);
		return false;
	}
	r = keep_part(call, head, packet);
	if (r == 0)
		r = read_last(call, is_last, &reply);
	if (r < 0)
		fd_close_strange(fd);
	if (r == -EBADMSG)
		return false;
	if (r < 0)
		return give_up(call, is_last, -r);
	if (!is_last)
		return true;
	makes_sense = conclude(call, head, &reply, fd);
	reply_done(&reply);
	return makes_sense;
}

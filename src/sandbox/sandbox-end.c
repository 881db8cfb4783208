/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/apply-discard.h"
#include "sandbox/record-lock.h"
#include "sandbox/sandbox-reach.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * Stop and remove sandboxes, in the client
 *
 * Both end the holder, if there is one, and wait for the end of its connection. A stop lets the
 * holder copy the private root first (HOLDER_SAVE). A removal logs itself, moves the record away
 * and removes its layers, all sandboxes of one call together.
 */

/* How long a holder may need to end, with everything inside, before --force kills it. */
#define KILL_S 5

/* Send HOLDER_END and wait for the end of the connection: then nothing is left inside. With
 * `is_forced`, a holder that does not answer, or has no free place, is killed, and everything
 * inside with it. `ret_is_noted` is set if the sandbox is to be removed: whether the event log has
 * the removal. */
static int end_holder(int socket_fd, bool is_forced, bool *ret_is_noted, struct atoll_error *err)
{
	const struct timeval patience = {.tv_sec = is_forced ? KILL_S : 0};
	struct holder_ack heard;
	struct holder_reply reply;
	struct ucred peer;
	socklen_t size = sizeof peer;
	ssize_t got = 0;
	int r;

	setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	r = sandbox_ask(socket_fd, HOLDER_END, ret_is_noted ? HOLDER_REMOVE : NULL, is_forced,
			&reply, err);
	while (r == 0 && (got = recv(socket_fd, &heard, sizeof heard, 0)) > 0) {
		if (ret_is_noted && got == sizeof heard && heard.magic == HOLDER_ACK_MAGIC)
			*ret_is_noted = true;
	}
	if (is_forced && (r == -EAGAIN || r == -EBUSY || (r == 0 && got < 0 && errno == EAGAIN)) &&
	    getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 1) {
		kill(peer.pid, SIGKILL);
		return 0;
	}
	/* The holder has ended meanwhile. */
	return r == -ECONNRESET || r == -EPIPE ? 0 : r;
}

/* Files that cannot be copied are not lost by a stop: it fails. A holder of an older version copies
 * nothing (-EPROTO). */
static int save(int socket_fd, struct atoll_error *err)
{
	struct holder_reply reply;
	int r = sandbox_ask(socket_fd, HOLDER_SAVE, NULL, false, &reply, err);

	return r == -EPROTO ? 0 : r;
}

int atoll_sandbox_stop(const char *id, struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_fd int held = -1;
	struct atoll_error ignored;
	bool is_saved = false;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	r = sandbox_open(id, &record, err);
	while (r == 0 && held < 0) {
		cleanup_fd int socket_fd = -1;

		r = sandbox_lock_or_connect(record, &held, &socket_fd, err);
		if (r < 0 || held >= 0)
			continue;
		/* Each request needs a connection of its own. */
		r = is_saved ? end_holder(socket_fd, true, NULL, err) : save(socket_fd, err);
		is_saved = is_saved || r == 0;
		if (!is_saved && (r == -ECONNRESET || r == -EPIPE))
			r = 0;
	}
	return r;
}

/* Another command may be writing a line of the event log. */
static int lock_to_remove(struct layer_record *record, struct atoll_error *err)
{
	const int64_t until_ns = clock_monotonic_ns() + SANDBOX_LOCK_MS * INT64_C(1000000);
	int r;

	while ((r = layer_record_lock_to_remove(record, err)) == -EBUSY &&
	       clock_monotonic_ns() < until_ns)
		poll(NULL, 0, 5);
	return r;
}

static int end_and_drop(const char *id, bool is_forced, struct layer_names *lost,
			struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_fd int held = -1;
	bool is_noted = false, is_late;
	int r = sandbox_open(id, &record, err);

	while (r == 0 && held < 0) {
		cleanup_fd int socket_fd = -1;

		r = sandbox_lock_or_connect(record, &held, &socket_fd, err);
		if (r == 0 && held < 0)
			r = end_holder(socket_fd, is_forced, &is_noted, err);
	}
	if (r == 0)
		r = lock_to_remove(record, err);
	if (r < 0)
		return r;
	if (!is_noted)
		r = sandbox_log_change(record, "remove", NULL, UINT64_MAX, err);
	/* A full disk: the removal can be logged only after the sandbox is gone. */
	is_late = r == -ENOSPC || r == -EDQUOT;
	if (r == 0 || is_late)
		r = layer_record_recycle_first(record, lost, err);
	if (r < 0 || !is_late)
		return r;
	layer_store_tidy(&record->store, INT64_MAX / 2);
	return sandbox_log_change(record, "remove", NULL, UINT64_MAX, err);
}

int atoll_sandboxes_remove(const char *const *ids, size_t n, bool is_forced,
			   void (*failed)(const struct atoll_error *err, void *data), void *data)
{
	cleanup_with(layer_names_done) struct layer_names lost = {0};
	struct layer_store store = {.fd = -1};
	struct atoll_error err;
	int first = 0, r;

	for (size_t i = 0; i < n; i++) {
		err = (struct atoll_error){0};
		r = end_and_drop(ids[i], is_forced, &lost, &err);
		if (r < 0 && failed)
			failed(&err, data);
		first = first ? first : r;
	}
	if (layer_store_open(false, &store, NULL) == 0) {
		layer_names_drop(&store, &lost);
		layer_store_tidy(&store, INT64_MAX / 2);
		layer_store_close(&store);
	}
	return first;
}

static void keep_error(const struct atoll_error *err, void *data)
{
	*(struct atoll_error *)data = *err;
}

int atoll_sandbox_remove(const char *id, bool is_forced, struct atoll_error *err)
{
	return atoll_sandboxes_remove(&id, 1, is_forced, err ? keep_error : NULL, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/start.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * What the two processes of a start say to each other until the child is ready
 *
 *	parent                          child
 *	"go", with the trees if it
 *	  has to copy them         →
 *	the contract in words      →
 *	"leave"                    →
 *	                           ←    "ready", with what the parent may need; or the error
 */

#define SETUP_MAX_S 60

struct setup_message {
	uint32_t n_trees;
	bool is_last;
};

/* A new socket pair whose ends do not collide with 0, 1 and 2, even if the caller closed them. */
int start_make_pair(int pair[2], struct atoll_error *err)
{
	int made[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made) < 0)
		return start_fail(err, "make a socket pair");
	for (int i = 0; i < 2; i++) {
		pair[i] = fd_above_stdio(made[i]);
		if (pair[i] < 0)
			errno = -pair[i];
	}
	return pair[0] < 0 || pair[1] < 0 ? start_fail(err, "make a socket pair") : 0;
}

/* ---- the trees ---- */

static int send_message(int socket_fd, const struct setup_message *message, const int *fds,
			struct atoll_error *err)
{
	int r = fd_send(socket_fd, message, sizeof *message, fds, message->n_trees);

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "send to the sandbox") : 0;
}

static int receive_message(int socket_fd, struct setup_message *message, int *fds,
			   struct atoll_error *err)
{
	size_t n = FD_PASS_MAX;
	ssize_t got = fd_receive(socket_fd, message, sizeof *message, 0, fds, &n);

	if (got != sizeof *message || n != message->n_trees)
		return error_set(err, ATOLL_FAULT_BUG, got < 0 ? (int)-got : 0,
				 "the supervisor did not finish the set-up");
	return 0;
}

/* Where the parent has nothing to do for the child, this may lie ready when that is born. */
int start_send_go(int socket_fd, struct atoll_error *err)
{
	struct setup_message go = {.is_last = true};

	return send_message(socket_fd, &go, NULL, err);
}

/* Copy every tree as root and hand it over; the child counts them in the same order. */
int start_send_trees(struct cell *cell, int socket_fd, int userns_fd, struct atoll_error *err)
{
	struct setup_message message = {0};
	int fds[FD_PASS_MAX], r = 0;

	for (size_t i = 0; r >= 0 && i < cell->n_mounts; i++) {
		if (!ns_has_tree(&cell->mounts[i]))
			continue;
		r = ns_open_tree(&cell->mounts[i], ids_map_for(cell, &cell->mounts[i], userns_fd),
				 err);
		if (r < 0)
			break;
		fds[message.n_trees++] = r;
		if (message.n_trees < FD_PASS_MAX)
			continue;
		r = send_message(socket_fd, &message, fds, err);
		while (message.n_trees)
			close(fds[--message.n_trees]);
	}
	message.is_last = true;
	if (r >= 0)
		r = send_message(socket_fd, &message, fds, err);
	while (message.n_trees)
		close(fds[--message.n_trees]);
	return r < 0 ? r : 0;
}

int start_receive_trees(struct cell *cell, struct atoll_error *err)
{
	struct setup_message message = {0};
	int fds[FD_PASS_MAX];
	size_t mount = 0;

	do {
		int r = receive_message(cell->setup_fd, &message, fds, err);

		if (r < 0)
			return r;
		for (uint32_t i = 0; i < message.n_trees; i++) {
			while (!ns_has_tree(&cell->mounts[mount]))
				mount++;
			cell->mounts[mount++].tree_fd = fds[i];
		}
	} while (!message.is_last);
	return 0;
}

/* ---- the contract, and leave to go on ---- */

static int send_text(int socket_fd, const char *text, size_t size)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < size; at += NS_PIECE) {
		size_t piece = size - at < NS_PIECE ? size - at : NS_PIECE;

		r = fd_send(socket_fd, text + at, piece, NULL, 0);
	}
	return r;
}

/* A child that has ended has said why, and one that hangs is waited for no longer than one that
 * does not answer: both are found out when it is asked whether it is ready. */
static int after_sending(int r, struct atoll_error *err)
{
	if (r == 0 || r == -EPIPE || r == -ECONNRESET || r == -EAGAIN)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, -r, "send to the sandbox");
}

/* Made only now, while the child is busy with mounts. */
int start_send_contract(struct cell *cell, int socket_fd, struct atoll_error *err)
{
	const struct timeval patience = {.tv_sec = SETUP_MAX_S};
	struct ns_texts texts;
	int r = cell_explain(cell, err);

	if (r < 0)
		return r;
	texts.json_size = strlen(cell->contract_json);
	texts.text_size = strlen(cell->contract_text);
	setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	r = fd_send(socket_fd, &texts, sizeof texts, NULL, 0);
	if (r == 0)
		r = send_text(socket_fd, cell->contract_json, texts.json_size);
	if (r == 0)
		r = send_text(socket_fd, cell->contract_text, texts.text_size);
	free(take_ptr(cell->contract_json));
	free(take_ptr(cell->contract_text));
	return after_sending(r, err);
}

/* The command may run only if whatever the caller had to do beforehand is done. */
int start_send_leave(const struct cell *cell, int socket_fd, struct atoll_error *err)
{
	const struct cell_extra *extra = cell->extra;
	int r = extra->meanwhile ? extra->meanwhile(extra->meanwhile_data, err) : 0;

	return r < 0 ? r : after_sending(fd_send(socket_fd, "l", 1, NULL, 0), err);
}

int start_receive_leave(const struct cell *cell, struct atoll_error *err)
{
	char byte;
	ssize_t got = recv(cell->setup_fd, &byte, 1, 0);

	return got == 1 ? 0
			: error_set(err, ATOLL_FAULT_BUG, got < 0 ? errno : 0,
				    "the supervisor did not finish the set-up");
}

/* ---- ready ---- */

/* On a terminal the command is forked later, and so is the listener. */
static bool has_listener(const struct cell *cell)
{
	const struct init_config config = {.stdio = cell->stdio};

	return cell->extra->is_service || !init_wants_terminal(&config);
}

/* What the parent keeps of the guard's and may need of a layer goes with it. The namespaces can be
 * named only from in here later: init_main() closes us to everybody. */
int start_say_ready(struct cell *cell, const struct init_command *command, struct atoll_error *err)
{
	cleanup_fd int user_ns = -1, mount_ns = -1;
	int fds[START_READY_FDS], r;
	size_t n = 0;

	if (command->pid)
		fds[n++] = command->listener_fd;
	if (cell->layer_fd >= 0 && !layer_of(cell)->top)
		fds[n++] = cell->layer_fd;
	if (cell->storage_fd >= 0)
		fds[n++] = cell->storage_fd;
	if (cell->layer_fd >= 0 && layer_of(cell)->is_changed) {
		user_ns = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
		mount_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
		if (user_ns < 0 || mount_ns < 0)
			return start_fail(err, "open the sandbox's namespaces");
		fds[n++] = user_ns;
		fds[n++] = mount_ns;
	}
	r = fd_send(cell->setup_fd, "r", 1, fds, n);
	/* From inside no way leads there, and this is none either. */
	if (cell->storage_fd >= 0)
		close(take_fd(&cell->storage_fd));
	if (cell->layer_fd >= 0 && !layer_of(cell)->top)
		close(take_fd(&cell->layer_fd));
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "tell the supervisor") : 0;
}

/* In the parent; in the same order. */
int start_take_ready(struct cell *cell, const int *fds, size_t n, struct cell_handle *ret,
		     struct atoll_error *err)
{
	size_t at = 0;

	if (has_listener(cell) && n == 0)
		return error_set(err, ATOLL_FAULT_HOST, EMFILE, "take the guard's listener");
	if (has_listener(cell))
		cell_keep_listener(cell, fds[at++]);
	if (layer_spot(cell) && !layer_of(cell)->top && at < n)
		ret->layer_fd = fds[at++];
	if (kept_is_wanted(cell) && at < n)
		ret->storage_fd = fds[at++];
	if (at + 1 < n) {
		cell->user_ns_fd = fds[at++];
		cell->mount_ns_fd = fds[at++];
	}
	return 0;
}

int start_wait_ready(int socket_fd, int *ret_fds, size_t *n_fds, struct atoll_error *err)
{
	const struct timeval patience = {.tv_sec = SETUP_MAX_S};
	struct atoll_error theirs;
	size_t none = 0;
	ssize_t got;

	/* A dead network mount can hold the set-up up for ever. */
	setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	got = fd_receive(socket_fd, &theirs, sizeof theirs, 0, ret_fds, n_fds ? n_fds : &none);
	/* It has ended without reading all that we sent, which is told before what it said. */
	if (got == -ECONNRESET)
		got = fd_receive(socket_fd, &theirs, sizeof theirs, 0, NULL, &none);
	if (got == 1)
		return 0;
	if (got == -EAGAIN)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "the set-up took more than %d s; is a grant on a dead mount?",
				 SETUP_MAX_S);
	if (got != sizeof theirs)
		return error_set(err, ATOLL_FAULT_BUG, got < 0 ? (int)-got : 0,
				 "the sandbox ended during its set-up");
	theirs.text[sizeof theirs.text - 1] = '\0';
	if (err)
		*err = theirs;
	return theirs.errnum ? -theirs.errnum : -EPERM;
}

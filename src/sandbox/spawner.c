/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/spawner.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/keyring.h"
#include "base/program.h"
#include "isolate/isolate.h"
#include "job/job.h"
#include "sandbox/holder.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The spawner: a small program that forks holders for the daemon
 *
 * A holder is a fork of its starter. A fork of the daemon would be slow, would copy large page
 * tables, and would inherit locks of other threads. So the daemon starts atoll-spawner, which only
 * forks holders. One message (struct spawner_order) has the sandbox's id and the pipe at which the
 * holder reports. The spawner leads a session, so that holders do not; it ends with the daemon, and
 * holders do not end with it.
 *
 * When no order has come for a moment, the spawner forks one holder ahead. That process does the
 * work that does not depend on the sandbox, and waits for its order. It has the spawner's knowledge
 * of the host at the time of the fork; if that has changed, it is dropped, and a new one is forked.
 */

#define AHEAD_MS 5

struct spawner_order {
	char id[ATOLL_ID_SIZE];
	bool stays;
	int64_t checked_ns; /* set by the spawner, for isolate_confirm() */
};

/* Set before the process has threads; the number never changes afterwards. */
static int spawner_fd = -1;
static pid_t spawner_pid;

int spawner_open(const char *program, struct atoll_error *err)
{
	cleanup_fd int ours = -1, theirs = -1;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket for the spawner");
	ours = pair[0], theirs = pair[1];
	pid = program_start(program, "atoll-spawner", theirs, PROGRAM_ATTACHED);
	if (pid < 0) /* spawner_is_gone() stays true, and the caller tries again */
		return error_set(err, ATOLL_FAULT_HOST, -pid, "execute '%s'", program);
	spawner_pid = pid;
	/* A thread may be using the descriptor of the earlier spawner: replace it under the same
	 * number. */
	if (spawner_fd < 0)
		spawner_fd = take_fd(&ours);
	else if (dup3(ours, spawner_fd, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "replace the spawner's socket");
	return 0;
}

bool spawner_is_gone(void)
{
	return spawner_pid > 0 && waitpid(spawner_pid, NULL, WNOHANG) != 0;
}

void spawner_close(void)
{
	if (spawner_fd >= 0)
		close(spawner_fd);
	spawner_fd = -1;
}

/* False: there is no spawner, or it is gone. */
bool spawner_start_holder(const char *id, bool stays, int status_fd)
{
	struct spawner_order order = {.stays = stays};

	snprintf(order.id, sizeof order.id, "%s", id);
	return spawner_fd >= 0 && fd_send(spawner_fd, &order, sizeof order, &status_fd, 1) == 0;
}

/* ---- in the spawner ---- */

static bool receive(int fd, struct spawner_order *ret, int *ret_status_fd)
{
	size_t n = 1;
	ssize_t size = fd_receive(fd, ret, sizeof *ret, 0, ret_status_fd, &n);

	if (size <= 0)
		_exit(0);
	ret->id[sizeof ret->id - 1] = '\0';
	if (size == sizeof *ret && n == 1)
		return true;
	if (n == 1)
		close(*ret_status_fd);
	return false;
}

static _Noreturn void become_holder(const struct spawner_order *order, int status_fd)
{
	signal(SIGCHLD, SIG_DFL); /* the holder waits for its pid 1 */
	holder_main(order->id, order->stays, status_fd);
}

/*
 * The first contract that a process reads costs more than the second: the kernel must give it pages
 * of heap, stack and program one by one. So a process that waits for its order reads a contract
 * that belongs to no sandbox, and frees it. This reads no file of the host.
 */
static void read_sample_contract(void)
{
	static const char contract[] =
		"workspace: {at: /home/user, mode: layer}\n"
		"users: [{name: user, uid: 1000, gid: 1000, home: /home/user}]\n"
		"root: layer\n"
		"network: {mode: rules}\n"
		"limits: {memory: 512M, pids: 512, wall: unlimited}\n"
		"audit: {record: steps}\n";
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	struct atoll_job made = {0}, *job;
	char digest[HASH_HEX_SIZE];
	int r;

	recipe_begin(&made, "/", "/var/lib");
	recipe_add(&made, (const char *const[]){"load", "any", "", contract}, 4);
	r = recipe_follow(&(struct recipe){.words = &made.recipe}, &job, NULL);
	buf_done(&made.recipe);
	if (r < 0)
		return; /* then the sandbox's own contract is the first */
	spec_digest(job->spec, digest, NULL);
	spec_explain_json(job->spec, &text, NULL);
	atoll_job_free(job);
}

/* The process that was forked ahead. Its socket to the spawner is its only descriptor; it ends with
 * the spawner. */
static _Noreturn void wait_for_order(int fd)
{
	struct spawner_order order;
	int status_fd;

	setpgid(0, 0);
	if (fd != 3 && dup3(fd, 3, O_CLOEXEC) < 0)
		_exit(1);
	fd_close_range(4, ~0U, false);
	read_sample_contract();
	while (!receive(3, &order, &status_fd))
		;
	isolate_confirm(order.checked_ns);
	become_holder(&order, status_fd);
}

/* Returns the socket to the waiting process; -1 if there is none: the next holder is forked on
 * demand. */
static int fork_ahead(void)
{
	cleanup_fd int ours = -1, theirs = -1;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	ours = pair[0], theirs = pair[1];
	pid = fork();
	if (pid == 0) {
		close(take_fd(&ours));
		wait_for_order(theirs);
	}
	return pid > 0 ? take_fd(&ours) : -1;
}

static void start_holder(int *ahead_fd, struct spawner_order *order, int status_fd)
{
	bool is_sent = false;

	order->checked_ns = clock_monotonic_ns();
	if (*ahead_fd >= 0) {
		is_sent = isolate_refresh() &&
			  fd_send(*ahead_fd, order, sizeof *order, &status_fd, 1) == 0;
		close(take_fd(ahead_fd));
	} else {
		isolate_refresh();
	}
	if (!is_sent && fork() == 0) {
		setpgid(0, 0);
		become_holder(order, status_fd);
	}
}

/* So many orders in so short a time keep every CPU busy: forking ahead would only add work. */
#define BUSY_ORDERS 6
#define BUSY_NS	    (40 * INT64_C(1000000))

struct pace {
	int64_t order_ns[BUSY_ORDERS];
	size_t next;
};

/* Wait before forking ahead: the fork would delay the holder that was just started, and with many
 * orders in a row nothing is gained. */
static bool has_order_soon(int fd, const struct pace *pace)
{
	struct pollfd asked = {.fd = fd, .events = POLLIN};
	const bool is_busy = clock_monotonic_ns() - pace->order_ns[pace->next] < BUSY_NS;

	return poll(&asked, 1, is_busy ? 4 * AHEAD_MS : AHEAD_MS) != 0;
}

_Noreturn void spawner_serve(int fd)
{
	struct pace pace = {0};
	int ahead_fd = -1;

	setsid();
	holder_detach_from_caller();
	signal(SIGCHLD, SIG_IGN); /* the kernel reaps holders */
	prctl(PR_SET_NAME, "atoll-spawner");
	program_set_title("atoll-spawner"); /* the children inherit the place of the title */
	keyring_share();
	hash_ask(); /* once here instead of in each holder */
	program_remember();
	isolate_remember();
	for (;;) {
		struct spawner_order order;
		int status_fd = -1;

		if (ahead_fd < 0 && !has_order_soon(fd, &pace))
			ahead_fd = fork_ahead();
		if (receive(fd, &order, &status_fd)) {
			start_holder(&ahead_fd, &order, status_fd);
			close(status_fd);
			pace.order_ns[pace.next] = clock_monotonic_ns();
			pace.next = (pace.next + 1) % BUSY_ORDERS;
		}
	}
}

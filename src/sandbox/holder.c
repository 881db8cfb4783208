/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/keyring.h"
#include "base/program.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-client.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-input.h"
#include "sandbox/holder-life.h"
#include "sandbox/holder-network.h"
#include "sandbox/holder-output.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder-retention.h"
#include "sandbox/holder-root.h"
#include "sandbox/holder-rules.h"
#include "sandbox/holder-steps.h"
#include "sandbox/holder-watchers.h"
#include "sandbox/sandbox.h"
#include "sandbox/spawner.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/*
 * The holder process: start, loop, end
 *
 * holder_start() runs in the client or, through the spawner, in the daemon's child. holder_main()
 * is the process: lock records/ID/held, load the job and replaced network rules, listen, report to
 * the starter, then loop() until is_ending. One round of the loop: poll, read pid 1 and the
 * network, serve connections and streams, check limits and deadlines, handle ends of steps, send
 * reports, free. New connections are accepted last. close_holder() ends the cell, closes the event
 * log and releases the lock; the connection of a client that waits for the end is closed after
 * that.
 */

/* The holder ends after so many seconds without a step; ATOLL_IDLE_SECONDS overrides it. */
#define END_AFTER_S 600
#define SECONDS_MAX (30 * 86400)

/* The template process ends after so many seconds without a step; ATOLL_REST_SECONDS overrides it.
 */
#define IDLE_AFTER_S 10

/* How often the counters are read while a step runs. */
#define COUNT_MS 500

/* ---- the loop ---- */

#define FIXED 5
#define FDS_MAX                                                                                    \
	(FIXED + NETCTL_WATCHED + EVENTLOG_WATCHED + HOLDER_CLIENTS_MAX + HOLDER_DRAINS_MAX +      \
	 HOLDER_WATCHERS_MAX + (STEP_STREAMS + 1) * HOLDER_CLIENTS_MAX)

/* What a descriptor belongs to. Drains come last in the set, and have no target. */
struct poll_target {
	struct holder_client *client;
	struct detached_step *step;
	struct step_watcher *watcher; /* of `step`; NULL: the entry is one of the step's streams */
	int stream;		      /* STEP_STREAMS: the input */
};

struct poll_set {
	struct pollfd fds[FDS_MAX];
	struct poll_target targets[FDS_MAX];
	size_t n, n_drains;
};

static void add_fd(struct poll_set *set, int fd, short events, struct poll_target target)
{
	if (fd < 0 || set->n == FDS_MAX)
		return;
	set->targets[set->n] = target;
	set->fds[set->n++] = (struct pollfd){.fd = fd, .events = events};
}

static void add_detached_steps(const struct holder *holder, struct poll_set *set)
{
	for (struct detached_step *step = holder->detached; step; step = step->next) {
		struct poll_target target = {.step = step};

		for (struct step_watcher *at = step->watchers; at; at = at->next) {
			target.watcher = at;
			add_fd(set, at->fd, at->is_full ? POLLIN | POLLOUT : POLLIN, target);
		}
		target.watcher = NULL;
		for (int i = 0; i < STEP_STREAMS && step->client; i++) {
			target.stream = i;
			if (holder_output_should_poll(&step->streams[i]))
				add_fd(set, step->streams[i].from, POLLIN, target);
		}
		target.stream = STEP_STREAMS;
		if (holder_input_should_poll(step))
			add_fd(set, step->input_fd, POLLOUT, target);
	}
}

static void fill_poll_set(struct holder *holder, struct poll_set *set)
{
	struct pollfd *fds = set->fds;
	size_t n = FIXED;

	fds[0] = (struct pollfd){.fd = holder->signal_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = holder->listen_fd, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = holder->is_live ? holder->handle.control_fd : -1,
				 .events = POLLIN};
	fds[3] = (struct pollfd){.fd = holder->is_live ? holder->handle.pid_fd : -1,
				 .events = POLLIN};
	fds[4] = (struct pollfd){.fd = holder->is_live && !holder->is_stuck &&
						       !holder->notices.has_ended &&
						       !watching_should_pause(holder->watch)
					       ? holder->notices.fd
					       : -1,
				 .events = POLLIN};
	for (size_t i = 0; i < NETCTL_WATCHED; i++)
		fds[n + i] = (struct pollfd){.fd = -1};
	if (holder->is_live)
		netctl_want(&holder->net, fds + n);
	n += NETCTL_WATCHED;
	eventlog_want(holder->eventlog, fds + n);
	set->n = n + EVENTLOG_WATCHED;
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		if (client->state != CLIENT_FREE)
			add_fd(set, client->fd, POLLIN, (struct poll_target){.client = client});
	}
	add_detached_steps(holder, set);
	set->n_drains = holder->n_drains;
	for (size_t i = 0; i < holder->n_drains; i++)
		add_fd(set, holder->drains[i], POLLIN, (struct poll_target){0});
}

/* Is there a cell that is neither idle nor stopped? */
static bool is_ready(const struct holder *holder)
{
	return holder->is_live && !holder->is_idle && !holder->is_frozen && !holder->is_stuck &&
	       !holder->is_stopped;
}

static int wait_ms(const struct holder *holder)
{
	const bool is_busy = holder->is_live && holder_count_running(holder) > 0;
	int64_t until = holder->unused_since_ns + holder->unused_max_ns, left;

	if (holder->stays)
		until = INT64_MAX / 2;
	if (is_ready(holder) && holder->last_step_ns + holder->idle_after_ns < until)
		until = holder->last_step_ns + holder->idle_after_ns;
	if (detached_deadline_ns(holder) < until)
		until = detached_deadline_ns(holder);

	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].state != CLIENT_FREE && holder->clients[i].kill_ns < until)
			until = holder->clients[i].kill_ns;
	}
	if (holder->is_live && netctl_deadline_ns(&holder->net) < until)
		until = netctl_deadline_ns(&holder->net);
	if (eventlog_deadline_ns(holder->eventlog) < until)
		until = eventlog_deadline_ns(holder->eventlog);
	if (holder->note_ns < until)
		until = holder->note_ns;
	left = (until - clock_monotonic_ns()) / 1000000 + 1;
	if (left < 0)
		return 0;
	if (is_busy && left > COUNT_MS)
		return COUNT_MS;
	return left > 60000 ? 60000 : (int)left;
}

/* End the holder if no step has run for unused_max_ns and no background process lives. */
static void end_if_unused(struct holder *holder)
{
	struct atoll_error err = {0};

	if (holder->stays || holder->is_frozen || holder_count_running(holder) ||
	    clock_monotonic_ns() - holder->unused_since_ns < holder->unused_max_ns)
		return;
	holder->unused_since_ns = clock_monotonic_ns();
	if (!holder->is_live || holder_ask_init(holder, INIT_REST, &err) <= 0)
		holder->is_ending = holder_save(holder, &err) ==
				    0; /* on failure try again after unused_max_ns */
}

/* Most of thousands of sandboxes have nothing to do, and the template process of each would use
 * memory. pid 1 starts it again for the next step. */
static void idle_if_unused(struct holder *holder)
{
	struct atoll_error err;

	if (!holder->is_live || holder_count_running(holder)) {
		holder->last_step_ns = clock_monotonic_ns();
		holder->is_idle = false;
	} else if (is_ready(holder) &&
		   clock_monotonic_ns() - holder->last_step_ns >= holder->idle_after_ns) {
		/* A background process keeps the template process alive; do not ask again. */
		holder->is_idle = true;
		holder_ask_init(holder, INIT_REST, &err);
		eventlog_idle(holder->eventlog);
		notices_idle(&holder->notices);
		program_trim();
	}
}

/* Steps and watchers are freed only in detached_sweep(), so the pointers are valid. A descriptor
 * that was closed in this round differs from the polled one. */
static void serve_one(struct holder *holder, const struct poll_target *target,
		      const struct pollfd *fd)
{
	if (target->client) {
		if (target->client->state != CLIENT_FREE && target->client->fd == fd->fd)
			holder_serve_client(holder, target->client);
	} else if (target->watcher) {
		if (target->watcher->fd == fd->fd)
			watcher_serve(holder, target->step, target->watcher, fd->revents & POLLOUT);
	} else if (target->stream == STEP_STREAMS) {
		holder_input_write(target->step);
	} else if (target->step->streams[target->stream].from == fd->fd) {
		holder_output_read(holder, target->step, target->stream);
	}
}

static void serve_others(struct holder *holder, const struct poll_set *set)
{
	const size_t first = FIXED + NETCTL_WATCHED + EVENTLOG_WATCHED;
	const size_t drains = set->n - set->n_drains;

	/* From the end: holder_drain() moves the last entry into a free place. */
	for (size_t i = set->n_drains; i > 0; i--) {
		if (set->fds[drains + i - 1].revents)
			holder_drain(holder, i - 1);
	}
	for (size_t i = first; i < drains; i++) {
		if (set->fds[i].revents)
			serve_one(holder, &set->targets[i], &set->fds[i]);
	}
}

/* Read the signal: a pending one would interrupt the copy of the root at the end. A second SIGTERM
 * still does. */
static void read_signal(struct holder *holder)
{
	struct signalfd_siginfo signal;

	holder->is_ending = read(holder->signal_fd, &signal, sizeof signal) > 0;
}

static void loop(struct holder *holder)
{
	static struct poll_set set;
	struct pollfd *fds = set.fds;

	while (!holder->is_ending) {
		fill_poll_set(holder, &set);
		if (poll(fds, set.n, wait_ms(holder)) < 0 && errno != EINTR)
			return;
		if (fds[0].revents)
			read_signal(holder);
		if (fds[4].fd >= 0 && fds[4].revents)
			notices_read(&holder->notices);
		if (fds[2].fd >= 0 && fds[2].revents)
			holder_read_messages(holder);
		if (holder->is_live)
			netctl_move(&holder->net, fds + FIXED);
		if (fds[3].fd >= 0 && fds[3].revents)
			holder_close_cell(holder, NULL);
		serve_others(holder, &set);
		eventlog_move(holder->eventlog, fds + FIXED + NETCTL_WATCHED);
		holder_rules_check(holder);
		holder_eventlog_check(holder);
		holder_check_counters(holder, false);
		detached_check_times(holder);
		holder_finish_steps(holder);
		holder_end_orphans(holder);
		holder_note_step(holder, false);
		watchers_send_reports(holder);
		detached_sweep(holder);
		if (fds[1].revents)
			holder_accept(holder);
		end_if_unused(holder);
		idle_if_unused(holder);
	}
}

/* ---- the process ---- */

void holder_detach_from_caller(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; null >= 0 && i < 3; i++)
		dup2(null, i);
	if (null > 2)
		close(null);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	if (chdir("/") < 0)
		_exit(1);
}

/* Set the title, move the status pipe to 3, close all other descriptors. */
static void set_process_name(int status_fd, const char *id)
{
	char title[32];

	snprintf(title, sizeof title, "atoll-hold %s", id);
	program_set_title(title);
	prctl(PR_SET_NAME, "atoll-hold");
	if (status_fd != 3)
		dup3(status_fd, 3, O_CLOEXEC);
	fd_close_range(4, UINT_MAX, false);
}

/* SIGTERM is the only signal that the holder handles. */
static int open_signal_fd(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_SETMASK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int64_t read_seconds_ns(const char *name, long preset)
{
	const char *text = getenv(name);
	char *end;
	long seconds = text ? strtol(text, &end, 10) : 0;

	if (!text || !text[0] || *end || seconds < 1 || seconds > SECONDS_MAX)
		seconds = preset;
	return seconds * INT64_C(1000000000);
}

static int open_holder(struct holder *holder, const char *id, struct atoll_error *err)
{
	int r = sandbox_open(id, &holder->record, err);

	if (r < 0)
		return r;
	r = layer_record_hold(holder->record);
	if (r < 0)
		return r == -EBUSY ? r
				   : error_set(err, ATOLL_FAULT_HOST, -r, "lock sandbox '%s'", id);
	holder->held_fd = r;
	r = sandbox_job(holder->record, false, &holder->job, err);
	if (r < 0)
		return r;
	holder->spec = holder->job->spec;
	r = holder_load_network(holder, err);
	if (r < 0)
		return r;
	holder->signal_fd = open_signal_fd();
	if (holder->signal_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "signalfd");
	holder->listen_fd = holder_listen(holder->record, err);
	return holder->listen_fd < 0 ? holder->listen_fd : 0;
}

/* A client that connects from here on gets ECONNRESET, and starts another holder once the lock is
 * free. */
static void close_holder(struct holder *holder)
{
	unlinkat(holder->record->fd, "socket", 0);
	close(holder->listen_fd);
	holder_close_cell(holder, NULL);
	if (!holder->is_removed)
		holder_note_step(holder, true);
	watchers_send_reports(holder);
	holder_eventlog_close(holder);
	/* Release the locks before the connections end: a client that waits for the end locks the
	 * record next. */
	layer_record_close(holder->record);
	close(holder->held_fd);
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].state != CLIENT_FREE && holder->clients[i].fd >= 0)
			close(holder->clients[i].fd);
	}
}

/* With `stays` the starter would send HOLDER_STAY next. */
static int open_staying(struct holder *holder, struct holder_reply *reply)
{
	int r = holder_stay(holder, &reply->error);

	reply->pid = holder->handle.pid;
	return r;
}

_Noreturn void holder_main(const char *id, bool stays, int status_fd)
{
	static struct holder holder;
	struct holder_reply reply = {0};
	char own_id[ATOLL_ID_SIZE];
	bool is_open;

	snprintf(own_id, sizeof own_id, "%s", id);
	id = own_id;
	set_process_name(status_fd, id);
	/* The stack has the frames of the program that was forked. */
	program_forget_callers(__builtin_frame_address(0));
	holder.born_ns = holder.unused_since_ns = clock_monotonic_ns();
	holder.note_ns = INT64_MAX;
	holder.unused_max_ns = read_seconds_ns("ATOLL_IDLE_SECONDS", END_AFTER_S);
	holder.idle_after_ns = read_seconds_ns("ATOLL_REST_SECONDS", IDLE_AFTER_S);
	reply.code = open_holder(&holder, id, &reply.error);
	is_open = reply.code == 0;
	if (is_open && stays)
		reply.code = open_staying(&holder, &reply);
	/* The starter reads it, unless it was killed. */
	fd_write_all(3, &reply, sizeof reply);
	close(3);
	if (!is_open)
		_exit(1);
	if (reply.code == 0)
		loop(&holder);
	close_holder(&holder);
	_exit(reply.code < 0);
}

static int start_by(const char *id, bool stays, bool by_spawner, struct atoll_error *err)
{
	cleanup_fd int status = -1, theirs = -1;
	struct holder_reply reply;
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	status = ends[0], theirs = ends[1];
	if (by_spawner && !spawner_start_holder(id, stays, theirs))
		return -EPIPE;
	pid = by_spawner ? -1 : fork();
	if (pid == 0) {
		/* Fork twice: the holder has no parent to reap it, and is no session leader. */
		setsid();
		if (fork() == 0) {
			holder_detach_from_caller();
			keyring_share();
			holder_main(id, stays, theirs);
		}
		_exit(0);
	}
	close(take_fd(&theirs));
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	r = fd_read_exact(status, &reply, sizeof reply);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "start the holder of sandbox '%s'", id);
	if (reply.code < 0 && reply.code != -EBUSY)
		*err = reply.error;
	return reply.code;
}

int holder_start(const char *id, bool stays, struct atoll_error *err)
{
	/* -EPIPE: there is no spawner, or it was killed before it started the holder. */
	struct atoll_error lost = {0};
	int r = start_by(id, stays, true, &lost);

	if (r == -EPIPE)
		return start_by(id, stays, false, err);
	if (r < 0)
		*err = lost;
	return r;
}

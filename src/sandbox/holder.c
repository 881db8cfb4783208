/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/keyring.h"
#include "base/program.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/holder-inner.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* So long it stays although nothing runs, unless ATOLL_IDLE_SECONDS says otherwise. */
#define IDLE_S	   600
#define IDLE_S_MAX (30 * 86400)

/* So long the first process is kept ready for a step that does not come, unless ATOLL_REST_SECONDS
 * says otherwise. */
#define REST_S 10

/* How often counters are looked at while there is a cell. */
#define COUNT_MS 500

/* ---- the loop ---- */

#define FIXED 5
#define FDS_MAX                                                                                    \
	(FIXED + NETCTL_WATCHED + EVENTLOG_WATCHED + HOLD_CLIENTS_MAX + HOLD_DRAINS_MAX +          \
	 HOLD_WATCHERS_MAX + (HOLD_STREAMS + 1) * HOLD_CLIENTS_MAX)

/* Whose an entry is; those of drains come last and have none. */
struct whose {
	struct hold_client *client;
	struct hold_kept *kept;
	struct hold_watcher *watcher; /* of `kept`; NULL: it is a stream's */
	int stream;		      /* HOLD_STREAMS: its input */
};

struct waiting {
	struct pollfd fds[FDS_MAX];
	struct whose whose[FDS_MAX];
	size_t n, n_drains;
};

static void add(struct waiting *waiting, int fd, short events, struct whose whose)
{
	if (fd < 0 || waiting->n == FDS_MAX)
		return;
	waiting->whose[waiting->n] = whose;
	waiting->fds[waiting->n++] = (struct pollfd){.fd = fd, .events = events};
}

static void want_kept(const struct holder *holder, struct waiting *waiting)
{
	for (struct hold_kept *kept = holder->kept; kept; kept = kept->next) {
		struct whose whose = {.kept = kept};

		for (struct hold_watcher *at = kept->watchers; at; at = at->next) {
			whose.watcher = at;
			add(waiting, at->fd, at->is_full ? POLLIN | POLLOUT : POLLIN, whose);
		}
		whose.watcher = NULL;
		for (int i = 0; i < HOLD_STREAMS && kept->client; i++) {
			whose.stream = i;
			if (hold_stream_wants(&kept->streams[i]))
				add(waiting, kept->streams[i].from, POLLIN, whose);
		}
		whose.stream = HOLD_STREAMS;
		if (hold_input_waits(kept))
			add(waiting, kept->input_fd, POLLOUT, whose);
	}
}

static void want(struct holder *holder, struct waiting *waiting)
{
	struct pollfd *fds = waiting->fds;
	size_t n = FIXED;

	fds[0] = (struct pollfd){.fd = holder->signal_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = holder->listen_fd, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = holder->is_live ? holder->handle.control_fd : -1,
				 .events = POLLIN};
	fds[3] = (struct pollfd){.fd = holder->is_live ? holder->handle.pid_fd : -1,
				 .events = POLLIN};
	fds[4] = (struct pollfd){.fd = holder->is_live && !holder->is_stuck &&
						       !holder->notices.has_ended &&
						       !watching_holds(holder->watch)
					       ? holder->notices.fd
					       : -1,
				 .events = POLLIN};
	for (size_t i = 0; i < NETCTL_WATCHED; i++)
		fds[n + i] = (struct pollfd){.fd = -1};
	if (holder->is_live)
		netctl_want(&holder->net, fds + n);
	n += NETCTL_WATCHED;
	eventlog_want(holder->recorder, fds + n);
	waiting->n = n + EVENTLOG_WATCHED;
	for (size_t i = 0; i < holder->n_places; i++) {
		struct hold_client *client = &holder->clients[i];

		if (client->is_used)
			add(waiting, client->fd, POLLIN, (struct whose){.client = client});
	}
	want_kept(holder, waiting);
	waiting->n_drains = holder->n_drains;
	for (size_t i = 0; i < holder->n_drains; i++)
		add(waiting, holder->drains[i], POLLIN, (struct whose){0});
}

/* A cell that nothing runs in, and that is ready for the next step. */
static bool is_awake(const struct holder *holder)
{
	return holder->is_live && !holder->is_resting && !holder->is_frozen && !holder->is_stuck &&
	       !holder->is_held;
}

static int wait_ms(const struct holder *holder)
{
	const bool is_busy = holder->is_live && hold_running(holder) > 0;
	int64_t until = holder->idle_ns + holder->idle_max_ns, left;

	if (holder->stays)
		until = INT64_MAX / 2;
	if (is_awake(holder) && holder->worked_ns + holder->rest_ns < until)
		until = holder->worked_ns + holder->rest_ns;
	if (hold_kept_deadline_ns(holder) < until)
		until = hold_kept_deadline_ns(holder);

	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].is_used && holder->clients[i].kill_ns < until)
			until = holder->clients[i].kill_ns;
	}
	if (holder->is_live && netctl_deadline_ns(&holder->net) < until)
		until = netctl_deadline_ns(&holder->net);
	if (eventlog_deadline_ns(holder->recorder) < until)
		until = eventlog_deadline_ns(holder->recorder);
	if (holder->note_ns < until)
		until = holder->note_ns;
	left = (until - clock_monotonic_ns()) / 1000000 + 1;
	if (left < 0)
		return 0;
	if (is_busy && left > COUNT_MS)
		return COUNT_MS;
	return left > 60000 ? 60000 : (int)left;
}

/* Nothing has been asked for a long time, and nothing lives in it. */
static void look_whether_idle(struct holder *holder)
{
	struct atoll_error err = {0};

	if (holder->stays || holder->is_frozen || hold_running(holder) ||
	    clock_monotonic_ns() - holder->idle_ns < holder->idle_max_ns)
		return;
	holder->idle_ns = clock_monotonic_ns();
	if (!holder->is_live || hold_ask_init(holder, INIT_REST, &err) <= 0)
		holder->is_ending = hold_save(holder, &err) == 0; /* else it is tried again */
}

/* Of thousands of sandboxes most wait, and what is kept ready in each for the next step is a
 * process more. It is made anew when one comes. */
static void look_whether_to_rest(struct holder *holder)
{
	struct atoll_error err;

	if (!holder->is_live || hold_running(holder)) {
		holder->worked_ns = clock_monotonic_ns();
		holder->is_resting = false;
	} else if (is_awake(holder) &&
		   clock_monotonic_ns() - holder->worked_ns >= holder->rest_ns) {
		/* If something lives in it the process stays, and that need not be tried again. */
		holder->is_resting = true;
		hold_ask_init(holder, INIT_REST, &err);
		eventlog_idle(holder->recorder);
		notices_rest(&holder->notices);
		program_trim();
	}
}

/* Nothing of a kept step is freed meanwhile; what was closed has another descriptor, or none. */
static void serve_one(struct holder *holder, const struct whose *whose, const struct pollfd *fd)
{
	if (whose->client) {
		if (whose->client->is_used && whose->client->fd == fd->fd)
			hold_serve_client(holder, whose->client);
	} else if (whose->watcher) {
		if (whose->watcher->fd == fd->fd)
			hold_serve_watcher(holder, whose->kept, whose->watcher,
					   fd->revents & POLLOUT);
	} else if (whose->stream == HOLD_STREAMS) {
		hold_input_move(whose->kept);
	} else if (whose->kept->streams[whose->stream].from == fd->fd) {
		hold_output_move(holder, whose->kept, whose->stream);
	}
}

static void serve_others(struct holder *holder, const struct waiting *waiting)
{
	const size_t first = FIXED + NETCTL_WATCHED + EVENTLOG_WATCHED;
	const size_t drains = waiting->n - waiting->n_drains;

	/* From the end: one that ends takes the last one's place. */
	for (size_t i = waiting->n_drains; i > 0; i--) {
		if (waiting->fds[drains + i - 1].revents)
			hold_drain(holder, i - 1);
	}
	for (size_t i = first; i < drains; i++) {
		if (waiting->fds[i].revents)
			serve_one(holder, &waiting->whose[i], &waiting->fds[i]);
	}
}

/* One that waits would end the copying of what is kept at the end. Another one does. */
static void hear_signal(struct holder *holder)
{
	struct signalfd_siginfo signal;

	holder->is_ending = read(holder->signal_fd, &signal, sizeof signal) > 0;
}

static void loop(struct holder *holder)
{
	static struct waiting waiting;
	struct pollfd *fds = waiting.fds;

	while (!holder->is_ending) {
		want(holder, &waiting);
		if (poll(fds, waiting.n, wait_ms(holder)) < 0 && errno != EINTR)
			return;
		if (fds[0].revents)
			hear_signal(holder);
		if (fds[4].fd >= 0 && fds[4].revents)
			notices_read(&holder->notices);
		if (fds[2].fd >= 0 && fds[2].revents)
			hold_take_messages(holder);
		if (holder->is_live)
			netctl_move(&holder->net, fds + FIXED);
		if (fds[3].fd >= 0 && fds[3].revents)
			hold_close_cell(holder, NULL);
		serve_others(holder, &waiting);
		eventlog_move(holder->recorder, fds + FIXED + NETCTL_WATCHED);
		hold_watch_check(holder);
		hold_record_check(holder);
		hold_check_counters(holder, false);
		hold_kept_check(holder);
		hold_finish_steps(holder);
		hold_end_orphans(holder);
		hold_note_step(holder, false);
		hold_tell_all(holder);
		hold_kept_sweep(holder);
		if (fds[1].revents)
			hold_accept(holder);
		look_whether_idle(holder);
		look_whether_to_rest(holder);
	}
}

/* ---- the process ---- */

void hold_leave_caller(void)
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

/* Nothing of the caller's is left but the pipe that it waits at, which becomes 3. */
static void take_name(int status_fd, const char *id)
{
	char title[32];

	snprintf(title, sizeof title, "atoll-hold %s", id);
	program_set_title(title);
	prctl(PR_SET_NAME, "atoll-hold");
	if (status_fd != 3)
		dup3(status_fd, 3, O_CLOEXEC);
	fd_close_range(4, UINT_MAX, false);
}

/* Only to be told to end. */
static int take_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_SETMASK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int64_t read_seconds_ns(const char *name, long usual)
{
	const char *text = getenv(name);
	char *end;
	long seconds = text ? strtol(text, &end, 10) : 0;

	if (!text || !text[0] || *end || seconds < 1 || seconds > IDLE_S_MAX)
		seconds = usual;
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
				   : error_set(err, ATOLL_FAULT_HOST, -r, "hold sandbox '%s'", id);
	holder->held_fd = r;
	r = sandbox_job(holder->record, false, &holder->job, err);
	if (r < 0)
		return r;
	holder->spec = holder->job->spec;
	r = hold_load_network(holder, err);
	if (r < 0)
		return r;
	holder->signal_fd = take_signals();
	if (holder->signal_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "signalfd");
	holder->listen_fd = hold_listen(holder->record, err);
	return holder->listen_fd < 0 ? holder->listen_fd : 0;
}

/* Whoever connects from here on is not heard: it starts another one, once the lock is free. */
static void close_holder(struct holder *holder)
{
	unlinkat(holder->record->fd, "socket", 0);
	close(holder->listen_fd);
	hold_close_cell(holder, NULL);
	if (!holder->is_removed)
		hold_note_step(holder, true);
	hold_tell_all(holder);
	hold_record_close(holder);
	/* Before whoever waits for the end hears of it: he wants it next. */
	layer_record_close(holder->record);
	close(holder->held_fd);
	for (size_t i = 0; i < holder->n_places; i++) {
		if (holder->clients[i].is_used && holder->clients[i].fd >= 0)
			close(holder->clients[i].fd);
	}
}

/* Who starts it and wants it to stay would ask for that next. */
static int open_staying(struct holder *holder, struct hold_reply *reply)
{
	int r = hold_stay(holder, &reply->error);

	reply->pid = holder->handle.pid;
	return r;
}

_Noreturn void hold_main(const char *id, bool stays, int status_fd)
{
	static struct holder holder;
	struct hold_reply reply = {0};
	char own_id[ATOLL_ID_SIZE];
	bool is_open;

	snprintf(own_id, sizeof own_id, "%s", id);
	id = own_id;
	take_name(status_fd, id);
	/* It is a fork of a program that was at something else. */
	program_forget_callers(__builtin_frame_address(0));
	holder.born_ns = holder.idle_ns = clock_monotonic_ns();
	holder.note_ns = INT64_MAX;
	holder.idle_max_ns = read_seconds_ns("ATOLL_IDLE_SECONDS", IDLE_S);
	holder.rest_ns = read_seconds_ns("ATOLL_REST_SECONDS", REST_S);
	reply.code = open_holder(&holder, id, &reply.error);
	is_open = reply.code == 0;
	if (is_open && stays)
		reply.code = open_staying(&holder, &reply);
	/* It is read by whoever waits; it is not there any more if it was killed. */
	fd_write_all(3, &reply, sizeof reply);
	close(3);
	if (!is_open)
		_exit(1);
	if (reply.code == 0)
		loop(&holder);
	close_holder(&holder);
	_exit(reply.code < 0);
}

static int start_by(const char *id, bool stays, bool by_nursery, struct atoll_error *err)
{
	cleanup_fd int status = -1, theirs = -1;
	struct hold_reply reply;
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	status = ends[0], theirs = ends[1];
	if (by_nursery && !hold_nursery_start(id, stays, theirs))
		return -EPIPE;
	pid = by_nursery ? -1 : fork();
	if (pid == 0) {
		/* Twice: it is nobody's child, and leads no session. */
		setsid();
		if (fork() == 0) {
			hold_leave_caller();
			keyring_share();
			hold_main(id, stays, theirs);
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

int hold_start(const char *id, bool stays, struct atoll_error *err)
{
	/* There is no nursery, or it was killed before it got to it. */
	struct atoll_error lost = {0};
	int r = start_by(id, stays, true, &lost);

	if (r == -EPIPE)
		return start_by(id, stays, false, err);
	if (r < 0)
		*err = lost;
	return r;
}

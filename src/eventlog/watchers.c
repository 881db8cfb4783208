/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/watchers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

/* poll() reports a pipe as writable if PIPE_BUF bytes fit: a write of that size does not block. */
#define CHUNK 4096

/* ---- adding readers ---- */

/* A duplicate: the caller's descriptor stays open. */
static int open_fd(const char *text, struct atoll_error *err)
{
	char *end;
	long number = strtol(text, &end, 10);
	int fd, flags;

	if (!*text || *end || number < 0 || number > 1 << 20)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--events: 'fd:%s' is no descriptor; write fd:3",
				 str_show(text, (char[40]){0}, 40));
	flags = fcntl((int)number, F_GETFL);
	if (flags < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "--events: fd:%ld", number);
	if ((flags & O_ACCMODE) == O_RDONLY)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--events: fd:%ld is open for reading only", number);
	fd = fcntl((int)number, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? error_set(err, ATOLL_FAULT_HOST, errno, "--events: fd:%ld", number) : fd;
}

static int open_socket(const char *path, struct atoll_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int fd = -1;

	if (strlen(path) >= sizeof address.sun_path || !*path)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "--events: 'unix:%s'",
				 str_show(path, (char[120]){0}, 120));
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno,
				 "--events: nobody listens at 'unix:%s'",
				 str_show(path, (char[120]){0}, 120));
	return take_fd(&fd);
}

/* A process group of its own: Ctrl-C goes to the run, and the command ends after the run. */
static _Noreturn void execute(const char *command, int input)
{
	char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)command, NULL};
	sigset_t none;

	setpgid(0, 0);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(input, 0) == 0)
		execv("/bin/sh", argv);
	_exit(127);
}

static int open_command(const char *command, pid_t *ret_pid, struct atoll_error *err)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "--events: make a pipe");
	pid = fork();
	if (pid == 0)
		execute(command, ends[0]);
	close(ends[0]);
	if (pid < 0) {
		close(ends[1]);
		return error_set(err, ATOLL_FAULT_HOST, errno, "--events: fork");
	}
	*ret_pid = pid;
	return ends[1];
}

int watchers_add(struct watchers *watchers, const char *target, struct atoll_error *err)
{
	struct watcher *watcher = &watchers->items[watchers->n];
	int fd;

	if (watchers->n == WATCHERS_MAX - 1)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--events: at most %d readers are allowed", WATCHERS_MAX - 1);
	*watcher = (struct watcher){.fd = -1};
	if (starts_with(target, "fd:"))
		fd = open_fd(target + 3, err);
	else if (starts_with(target, "unix:"))
		fd = open_socket(target + 5, err);
	else if (starts_with(target, "exec:") && target[5])
		fd = open_command(target + 5, &watcher->pid, err);
	else
		fd = error_set(err, ATOLL_FAULT_REQUEST, 0,
			       "--events: '%s' is no reader; write fd:N, unix:PATH or exec:COMMAND",
			       str_show(target, (char[60]){0}, 60));
	if (fd < 0)
		return fd;
	watcher->data = malloc(WATCHERS_BUFFER);
	watcher->fd = fd;
	watchers->n++;
	str_show(target, watcher->name, sizeof watcher->name);
	return watcher->data ? 0 : error_oom(err);
}

int watchers_add_socket(struct watchers *watchers, int fd, const char *name,
			struct atoll_error *err)
{
	struct watcher *watcher = &watchers->items[watchers->n++];

	*watcher = (struct watcher){.fd = fd, .data = malloc(WATCHERS_BUFFER)};
	snprintf(watcher->name, sizeof watcher->name, "%s", name);
	return watcher->data ? 0 : error_oom(err);
}

/* ---- buffers ---- */

static size_t room_of(const struct watcher *watcher)
{
	return WATCHERS_BUFFER - watcher->used;
}

static void put(struct watcher *watcher, const char *data, size_t size)
{
	size_t end = watcher->start + watcher->used;

	if (end + size > WATCHERS_BUFFER) {
		memmove(watcher->data, watcher->data + watcher->start, watcher->used);
		watcher->start = 0;
		end = watcher->used;
	}
	memcpy(watcher->data + end, data, size);
	watcher->used += size;
}

/* Report lines that were left out, once half of the buffer is free. */
static void report_lost(struct watchers *watchers, struct watcher *watcher)
{
	char line[96];
	int size;

	if (!watcher->lost || room_of(watcher) < WATCHERS_BUFFER / 2)
		return;
	size = snprintf(line, sizeof line,
			"{\"kind\":\"lost\",\"count\":%llu,\"why\":\"the reader was slow\"}\n",
			(unsigned long long)watcher->lost);
	put(watcher, line, (size_t)size);
	if (watchers->missed)
		watchers->missed(watchers->data, watcher, watcher->lost, "the reader was slow");
	watcher->lost = 0;
}

static void drop_watcher(struct watchers *watchers, struct watcher *watcher, const char *why)
{
	close(take_fd(&watcher->fd));
	watcher->used = 0;
	watcher->full_ns = 0;
	if (!why)
		return;
	watcher->has_gone = true;
	if (watchers->missed)
		watchers->missed(watchers->data, watcher, 0, why);
}

void watchers_send(struct watchers *watchers, const char *line, size_t size)
{
	for (size_t i = 0; i < watchers->n; i++) {
		struct watcher *watcher = &watchers->items[i];

		if (watcher->fd < 0)
			continue;
		/* Lines after a gap are left out as well until the gap has been reported. */
		report_lost(watchers, watcher);
		if (watcher->lost || room_of(watcher) < size + 1) {
			watcher->lost++;
			watcher->lost_in_all++;
			continue;
		}
		put(watcher, line, size);
		put(watcher, "\n", 1);
		if (!watcher->full_ns && watcher->used > WATCHERS_BUFFER / 2)
			watcher->full_ns = clock_monotonic_ns();
	}
}

bool watchers_should_pause(struct watchers *watchers)
{
	bool should_pause = false;

	for (size_t i = 0; i < watchers->n; i++) {
		struct watcher *watcher = &watchers->items[i];

		if (!watcher->full_ns || watcher->is_slow)
			continue;
		if (clock_monotonic_ns() - watcher->full_ns < WATCHERS_WAIT_NS)
			should_pause = true;
		else
			watcher->is_slow = true;
	}
	return should_pause;
}

int64_t watchers_deadline_ns(const struct watchers *watchers)
{
	int64_t until = INT64_MAX;

	for (size_t i = 0; i < watchers->n; i++) {
		const struct watcher *watcher = &watchers->items[i];

		if (watcher->full_ns && !watcher->is_slow &&
		    watcher->full_ns + WATCHERS_WAIT_NS < until)
			until = watcher->full_ns + WATCHERS_WAIT_NS;
	}
	return until;
}

/* ---- writing ---- */

/* A pipe has no MSG_DONTWAIT: write at most what poll() says does not block. */
static ssize_t write_some(const struct watcher *watcher)
{
	const char *data = watcher->data + watcher->start;
	ssize_t done = send(watcher->fd, data, watcher->used, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (done < 0 && errno == ENOTSOCK)
		done = write(watcher->fd, data, watcher->used < CHUNK ? watcher->used : CHUNK);
	return done;
}

static bool can_write(const struct watcher *watcher)
{
	struct pollfd fd = {.fd = watcher->fd, .events = POLLOUT};

	return poll(&fd, 1, 0) > 0;
}

static void write_waiting(struct watchers *watchers, struct watcher *watcher)
{
	/* Bounded, so that a fast reader does not keep the supervisor from its other work. */
	for (int i = 0; i < 64 && watcher->used && can_write(watcher); i++) {
		ssize_t done = write_some(watcher);

		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (done < 0) {
			drop_watcher(watchers, watcher, strerror(errno));
			return;
		}
		watcher->start += (size_t)done;
		watcher->used -= (size_t)done;
		if (!watcher->used)
			watcher->start = 0;
		if (watcher->used <= WATCHERS_BUFFER / 2) {
			watcher->full_ns = 0;
			watcher->is_slow = false;
			report_lost(watchers, watcher);
		}
	}
}

void watchers_want(const struct watchers *watchers, struct pollfd *fds)
{
	for (size_t i = 0; i < WATCHERS_MAX; i++) {
		const struct watcher *watcher = &watchers->items[i];

		fds[i] = (struct pollfd){.fd = -1};
		/* A closed reader is noticed at the next write. */
		if (i < watchers->n && watcher->used)
			fds[i] = (struct pollfd){.fd = watcher->fd, .events = POLLOUT};
	}
}

void watchers_move(struct watchers *watchers, const struct pollfd *fds)
{
	for (size_t i = 0; i < watchers->n; i++)
		if (watchers->items[i].fd >= 0 && fds[i].fd == watchers->items[i].fd &&
		    fds[i].revents)
			write_waiting(watchers, &watchers->items[i]);
}

/* ---- the end ---- */

static bool has_waiting(const struct watchers *watchers)
{
	for (size_t i = 0; i < watchers->n; i++)
		if (watchers->items[i].fd >= 0 && watchers->items[i].used)
			return true;
	return false;
}

/* The command's input is closed: wait for its end until `until_ns`, then kill it. */
static void reap(struct watcher *watcher, int64_t until_ns)
{
	cleanup_fd int pid_fd = (int)syscall(SYS_pidfd_open, watcher->pid, 0);
	struct pollfd fd = {.fd = pid_fd, .events = POLLIN};
	int64_t left_ns = until_ns - clock_monotonic_ns();
	int status;

	if (pid_fd < 0 || poll(&fd, 1, left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0) <= 0)
		kill(-watcher->pid, SIGKILL);
	while (waitpid(watcher->pid, &status, 0) < 0 && errno == EINTR)
		;
	watcher->pid = 0;
}

void watchers_close(struct watchers *watchers)
{
	int64_t until_ns = clock_monotonic_ns() + WATCHERS_WAIT_NS;

	while (has_waiting(watchers) && clock_monotonic_ns() < until_ns) {
		struct pollfd fds[WATCHERS_MAX];

		watchers_want(watchers, fds);
		if (poll(fds, WATCHERS_MAX, 100) > 0)
			watchers_move(watchers, fds);
	}
	for (size_t i = 0; i < watchers->n; i++) {
		struct watcher *watcher = &watchers->items[i];

		if (watcher->fd >= 0)
			drop_watcher(watchers, watcher, NULL);
	}
	until_ns = clock_monotonic_ns() + WATCHERS_WAIT_NS;
	for (size_t i = 0; i < watchers->n; i++) {
		if (watchers->items[i].pid > 0)
			reap(&watchers->items[i], until_ns);
		free(watchers->items[i].data);
	}
	watchers->n = 0;
}

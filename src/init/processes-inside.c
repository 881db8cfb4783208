/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "init/init-inner.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* Fields of /proc/PID/stat behind the name, which may hold anything. */
static bool read_process(const struct init *init, const char *name, struct inside_process *ret)
{
	char path[32], text[512];
	cleanup_fd int fd = -1;
	const char *at;
	ssize_t got;

	snprintf(path, sizeof path, "%.16s/stat", name);
	fd = openat(init->watch.proc_fd, path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (got <= 0)
		return false;
	text[got] = '\0';
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return false;
	ret->state = at[2];
	/* Behind the state: the parent, the group, the session. */
	for (int field = 0; at && field < 4; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	ret->session = (pid_t)strtol(at, NULL, 10);
	ret->pid = (pid_t)strtol(name, NULL, 10);
	return true;
}

char inside_state(const struct init *init, pid_t pid)
{
	struct inside_process process;
	char name[16];

	snprintf(name, sizeof name, "%d", pid);
	return read_process(init, name, &process) ? process.state : 0;
}

bool inside_waits_for_vfork(const struct init *init, const struct inside_process *process)
{
	cleanup_fd int fd = -1;
	char path[32], text[16];
	ssize_t got;
	long call;

	if (process->state != 'D')
		return false;
	snprintf(path, sizeof path, "%d/syscall", process->pid);
	fd = openat(init->watch.proc_fd, path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (got <= 0 || text[0] < '0' || text[0] > '9')
		return false;
	text[got] = '\0';
	call = strtol(text, NULL, 10);
#ifdef SYS_vfork
	if (call == SYS_vfork)
		return true;
#endif
	return call == SYS_clone;
}

static bool has_ended(const struct inside_process *process)
{
	return process->state == 'Z' || process->state == 'X' || process->state == 'x';
}

void inside_each(const struct init *init,
		 void (*each)(const struct inside_process *process, void *data), void *data)
{
	char room[4096] __attribute__((aligned(8)));
	struct inside_process process;
	ssize_t got;

	if (lseek(init->watch.proc_fd, 0, SEEK_SET) < 0)
		return;
	while ((got = getdents64(init->watch.proc_fd, (void *)room, sizeof room)) > 0) {
		for (char *at = room; at < room + got;) {
			const struct dirent64 *entry = (const struct dirent64 *)(void *)at;

			at += entry->d_reclen;
			if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
				continue;
			if (read_process(init, entry->d_name, &process) && process.pid != 1 &&
			    !has_ended(&process))
				each(&process, data);
		}
	}
}

struct session {
	pid_t number, except;
	int signal, n;
};

static void signal_one(const struct inside_process *process, void *data)
{
	struct session *session = data;

	if (process->session != session->number || process->pid == session->except)
		return;
	session->n++;
	kill(process->pid, session->signal);
}

int inside_signal_session(const struct init *init, pid_t number, pid_t except, int signal)
{
	struct session session = {.number = number, .except = except};

	/* What forks while it is killed would leave a child behind: what is stopped does not. */
	for (int i = 0; signal == SIGKILL && i < 2; i++) {
		session.signal = SIGSTOP;
		inside_each(init, signal_one, &session);
	}
	session.n = 0;
	session.signal = signal;
	inside_each(init, signal_one, &session);
	return session.n;
}

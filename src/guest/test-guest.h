/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Both sides: the requests of box/guest.h, and the program inside, which here runs beside us in a
 * child of ours. Some children are no guests at all, and say what they like.
 */

#include "base/test.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "box/test-guest-link.h"
#include "guest/guest-parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/xattr.h>

/* ---- what the daemon has instead ---- */

static struct loop loop;
static struct box box;
static pid_t guest_pid;
static int n_started, n_killed;
static char home[256];
static void (*stranger)(int fd); /* instead of the guest */
static bool has_no_root = true;
static int given[2] = {-1, -1}; /* to a stranger, who has them alone then */

struct loop *daemon_loop(struct daemon *daemon)
{
	(void)daemon;
	return &loop;
}

static inline _Noreturn void be_guest(int fd, bool is_root)
{
	static struct server server;

	setenv("HOME", home, 1);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (stranger && !is_root)
		stranger(fd);
	else if (chdir("/") == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
		serve(&server, fd);
	_exit(0);
}

int guest_start(struct guest *guest, int channel_fd, struct atoll_error *err)
{
	if (strcmp(guest->user, "root") == 0 && has_no_root)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "user 'root'");
	n_started++;
	guest_pid = fork();
	if (guest_pid == 0) {
		int fd = fcntl(channel_fd, F_DUPFD, 100);

		fd_close_range(3, 99, false);
		be_guest(fd, strcmp(guest->user, "root") == 0);
	}
	for (int i = 0; i < 2; i++)
		if (given[i] >= 0)
			close(take_fd(&given[i]));
	return guest_pid < 0 ? -errno : 0;
}

void guest_leave_step(struct guest *guest)
{
	(void)guest;
}

void guest_kill(struct guest *guest)
{
	(void)guest;
	n_killed++;
	kill(guest_pid, SIGKILL);
}

/* ---- waiting for answers ---- */

struct told {
	bool is_over;
	struct atoll_error err;
	size_t n;
	char paths[16][256];
	struct guest_entry first;
	char key[64], value[64], target[256];
	char marked[256], links[256]; /* the last one with metadata, and the last link */
	uint64_t sizes;		      /* of all */
	int fd;
	int n_calls;
};

static inline void keep_entry(struct told *told, const struct guest_entry *entry, size_t i)
{
	snprintf(told->paths[i], sizeof told->paths[i], "%s", entry->path);
	if (i > 0)
		return;
	told->first = *entry;
	snprintf(told->target, sizeof told->target, "%s", entry->target ? entry->target : "");
	if (entry->metadata.n) {
		snprintf(told->key, sizeof told->key, "%s", entry->metadata.items[0].name);
		snprintf(told->value, sizeof told->value, "%s", entry->metadata.items[0].value);
	}
}

static inline void note(struct told *told, const struct guest_entry *entries, size_t n)
{
	for (size_t i = 0; i < n && told->n + i < 16; i++)
		keep_entry(told, &entries[i], told->n + i);
	told->n += n;
	for (size_t i = 0; i < n; i++) {
		told->sizes += entries[i].size;
		if (entries[i].metadata.n)
			snprintf(told->marked, sizeof told->marked, "%s", entries[i].path);
		if (entries[i].is_link)
			snprintf(told->links, sizeof told->links, "%s", entries[i].path);
	}
}

static inline void done(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
			void *data)
{
	struct told *told = data;

	told->err = *err;
	told->n = 0;
	told->n_calls++;
	note(told, entries, n);
	told->is_over = true;
	loop_stop(&loop);
}

static inline void listed(struct guest_list *list, const struct atoll_error *err, void *data)
{
	const struct guest_entry *entries;
	size_t n;

	done(NULL, 0, err, data);
	while (list && (n = guest_list_next(list, &entries)) > 0)
		note(data, entries, n);
	guest_list_free(list);
}

static inline void opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
			  void *data)
{
	done(entry, entry != NULL, err, data);
	((struct told *)data)->fd = fd;
}

static inline void give_up(struct loop_timer *timer)
{
	(void)timer;
	test_fail(__FILE__, __LINE__, "nothing came for 30 seconds");
}

static inline void await(const bool *is_over)
{
	struct loop_timer timer = {.fire = give_up};

	loop_arm(&loop, &timer, clock_monotonic_ns() + 30 * INT64_C(1000000000));
	while (!*is_over)
		loop_run(&loop);
	loop_disarm(&loop, &timer);
}

static inline void begin(void)
{
	close(test_tempdir());
	snprintf(home, sizeof home, "%s", test_tempdir_path());
	CHECK(loop_init(&loop) == 0);
	box = (struct box){.state = BOX_RUNNING};
	stranger = NULL;
	n_killed = n_started = 0;
	has_no_root = true;
}

static inline void finish(void)
{
	guest_end(&box);
	loop_done(&loop);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static inline const char *at_home(const char *name)
{
	static char paths[4][512];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, 512, "%s/%s", home, name);
	return path;
}

static inline void put_file(const char *name, const char *text)
{
	int fd = open(at_home(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

#define ASK(function, ...)                                                                         \
	({                                                                                         \
		static struct told told_;                                                          \
		told_ = (struct told){.fd = -1};                                                   \
		function(&box, NULL, __VA_ARGS__, &told_);                                         \
		CHECK(!told_.is_over);                                                             \
		await(&told_.is_over);                                                             \
		&told_;                                                                            \
	})

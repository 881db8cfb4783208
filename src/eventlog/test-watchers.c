/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/test.h"
#include "eventlog/watchers.h"

#include <atoll/error.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

static uint64_t n_missed;
static char last_why[100];

static void missed(void *data, const struct watcher *watcher, uint64_t count, const char *why)
{
	(void)data;
	(void)watcher;
	n_missed += count;
	snprintf(last_why, sizeof last_why, "%s", why);
}

/* A pipe with its reading end, whose writing end is a watcher. */
static int watch_pipe(struct watchers *watchers)
{
	struct atoll_error err = {0};
	char target[32];
	int ends[2];

	n_missed = 0;
	watchers->missed = missed;
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	snprintf(target, sizeof target, "fd:%d", ends[1]);
	CHECK(watchers_add(watchers, target, &err) == 0);
	close(ends[1]);
	return ends[0];
}

static void move(struct watchers *watchers)
{
	struct pollfd fds[WATCHERS_MAX];

	watchers_want(watchers, fds);
	if (poll(fds, WATCHERS_MAX, 0) > 0)
		watchers_move(watchers, fds);
}

static size_t count_lines(int fd, size_t *ret_lost)
{
	static char data[1 << 16];
	size_t lines = 0;
	ssize_t got;

	*ret_lost = 0;
	while ((got = read(fd, data, sizeof data)) > 0)
		for (ssize_t i = 0; i < got; i++) {
			lines += data[i] == '\n';
			if (got - i > 15 && memcmp(data + i, "{\"kind\":\"lost\"", 14) == 0)
				(*ret_lost)++;
		}
	return lines;
}

TEST(lines_arrive_in_order_each_with_its_end)
{
	struct watchers watchers = {0};
	cleanup_fd int fd = watch_pipe(&watchers);
	char data[64];

	watchers_send(&watchers, "{\"a\":1}", 7);
	watchers_send(&watchers, "{\"b\":2}", 7);
	watchers_close(&watchers);
	CHECK_INT(read(fd, data, sizeof data), 16);
	CHECK(memcmp(data, "{\"a\":1}\n{\"b\":2}\n", 16) == 0);
	CHECK_INT(read(fd, data, sizeof data), 0);
}

TEST(a_slow_reader_is_waited_for_a_while_and_then_told_what_it_lost)
{
	struct watchers watchers = {0};
	cleanup_fd int fd = watch_pipe(&watchers);
	static char line[1000];
	size_t n = 0, lost, sent = 0;
	pid_t pid;

	memset(line, 'x', sizeof line);
	while (!watchers_should_pause(&watchers)) {
		watchers_send(&watchers, line, sizeof line);
		sent++;
	}
	CHECK(sent > WATCHERS_BUFFER / 2 / 1001 && watchers.items[0].lost == 0);
	CHECK(watchers_deadline_ns(&watchers) < INT64_MAX);
	/* As if the time had passed. */
	watchers.items[0].full_ns -= WATCHERS_WAIT_NS;
	CHECK(!watchers_should_pause(&watchers));
	CHECK(watchers_deadline_ns(&watchers) == INT64_MAX);
	for (; sent < 2000; sent++)
		watchers_send(&watchers, line, sizeof line);
	n = watchers.items[0].lost;
	CHECK(n > 900 && n_missed == 0);
	/* Now it reads. */
	pid = fork();
	if (pid == 0) {
		watchers_close(&watchers);
		_exit(n_missed == n ? 0 : 1);
	}
	close(take_fd(&watchers.items[0].fd));
	CHECK_INT(count_lines(fd, &lost), 2000 - n + 1);
	CHECK_INT(lost, 1);
	free(watchers.items[0].data);
}

TEST(a_reader_that_goes_away_is_done_without)
{
	struct watchers watchers = {0};
	int fd = watch_pipe(&watchers);

	signal(SIGPIPE, SIG_IGN);
	close(fd);
	watchers_send(&watchers, "{}", 2);
	move(&watchers);
	CHECK(watchers.items[0].has_gone && watchers.items[0].fd < 0);
	CHECK_STR(last_why, strerror(EPIPE));
	watchers_send(&watchers, "{}", 2);
	watchers_close(&watchers);
}

TEST(a_command_gets_the_lines_and_ends_with_the_run)
{
	struct watchers watchers = {0};
	struct atoll_error err = {0};
	char command[400], data[64] = "";
	cleanup_fd int dir = test_tempdir(), fd = -1;

	snprintf(command, sizeof command, "exec:cat > '%s/out'", test_tempdir_path());
	CHECK(watchers_add(&watchers, command, &err) == 0);
	watchers_send(&watchers, "{\"a\":1}", 7);
	watchers_close(&watchers);
	fd = openat(dir, "out", O_RDONLY | O_CLOEXEC);
	CHECK_INT(read(fd, data, sizeof data), 8);
	CHECK_STR(data, "{\"a\":1}\n");
}

TEST(a_socket_is_connected_to)
{
	struct watchers watchers = {0};
	struct atoll_error err = {0};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int dir = test_tempdir(), listener = socket(AF_UNIX, SOCK_STREAM, 0), fd = -1;
	char target[200], data[16];

	(void)dir;
	snprintf(address.sun_path, sizeof address.sun_path, "%s/s", test_tempdir_path());
	snprintf(target, sizeof target, "unix:%s", address.sun_path);
	CHECK(watchers_add(&watchers, target, &err) == -ENOENT);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(watchers_add(&watchers, target, &err) == 0);
	fd = accept(listener, NULL, NULL);
	watchers_send(&watchers, "x", 1);
	move(&watchers);
	CHECK_INT(read(fd, data, sizeof data), 2);
	watchers_close(&watchers);
}

TEST(what_is_no_reader_is_refused_in_words)
{
	static const char *const targets[] = {
		"fd:", "fd:x", "fd:1000", "unix:", "exec:", "stdout", ""};
	struct watchers watchers = {0};

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		struct atoll_error err = {0};

		CHECK(watchers_add(&watchers, targets[i], &err) < 0);
		CHECK(err.fault == ATOLL_FAULT_REQUEST && strncmp(err.text, "--events: ", 10) == 0);
		CHECK_INT(watchers.n, 0);
	}
}

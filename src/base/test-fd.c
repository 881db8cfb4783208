/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/test.h"

#include <errno.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BIG ((size_t)1 << 20) /* more than a pipe holds */

static char big[BIG], seen[BIG];

static void fill_big(void)
{
	for (size_t i = 0; i < BIG; i++)
		big[i] = (char)(i * 31 >> 3);
}

static _Atomic unsigned *n_signals; /* shared with the child */

static void on_signal(int number)
{
	(void)number;
	++*n_signals;
}

/* Send one, and go on when it has arrived: what the parent waited in was interrupted. */
static void interrupt_parent(pid_t parent)
{
	unsigned before = *n_signals;

	kill(parent, SIGUSR1);
	while (*n_signals == before && getppid() == parent)
		sched_yield();
}

/* A child at the other end of the pipe that interrupts us before each of its small pieces. */
static pid_t start_other_side(int ends[2], bool reads)
{
	struct sigaction action = {.sa_handler =
					   on_signal}; /* no SA_RESTART: calls are interrupted */
	pid_t parent = getpid(), pid;

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	n_signals = mmap(NULL, sizeof *n_signals, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(n_signals != MAP_FAILED);
	fill_big();
	pid = fork();
	if (pid == 0) {
		int end = ends[reads ? 0 : 1];
		size_t done = 0;

		close(ends[reads ? 1 : 0]);
		while (done < BIG) {
			size_t piece = BIG - done < 5000 ? BIG - done : 5000;
			ssize_t moved;

			interrupt_parent(parent);
			moved = reads ? read(end, seen + done, piece)
				      : write(end, big + done, piece);
			if (moved <= 0)
				_exit(2);
			done += (size_t)moved;
		}
		_exit(reads && memcmp(seen, big, BIG) != 0);
	}
	CHECK(pid > 0);
	return pid;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Put `text` into a pipe whose writing end is closed; returns the reading end. */
static int pipe_with(const char *text)
{
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK(fd_write_all(ends[1], text, strlen(text)) == 0);
	close(ends[1]);
	return ends[0];
}

TEST(everything_is_written_through_short_and_interrupted_calls)
{
	int ends[2];
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid = start_other_side(ends, true);
	close(ends[0]);
	/* Pieces of a page wait for place with nothing written, where a signal makes EINTR; the
	 * large one is cut short by it. */
	for (size_t i = 0; i < BIG / 2; i += 4096)
		CHECK_INT(fd_write_all(ends[1], big + i, 4096), 0);
	CHECK_INT(fd_write_all(ends[1], big + BIG / 2, BIG / 2), 0);
	close(ends[1]);
	CHECK_INT(wait_for(pid), 0);
}

TEST(everything_is_read_through_short_and_interrupted_calls)
{
	int ends[2];
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid = start_other_side(ends, false);
	close(ends[1]);
	memset(seen, 0, BIG);
	CHECK_INT(fd_read_exact(ends[0], seen, BIG), 0);
	close(ends[0]);
	CHECK_INT(wait_for(pid), 0);
	CHECK(memcmp(seen, big, BIG) == 0);
}

TEST(reading_to_the_end_collects_all_pieces)
{
	cleanup_buf struct buf buf = BUF_INIT(BIG);
	int ends[2];
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid = start_other_side(ends, false);
	close(ends[1]);
	CHECK_INT(fd_read_all(ends[0], &buf), 0);
	close(ends[0]);
	CHECK_INT(wait_for(pid), 0);
	CHECK_INT(buf.used, BIG);
	CHECK(memcmp(buf.data, big, BIG) == 0);
}

TEST(writing_and_reading_nothing_touches_nothing)
{
	CHECK_INT(fd_write_all(-1, "x", 0), 0);
	CHECK_INT(fd_read_exact(-1, NULL, 0), 0);
}

TEST(a_descriptor_that_is_not_open_is_told)
{
	cleanup_buf struct buf buf = BUF_INIT(8);
	char byte;

	CHECK_INT(fd_write_all(-1, "x", 1), -EBADF);
	CHECK_INT(fd_read_exact(-1, &byte, 1), -EBADF);
	CHECK_INT(fd_read_all(-1, &buf), -EBADF);
}

TEST(an_early_end_is_a_broken_pipe)
{
	cleanup_fd int fd = pipe_with("abc");
	char bytes[4];

	CHECK_INT(fd_read_exact(fd, bytes, 4), -EPIPE);
}

TEST(no_more_is_read_than_was_asked_for)
{
	cleanup_fd int fd = pipe_with("abcd");
	char bytes[4] = "...";

	CHECK_INT(fd_read_exact(fd, bytes, 2), 0);
	CHECK_STR(bytes, "ab.");
	CHECK_INT(fd_read_exact(fd, bytes, 2), 0);
	CHECK_STR(bytes, "cd.");
}

TEST(reading_to_the_end_may_fill_the_limit_exactly)
{
	cleanup_fd int fd = pipe_with("abcd");
	cleanup_buf struct buf buf = BUF_INIT(4);

	CHECK_INT(fd_read_all(fd, &buf), 0);
	CHECK_STR(buf.data, "abcd");
}

TEST(reading_past_the_limit_fails_and_keeps_what_was_there)
{
	cleanup_fd int fd = pipe_with("abcd");
	cleanup_buf struct buf buf = BUF_INIT(4);

	buf_add_char(&buf, '#');
	CHECK_INT(fd_read_all(fd, &buf), -E2BIG);
	CHECK_STR(buf.data, "#");
}

TEST(an_endless_file_is_read_only_up_to_the_limit)
{
	cleanup_fd int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	cleanup_buf struct buf buf = BUF_INIT(100000);

	CHECK(fd >= 0);
	CHECK_INT(fd_read_all(fd, &buf), -E2BIG);
	CHECK(buf.used > 0 && buf.used <= 100000);
}

/* A directory with "sub/file", "link" to it and "out" to the root; needs openat2(2). */
static int make_tree(void)
{
	int dir = test_tempdir(), fd;

	fd = fd_openat2(dir, ".", O_PATH, 0, 0);
	if (fd == -ENOSYS)
		test_skip("openat2(2), Linux 5.6");
	CHECK(fd >= 0);
	close(fd);
	CHECK(mkdirat(dir, "sub", 0700) == 0);
	fd = openat(dir, "sub/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	close(fd);
	CHECK(symlinkat("sub/file", dir, "link") == 0);
	CHECK(symlinkat("/", dir, "out") == 0);
	return dir;
}

/* Also where openat2() is missing: build/test/no-new-calls --call openat2 build/src/test-fd */
TEST(a_real_path_has_no_links_as_far_as_it_exists)
{
	cleanup_fd int dir = test_tempdir();
	char top[PATH_MAX], path[PATH_MAX + 32], want[PATH_MAX + 32], real[PATH_MAX];
	static const struct {
		const char *from, *to;
	} cases[] = {
		{"/sub/file", "/sub/file"},
		{"/link", "/sub/file"},
		{"/sub/none/deep", "/sub/none/deep"},
		{"/sub/file/none", "/sub/file/none"},
		{"/to-sub/file", "/sub/file"},
		{"/to-sub/none/deep", "/sub/none/deep"},
		{"/nowhere", "/nowhere"},
	};

	CHECK(mkdirat(dir, "sub", 0700) == 0);
	CHECK(mknodat(dir, "sub/file", S_IFREG | 0600, 0) == 0);
	CHECK(symlinkat("sub/file", dir, "link") == 0);
	CHECK(symlinkat("/", dir, "out") == 0);
	CHECK(symlinkat("sub", dir, "to-sub") == 0);
	CHECK(symlinkat("none", dir, "nowhere") == 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
	CHECK(realpath(path, top) != NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(path, sizeof path, "%s%s", top, cases[i].from);
		snprintf(want, sizeof want, "%s%s", top, cases[i].to);
		fd_real_path(path, real);
		CHECK_STR(real, want);
	}
	snprintf(path, sizeof path, "%s/out/usr", top);
	fd_real_path(path, real);
	CHECK_STR(real, "/usr");
	fd_real_path("/", real);
	CHECK_STR(real, "/");
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

TEST(all_descriptors_but_those_to_keep_are_closed)
{
	const int keep[] = {70, -1, 40, 40, 2, 71};
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		bool is_good = dup2(1, 40) == 40 && dup2(1, 41) == 41 && dup2(1, 70) == 70 &&
			       dup2(1, 71) == 71 && dup2(1, 200) == 200 &&
			       fd_close_others(keep, sizeof keep / sizeof *keep) == 0;

		is_good = is_good && is_open(1) && is_open(40) && is_open(70) && is_open(71) &&
			  !is_open(3) && !is_open(41) && !is_open(200);
		_exit(is_good ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

TEST(blank_standard_streams_lead_to_no_file)
{
	for (int closed = -1; closed < 3; closed++) {
		pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (pid == 0) {
			char link[32], byte;
			bool is_good;

			close(closed);
			is_good = fd_blank_stdio() == 0;
			for (int fd = 0; fd < 3; fd++) {
				char path[32];

				snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
				is_good = is_good && readlink(path, link, sizeof link) > 10 &&
					  memcmp(link, "anon_inode", 10) == 0 &&
					  fcntl(fd, F_GETFD) == FD_CLOEXEC &&
					  read(fd, &byte, 1) < 0 && write(fd, "x", 1) < 0;
			}
			_exit(is_good ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK_INT(status, 0);
	}
}

TEST(an_opened_descriptor_is_closed_on_exec)
{
	cleanup_fd int dir = make_tree();
	cleanup_fd int fd = fd_openat2(dir, "sub/file", O_RDONLY, 0, 0);

	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

TEST(what_is_missing_is_told)
{
	cleanup_fd int dir = make_tree();

	CHECK_INT(fd_openat2(dir, "none", O_PATH, 0, 0), -ENOENT);
	CHECK_INT(fd_openat2(dir, "sub/file", O_PATH | O_DIRECTORY, 0, 0), -ENOTDIR);
}

TEST(a_walk_that_stays_beneath_does_not_get_out)
{
	cleanup_fd int dir = make_tree();
	cleanup_fd int inside = fd_openat2(dir, "sub/../link", O_RDONLY, 0, RESOLVE_BENEATH);

	CHECK(inside >= 0);
	CHECK_INT(fd_openat2(dir, "..", O_PATH, 0, RESOLVE_BENEATH), -EXDEV);
	CHECK_INT(fd_openat2(dir, "sub/../../x", O_PATH, 0, RESOLVE_BENEATH), -EXDEV);
	CHECK_INT(fd_openat2(dir, "out/etc", O_PATH, 0, RESOLVE_BENEATH), -EXDEV);
	CHECK_INT(fd_openat2(dir, "/", O_PATH, 0, RESOLVE_BENEATH), -EXDEV);
}

TEST(a_walk_without_symlinks_meets_none)
{
	cleanup_fd int dir = make_tree();

	CHECK_INT(fd_openat2(dir, "link", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), -ELOOP);
	CHECK_INT(fd_openat2(dir, "out/tmp", O_PATH, 0, RESOLVE_NO_SYMLINKS), -ELOOP);
}

TEST(a_created_file_has_the_mode_asked_for)
{
	cleanup_fd int dir = make_tree();
	cleanup_fd int fd = fd_openat2(dir, "new", O_WRONLY | O_CREAT | O_EXCL, 0600, 0);
	struct stat st;

	CHECK(fd >= 0);
	CHECK(fstat(fd, &st) == 0);
	CHECK_INT(st.st_mode & 07777, 0600);
}

/* The kernel refuses a mode where nothing is created; O_DIRECTORY is a part of O_TMPFILE. */
TEST(a_mode_is_ignored_where_nothing_is_created)
{
	cleanup_fd int dir = make_tree();
	cleanup_fd int file = fd_openat2(dir, "sub/file", O_RDONLY, 0600, 0);
	cleanup_fd int sub = fd_openat2(dir, "sub", O_RDONLY | O_DIRECTORY, 0700, 0);

	CHECK(file >= 0);
	CHECK(sub >= 0);
}

/* RESOLVE_CACHED answers EAGAIN to whatever would have to create; that was asked for ever. */
TEST(a_walk_through_the_cache_alone_is_tried_once)
{
	cleanup_fd int dir = make_tree();
	int fd;

	alarm(20);
	fd = fd_openat2(dir, "new", O_WRONLY | O_CREAT, 0600, RESOLVE_CACHED);
	alarm(0);
	if (fd == -EINVAL)
		test_skip("RESOLVE_CACHED, Linux 5.12");
	CHECK_INT(fd, -EAGAIN);
}

/* The content of "text" in the last temporary directory; good until the next call. */
static const char *content(int dir)
{
	static char text[64];
	cleanup_fd int fd = openat(dir, "text", O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, text, sizeof text - 1);

	CHECK(got >= 0);
	text[got] = '\0';
	return text;
}

TEST(a_written_text_replaces_a_longer_one)
{
	cleanup_fd int dir = test_tempdir();
	char path[128];
	struct stat st;

	snprintf(path, sizeof path, "%s/text", test_tempdir_path());
	CHECK_INT(fd_write_text(path, "a long text"), 0);
	CHECK_STR(content(dir), "a long text");
	CHECK_INT(fd_write_text(path, "short"), 0);
	CHECK_STR(content(dir), "short");
	CHECK(fstatat(dir, "text", &st, 0) == 0);
	CHECK_INT(st.st_mode & 07777, 0600);
}

TEST(a_text_is_not_written_through_a_planted_symlink)
{
	cleanup_fd int dir = test_tempdir();
	char path[128];

	snprintf(path, sizeof path, "%s/text", test_tempdir_path());
	CHECK_INT(fd_write_text(path, "mine"), 0);
	CHECK(symlinkat("text", dir, "planted") == 0);
	snprintf(path, sizeof path, "%s/planted", test_tempdir_path());
	CHECK_INT(fd_write_text(path, "yours"), -ELOOP);
	CHECK_STR(content(dir), "mine");
	snprintf(path, sizeof path, "%s/none/text", test_tempdir_path());
	CHECK_INT(fd_write_text(path, "x"), -ENOENT);
}

TEST(a_range_is_closed_or_marked_and_nothing_beside_it)
{
	int low = fcntl(STDERR_FILENO, F_DUPFD, 50), high = fcntl(STDERR_FILENO, F_DUPFD, 60);

	CHECK(low == 50 && high == 60);
	CHECK(fd_close_range(60, 70, true) == 0);
	CHECK(fcntl(high, F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(low, F_GETFD) == 0);
	CHECK(fd_close_range(60, 70, false) == 0);
	CHECK(fcntl(high, F_GETFD) < 0 && errno == EBADF);
	CHECK(close(low) == 0);
}

TEST(no_more_descriptors_arrive_than_there_is_room_for)
{
	int pair[2], sent[3] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO}, got[2] = {-1, -1};
	size_t n = 1;
	char byte;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK_INT(fd_send(pair[0], "x", 1, sent, 3), 0);
	CHECK_INT(fd_receive(pair[1], &byte, 1, 0, got, &n), 1);
	CHECK_INT(n, 1);
	CHECK(fcntl(got[0], F_GETFD) == FD_CLOEXEC);
	CHECK_INT(got[1], -1);
	close(got[0]);
	close(pair[0]);
	close(pair[1]);
}

/* Bytes wait in it that nobody takes, and whoever closes it is to wait for that. */
TEST(a_strangers_socket_is_closed_without_waiting)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger forever = {.l_onoff = 1, .l_linger = 3600};
	socklen_t size = sizeof address;
	cleanup_fd int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	CHECK(connect(fd, (struct sockaddr *)&address, size) == 0);
	while (send(fd, big, sizeof big, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof forever) == 0);
	alarm(20);
	fd_close_strange(fd);
	alarm(0);
	CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	fd_close_strange(-1);
	fd_close_strange(fcntl(STDERR_FILENO, F_DUPFD, 50));
	CHECK(fcntl(50, F_GETFD) < 0 && errno == EBADF);
}

TEST(a_descriptor_above_the_standard_streams_stays_and_one_of_them_is_replaced)
{
	cleanup_fd int kept = dup(STDIN_FILENO), pipe_end = -1;
	int made[2];

	CHECK(pipe2(made, O_CLOEXEC) == 0);
	CHECK(fd_above_stdio(made[0]) == made[0]);
	close(made[0]);
	CHECK(dup2(made[1], STDIN_FILENO) == STDIN_FILENO);
	close(made[1]);
	pipe_end = fd_above_stdio(STDIN_FILENO);
	CHECK(pipe_end > STDERR_FILENO && fcntl(pipe_end, F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(STDIN_FILENO, F_GETFD) < 0);
	if (kept >= 0)
		CHECK(dup2(kept, STDIN_FILENO) == STDIN_FILENO);
	CHECK(fd_above_stdio(-1) == -EBADF);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides: the requests of box/guest.h, and the program inside, which here runs beside us in a
 * child of ours. Some children are no guests at all, and say what they like.
 */
#include "base/test.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "box/guest-inner.h"
#include "guest/inner.h"

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

struct loop *house_loop(struct house *house)
{
	(void)house;
	return &loop;
}

static _Noreturn void be_guest(int fd, bool is_root)
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

static void keep_entry(struct told *told, const struct guest_entry *entry, size_t i)
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

static void done(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
		 void *data)
{
	struct told *told = data;

	told->err = *err;
	told->n = n;
	told->n_calls++;
	for (size_t i = 0; i < n && i < 16; i++)
		keep_entry(told, &entries[i], i);
	for (size_t i = 0; i < n; i++) {
		told->sizes += entries[i].size;
		if (entries[i].metadata.n)
			snprintf(told->marked, sizeof told->marked, "%s", entries[i].path);
		if (entries[i].is_link)
			snprintf(told->links, sizeof told->links, "%s", entries[i].path);
	}
	told->is_over = true;
	loop_stop(&loop);
}

static void opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
		   void *data)
{
	done(entry, entry != NULL, err, data);
	((struct told *)data)->fd = fd;
}

static void give_up(struct loop_timer *timer)
{
	(void)timer;
	test_fail(__FILE__, __LINE__, "nothing came for 30 seconds");
}

static void await(const bool *is_over)
{
	struct loop_timer timer = {.fire = give_up};

	loop_arm(&loop, &timer, clock_monotonic_ns() + 30 * INT64_C(1000000000));
	while (!*is_over)
		loop_run(&loop);
	loop_disarm(&loop, &timer);
}

static void begin(void)
{
	close(test_tempdir());
	snprintf(home, sizeof home, "%s", test_tempdir_path());
	CHECK(loop_init(&loop) == 0);
	box = (struct box){.state = BOX_RUNNING};
	stranger = NULL;
	n_killed = n_started = 0;
	has_no_root = true;
}

static void finish(void)
{
	guest_end(&box);
	loop_done(&loop);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static const char *at_home(const char *name)
{
	static char paths[4][512];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, 512, "%s/%s", home, name);
	return path;
}

static void put_file(const char *name, const char *text)
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

/* ---- names ---- */

TEST(stat_tells_of_a_file_by_home_tilde_and_whole_path)
{
	struct told *told;

	begin();
	put_file("a b", "hello");
	told = ASK(guest_stat, "a b", done);
	CHECK_INT(told->err.fault, ATOLL_FAULT_NONE);
	CHECK_INT(told->n, 1);
	CHECK_STR(told->paths[0], at_home("a b"));
	CHECK(told->first.type == 'f');
	CHECK_INT((long)told->first.size, 5);
	CHECK_INT(told->first.permissions, 0644);
	told = ASK(guest_stat, "~/./x/../a b", done);
	CHECK_STR(told->paths[0], at_home("a b"));
	told = ASK(guest_stat, at_home("a b"), done);
	CHECK_STR(told->paths[0], at_home("a b"));
	told = ASK(guest_stat, "", done);
	CHECK_STR(told->paths[0], home);
	CHECK(told->first.type == 'd');
	told = ASK(guest_stat, "~other/x", done);
	CHECK_INT(told->err.errnum, EINVAL);
	CHECK_INT(n_started, 1);
	finish();
}

TEST(what_is_not_there_is_told_with_its_whole_path)
{
	struct told *told;
	char text[512];

	begin();
	told = ASK(guest_stat, "nope", done);
	CHECK_INT(told->err.errnum, ENOENT);
	snprintf(text, sizeof text, "path '%s' does not exist", at_home("nope"));
	CHECK_STR(told->err.text, text);
	finish();
}

TEST(a_link_is_told_with_its_target_and_a_dangling_one_with_itself)
{
	struct told *told;

	begin();
	put_file("real", "12345678");
	CHECK(chmod(at_home("real"), 0600) == 0);
	CHECK(symlink("real", at_home("link")) == 0);
	CHECK(symlink("nowhere", at_home("dangling")) == 0);
	told = ASK(guest_stat, "link", done);
	CHECK_INT(told->first.is_link, true);
	CHECK(told->first.type == 'f');
	CHECK_INT(told->first.permissions, 0600);
	CHECK(S_ISLNK(told->first.mode));
	CHECK_STR(told->target, at_home("real"));
	told = ASK(guest_stat, "dangling", done);
	CHECK(told->first.type == 'l');
	CHECK_STR(told->target, at_home("dangling"));
	finish();
}

TEST(directories_are_made_with_their_parents_and_once)
{
	struct told *told;

	begin();
	told = ASK(guest_make_dir, "a/b/c", done);
	CHECK_INT(told->err.fault, ATOLL_FAULT_NONE);
	CHECK_STR(told->paths[0], at_home("a/b/c"));
	CHECK_INT(told->first.permissions, 0755);
	told = ASK(guest_make_dir, "a/b/c", done);
	CHECK_INT(told->err.errnum, EEXIST);
	put_file("f", "");
	told = ASK(guest_make_dir, "f", done);
	CHECK_INT(told->err.errnum, ENOTDIR);
	told = ASK(guest_make_dir, "f/x", done);
	CHECK_INT(told->err.errnum, ENOTDIR);
	finish();
}

TEST(a_list_is_in_order_and_before_its_children_a_directory)
{
	struct told *told;

	begin();
	CHECK(mkdir(at_home("b"), 0755) == 0);
	put_file("b/z", "");
	put_file("b/y", "");
	put_file("a", "");
	put_file("b.txt", "");
	put_file("c-which-is-longer", "");
	put_file("c-which-is-long", "");
	CHECK(symlink("b", at_home("d")) == 0);
	told = ASK(guest_list, ".", 0, done);
	CHECK_INT(told->n, 6);
	told = ASK(guest_list, ".", 9, done);
	CHECK_INT(told->n, 8);
	CHECK_STR(told->paths[0], at_home("a"));
	CHECK_STR(told->paths[1], at_home("b"));
	CHECK_STR(told->paths[2], at_home("b/y"));
	CHECK_STR(told->paths[3], at_home("b/z"));
	CHECK_STR(told->paths[4], at_home("b.txt"));
	CHECK_STR(told->paths[5], at_home("c-which-is-long"));
	CHECK_STR(told->paths[6], at_home("c-which-is-longer"));
	told = ASK(guest_list, "d", 1, done);
	CHECK_INT(told->n, 2);
	CHECK_STR(told->paths[0], at_home("d/y"));
	told = ASK(guest_list, "a", 1, done);
	CHECK_INT(told->err.errnum, ENOTDIR);
	told = ASK(guest_list, "none", 1, done);
	CHECK_INT(told->err.errnum, ENOENT);
	told = ASK(guest_list, "/", 1, done);
	CHECK(told->n > 3 && strrchr(told->paths[0], '/') == told->paths[0]);
	finish();
}

TEST(a_list_of_ten_thousand_comes_in_many_packets)
{
	int64_t start, took = INT64_MAX;
	struct told *told;
	char name[64];

	begin();
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof name, "file-%05d", (i * 7919) % 10000);
		put_file(name, "");
	}
	for (int i = 0; i < 5; i++) {
		start = clock_monotonic_ns();
		told = ASK(guest_list, "", 1, done);
		CHECK_INT(told->n, 10000);
		if (clock_monotonic_ns() - start < took)
			took = clock_monotonic_ns() - start;
	}
	CHECK_STR(told->paths[15], at_home("file-00015"));
	printf("# 10,000 entries in %lld us\n", (long long)took / 1000);
	finish();
}

/* Of so many the last ones are looked at elsewhere: nothing is different of them. */
TEST(a_large_list_tells_the_same_of_first_and_last)
{
	static const char *const marked[] = {"f-0000", "f-0700", "f-1399"};
	const struct box_pairs pairs = {.items = &(struct box_pair){(char *)"k", (char *)"v"},
					.n = 1};
	struct told *told;
	char name[64];

	begin();
	for (int i = 0; i < 1400; i++) {
		snprintf(name, sizeof name, "d/f-%04d", i);
		if (i == 0)
			close(ASK(guest_write, name, NULL, opened)->fd);
		put_file(name, "12345");
	}
	CHECK(symlink("f-0001", at_home("d/f-1400")) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(marked); i++) {
		snprintf(name, sizeof name, "d/%s", marked[i]);
		told = ASK(guest_write, name, &pairs, opened);
		CHECK(write(told->fd, "1234567", 7) == 7);
		close(told->fd);
		told = ASK(guest_list, "d", 1, done);
		CHECK_INT(told->n, 1401);
		CHECK_INT(told->sizes, 1400 * 5 + (i + 1) * 2 + 6);
		CHECK_STR(told->links, at_home("d/f-1400"));
		/* A file system may have no such attributes. */
		if (told->marked[0])
			CHECK_STR(told->marked, at_home(name));
	}
	finish();
}

TEST(hostile_names_go_out_and_come_back)
{
	const char *name = "\xff\"\\\n\t \x1b[2Jé";
	struct told *told;

	begin();
	put_file(name, "x");
	told = ASK(guest_list, "", 1, done);
	CHECK_INT(told->n, 1);
	CHECK_STR(told->paths[0], at_home(name));
	told = ASK(guest_remove, told->paths[0], done);
	CHECK_INT(told->err.fault, ATOLL_FAULT_NONE);
	CHECK(access(at_home(name), F_OK) < 0);
	finish();
}

TEST(removing_takes_all_and_does_not_follow_links)
{
	struct told *told;

	begin();
	CHECK(mkdir(at_home("kept"), 0755) == 0);
	put_file("kept/file", "x");
	CHECK(mkdir(at_home("d"), 0755) == 0 && mkdir(at_home("d/e"), 0755) == 0);
	put_file("d/e/f", "x");
	CHECK(symlink("../kept", at_home("d/link")) == 0);
	CHECK(chmod(at_home("d/e"), 0) == 0);
	told = ASK(guest_remove, "d", done);
	CHECK_INT(told->err.fault, ATOLL_FAULT_NONE);
	CHECK(access(at_home("d"), F_OK) < 0);
	CHECK(access(at_home("kept/file"), F_OK) == 0);
	told = ASK(guest_remove, "d", done);
	CHECK_INT(told->err.fault, ATOLL_FAULT_NONE);
	told = ASK(guest_remove, "/", done);
	CHECK_INT(told->err.errnum, EBUSY);
	finish();
}

TEST(no_tree_is_too_deep_to_be_removed_or_listed)
{
	struct told *told;
	int fd, next;

	begin();
	CHECK(mkdir(at_home("deep"), 0755) == 0);
	fd = open(at_home("deep"), O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 6000; i++) {
		CHECK(mkdirat(fd, "down", 0755) == 0);
		next = openat(fd, "down", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = next;
	}
	close(fd);
	/* As deep as paths can be told. */
	told = ASK(guest_list, "deep", 100000, done);
	CHECK_INT(told->err.fault, ATOLL_FAULT_NONE);
	CHECK(told->n > 700 && told->n < 900);
	told = ASK(guest_remove, "deep", done);
	CHECK_INT(told->err.fault, ATOLL_FAULT_NONE);
	CHECK(access(at_home("deep"), F_OK) < 0);
	finish();
}

TEST(moving_makes_parents_and_reaches_other_file_systems)
{
	struct told *told;
	struct stat st;
	char there[64], text[8] = "";
	int fd;

	begin();
	put_file("a", "12345");
	told = ASK(guest_move, "a", "x/y/b", done);
	CHECK_STR(told->paths[0], at_home("x/y/b"));
	told = ASK(guest_move, "a", "c", done);
	CHECK_INT(told->err.errnum, ENOENT);
	CHECK(symlink("y/b", at_home("x/l")) == 0);
	CHECK(chmod(at_home("x/y"), 0750) == 0);
	snprintf(there, sizeof there, "/dev/shm/atoll-test-guest-%d/z", getpid());
	told = ASK(guest_move, "x", there, done);
	CHECK_INT(told->err.errnum, 0);
	CHECK_STR(told->paths[0], there);
	CHECK(access(at_home("x"), F_OK) < 0);
	fd = open(there, O_RDONLY | O_DIRECTORY);
	CHECK(fstatat(fd, "y", &st, 0) == 0 && (st.st_mode & 0777) == 0750);
	close(fd);
	told = ASK(guest_move, there, "back", done);
	CHECK_INT(told->err.errnum, 0);
	fd = open(at_home("back/l"), O_RDONLY);
	CHECK(read(fd, text, 8) == 5 && strcmp(text, "12345") == 0);
	close(fd);
	*strrchr(there, '/') = '\0';
	told = ASK(guest_remove, there, done);
	CHECK_INT(told->err.errnum, 0);
	finish();
}

/* ---- content ---- */

TEST(a_file_is_written_and_read_by_its_own_descriptor)
{
	struct box_pair pairs[] = {{(char *)"author", (char *)"me"}};
	struct box_pairs metadata = {pairs, 1}, none = {0};
	struct told *told;
	char text[16] = "";
	struct stat st;
	int fd;

	begin();
	told = ASK(guest_write, "new/f", &metadata, opened);
	CHECK_INT(told->err.errnum, 0);
	CHECK(told->fd >= 0);
	CHECK(write(told->fd, "content", 7) == 7);
	close(told->fd);
	CHECK_STR(told->paths[0], at_home("new/f"));
	CHECK(stat(at_home("new/f"), &st) == 0 && (st.st_mode & 0777) == 0644);
	if (getxattr(at_home("new/f"), "user.e2b.author", text, sizeof text) == 2) {
		told = ASK(guest_stat, "new/f", done);
		CHECK_STR(told->key, "author");
		CHECK_STR(told->value, "me");
	}
	told = ASK(guest_open, "new/f", opened);
	fd = told->fd;
	CHECK(read(fd, text, sizeof text) == 7 && memcmp(text, "content", 7) == 0);
	close(fd);
	told = ASK(guest_write, "new/f", &none, opened);
	close(told->fd);
	told = ASK(guest_stat, "new/f", done);
	CHECK_INT((long)told->first.size, 0);
	CHECK_INT((long)told->first.metadata.n, 0);
	told = ASK(guest_write, "new", &none, opened);
	CHECK_INT(told->err.errnum, EISDIR);
	told = ASK(guest_open, "new", opened);
	CHECK_INT(told->err.errnum, EISDIR);
	told = ASK(guest_open, "new/g", opened);
	CHECK_INT(told->err.errnum, ENOENT);
	CHECK_INT(told->fd, -1);
	finish();
}

static size_t read_slowly(int fd, char *text, size_t size)
{
	size_t used = 0;
	struct loop_timer timer = {0};

	(void)timer;
	for (int i = 0; i < 3000 && used < size - 1; i++) {
		ssize_t n = read(fd, text + used, size - 1 - used);

		if (n == 0)
			break;
		if (n < 0)
			usleep(10000);
		else
			used += (size_t)n;
	}
	text[used] = '\0';
	return used;
}

TEST(what_has_no_size_comes_through_a_pipe)
{
	struct told *told;
	char text[4096];
	struct stat st;
	int fd;

	begin();
	told = ASK(guest_open, "/proc/self/status", opened);
	CHECK_INT(told->err.errnum, 0);
	CHECK(fstat(told->fd, &st) == 0 && S_ISFIFO(st.st_mode));
	read_slowly(told->fd, text, sizeof text);
	CHECK(strncmp(text, "Name:", 5) == 0);
	close(told->fd);
	CHECK(mkfifo(at_home("fifo"), 0600) == 0);
	/* Nobody writes. */
	told = ASK(guest_open, "fifo", opened);
	CHECK_INT((long)read_slowly(told->fd, text, sizeof text), 0);
	close(told->fd);
	fd = open(at_home("fifo"), O_RDWR);
	told = ASK(guest_open, "fifo", opened);
	CHECK(read(told->fd, text, 10) < 0 && errno == EAGAIN);
	CHECK(write(fd, "abc", 3) == 3);
	for (int i = 0; i < 3000 && read(told->fd, text, 10) < 0; i++)
		usleep(1000);
	CHECK(memcmp(text, "abc", 3) == 0);
	close(told->fd);
	/* Writing to one is no way to hang, either. */
	told = ASK(guest_write, "fifo", NULL, opened);
	CHECK_INT(told->err.errnum, EINVAL);
	close(fd);
	finish();
}

TEST(several_files_become_one)
{
	char *from[] = {(char *)"1", (char *)"2", (char *)"3"};
	char text[16] = "";
	struct told *told;
	int fd;

	begin();
	put_file("1", "one");
	put_file("2", "two");
	put_file("3", "three");
	told = ASK(guest_compose, from, 3, "all/of/them", done);
	CHECK_INT(told->err.errnum, 0);
	fd = open(at_home("all/of/them"), O_RDONLY);
	CHECK(read(fd, text, sizeof text) == 11 && memcmp(text, "onetwothree", 11) == 0);
	close(fd);
	CHECK(access(at_home("1"), F_OK) < 0 && access(at_home("3"), F_OK) < 0);
	put_file("1", "one");
	told = ASK(guest_compose, from, 3, "other", done);
	CHECK_INT(told->err.errnum, ENOENT);
	CHECK(access(at_home("1"), F_OK) == 0 && access(at_home("other"), F_OK) < 0);
	finish();
}

TEST(ports_are_reached_on_both_loopbacks)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof v4;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), other;
	struct told told = {0};

	begin();
	CHECK(bind(listener, (void *)&v4, sizeof v4) == 0 && listen(listener, 5) == 0);
	CHECK(getsockname(listener, (void *)&v4, &size) == 0);
	guest_connect(&box, ntohs(v4.sin_port), opened, &told);
	await(&told.is_over);
	CHECK_INT(told.err.errnum, 0);
	other = accept(listener, NULL, NULL);
	CHECK(write(told.fd, "x", 1) == 1);
	close(told.fd);
	close(other);
	close(listener);
	told = (struct told){0};
	guest_connect(&box, ntohs(v4.sin_port), opened, &told);
	await(&told.is_over);
	CHECK_INT(told.err.errnum, ECONNREFUSED);
	listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size = sizeof v6;
	if (listener >= 0 && bind(listener, (void *)&v6, sizeof v6) == 0) {
		CHECK(listen(listener, 5) == 0 && getsockname(listener, (void *)&v6, &size) == 0);
		told = (struct told){0};
		guest_connect(&box, ntohs(v6.sin6_port), opened, &told);
		await(&told.is_over);
		CHECK_INT(told.err.errnum, 0);
		close(told.fd);
	}
	close(listener);
	finish();
}

/* ---- watching ---- */

struct seen {
	size_t n;
	char lines[4096][64];
	bool has;
	const char *wanted;
	bool is_lost;
};

static void saw(enum guest_event event, const char *name, const struct guest_entry *entry,
		void *data)
{
	static const char kinds[] = "CWRMAL";
	struct seen *seen = data;
	char *line = seen->lines[seen->n++ % 4096];

	snprintf(line, 64, "%c%c %s", kinds[event], entry ? '+' : '-', name);
	if (event == GUEST_LOST)
		seen->is_lost = true;
	if (seen->wanted && strcmp(line, seen->wanted) == 0) {
		seen->has = true;
		loop_stop(&loop);
	}
}

static void armed(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
		  void *data)
{
	(void)entries;
	(void)n;
	CHECK_INT(err->errnum, 0);
	((struct seen *)data)->has = true;
	loop_stop(&loop);
}

static bool has_line(const struct seen *seen, const char *line)
{
	for (size_t i = 0; i < seen->n && i < 4096; i++)
		if (strcmp(seen->lines[i], line) == 0)
			return true;
	return false;
}

static void await_line(struct seen *seen, const char *line)
{
	seen->wanted = line;
	seen->has = has_line(seen, line);
	await(&seen->has);
}

TEST(a_watch_tells_what_happens_also_in_new_directories)
{
	static struct seen seen;
	struct guest_watch *watch;

	begin();
	seen = (struct seen){0};
	CHECK(mkdir(at_home("w"), 0755) == 0 && mkdir(at_home("w/sub"), 0755) == 0);
	put_file("w/old", "");
	watch = guest_watch(&box, NULL, "w", true, true, armed, saw, &seen);
	await(&seen.has);
	put_file("w/f", "text");
	await_line(&seen, "W+ f");
	CHECK(has_line(&seen, "C+ f"));
	put_file("w/sub/g", "");
	await_line(&seen, "C+ sub/g");
	/* At once, so that the guest cannot have watched them before. */
	CHECK(mkdir(at_home("w/n"), 0755) == 0 && mkdir(at_home("w/n/m"), 0755) == 0);
	put_file("w/n/m/h", "x");
	await_line(&seen, "C+ n/m/h");
	CHECK(has_line(&seen, "C+ n") && has_line(&seen, "C+ n/m"));
	put_file("w/n/m/later", "");
	await_line(&seen, "C+ n/m/later");
	CHECK(rename(at_home("w/n"), at_home("w/moved")) == 0);
	await_line(&seen, "C+ moved");
	CHECK(has_line(&seen, "M- n"));
	put_file("w/moved/m/k", "");
	await_line(&seen, "C+ moved/m/k");
	CHECK(!has_line(&seen, "C+ n/m/k"));
	CHECK(chmod(at_home("w/f"), 0600) == 0);
	await_line(&seen, "A+ f");
	CHECK(unlink(at_home("w/f")) == 0);
	await_line(&seen, "R- f");
	guest_unwatch(watch);
	finish();
}

TEST(each_new_name_is_told_once)
{
	static struct seen seen;
	struct guest_watch *watch;
	char name[64], line[80];
	size_t n;

	begin();
	seen = (struct seen){0};
	CHECK(mkdir(at_home("w"), 0755) == 0);
	watch = guest_watch(&box, NULL, "w", true, false, armed, saw, &seen);
	await(&seen.has);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "w/d%d", i);
		CHECK(mkdir(at_home(name), 0755) == 0);
		snprintf(name, sizeof name, "w/d%d/f", i);
		put_file(name, "");
	}
	await_line(&seen, "C- d99/f");
	put_file("w/end", "");
	await_line(&seen, "C- end");
	for (int i = 0; i < 100; i++) {
		snprintf(line, sizeof line, "C- d%d/f", i);
		n = 0;
		for (size_t k = 0; k < seen.n; k++)
			n += strcmp(seen.lines[k], line) == 0;
		CHECK_INT(n, 1);
	}
	guest_unwatch(watch);
	finish();
}

TEST(a_watch_of_nothing_fails_and_two_may_look_at_one_directory)
{
	static struct seen seen[2];
	struct guest_watch *watches[2];
	struct told told = {0};

	begin();
	memset(seen, 0, sizeof seen);
	guest_unwatch(guest_watch(&box, NULL, "nope", false, false, done, saw, &told));
	watches[0] = guest_watch(&box, NULL, "nope", false, false, done, saw, &told);
	await(&told.is_over);
	CHECK_INT(told.err.errnum, ENOENT);
	CHECK_INT(told.n_calls, 1);
	guest_unwatch(watches[0]);
	for (int i = 0; i < 2; i++) {
		watches[i] = guest_watch(&box, NULL, "", false, false, armed, saw, &seen[i]);
		await(&seen[i].has);
	}
	put_file("f", "");
	await_line(&seen[0], "C- f");
	await_line(&seen[1], "C- f");
	guest_unwatch(watches[0]);
	put_file("g", "");
	await_line(&seen[1], "C- g");
	CHECK(!has_line(&seen[0], "C- g"));
	/* Its end is told to who still looks. */
	kill(guest_pid, SIGKILL);
	await_line(&seen[1], "L- ");
	guest_unwatch(watches[1]);
	finish();
}

/* ---- many, and its end ---- */

TEST(long_work_keeps_nobody_waiting)
{
	struct told big = {0}, small = {0};
	char name[64];

	begin();
	for (int i = 0; i < 4000; i++) {
		snprintf(name, sizeof name, "f%d", i);
		put_file(name, "");
	}
	for (int i = 0; i < 2; i++)
		guest_list(&box, NULL, "", 1, done, &big);
	guest_stat(&box, NULL, "f1", done, &small);
	await(&small.is_over);
	CHECK_INT(small.n, 1);
	while (big.n_calls < 2)
		loop_run(&loop);
	CHECK_INT(big.n, 4000);
	finish();
}

TEST(a_guest_that_dies_fails_what_waits_and_another_one_comes)
{
	struct told told[3] = {0};
	struct told *again;

	begin();
	again = ASK(guest_stat, "", done);
	CHECK_INT(again->err.errnum, 0);
	kill(guest_pid, SIGSTOP);
	for (int i = 0; i < 3; i++)
		guest_stat(&box, NULL, "", done, &told[i]);
	kill(guest_pid, SIGKILL);
	await(&told[2].is_over);
	for (int i = 0; i < 3; i++)
		CHECK_INT(told[i].err.errnum, ENOTCONN);
	again = ASK(guest_stat, "", done);
	CHECK_INT(again->err.errnum, 0);
	CHECK_INT(n_started, 2);
	finish();
}

TEST(the_end_of_a_box_ends_its_guest)
{
	struct told told = {0};
	int status;

	begin();
	guest_stat(&box, NULL, "", done, &told);
	guest_end(&box);
	CHECK(told.is_over);
	CHECK_INT(told.err.errnum, ENOTCONN);
	CHECK(waitpid(guest_pid, &status, 0) == guest_pid && WIFEXITED(status));
	box.state = BOX_PAUSED;
	told = (struct told){0};
	guest_stat(&box, NULL, "", done, &told);
	CHECK(!told.is_over);
	await(&told.is_over);
	CHECK_INT(told.err.errnum, ENOTCONN);
	CHECK_INT(n_started, 1);
	finish();
}

/* ---- those that are no guests ---- */

static void say_raw(int fd, uint64_t id, uint16_t kind, uint16_t n, const char *body, size_t size,
		    int sent_fd)
{
	char packet[512];
	struct guest_head head = {
		.id = id, .size = (uint32_t)(sizeof head + size), .kind = kind, .n = n};

	memcpy(packet, &head, sizeof head);
	memcpy(packet + sizeof head, body, size);
	fd_send(fd, packet, sizeof head + size, &sent_fd, sent_fd >= 0);
	pause();
}

static void hear(int fd)
{
	char packet[1024];

	if (read(fd, packet, sizeof packet) <= 0)
		_exit(0);
}

static void babble(int fd)
{
	hear(fd);
	fd_send(fd, "what?", 5, NULL, 0);
	pause();
}

static void answer_another(int fd)
{
	hear(fd);
	say_raw(fd, 77, GUEST_SAYS_DONE, 0, "\0\0", 3, -1);
}

static void count_too_high(int fd)
{
	hear(fd);
	say_raw(fd, 1, GUEST_SAYS_DONE, 65535, "\0\0", 3, -1);
}

static void hide_a_nul(int fd)
{
	hear(fd);
	say_raw(fd, 1, GUEST_SAYS_DONE, 0, "\3\0a\0b", 6, -1);
}

static void send_no_entry(int fd)
{
	hear(fd);
	say_raw(fd, 1, GUEST_SAYS_DONE, 0, "\0\0", 3, -1);
}

static int what_to_hand_out;

/* The answer to OPEN that would be right, with a descriptor that is not. */
static void hand_out(int fd)
{
	struct guest_wire_entry entry = {.type = 'f', .mode = S_IFREG | 0644};
	struct buf body = BUF_INIT(400);

	hear(fd);
	guest_put(&body, "/x");
	buf_add(&body, &entry, sizeof entry);
	guest_put(&body, "/x");
	guest_put(&body, "");
	guest_put(&body, "root");
	guest_put(&body, "root");
	say_raw(fd, 1, GUEST_SAYS_DONE, 1, body.data, body.used, what_to_hand_out);
}

TEST(a_guest_that_makes_no_sense_is_killed_and_says_so)
{
	static void (*const strangers[])(int fd) = {babble, answer_another, count_too_high,
						    hide_a_nul, send_no_entry};

	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
		struct told *told;

		begin();
		stranger = strangers[i];
		told = ASK(guest_stat, "", done);
		CHECK_INT(told->err.errnum, ENOTCONN);
		CHECK_STR(told->err.text, "the helper program in the sandbox made no sense");
		CHECK_INT(n_killed, 1);
		finish();
	}
}

static int n_parts;

/* Parts of a list that has no end. */
static void list_on(int fd)
{
	static char packet[GUEST_PACKET_MAX];
	struct guest_head head = {.id = 1, .kind = GUEST_SAYS_ENTRIES, .size = sizeof packet};

	hear(fd);
	memcpy(packet, &head, sizeof head);
	for (int i = 0; i < n_parts; i++)
		fd_send(fd, packet, sizeof packet, NULL, 0);
	hear(fd);
}

static void look_again(struct loop_timer *timer)
{
	(void)timer;
	loop_stop(&loop);
}

TEST(of_a_frozen_box_no_half_list_is_kept)
{
	struct loop_timer timer = {.fire = look_again};
	struct told told = {0};

	begin();
	stranger = list_on;
	n_parts = 2;
	guest_list(&box, NULL, "", 1, done, &told);
	while (box.guest_bytes < 2 * (size_t)GUEST_PACKET_MAX) {
		loop_arm(&loop, &timer, clock_monotonic_ns() + 1000000);
		loop_run(&loop);
	}
	loop_disarm(&loop, &timer);
	CHECK(!told.is_over);
	guest_freeze(&box);
	CHECK_INT(told.err.errnum, ENOTCONN);
	CHECK_INT(told.n_calls, 1);
	CHECK_INT((long long)box.guest_bytes, 0);
	finish();
	CHECK_INT(told.n_calls, 1);
}

TEST(a_box_holds_so_much_of_lists_and_no_more)
{
	struct told *told;

	begin();
	stranger = list_on;
	n_parts = GUEST_BOX_BYTES_MAX / GUEST_PACKET_MAX + 8;
	told = ASK(guest_list, "", 1, done);
	CHECK_INT(told->err.errnum, EAGAIN);
	CHECK_INT((long long)box.guest_bytes, 0);
	CHECK_INT(n_killed, 0);
	finish();
}

/* Of a box of its own: until so much of it has come, or it has failed. */
static void hoard(struct box *hoarder, size_t mib, struct told *told)
{
	struct loop_timer timer = {.fire = look_again};

	n_parts = (int)((mib << 20) / GUEST_PACKET_MAX);
	hoarder->state = BOX_RUNNING;
	guest_list(hoarder, NULL, "", 1, done, told);
	while (hoarder->guest_bytes < mib << 20 && !told->is_over) {
		loop_arm(&loop, &timer, clock_monotonic_ns() + 1000000);
		loop_run(&loop);
	}
	loop_disarm(&loop, &timer);
}

TEST(of_all_lists_those_of_who_holds_most_give_way)
{
	static struct box boxes[3];
	struct told told[3] = {0};

	begin();
	stranger = list_on;
	_Static_assert(GUEST_BYTES_MAX == 128 << 20, "as much as all of them together");
	hoard(&boxes[0], 32, &told[0]);
	hoard(&boxes[1], 60, &told[1]);
	CHECK(!told[0].is_over && !told[1].is_over);
	hoard(&boxes[2], 40, &told[2]);
	CHECK_INT(told[1].err.errnum, EAGAIN);
	CHECK_INT((long long)boxes[1].guest_bytes, 0);
	CHECK_INT((long long)boxes[2].guest_bytes, 40 << 20);
	CHECK(!told[0].is_over && !told[2].is_over);
	for (int i = 0; i < 3; i++)
		guest_end(&boxes[i]);
	CHECK_INT(told[0].err.errnum, ENOTCONN);
	CHECK_INT(told[2].n_calls, 1);
	CHECK_INT(n_killed, 0);
	finish();
}

static void refuse_all(int fd)
{
	struct guest_head head = {.id = 1, .kind = GUEST_SAYS_DONE, .number = EACCES};
	char packet[sizeof head + 3] = {0};

	hear(fd);
	head.size = sizeof packet;
	memcpy(packet, &head, sizeof head);
	fd_send(fd, packet, sizeof packet, NULL, 0);
	hear(fd);
}

TEST(what_the_user_may_not_root_does_for_him)
{
	struct told *told;

	begin();
	put_file("f", "123");
	stranger = refuse_all;
	has_no_root = false;
	told = ASK(guest_stat, at_home("f"), done);
	CHECK_INT(told->err.errnum, 0);
	CHECK_INT((long)told->first.size, 3);
	CHECK_INT(n_started, 2);
	finish();
	begin();
	stranger = refuse_all;
	told = ASK(guest_stat, at_home("f"), done);
	CHECK_INT(told->err.errnum, EACCES);
	CHECK_INT(n_killed, 0);
	finish();
}

TEST(descriptors_that_are_no_plain_files_are_refused)
{
	int fds[6], pair[2], n = 0;

	begin();
	put_file("f", "");
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fds[n++] = pair[0];
	fds[n++] = open(home, O_RDONLY | O_DIRECTORY);
	fds[n++] = open(at_home("f"), O_PATH);
	fds[n++] = open("/proc/self/mem", O_RDONLY);
	fds[n++] = open("/dev/zero", O_RDONLY);
	fds[n++] = -1;
	finish();
	for (int i = 0; i < n; i++) {
		struct told *told;

		begin();
		/* Out of the way of what the child closes. */
		what_to_hand_out = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD, 200);
		stranger = hand_out;
		told = ASK(guest_open, "x", opened);
		CHECK_INT(told->err.errnum, ENOTCONN);
		CHECK_INT(told->fd, -1);
		CHECK_INT(n_killed, 1);
		finish();
	}
	begin();
	put_file("f", "");
	what_to_hand_out = fcntl(open(at_home("f"), O_RDONLY), F_DUPFD, 200);
	stranger = hand_out;
	CHECK(ASK(guest_open, "x", opened)->fd >= 0);
	kill(guest_pid, SIGKILL);
	finish();
}

/* A socket whose bytes nobody takes, and whose last owner is to wait until somebody does. */
static int make_lingering(int listener)
{
	static char bytes[1 << 20];
	const struct linger forever = {.l_onoff = 1, .l_linger = 3600};
	struct sockaddr_in address;
	socklen_t size = sizeof address;
	int low = socket(AF_INET, SOCK_STREAM, 0), fd = fcntl(low, F_DUPFD, 200);

	close(low);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	CHECK(connect(fd, (struct sockaddr *)&address, size) == 0);
	while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof forever) == 0);
	return fd;
}

/* One beside another, which is more than there may be; and one that nobody will come to read. */
static void hand_out_lingering(int fd)
{
	int both[2] = {STDERR_FILENO, given[0]};

	hear(fd);
	fd_send(fd, "x", 1, both, 2);
	fd_send(fd, "", 0, NULL, 0);
	fd_send(fd, "x", 1, &given[1], 1);
	close(given[0]);
	close(given[1]);
	pause();
}

TEST(nobody_waits_for_a_socket_that_came_from_inside)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	cleanup_fd int listener = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listener, 2) == 0);
	begin();
	for (int i = 0; i < 2; i++)
		given[i] = make_lingering(listener);
	stranger = hand_out_lingering;
	alarm(20);
	CHECK_INT(ASK(guest_stat, "", done)->err.errnum, ENOTCONN);
	CHECK_INT(n_killed, 1);
	finish();
	alarm(0);
}

TEST(a_guest_that_never_ran_is_told)
{
	struct told *told;

	begin();
	stranger = hear;
	told = ASK(guest_stat, "", done);
	CHECK_INT(told->err.errnum, ENOTCONN);
	CHECK_STR(told->err.text, "the helper program does not run in the sandbox");
	finish();
}

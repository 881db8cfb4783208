/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/test-guest.h"

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
	told = ASK(guest_list, ".", 0, listed);
	CHECK_INT(told->n, 6);
	told = ASK(guest_list, ".", 9, listed);
	CHECK_INT(told->n, 8);
	CHECK_STR(told->paths[0], at_home("a"));
	CHECK_STR(told->paths[1], at_home("b"));
	CHECK_STR(told->paths[2], at_home("b/y"));
	CHECK_STR(told->paths[3], at_home("b/z"));
	CHECK_STR(told->paths[4], at_home("b.txt"));
	CHECK_STR(told->paths[5], at_home("c-which-is-long"));
	CHECK_STR(told->paths[6], at_home("c-which-is-longer"));
	told = ASK(guest_list, "d", 1, listed);
	CHECK_INT(told->n, 2);
	CHECK_STR(told->paths[0], at_home("d/y"));
	told = ASK(guest_list, "a", 1, listed);
	CHECK_INT(told->err.errnum, ENOTDIR);
	told = ASK(guest_list, "none", 1, listed);
	CHECK_INT(told->err.errnum, ENOENT);
	told = ASK(guest_list, "/", 1, listed);
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
		told = ASK(guest_list, "", 1, listed);
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
		told = ASK(guest_list, "d", 1, listed);
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
	told = ASK(guest_list, "", 1, listed);
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
	told = ASK(guest_list, "deep", 100000, listed);
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

/* A directory this deep, with a file behind it in each directory on the way. */
static void make_deep(const char *name, int depth)
{
	int fd, next;

	CHECK(mkdir(at_home(name), 0755) == 0);
	fd = open(at_home(name), O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < depth; i++) {
		CHECK(mkdirat(fd, "d", 0755) == 0);
		next = openat(fd, "e", O_WRONLY | O_CREAT, 0644);
		CHECK(next >= 0);
		close(next);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = next;
	}
	close(fd);
}

TEST(a_move_takes_all_of_a_deep_tree_or_nothing)
{
	struct told *told;
	char there[64];

	begin();
	make_deep("deep", 100);
	snprintf(there, sizeof there, "/dev/shm/atoll-test-guest-%d", getpid());
	told = ASK(guest_move, "deep", there, done);
	CHECK_INT(told->err.errnum, 0);
	CHECK(access(at_home("deep"), F_OK) < 0);
	told = ASK(guest_list, there, 1000, listed);
	CHECK_INT(told->err.errnum, 0);
	CHECK_INT(told->n, 200);
	told = ASK(guest_remove, there, done);
	CHECK_INT(told->err.errnum, 0);
	/* Deeper than a path can be: what cannot be copied is not removed. */
	make_deep("deeper", 3000);
	told = ASK(guest_move, "deeper", there, done);
	CHECK_INT(told->err.errnum, ENAMETOOLONG);
	CHECK(access(there, F_OK) < 0);
	CHECK(access(at_home("deeper/d/d/d/e"), F_OK) == 0);
	told = ASK(guest_remove, "deeper", done);
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

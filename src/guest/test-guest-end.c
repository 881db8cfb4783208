/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/test-guest.h"

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
		guest_list(&box, NULL, "", 1, listed, &big);
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

/* A packet of the largest size, filled with entries that are valid: others end the guest. */
static void fill_list_packet(struct buf *packet)
{
	const struct guest_wire_entry entry = {.type = 'f', .mode = S_IFREG | 0644};
	struct guest_head head = {.id = 1, .kind = GUEST_SAYS_ENTRIES, .size = GUEST_PACKET_MAX};
	/* An entry with an empty path: its strings are "", "", "root", "root". */
	const size_t least = sizeof entry + 4 * 3 + 2 * strlen("root");

	buf_add(packet, &head, sizeof head);
	while (packet->used < GUEST_PACKET_MAX) {
		size_t room = GUEST_PACKET_MAX - packet->used;
		size_t length = room - least < GUEST_STRING_MAX ? room - least : GUEST_STRING_MAX;
		char path[GUEST_STRING_MAX + 1] = "/";

		memset(path + 1, 'p', length - 1);
		buf_add(packet, &entry, sizeof entry);
		guest_put(packet, path);
		guest_put(packet, "");
		guest_put(packet, "root");
		guest_put(packet, "root");
		head.n++;
	}
	memcpy(packet->data, &head, sizeof head);
}

/* Sends n_parts parts of a list that never ends. */
static void list_on(int fd)
{
	struct buf packet = BUF_INIT(GUEST_PACKET_MAX);

	hear(fd);
	fill_list_packet(&packet);
	for (int i = 0; i < n_parts; i++)
		fd_send(fd, packet.data, packet.used, NULL, 0);
	buf_done(&packet);
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
	guest_list(&box, NULL, "", 1, listed, &told);
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
	told = ASK(guest_list, "", 1, listed);
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
	guest_list(hoarder, NULL, "", 1, listed, told);
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

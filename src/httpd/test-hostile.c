/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/test-stage.h"

#include <sys/resource.h>

/* Hostile and careless clients. */

static void check_refused(const char *request, const char *status)
{
	cleanup_fd int fd = dial();
	char want[64];
	const char *answer;

	send_text(fd, request);
	answer = receive_until(fd, NULL);
	snprintf(want, sizeof want, "HTTP/1.1 %s ", status);
	if (!starts_with(answer, want))
		test_fail(__FILE__, __LINE__, "'%.60s' is answered by '%.60s'", request, answer);
	CHECK(has(answer, "Content-Type: application/json\r\n"));
	CHECK(has(answer, "Connection: close\r\n"));
	snprintf(want, sizeof want, "{\"code\":%s,\"message\":\"", status);
	CHECK(has(answer, want));
}

TEST(what_can_be_read_in_two_ways_is_refused)
{
	static const struct {
		const char *request, *status;
	} cases[] = {
		{"GET / HTTP/1.1\r\n\r\n", "400"},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400"},
		{"GET / HTTP/1.1\nHost: a\n\n", "400"},
		{"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"},
		{"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "505"},
		{"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "505"},
		{"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"GET ../../etc HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: a\001b\r\n\r\n", "400"},
		{"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", "400"},
		{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
		{"GET /\r\n\r\n", "505"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
		{"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "405"},
		{"\x16\x03\x01\x02\x05\x01\x02\x03", "400"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
		 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		 "400"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: "
		 "1\r\n\r\nx",
		 "400"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000000000\r\n\r\n",
		 "400"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "501"},
		{"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", "417"},
	};

	start();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_refused(cases[i].request, cases[i].status);
	finish();
}

TEST(broken_chunks_are_refused)
{
	static const char *const bodies[] = {
		"x\r\n",       "-1\r\n",     "5;a=b\r\nhello\r\n",
		"1\r\nab\r\n", "5\nhello\n", "ffffffffffffffff\r\n",
	};
	char request[256];

	start();
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		snprintf(request, sizeof request,
			 "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
			 "chunked\r\n\r\n%s",
			 bodies[i]);
		check_refused(request, "400");
		CHECK(end_report() == 'b');
	}
	finish();
}

TEST(heads_have_limits)
{
	static char text[100000];
	size_t n = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\n");

	start();
	memset(text + n, 'x', 70000);
	check_refused(text, "431");
	for (size_t i = 0; i < 300; i++)
		n += (size_t)sprintf(text + n, "a: b\r\n");
	strcpy(text + n, "\r\n");
	check_refused(text, "431");
	n = (size_t)sprintf(text, "GET /");
	memset(text + n, 'a', 70000);
	text[n + 70000] = '\0';
	check_refused(text, "431");
	finish();
}

TEST(a_head_that_comes_too_slowly_is_not_waited_for)
{
	struct server_options options = {.head_timeout_s = 1};
	cleanup_fd int fd = -1, silent = -1;

	start_at("127.0.0.1:0", &options, NULL, NULL);
	fd = dial();
	silent = dial();
	send_text(fd, "GET / HTTP/1.1\r\nHost:");
	CHECK(has(receive_until(fd, NULL), "HTTP/1.1 408 "));
	CHECK(count_until_end(silent) == 0);
	finish();
}

TEST(an_idle_connection_is_closed)
{
	struct server_options options = {.idle_timeout_s = 1};
	cleanup_fd int fd = -1;

	start_at("127.0.0.1:0", &options, NULL, NULL);
	fd = dial();
	send_text(fd, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, NULL), "204"));
	finish();
}

TEST(who_is_one_connection_too_many_is_told)
{
	struct server_options options = {.max_connections = 2};
	cleanup_fd int one = -1, two = -1, three = -1, four = -1;
	const char *said;

	start_at("127.0.0.1:0", &options, NULL, NULL);
	one = dial();
	two = dial();
	/* Both connections have an exchange that waits for its body. */
	send_text(one, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: "
		       "100-continue\r\n\r\n");
	send_text(two, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: "
		       "100-continue\r\n\r\n");
	CHECK(has(receive_until(one, "\r\n\r\n"), "100") &&
	      has(receive_until(two, "\r\n\r\n"), "100"));
	/* Two more are answered by 503 at once, also one that sends nothing; their ends make room
	 * again. */
	three = dial();
	said = receive_until(three, NULL);
	CHECK(has(said, "HTTP/1.1 503 ") && has(said, "Retry-After: 1\r\n") &&
	      has(said, "too many connections; retry later"));
	close(take_fd(&three));
	close(take_fd(&one));
	do {
		close(take_fd(&four));
		four = dial();
		send_text(four, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
		said = receive_until(four, "\r\n\r\n");
	} while (has(said, "503"));
	CHECK(has(said, "204"));
	finish();
}

TEST(who_waits_for_nothing_makes_room_for_who_comes)
{
	struct server_options options = {.max_connections = 2};
	cleanup_fd int one = -1, two = -1, three = -1;

	start_at("127.0.0.1:0", &options, NULL, NULL);
	one = dial();
	send_text(one, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(one, "\r\n\r\n"), "204"));
	two = dial();
	send_text(two, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(two, "\r\n\r\n"), "204"));
	/* The first connection is used again, so that the second has been idle for longest. */
	send_text(one, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(one, "\r\n\r\n"), "204"));
	three = dial();
	send_text(three, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(three, "\r\n\r\n"), "204"));
	CHECK_STR(receive_until(two, NULL), "");
	send_text(one, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(one, "\r\n\r\n"), "204"));
	finish();
}

TEST(without_descriptors_whoever_comes_is_told)
{
	cleanup_fd int fd = -1, waiting = -1;
	struct rlimit before, few;
	int next;

	start();
	fd = dial();
	send_text(fd, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "\r\n\r\n"), "204"));
	waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	next = dup(0);
	close(next);
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	few = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	CHECK(connect_to(waiting) == 0);
	CHECK(has(receive_until(waiting, NULL), "503 "));
	send_text(fd, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "\r\n\r\n"), "204"));
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	close(take_fd(&waiting));
	waiting = dial();
	send_text(waiting, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(waiting, "\r\n\r\n"), "204"));
	finish();
}

TEST(a_body_that_breaks_off_is_noticed)
{
	int fd;

	start();
	fd = dial();
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel");
	close(fd);
	CHECK(end_report() == 'b');
	fd = dial();
	send_text(fd,
		  "POST /count HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
	close(fd);
	CHECK(end_report() == 'b');
	finish();
}

TEST(a_body_that_nobody_wants_is_dropped_or_the_end)
{
	static char data[1 << 16];
	cleanup_fd int fd = -1, other = -1;

	start();
	fd = dial();
	send_text(fd, "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n");
	CHECK(has(receive_until(fd, "{}"), "404"));
	CHECK(send(fd, data, sizeof data, 0) == sizeof data);
	send_text(fd, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "\r\n\r\n"), "204"));
	/* The server drops a body of 2 MiB and closes, but the answer arrives. */
	other = dial();
	send_text(other, "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 2097152\r\n\r\n");
	for (int i = 0; i < 32 && send(other, data, sizeof data, MSG_NOSIGNAL) > 0; i++)
		;
	CHECK(has(receive_until(other, NULL), "404"));
	finish();
}

TEST(a_reader_that_stops_costs_nothing_but_its_place)
{
	cleanup_fd int slow = -1, fd = -1;

	start();
	slow = dial();
	send_text(slow, "GET /many?n=100000000 HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(recv(slow, (char[1]){0}, 1, 0) == 1);
	fd = dial();
	for (int i = 0; i < 10; i++) {
		send_text(fd, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
		CHECK(has(receive_until(fd, "\r\n\r\n"), "204"));
		CHECK(end_report() == 'o');
	}
	close(take_fd(&slow));
	CHECK(end_report() == 'b');
	finish();
}

TEST(a_bomb_is_refused_where_it_is_too_large)
{
	/* head -c 100000 /dev/zero | gzip -n9 */
	static const unsigned char packed[] = {
		0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xed, 0xc1, 0x31,
		0x01, 0x00, 0x00, 0x00, 0xc2, 0xa0, 0xf5, 0x4f, 0x6d, 0x0d, 0x0f, 0xa0,
	};
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
		      "Transfer-Encoding: chunked\r\n\r\n19\r\n");
	CHECK(send(fd, packed, sizeof packed, 0) == sizeof packed);
	send_text(fd, "\r\n0\r\n\r\n");
	CHECK(starts_with(receive_until(fd, "}"), "HTTP/1.1 4"));
	CHECK(end_report() == 'b');
	finish();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/test-stage.h"

#include <sys/stat.h>
#include <sys/un.h>

TEST(a_request_is_answered_and_the_connection_stays)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	for (int i = 0; i < 3; i++) {
		send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
		answer = receive_until(fd, "hello");
		CHECK(has(answer, "HTTP/1.1 200 OK\r\n"));
		CHECK(has(answer, "Content-Length: 5\r\n"));
		CHECK(has(answer, "Keep-Alive: timeout=70\r\n"));
		CHECK(end_report() == 'o');
	}
	finish();
}

TEST(chunked_bodies_come_byte_by_byte)
{
	static const char text[] = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
				   "chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	for (size_t i = 0; i < sizeof text - 1; i++) {
		char one[2] = {text[i]};

		send_text(fd, one);
	}
	CHECK(has(receive_until(fd, "hello world"), "Content-Length: 11\r\n"));
	finish();
}

TEST(pipelined_requests_are_answered_in_order)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	send_text(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
		      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
		      "GET /no HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	answer = receive_until(fd, NULL);
	CHECK(has(answer, "later") && has(answer, "abc") && has(answer, "404 Not Found"));
	CHECK(strstr(answer, "later") < strstr(answer, "abc"));
	CHECK(strstr(answer, "abc") < strstr(answer, "404"));
	finish();
}

TEST(a_stream_is_sent_in_chunks)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	send_text(fd, "GET /stream?ends=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	answer = receive_until(fd, "0\r\n\r\n");
	CHECK(has(answer, "Transfer-Encoding: chunked\r\n"));
	CHECK(has(answer, "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
	CHECK(end_report() == 'o');
	finish();
}

TEST(a_client_that_leaves_is_noticed)
{
	int fd;

	start();
	fd = dial();
	send_text(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "two\r\n"), "200 OK"));
	close(fd);
	CHECK(end_report() == 'b');
	finish();
}

TEST(a_cut_stream_has_no_end)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	send_text(fd, "GET /cut HTTP/1.1\r\nHost: x\r\n\r\n");
	answer = receive_until(fd, NULL);
	CHECK(has(answer, "half") && !has(answer, "\r\n0\r\n"));
	CHECK(end_report() == 'o');
	finish();
}

TEST(a_body_that_is_too_large_is_refused)
{
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n");
	CHECK(has(receive_until(fd, NULL), "HTTP/1.1 413 "));
	CHECK(end_report() == 'b');
	finish();
}

TEST(fields_have_ends_and_cannot_be_split)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	send_text(fd, "GET /field HTTP/1.1\r\nHost: x\r\nx-test: \t some value \r\n\r\n");
	answer = receive_until(fd, "some value");
	CHECK(has(answer, "X-Good: a\r\n") && !has(answer, "Set-Cookie"));
	CHECK(has(answer, "Content-Length: 10\r\n"));
	finish();
}

TEST(a_socket_can_be_taken)
{
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	send_text(fd, "GET /detach HTTP/1.1\r\nHost: x\r\n\r\nrest");
	CHECK_STR(receive_until(fd, NULL), "taken:rest");
	CHECK(end_report() == 'o');
	finish();
}

TEST(bodies_can_be_given_back_in_part)
{
	cleanup_fd int fd = -1;
	char text[100];

	start();
	fd = dial();
	send_text(fd, "POST /slowly HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
	memset(text, 'x', sizeof text);
	for (int i = 0; i < 10; i++)
		CHECK(send(fd, text, sizeof text, 0) == sizeof text);
	CHECK(has(receive_until(fd, "1000"), "200 OK"));
	CHECK(end_report() == 'o');
	send_text(fd, "POST /slowly HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		      "b\r\nhello world\r\n1\r\n!\r\n0\r\n\r\n");
	CHECK(has(receive_until(fd, "12"), "200 OK"));
	finish();
}

TEST(a_large_body_and_a_large_answer_go_through)
{
	static char data[1 << 16];
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	send_text(fd, "POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n");
	for (int i = 0; i < 256; i++)
		CHECK(send(fd, data, sizeof data, 0) == sizeof data);
	CHECK(has(receive_until(fd, "16777216"), "200 OK"));
	send_text(fd, "GET /many?n=16777216 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	CHECK(count_until_end(fd) > 16777216);
	finish();
}

/* exchange_read_bulk(): few large pieces, and the end always comes. */
TEST(a_body_that_is_only_kept_comes_to_its_end)
{
	static const unsigned sizes[] = {1, 1000, 131071, 131072, 131073, 3000000};
	static char data[7919];
	cleanup_fd int fd = -1;
	char text[128];

	start();
	fd = dial();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		snprintf(text, sizeof text,
			 "POST /bulk HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", sizes[i]);
		send_text(fd, text);
		for (unsigned left = sizes[i], n; left > 0; left -= n) {
			n = left < sizeof data ? left : sizeof data;
			CHECK(send(fd, data, n, 0) == (ssize_t)n);
		}
		snprintf(text, sizeof text, "\r\n\r\n%u", sizes[i]);
		CHECK(has(receive_until(fd, text), "200 OK"));
		/* SO_RCVLOWAT must be reset: the next head is short. */
		send_text(fd, "GET /no HTTP/1.1\r\nHost: x\r\n\r\n");
		receive_until(fd, "{}");
	}
	send_text(fd, "POST /bulk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof text, "%x\r\n", 40 * (unsigned)sizeof data);
		send_text(fd, text);
		for (int k = 0; k < 40; k++)
			CHECK(send(fd, data, sizeof data, 0) == sizeof data);
		send_text(fd, "\r\n3\r\nabc\r\n");
	}
	send_text(fd, "0\r\n\r\n");
	snprintf(text, sizeof text, "\r\n\r\n%zu", 3 * (40 * sizeof data + 3));
	CHECK(has(receive_until(fd, text), "200 OK"));
	send_text(fd, "POST /bulk HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\nabc");
	shutdown(fd, SHUT_WR);
	receive_until(fd, NULL);
	finish();
}

TEST(files_are_sent)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	send_text(fd, "GET /file?n=4 HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "\r\n\r\nfile"), "Content-Length: 4\r\n"));
	send_text(fd, "GET /file?n=4&chunked=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "\r\n\r\n4\r\nfile\r\n0\r\n\r\n"), "chunked"));
	send_text(fd, "HEAD /file?n=4 HTTP/1.1\r\nHost: x\r\n\r\n");
	answer = receive_until(fd, "\r\n\r\n");
	CHECK(has(answer, "Content-Length: 4\r\n") && !has(answer, "file"));
	send_text(fd, "GET /file?n=0 HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "\r\n\r\n"), "Content-Length: 0\r\n"));
	send_text(fd, "GET /file?n=16777216 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	CHECK(count_until_end(fd) > 16777216);
	finish();
}

TEST(an_answer_that_is_shorter_than_promised_is_cut)
{
	cleanup_fd int fd = -1, other = -1;

	start();
	fd = dial();
	send_text(fd, "GET /promise HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(count_until_end(fd) < 1000);
	CHECK(end_report() == 'b');
	other = dial();
	send_text(other, "GET /file?n=100000&short=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(count_until_end(other) >= 99999);
	CHECK(end_report() == 'b');
	finish();
}

TEST(there_is_no_body_where_none_may_be)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	send_text(fd, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	answer = receive_until(fd, "\r\n\r\n");
	CHECK(has(answer, "204 No Content") && !has(answer, "Content-Length"));
	send_text(fd, "HEAD /stream?ends=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	answer = receive_until(fd, "\r\n\r\n");
	CHECK(has(answer, "chunked") && !has(answer, "one"));
	send_text(fd, "HEAD /field HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "\r\n\r\n"), "Content-Length: 4\r\n"));
	finish();
}

TEST(a_client_that_waits_is_told_to_continue)
{
	cleanup_fd int fd = -1, other = -1;

	start();
	fd = dial();
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
		      "Content-Length: 5\r\n\r\n");
	CHECK_STR(receive_until(fd, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
	send_text(fd, "hello");
	CHECK(has(receive_until(fd, "hello"), "200 OK"));
	/* After a refusal instead of 100 Continue the client may send the body or not: the server
	 * closes. */
	other = dial();
	send_text(other, "POST /none HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
			 "Content-Length: 5\r\n\r\n");
	CHECK(has(receive_until(other, NULL), "Connection: close\r\n"));
	finish();
}

TEST(an_old_client_gets_an_answer_that_ends_with_the_connection)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	send_text(fd, "GET /stream?ends=1 HTTP/1.0\r\n\r\n");
	answer = receive_until(fd, NULL);
	CHECK(has(answer, "\r\n\r\nonetwo") && !has(answer, "chunked"));
	finish();
}

TEST(a_client_that_says_no_more_is_still_answered)
{
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	send_text(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	shutdown(fd, SHUT_WR);
	CHECK(has(receive_until(fd, NULL), "later"));
	CHECK(end_report() == 'o');
	finish();
}

TEST(bodies_are_unpacked)
{
	/* printf hello | gzip -n */
	static const char packed[] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0"
				     "\x86\xa6\x10\x36\x05\0\0\0";
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
		      "Content-Length: 25\r\n\r\n");
	CHECK(send(fd, packed, 25, 0) == 25);
	CHECK(has(receive_until(fd, "hello"), "200 OK"));
	send_text(fd, "POST /slowly HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
		      "Content-Length: 25\r\n\r\n");
	CHECK(send(fd, packed, 25, 0) == 25);
	CHECK(has(receive_until(fd, "5"), "200 OK"));
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
		      "Content-Length: 24\r\n\r\n");
	CHECK(send(fd, packed, 24, 0) == 24);
	CHECK(has(receive_until(fd, "}"), "400 Bad Request"));
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\n"
		      "Content-Length: 0\r\n\r\n");
	CHECK(has(receive_until(fd, "}"), "415 "));
	finish();
}

TEST(it_listens_at_a_unix_socket)
{
	cleanup_fd int dir = test_tempdir();
	cleanup_fd int fd = -1;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char where[128];
	struct stat st;

	CHECK(dir >= 0);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", test_tempdir_path());
	snprintf(where, sizeof where, "unix:%s", at.sun_path);
	start_at(where, &(struct server_options){0}, NULL, NULL);
	CHECK(stat(at.sun_path, &st) == 0);
	CHECK_INT(st.st_mode & 0777, 0600);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
	send_text(fd, "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(fd, "unix"), "x/plain"));
	finish();
	CHECK(stat(at.sun_path, &st) < 0 && errno == ENOENT);
}

TEST(it_ends_when_the_last_exchange_has)
{
	cleanup_fd int fd = -1, idle = -1;
	uint64_t one = 1;

	start();
	idle = dial();
	fd = dial();
	send_text(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	send_text(idle, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(receive_until(idle, "\r\n\r\n"), "204"));
	stage.is_stopping = true;
	CHECK(write(stage.quit.fd, &one, 8) == 8);
	CHECK(count_until_end(idle) == 0);
	CHECK(has(receive_until(fd, NULL), "later"));
	CHECK(end_report() == 'o' && end_report() == 'o' && end_report() == 's');
	finish();
}

TEST(it_listens_where_it_may)
{
	struct atoll_error err = {0};
	struct server *server;
	struct loop loop;
	char where[128];

	CHECK(loop_init(&loop) == 0);
	CHECK(server_new(&(struct server_options){.loop = &loop}, &server, &err) == 0);
	CHECK(server_listen(server, "0.0.0.0:0", NULL, NULL, where, &err) < 0);
	CHECK(has(err.text, "without TLS"));
	CHECK(server_listen(server, "[::]:0", NULL, NULL, where, &err) < 0);
	CHECK(server_listen(server, "localhost", NULL, NULL, where, &err) < 0);
	CHECK(server_listen(server, "127.0.0.1", NULL, NULL, where, &err) < 0);
	CHECK(server_listen(server, "fd:0", NULL, NULL, where, &err) < 0);
	CHECK(server_listen(server, "fd:999", NULL, NULL, where, &err) < 0);
	CHECK(server_listen(server, "unix:", NULL, NULL, where, &err) < 0);
	CHECK(server_listen(server, "127.0.0.1:0", "/dev/null", "/dev/null", where, &err) < 0);
	CHECK(has(err.text, "read the certificate"));
	server_free(server);
	loop_done(&loop);
}

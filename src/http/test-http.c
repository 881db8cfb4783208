/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "http/http.h"

#include <stdlib.h>

static struct http_head head;
static const char *why;

static enum http_result request(const char *text)
{
	return http_read_request(text, strlen(text), &head, &why);
}

static enum http_result answer(const char *text, const char *method)
{
	return http_read_answer(text, strlen(text), (struct http_slice){method, strlen(method)},
				&head, &why);
}

static bool is(struct http_slice slice, const char *text)
{
	return http_slice_is(slice, text);
}

#define CHECK_BAD(result, story)                                                                   \
	do {                                                                                       \
		CHECK_INT(result, HTTP_BAD);                                                       \
		CHECK_STR(why, story);                                                             \
	} while (0)

TEST(a_plain_request_is_understood)
{
	const char *text =
		"GET /a/b?c=d HTTP/1.1\r\nHost: Good.Test:8080\r\nX-A:  b c \t\r\n\r\nrest";

	CHECK_INT(request(text), HTTP_OK);
	CHECK_INT(head.size, strlen(text) - 4);
	CHECK(is(head.method, "GET") && is(head.path, "/a/b") && is(head.query, "?c=d"));
	CHECK_INT(head.form, HTTP_ORIGIN);
	CHECK_STR(head.host.name, "good.test");
	CHECK_INT(head.host.port, 8080);
	CHECK_INT(head.framing, HTTP_NONE);
	CHECK_INT(head.n_fields, 2);
	CHECK(is(head.fields[1].value, "b c"));
	CHECK(!head.wants_close);
}

TEST(an_absolute_target_tells_host_and_path)
{
	CHECK_INT(request("GET http://good.test:81?x HTTP/1.1\r\nHost: good.test:81\r\n\r\n"),
		  HTTP_OK);
	CHECK_INT(head.form, HTTP_ABSOLUTE);
	CHECK_STR(head.authority.name, "good.test");
	CHECK_INT(head.authority.port, 81);
	CHECK(is(head.path, "/") && is(head.query, "?x") && !head.is_https);
	CHECK_INT(request("GET HTTPS://[2001:db8::1]/x HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_OK);
	CHECK(head.is_https && is(head.path, "/x"));
	CHECK_STR(head.authority.name, "");
	CHECK_BAD(request("GET http://u@good.test/ HTTP/1.1\r\nHost: a\r\n\r\n"),
		  "a target whose host is none");
	CHECK_BAD(request("GET ftp://good.test/ HTTP/1.1\r\nHost: a\r\n\r\n"),
		  "a target of no known form");
}

TEST(connect_needs_host_and_port)
{
	CHECK_INT(request("CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n"),
		  HTTP_OK);
	CHECK_INT(head.form, HTTP_AUTHORITY);
	CHECK_INT(head.authority.port, 443);
	for (size_t i = 0; i < 6; i++) {
		static const char *const bad[] = {
			"good.test",	"good.test:0", "good.test:65536",
			"good.test:-1", "/",	       "[fe80::1%25eth0]:1"};
		char text[128];

		snprintf(text, sizeof text, "CONNECT %s HTTP/1.1\r\nHost: a\r\n\r\n", bad[i]);
		CHECK_BAD(request(text), "CONNECT to what is no host and port");
	}
}

/* NET-14 */
TEST(old_versions_and_a_missing_host_have_their_rules)
{
	CHECK_INT(request("GET / HTTP/1.0\r\n\r\n"), HTTP_OK);
	CHECK(head.wants_close && !head.has_host);
	CHECK_INT(request("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n"), HTTP_OK);
	CHECK(head.has_host);
	CHECK_BAD(request("GET / HTTP/1.1\r\n\r\n"), "no Host");
	CHECK_BAD(request("GET /\r\n"), "HTTP/0.9");
	CHECK_BAD(request("GET / HTTP/1.2\r\n"), "a version of HTTP other than 1.0 and 1.1");
	CHECK_BAD(request("GET / http/1.1\r\n"), "a version of HTTP other than 1.0 and 1.1");
}

/* NET-16 */
TEST(what_could_be_read_in_two_ways_is_refused)
{
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
	CHECK_BAD(request(POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
		  "both Content-Length and Transfer-Encoding");
	CHECK_BAD(request(POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"),
		  "more than one Content-Length");
	CHECK_BAD(request(POST "Content-Length: 3, 3\r\n\r\n"),
		  "a Content-Length that is no number");
	CHECK_BAD(request(POST "Content-Length: +3\r\n\r\n"), "a Content-Length that is no number");
	CHECK_BAD(request(POST "Content-Length: 0x3\r\n\r\n"),
		  "a Content-Length that is no number");
	CHECK_BAD(request(POST "Content-Length:\r\n\r\n"), "a Content-Length that is no number");
	CHECK_BAD(request(POST "Content-Length: 9999999999999999999\r\n\r\n"),
		  "a Content-Length that is no number");
	CHECK_BAD(request(POST "Content_Length: 3\r\n\r\n"), "a field that looks like a length");
	CHECK_BAD(request(POST "Transfer_Encoding: chunked\r\n\r\n"),
		  "a field that looks like a length");
	CHECK_BAD(request(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
		  "more than one Transfer-Encoding");
	CHECK_BAD(request(POST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
		  "a Transfer-Encoding other than chunked");
	CHECK_BAD(request(POST "Transfer-Encoding: xchunked\r\n\r\n"),
		  "a Transfer-Encoding other than chunked");
	CHECK_BAD(request(POST "Transfer-Encoding: \x0b"
			       "chunked\r\n\r\n"),
		  "a control character in the head");
	CHECK_BAD(request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
		  "a Transfer-Encoding in HTTP/1.0");
	CHECK_BAD(request(POST "A: b\r\n c\r\n\r\n"), "a field folded over two lines");
	CHECK_BAD(request(POST "A : b\r\n\r\n"), "an invalid field name");
	CHECK_BAD(request(POST ": b\r\n\r\n"), "an invalid field name");
	CHECK_BAD(request(POST "A b\r\n\r\n"), "a field without a colon");
	CHECK_BAD(request(POST "A: b\n\r\n"), "a line that does not end in CR and LF");
	CHECK_BAD(request(POST "A: b\rC: d\r\n\r\n"), "a control character in the head");
	CHECK_BAD(request("\r\nGET / HTTP/1.1\r\n"), "no request of HTTP/1");
	CHECK_INT(request(POST "Transfer-Encoding: Chunked\r\n\r\n"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_CHUNKED);
	CHECK_INT(request(POST "Content-Length: 17\r\n\r\n"), HTTP_OK);
	CHECK_INT(head.length, 17);
}

TEST(a_nul_in_a_head_is_refused)
{
	const char text[] = "GET / HTTP/1.1\r\nHost: a\0.evil.test\r\n\r\n";

	CHECK_BAD(http_read_request(text, sizeof text - 1, &head, &why),
		  "a control character in the head");
}

/* NET-17 */
TEST(exactly_one_host_and_a_good_one)
{
	struct network_address address = {0};

	CHECK_BAD(request("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), "more than one Host");
	CHECK_BAD(request("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"), "an invalid Host");
	CHECK_BAD(request("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"), "an invalid Host");
	CHECK_BAD(request("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), "an invalid Host");
	CHECK_BAD(request("GET / HTTP/1.1\r\nHost:\r\n\r\n"), "an invalid Host");
	CHECK_BAD(request("GET / HTTP/1.1\r\nHost: a:\r\n\r\n"), "an invalid Host");
	CHECK_BAD(request("GET / HTTP/1.1\r\nHost: a:080\r\n\r\n"), "an invalid Host");
	CHECK_INT(request("GET / HTTP/1.1\r\nHost: GOOD.test.\r\n\r\n"), HTTP_OK);
	CHECK(http_place_is(&head.host, "good.test", &address, 80, 80));
	CHECK(!http_place_is(&head.host, "good.test", &address, 8080, 80));
	CHECK(!http_place_is(&head.host, "evil.test", &address, 80, 80));
	CHECK(!http_place_is(&head.host, "", &address, 80, 80));
	CHECK_INT(request("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n"), HTTP_OK);
	CHECK(!http_place_is(&head.host, "good.test", &address, 80, 80));
	CHECK(network_address("192.0.2.1", 9, &address) == 0);
	CHECK(http_place_is(&head.host, "", &address, 80, 80));
}

/* NET-32 */
TEST(upgrades_are_known_for_what_they_are)
{
	CHECK_BAD(request("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "HTTP/2 without TLS");
#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
	CHECK_INT(request(GET "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n"),
		  HTTP_OK);
	CHECK(head.wants_websocket);
	CHECK_INT(request(GET "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
			      "HTTP2-Settings: AAMAAABk\r\n\r\n"),
		  HTTP_OK);
	CHECK(!head.wants_websocket);
	CHECK_INT(request(GET "Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n"), HTTP_OK);
	CHECK(!head.wants_websocket);
	CHECK_INT(request(GET "Upgrade: websocket\r\n\r\n"), HTTP_OK);
	CHECK(!head.wants_websocket);
	CHECK_INT(request(GET "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: "
			      "5\r\n\r\n"),
		  HTTP_OK);
	CHECK(!head.wants_websocket);
}

TEST(targets_have_their_characters_and_forms)
{
	CHECK_BAD(request("GET /a b HTTP/1.1\r\n"), "a version of HTTP other than 1.0 and 1.1");
	CHECK_BAD(request("GET /a#b HTTP/1.1\r\n"),
		  "a character in the target that has no place there");
	CHECK_BAD(request("GET /\xc3\xa4 HTTP/1.1\r\n"),
		  "a character in the target that has no place there");
	CHECK_BAD(request("GET  HTTP/1.1\r\n"), "no target");
	CHECK_BAD(request("GET * HTTP/1.1\r\n"), "a target of no known form");
	CHECK_BAD(request("GET good.test HTTP/1.1\r\n"), "a target of no known form");
	CHECK_BAD(request("G@T / HTTP/1.1\r\n"), "an invalid method");
	CHECK_INT(request("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_OK);
	CHECK(is(head.path, "*"));
}

TEST(fields_of_the_connection_stay_behind)
{
	CHECK_INT(request(GET "Connection: close, X-Mine\r\nX-Mine: 1\r\nX-Other: 2\r\n"
			      "Proxy-Authorization: x\r\nTE: trailers\r\n\r\n"),
		  HTTP_OK);
	CHECK(head.wants_close);
	for (size_t i = 0; i < head.n_fields; i++)
		CHECK(http_is_hop(&head, head.fields[i].name) !=
		      is(head.fields[i].name, "X-Other"));
}

TEST(a_head_can_come_byte_by_byte)
{
	const char *text = GET "A: b\r\n\r\n";

	for (size_t i = 0; i < strlen(text); i++)
		CHECK_INT(http_read_request(text, i, &head, &why), HTTP_MORE);
	CHECK_INT(request(text), HTTP_OK);
	CHECK_BAD(http_read_request("\x16\x03\x01", 3, &head, &why),
		  "a control character in the head");
	CHECK_BAD(http_read_request("{\"a\"", 4, &head, &why), "no request of HTTP/1");
}

TEST(heads_have_limits)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);

	buf_add_str(&text, GET);
	for (int i = 0; i < 255; i++)
		buf_add_str(&text, "A: b\r\n");
	buf_add_str(&text, "\r\n");
	CHECK_INT(request(text.data), HTTP_OK);
	text.used -= 2;
	buf_add_str(&text, "A: b\r\n\r\n");
	CHECK_BAD(request(text.data), "more than 256 fields");

	text.used = 0;
	buf_add_str(&text, GET "A: ");
	while (text.used < HTTP_HEAD_MAX - 1)
		buf_add_char(&text, 'x');
	CHECK_INT(request(text.data), HTTP_MORE);
	buf_add_char(&text, 'x');
	CHECK_BAD(request(text.data), "a head of more than 64 KiB");
}

TEST(answers_are_framed_by_status_and_method)
{
	CHECK_INT(answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_LENGTH);
	CHECK_INT(answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_NONE);
	CHECK(head.has_length);
	CHECK_INT(answer("HTTP/1.1 304\r\nContent-Length: 5\r\n\r\n", "GET"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_NONE);
	CHECK_INT(answer("HTTP/1.1 204 No Content\r\n\r\n", "GET"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_NONE);
	CHECK_INT(answer("HTTP/1.1 100 Continue\r\n\r\n", "PUT"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_NONE);
	CHECK_INT(answer("HTTP/1.0 200 OK\r\n\r\n", "GET"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_TO_END);
	CHECK(head.wants_close);
	CHECK_INT(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"), HTTP_OK);
	CHECK_INT(head.framing, HTTP_CHUNKED);
	CHECK_BAD(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: "
			 "1\r\n\r\n",
			 "GET"),
		  "both Content-Length and Transfer-Encoding");
	CHECK_BAD(answer("HTTP/2 200\r\n\r\n", "GET"), "no answer of HTTP/1");
	CHECK_BAD(answer("HTTP/1.1 20x OK\r\n\r\n", "GET"), "no answer of HTTP/1");
	CHECK_BAD(answer("HTTP/1.1 2000 OK\r\n\r\n", "GET"), "no answer of HTTP/1");
	CHECK_BAD(answer("ICY 200 OK\r\n\r\n", "GET"), "no answer of HTTP/1");
	CHECK_INT(answer("HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
			 "GET"),
		  HTTP_OK);
	CHECK(head.wants_websocket);
}

TEST(overrides_are_known_in_every_spelling)
{
	static const char *const names[] = {"X-HTTP-Method-Override", "x_http_method_override",
					    "X.HTTP~Method-Override", "X-Original_URL"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		CHECK(http_is_override((struct http_slice){names[i], strlen(names[i])}));
	CHECK(!http_is_override((struct http_slice){"X-HTTP-Methods", 14}));
	CHECK(!http_is_override((struct http_slice){"XxHTTP-Method", 13}));
}

TEST(trailers_lose_what_frames_and_authenticates)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	const char *text = "X-Sum: 1\r\nContent-Length: 5\r\nAuthorization: x\r\nHost: y\r\n\r\n";

	CHECK_INT(http_copy_trailers(text, strlen(text), &out), 0);
	CHECK_STR(out.data, "X-Sum: 1\r\n");
	out.used = 0;
	text = "X_HTTP_Method-Override: DELETE\r\nX-Original-URL: /\r\nContent_Length: 1\r\nA: "
	       "b\r\n\r\n";
	CHECK_INT(http_copy_trailers(text, strlen(text), &out), 0);
	CHECK_STR(out.data, "A: b\r\n");
	CHECK(http_copy_trailers("A: b\n\r\n\r\n", 10, &out) < 0);
	CHECK(http_copy_trailers("A : b\r\n\r\n", 9, &out) < 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "egress/core.h"
#include "egress/sniff.h"

static enum sniff sniff(const char *text)
{
	return sniff_read((const uint8_t *)text, strlen(text));
}

TEST(requests_are_found_however_they_are_dressed)
{
	static const char *const requests[] = {
		"GET / HTTP/1.1\r\n",
		"get / http/1.0\n",
		"\r\n\r\nPOST /x HTTP/1.1",
		"FOO\thttp://x/ HTTP/1.1\r\n",
		"GET /\r\n",
		"GET http://evil.test\n",
		"PRI * HTTP/2.0\r\n\r\nSM",
		"X-Y.Z!  *  HTTP/9\r\n",
		"CONNECT evil:443 HTTP/1.1",
		" GET / HTTP/1.1",
		"\t\v\f GET / HTTP/1.1",
		"GET\v/ HTTP/1.1",
		"GET\xa0/ HTTP/1.1",
		"\x85GET\x1c/ HTTP/1.1",
		"GET /\1 HTTP/1.1",
		"FOO /\1 HTTP/1.1",
		"G@T / HTTP/1.1\r\n",
		"GET\xc2\xa0/ HTTP/1.1\r\n",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		if (sniff(requests[i]) != SNIFF_HTTP)
			test_fail(__FILE__, __LINE__, "%s", requests[i]);
}

TEST(a_method_of_any_length_begins_a_request)
{
	static const size_t lengths[] = {31, 32, 33, 34, 100, 4000, 8191, 8192, 16000};
	static char text[20000];

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		const size_t n = lengths[i];

		memset(text, 'A', n);
		strcpy(text + n, " / HTTP/1.1\r\nHost: other.test\r\n\r\n");
		if (sniff(text) != SNIFF_HTTP)
			test_fail(__FILE__, __LINE__, "a method of %zu characters", n);
		/* Another protocol's, as soon as that is clear. */
		strcpy(text + n, "\r\n");
		if (sniff(text) != SNIFF_OTHER)
			test_fail(__FILE__, __LINE__, "a line of one word, %zu characters", n);
	}
}

TEST(other_protocols_pass_as_soon_as_they_are_clear)
{
	static const char *const others[] = {
		"SSH-2.0-OpenSSH_9.2\r\n",
		"PING\r\n",
		"NICK me\r\n",
		"*1\r\n$4\r\nPING\r\n",
		"GET key\r\n",
		"\x01\x02\x03",
		"HELO me\r\n",
		"\x16\x02",
		"\x15\x02",
		"<34>1 - web access - - - \"GET / HTTP/1.1\" 200 612\n",
		"{\"request\":\"GET / HTTP/1.1\",\"n\":1}\n",
		"HTTP/1.1 200 OK\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (sniff(others[i]) != SNIFF_OTHER)
			test_fail(__FILE__, __LINE__, "%s", others[i]);
	CHECK(sniff_read((const uint8_t *)"\0\0\0\x08", 4) == SNIFF_OTHER);
	/* SOCKS 5, then a request for a proxy that the contract allows. */
	CHECK(sniff_read((const uint8_t *)"\5\1\0\5\1\0\3\1a\0\x50GET / HTTP/1.1\n", 27) ==
	      SNIFF_OTHER);
	/* A bind of LDAP. */
	CHECK(sniff_read((const uint8_t *)"0\x0c\2\1\1`\7\2\1\3\4\0\x80\0", 14) == SNIFF_LINE);
	CHECK(sniff_read((const uint8_t *)":\0\0\0 HTTP/1.1\n", 14) == SNIFF_OTHER);
}

TEST(lines_of_other_protocols_are_passed_on_before_they_end)
{
	static const char *const lines[] = {
		"a b\1",
		"{\"jsonrpc\":",
		"<stream>",
		"G@T / HTTP/1.1",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (sniff(lines[i]) != SNIFF_LINE)
			test_fail(__FILE__, __LINE__, "%s", lines[i]);
	CHECK(sniff_read((const uint8_t *)"0032git-upload-pack /p.git\0host=x", 33) == SNIFF_LINE);
}

static enum sniff line(const char *text)
{
	struct sniff_line state = {0};
	enum sniff sniff = SNIFF_MORE;

	/* Byte by byte is the same as at once. */
	for (const char *c = text; *c && sniff == SNIFF_MORE; c++)
		sniff = sniff_line_add(&state, (const uint8_t *)c, 1);
	return sniff;
}

TEST(the_end_of_a_line_that_was_passed_on_shows_a_request)
{
	CHECK(line("FOO / HTTP/1.1\r\n") == SNIFF_HTTP);
	CHECK(line("\r\n FOO / http/1.0\n") == SNIFF_HTTP);
	CHECK(line("FOO / HTTP/1.1 more\n") == SNIFF_HTTP);
	CHECK(line("G@T / x y HTTP/1.1 \r\n") == SNIFF_HTTP);
	CHECK(line("G@T / HTTP/1_0.1\r\n") == SNIFF_HTTP);
	CHECK(line("FOO / HTTP/1.1") == SNIFF_MORE);
	CHECK(line("hello world\n") == SNIFF_OTHER);
	CHECK(line("HTTP/1.1 200 OK\n") == SNIFF_OTHER);
	CHECK(line("G@T / HTTP/1.1 more\n") == SNIFF_OTHER);
	CHECK(line("a HTTP/\n") == SNIFF_OTHER && line("a xHTTP/1.1\n") == SNIFF_OTHER);
}

TEST(what_could_still_be_a_request_waits)
{
	CHECK(sniff("") == SNIFF_MORE);
	CHECK(sniff("G") == SNIFF_MORE);
	CHECK(sniff("GET") == SNIFF_MORE);
	CHECK(sniff("GET /index.html") == SNIFF_MORE);
	CHECK(sniff("\r\n") == SNIFF_MORE);
	CHECK(sniff("\x16") == SNIFF_MORE);
	CHECK(sniff("\x16\3") == SNIFF_TLS && sniff("\x15\3") == SNIFF_TLS);
}

static bool is_strange(const char *text)
{
	return sniff_is_strange((const uint8_t *)text, strlen(text));
}

TEST(a_word_that_begins_no_method_is_strange)
{
	CHECK(is_strange("JDWP-Handshake"));
	CHECK(is_strange("ping"));
	CHECK(is_strange("hello world") && !is_strange("get world") && is_strange("GETX "));
	CHECK(!is_strange("P") && !is_strange("prop") && !is_strange("\r\nGE"));
	CHECK(!is_strange("GET ") && !is_strange("") && !is_strange("\x16"));
	CHECK(is_strange(" ") && is_strange("\r\n") && !is_strange(" GE") && is_strange(" foo"));
}

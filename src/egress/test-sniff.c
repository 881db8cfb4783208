/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "egress/core.h"

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
	};

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		if (sniff(requests[i]) != SNIFF_HTTP)
			test_fail(__FILE__, __LINE__, "%s", requests[i]);
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
		"a b\1",
		"HELO me\r\n",
		"\x16\x02",
		"{\"jsonrpc\":",
		"<stream>",
		" GET / HTTP/1.1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (sniff(others[i]) != SNIFF_OTHER)
			test_fail(__FILE__, __LINE__, "%s", others[i]);
	CHECK(sniff_read((const uint8_t *)"\0\0\0\x08", 4) == SNIFF_OTHER);
	CHECK(sniff_read((const uint8_t *)"0032git-upload-pack /p.git\0host=x", 33) == SNIFF_OTHER);
}

TEST(what_could_still_be_a_request_waits)
{
	CHECK(sniff("") == SNIFF_MORE);
	CHECK(sniff("G") == SNIFF_MORE);
	CHECK(sniff("GET") == SNIFF_MORE);
	CHECK(sniff("GET /index.html") == SNIFF_MORE);
	CHECK(sniff("\r\n") == SNIFF_MORE);
	CHECK(sniff("\x16") == SNIFF_MORE);
	CHECK(sniff("\x16\3") == SNIFF_TLS);
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
}

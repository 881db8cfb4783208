/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "egress/core.h"

#include <sodium.h>

#define READ(socks, text, token) socks_read(socks, (const uint8_t *)(text), sizeof(text) - 1, token)

TEST(socks_5_asks_for_a_password_where_there_is_one)
{
	struct socks socks = {0};

	CHECK(READ(&socks, "\5\1\0", "") == SOCKS_CONTINUE);
	CHECK(socks.used == 3 && memcmp(socks.reply, "\5\0", 2) == 0);
	socks = (struct socks){0};
	CHECK(READ(&socks, "\5\1\0", "token") == SOCKS_REPLY);
	CHECK(memcmp(socks.reply, "\5\xff", 2) == 0);
	socks = (struct socks){0};
	CHECK(READ(&socks, "\5\2\0\2", "token") == SOCKS_CONTINUE);
	CHECK(memcmp(socks.reply, "\5\2", 2) == 0);
	CHECK(READ(&socks, "\1\1a\5toke", "token") == SOCKS_MORE);
	CHECK(READ(&socks, "\1\1a\5tokes", "token") == SOCKS_REPLY);
	CHECK(READ(&socks, "\1\1a\5token", "token") == SOCKS_CONTINUE);
	CHECK(socks.step == SOCKS_REQUEST);
}

TEST(socks_5_requests_name_a_target)
{
	struct socks socks = {.step = SOCKS_REQUEST};

	CHECK(READ(&socks, "\5\1\0\3\x09gOOd.test\1\xbb", "") == SOCKS_CONNECT);
	CHECK_STR(socks.name, "good.test");
	CHECK_INT(socks.port, 443);
	CHECK(READ(&socks, "\5\1\0\1\1\2\3\4\0\x50", "") == SOCKS_CONNECT);
	CHECK(!socks.name[0] && memcmp(socks.address.bytes + 10, "\xff\xff\1\2\3\4", 6) == 0);
	/* An address that is written out is one, not a name. */
	CHECK(READ(&socks,
		   "\5\1\0\3\x07"
		   "1.2.3.4\0\x50",
		   "") == SOCKS_CONNECT);
	CHECK(!socks.name[0]);
	CHECK(READ(&socks, "\5\1\0\3\3a b\0\x50", "") == SOCKS_REPLY);
	CHECK_INT(socks.reply[1], 8);
	CHECK(READ(&socks, "\5\2\0\1\1\2\3\4\0\x50", "") == SOCKS_REPLY);
	CHECK_INT(socks.reply[1], 7);
	CHECK(READ(&socks, "\5\3\0\1\1\2\3\4\0\x50", "") == SOCKS_REPLY);
	CHECK_INT(socks.reply[1], 7);
	CHECK(READ(&socks, "\4", "") == SOCKS_BAD);
}

TEST(socks_4_has_addresses_and_by_its_a_names)
{
	struct socks socks = {0};

	CHECK(READ(&socks, "\4\1\0\x50\1\2\3\4me\0", "") == SOCKS_CONNECT);
	CHECK(socks.is_v4 && !socks.name[0]);
	CHECK(READ(&socks, "\4\1\0\x50\0\0\0\1me\0good.test\0", "") == SOCKS_CONNECT);
	CHECK_STR(socks.name, "good.test");
	CHECK_INT(socks.used, 21);
	CHECK(READ(&socks, "\4\1\0\x50\0\0\0\1me\0good.tes", "") == SOCKS_MORE);
	CHECK(READ(&socks, "\4\1\0\x50\1\2\3\4me\0", "token") == SOCKS_REPLY);
	CHECK_INT(socks.reply[1], 91);
}

static enum proxy_result ask(const char *text, const char *token, struct proxy_request *ret)
{
	return proxy_read((const uint8_t *)text, strlen(text), token, ret);
}

TEST(connect_wants_a_host_and_a_port_and_nothing_else)
{
	struct proxy_request request;

	CHECK(ask("CONNECT Good.test:443 HTTP/1.1\r\n\r\nmore", "", &request) == PROXY_CONNECT);
	CHECK_STR(request.name, "good.test");
	CHECK_INT(request.port, 443);
	CHECK_INT(request.used, 34);
	CHECK(ask("CONNECT [2001:db8::1]:22 HTTP/1.0\r\n\r\n", "", &request) == PROXY_CONNECT);
	CHECK(!request.name[0] && request.port == 22);
	CHECK(ask("CONNECT good.test:443 HTTP/1.1\r\n", "", &request) == PROXY_MORE);
	CHECK(ask("CONNECT good.test HTTP/1.1\r\n\r\n", "", &request) == PROXY_BAD);
	CHECK(ask("CONNECT good.test:443 HTTP/2.0\r\n\r\n", "", &request) == PROXY_BAD);
	CHECK(ask("CONNECT a@good.test:443 HTTP/1.1\r\n\r\n", "", &request) == PROXY_BAD);
	CHECK(ask("CONNECT good.test:443  HTTP/1.1\r\n\r\n", "", &request) == PROXY_BAD);
	CHECK(ask("CONNECT good.test:443 HTTP/1.1\r\n folded: x\r\n\r\n", "", &request) ==
	      PROXY_BAD);
	CHECK(ask("CONNECT good.test:443 HTTP/1.1\r\nno colon\r\n\r\n", "", &request) == PROXY_BAD);
}

TEST(absolute_uris_name_their_host)
{
	struct proxy_request request;

	CHECK(ask("GET http://Good.test/x HTTP/1.1\r\n\r\n", "", &request) == PROXY_FORWARD);
	CHECK_STR(request.name, "good.test");
	CHECK_INT(request.port, 80);
	CHECK(ask("GET http://good.test:8080?q HTTP/1.1\r\n\r\n", "", &request) == PROXY_FORWARD);
	CHECK_INT(request.port, 8080);
	CHECK(ask("GET http://[::1]/ HTTP/1.1\r\n\r\n", "", &request) == PROXY_FORWARD);
	CHECK_INT(request.port, 80);
	CHECK(ask("GET http:///x HTTP/1.1\r\n\r\n", "", &request) == PROXY_BAD);
	CHECK(ask("GET http://u:p@good.test/ HTTP/1.1\r\n\r\n", "", &request) == PROXY_BAD);
	CHECK(ask("GET https://good.test/ HTTP/1.1\r\n\r\n", "", &request) == PROXY_BAD);
	CHECK(ask("GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", "", &request) == PROXY_BAD);
}

TEST(the_proxys_password_is_asked_for)
{
	struct proxy_request request;

	CHECK(ask("CONNECT a.test:1 HTTP/1.1\r\n\r\n", "token", &request) == PROXY_NEEDS_TOKEN);
	CHECK(ask("CONNECT a.test:1 HTTP/1.1\r\nProxy-Authorization: Basic dTp0b2tlbg==\r\n\r\n",
		  "token", &request) == PROXY_CONNECT);
	CHECK(ask("CONNECT a.test:1 HTTP/1.1\r\nproxy-authorization:basic  dTp0b2tlbg==\r\n\r\n",
		  "token", &request) == PROXY_CONNECT);
	CHECK(ask("CONNECT a.test:1 HTTP/1.1\r\nProxy-Authorization: Basic dTp0b2tlbQ==\r\n\r\n",
		  "token", &request) == PROXY_NEEDS_TOKEN);
	CHECK(ask("CONNECT a.test:1 HTTP/1.1\r\nProxy-Authorization: Basic !!\r\n\r\n", "token",
		  &request) == PROXY_NEEDS_TOKEN);
}

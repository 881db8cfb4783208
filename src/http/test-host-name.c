/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "http/host-name.h"

static bool is_local(const char *host)
{
	char name[HOST_NAME_SIZE];

	return host_name_read(host, strlen(host), name) &&
	       host_name_is_local(name, "box.corp.test");
}

TEST(addresses_and_names_that_no_stranger_owns_are_local)
{
	static const char *const good[] = {
		"localhost",	   "LocalHost:8080", "localhost.", "app.localhost:80",
		"127.0.0.1",	   "127.0.0.1:80",   "10.1.2.3",   "[::1]",
		"[::1]:8080",	   "myhost",	     "myhost:1",   "box.corp.test",
		"BOX.corp.test:9",
	};
	static const char *const bad[] = {
		"evil.example",
		"evil.example:8080",
		"localhost.evil.example",
		"127.0.0.1.evil.test",
		"notlocalhost.x",
		"x.box.corp.test",
		"corp.test",
		"127.0.0.1.nip.io:8080",
		"",
		":80",
		"[::1",
		"127.1.",
		"0x7f.1",
		"evil.localhost.example",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (!is_local(good[i]))
			test_fail(__FILE__, __LINE__, "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (is_local(bad[i]))
			test_fail(__FILE__, __LINE__, "%s", bad[i]);
}

TEST(a_name_that_is_too_long_or_has_a_zero_is_none)
{
	char name[HOST_NAME_SIZE], text[300];

	memset(text, 'a', sizeof text);
	CHECK(host_name_read(text, 255, name) && !host_name_read(text, 256, name));
	CHECK(!host_name_read("a\0b.test", 8, name));
	CHECK(host_name_is_beneath("a.b.test", "b.test") &&
	      !host_name_is_beneath("ab.test", "b.test"));
	CHECK(!host_name_is_beneath("a", "") && host_name_is_beneath("b.test", "B.test"));
}

static enum http_result read_host(const char *text, struct http_slice *ret)
{
	const char *why = NULL;

	return http_read_host(text, strlen(text), ret, &why);
}

TEST(the_host_is_found_or_there_is_certainly_none)
{
	struct http_slice host;

	CHECK_INT(read_host("GET /\xc3\xa4 HTTP/1.1\r\nX: y\r\nhOst:  a.test:80 \r\n\r\n", &host),
		  HTTP_OK);
	CHECK(http_slice_is(host, "a.test:80"));
	CHECK_INT(read_host("GET / HTTP/1.0\r\n\r\nHost: a\r\n\r\n", &host), HTTP_OK);
	CHECK(!host.at);
	CHECK_INT(read_host("GET / HTTP/1.1\r\nHost: a\r\n", &host), HTTP_MORE);
	CHECK_INT(read_host("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", &host), HTTP_BAD);
	CHECK_INT(read_host("GET / HTTP/1.1\r\nHost : a\r\n\r\n", &host), HTTP_BAD);
	CHECK_INT(read_host("GET / HTTP/1.1\r\nX: y\r\n Host: a\r\n\r\n", &host), HTTP_BAD);
	CHECK_INT(read_host("GET / HTTP/1.1\nHost: a\n\n", &host), HTTP_BAD);
	CHECK_INT(read_host("GET / HTTP/1.1\r\nHost\r\n\r\n", &host), HTTP_BAD);
}

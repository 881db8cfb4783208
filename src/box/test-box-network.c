/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "box/box-network.h"

#include <fcntl.h>
#include <stdlib.h>

static struct atoll_error err;

/* The section; good until the next call but one, so that two can be compared. */
static const char *section(const char *network, bool has_internet)
{
	static char *texts[2];
	static unsigned turn;
	char **text = &texts[turn++ % 2];

	free(*text);
	*text = NULL;
	err = (struct atoll_error){0};
	if (box_network_section(NULL, network, has_internet, NULL, text, &err) < 0)
		return err.text;
	return *text;
}

TEST(without_rules_everything_public_is_open_or_nothing_is)
{
	CHECK_STR(section(NULL, true), "{\"mode\":\"open\",\"proxy\":false,\"near\":[],\"allow\":[]"
				       ",\"deny\":[],\"secrets\":[]}");
	CHECK_STR(section(NULL, false), "{\"mode\":\"rules\",\"proxy\":false,\"near\":[],\"allow\":"
					"[],\"deny\":[],\"secrets\":[]}");
	CHECK_STR(section("{\"denyOut\":[\"0.0.0.0/0\"]}", true), section(NULL, false));
	CHECK_STR(section("{\"denyOut\":[\"0.0.0.0/0\"],\"allowOut\":[\"0.0.0.0/0\"]}", true),
		  section(NULL, true));
}

TEST(what_is_allowed_beats_what_is_denied)
{
	CHECK_STR(section("{\"denyOut\":[\"8.8.8.0/30\"],\"allowOut\":[\"8.8.8.2\"]}", true),
		  "{\"mode\":\"open\",\"proxy\":false,\"near\":[],\"allow\":[],\"deny\":[{\"host\":"
		  "\"8.8.8.0/"
		  "31\"},"
		  "{\"host\":\"8.8.8.3\"}],\"secrets\":[]}");
	CHECK_STR(section("{\"denyOut\":[\"8.8.8.8\"],\"allowOut\":[\"8.8.0.0/16\"]}", true),
		  "{\"mode\":\"open\",\"proxy\":false,\"near\":[],\"allow\":[],\"deny\":[],"
		  "\"secrets\":[]}");
}

TEST(addresses_alone_are_allowed_with_all_their_ports)
{
	const char *text = section("{\"allowOut\":[\"1.1.1.1\"]}", false);

	CHECK(starts_with(text,
			  "{\"mode\":\"open\",\"proxy\":false,\"near\":[],\"allow\":[],\"deny\":[{"
			  "\"host\":\"0.0.0.0/8\"},"
			  "{\"host\":\"1.0.0.0/16\"},"));
	CHECK(strstr(text, "{\"host\":\"1.1.1.0\"},{\"host\":\"1.1.1.2/31\"}"));
	CHECK(strstr(text, "{\"host\":\"128.0.0.0/1\"},{\"host\":\"2000::/3\"}]"));
	CHECK(!strstr(text, "\"1.1.1.1\""));
}

TEST(names_are_allowed_where_all_else_is_denied)
{
	CHECK_STR(
		section("{\"allowOut\":[\"example.com\",\"*.example.org\",\"1.1.1.1\"],"
			"\"denyOut\":[\"0.0.0.0/0\"]}",
			true),
		"{\"mode\":\"rules\",\"proxy\":false,\"near\":[],\"allow\":[{\"host\":\"example."
		"com\"},"
		"{\"host\":\"*.example.org\"},{\"host\":\"1.1.1.1\"}],\"deny\":[],\"secrets\":[]}");
	CHECK(strstr(section("{\"allowOut\":[\"example.com\"]}", true),
		     "add 0.0.0.0/0 to denyOut"));
}

TEST(nothing_of_this_machine_s_own_network_can_be_allowed)
{
	static const char *const bad[] = {"127.0.0.1", "10.0.0.0/8",  "169.254.169.254",
					  "8.0.0.0/5", "172.0.0.0/8", "::1",
					  "fc00::/7",  "192.168.1.1"};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(text, sizeof text, "{\"allowOut\":[\"%s\"]}", bad[i]);
		CHECK(strstr(section(text, false), "is not public"));
		CHECK_INT(err.errnum, EINVAL);
	}
}

TEST(what_cannot_be_done_is_refused)
{
	static const struct {
		const char *network, *why;
	} bad[] = {
		{"{\"egressProxy\":{\"address\":\"a:1\"}}", "egressProxy"},
		{"{\"httpsPorts\":[3000]}", "httpsPorts"},
		{"{\"denyOut\":[\"example.com\"]}", "names cannot be denied"},
		{"{\"denyOut\":\"8.8.8.8\"}", "is no list"},
		{"{\"allowOut\":[1]}", "something else than texts"},
		{"{\"allowOut\":[\"a b\"],\"denyOut\":[\"0.0.0.0/0\"]}", "a b"},
		{"{\"allowOut\":[\"1.2.3.4/33\"],\"denyOut\":[\"0.0.0.0/0\"]}", "no address"},
		{"{\"rules\":{\"*.a.test\":[]}}", "one host by its name"},
		{"{\"rules\":{\"a.test\":[{\"block\":true}]}}", "block"},
		{"{\"rules\":{\"a.test\":[{\"transform\":{\"body\":1}}]}}", "body"},
		{"{\"rules\":{\"a.test\":[{\"transform\":{\"headers\":{\"Host\":\"b\"}}}]}}",
		 "host"},
		{"{\"rules\":{\"a.test\":[{\"transform\":{\"headers\":{\"A\":\"b\\nc\"}}}]}}", "A"},
		{"[]", "no object"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *text = section(bad[i].network, true);

		if (!strcasestr(text, bad[i].why))
			test_fail(__FILE__, __LINE__, "%s: %s", bad[i].network, text);
		CHECK_INT(err.fault, ATOLL_FAULT_REQUEST);
	}
}

TEST(a_header_s_value_lies_in_a_file_and_its_host_is_reached_over_tls_alone)
{
	static const char network[] =
		"{\"rules\":{\"api.test\":[{\"transform\":{\"headers\":{\"A\":\"1\"}}},"
		"{\"transform\":{\"headers\":{\"a\":\"22\",\"B\":\"x y\"}}}]}}";
	cleanup_fd int dir = test_tempdir(), fd = -EBADF;
	char place[256], want[1024], value[16] = "", stamp[10] = "";
	cleanup_free char *text = NULL, *other = NULL;
	const char *file;

	snprintf(place, sizeof place, "%s/box", test_tempdir_path());
	CHECK_INT(box_network_section(NULL, network, true, place, &text, &err), 0);
	file = strstr(text, place);
	CHECK(file);
	snprintf(stamp, sizeof stamp, "%s", file + strlen(place) + 1);
	snprintf(want, sizeof want,
		 "{\"mode\":\"open\",\"proxy\":false,\"near\":[],\"allow\":[{\"host\":\"api.test\","
		 "\"ports\":["
		 "443],"
		 "\"tls\":\"inspect\"}],\"deny\":[{\"host\":\"api.test\",\"ports\":[80]}],"
		 "\"secrets\":["
		 "{\"name\":\"HEADER_0\",\"host\":\"api.test\",\"header\":\"a\",\"from\":"
		 "\"file:%s/%s-0\",\"set\":true},{\"name\":\"HEADER_1\",\"host\":\"api.test\","
		 "\"header\":\"B\",\"from\":\"file:%s/%s-1\",\"set\":true}]}",
		 place, stamp, place, stamp);
	CHECK_STR(text, want);
	snprintf(want, sizeof want, "box/%s-0", stamp);
	fd = openat(dir, want, O_RDONLY | O_CLOEXEC);
	CHECK(read(fd, value, sizeof value) == 2);
	CHECK_STR(value, "22");
	/* Rules that hold until others do find what they named, and nothing else. */
	CHECK_INT(box_network_section(NULL,
				      "{\"rules\":{\"b.test\":[{\"transform\":{\"headers\":{\"A\":"
				      "\"333\"}}}]}}",
				      true, place, &other, &err),
		  0);
	CHECK(!strstr(other, stamp));
	CHECK(pread(fd, value, sizeof value, 0) == 2);
	CHECK_STR(value, "22");
}

TEST(headers_for_a_host_that_is_not_reached_are_not_set)
{
	static const char network[] = "{\"rules\":{\"api.test\":[{\"transform\":{\"headers\":"
				      "{\"A\":\"1\"}}}]},\"denyOut\":[\"0.0.0.0/0\"],\"allowOut\":["
				      "\"%s\"]}";
	char text[256];

	snprintf(text, sizeof text, network, "other.test");
	CHECK(!strstr(section(text, true), "HEADER_0"));
	snprintf(text, sizeof text, network, "*.test");
	CHECK(strstr(section(text, true), "HEADER_0"));
}

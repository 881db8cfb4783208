/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit-base.h"
#include "audit/log-line.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"

#include <errno.h>
#include <time.h>

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define LINE                                                                                       \
	"{\"prev\":\"" ZEROS "\",\"seq\":7,\"time\":\"2026-11-16T10:45:39.123456789Z\","           \
	"\"run\":\"k3v7q2ma\",\"step\":2,\"kind\":\"exec\",\"pid\":7,\"path\":\"/a\\n\\\"b\"}"

TEST(a_line_is_read_as_it_was_written)
{
	struct audit_line line;
	struct buf out = BUF_INIT(4096);
	char path[16];

	CHECK(!audit_line_parse(LINE, strlen(LINE), &line));
	CHECK(line.seq == 7 && line.step == 2);
	CHECK_STR(line.time, "2026-11-16T10:45:39.123456789Z");
	CHECK_STR(line.run, "k3v7q2ma");
	CHECK_STR(line.kind, "exec");
	CHECK_INT(audit_line_string(&line, "path", path, sizeof path), 5);
	CHECK_STR(path, "/a\n\"b");
	CHECK_INT(audit_line_string(&line, "pid", path, sizeof path), -EBADMSG);
	CHECK_INT(audit_line_string(&line, "none", path, sizeof path), -ENOENT);
	CHECK_INT(audit_line_string(&line, "path", path, 5), -E2BIG);
	audit_line_format(&line, &out);
	buf_add(&out, line.members, line.members_size);
	CHECK_STR(out.data, LINE);
	buf_done(&out);
}

TEST(the_beginning_has_one_form_only)
{
	static const char *const pairs[][2] = {
		{"{\"prev\"", "{ \"prev\""},
		{"\"seq\":7", "\"seq\":07"},
		{"\"seq\":7", "\"seq\":-7"},
		{"\"seq\":7", "\"seq\":99999999999999999999"},
		{"2026-11", "2026 11"},
		{"789Z", "789z"},
		{"k3v7q2ma", "K3v7q2ma"},
		{"k3v7q2ma", "k3v7q2mak3v7q2mak"},
		{"k3v7q2ma", ""},
		{"\"step\":2", "\"step\":0"},
		{"\"step\":2", "\"step\":5000000000"},
		{"\"exec\"", "\"Exec\""},
		{"\"exec\"", "exec"},
		{"0\",\"seq", "G\",\"seq"},
		{"0\",\"seq", "A\",\"seq"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		const char *at = strstr(LINE, pairs[i][0]);
		struct audit_line line;
		char text[512];

		CHECK(at);
		snprintf(text, sizeof text, "%.*s%s%s", (int)(at - LINE), LINE, pairs[i][1],
			 at + strlen(pairs[i][0]));
		CHECK(audit_line_parse(text, strlen(text), &line));
	}
	for (size_t size = 0; size < strlen(LINE); size++) {
		struct audit_line line;
		const char *fault = audit_line_parse(LINE, size, &line);

		CHECK(fault || !audit_json_is_valid(LINE, size));
	}
}

TEST(json_is_told_from_what_is_none)
{
	static const char *const good[] = {
		"{}",
		"[]",
		"0",
		"-1.5e+3",
		"\"\"",
		"{\"a\":[1,{\"b\":null}],\"c\":true}",
		"\"\\u00e4\\n\\\\\"",
		"\"\xc3\xa4\"",
		"false",
	};
	static const char *const bad[] = {
		"",	   "{",		"{]",	    "01",	  "1.",	   "+1",
		"nul",	   "[1,]",	"{\"a\"}",  "{\"a\":1,}", "{1:1}", "\"\n\"",
		"\"\\x\"", "\"\\u12\"", "\"\xff\"", "\"\xc3\"",	  "{} ",   " {}",
		"[1 ]",	   "\"",	"1e",	    "--1",	  "[1]]",  "\"\\",
	};
	char deep[200];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(audit_json_is_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!audit_json_is_valid(bad[i], strlen(bad[i])));
	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	CHECK(!audit_json_is_valid(deep, 200));
	CHECK(audit_json_is_valid(deep + 80, 40));
}

TEST(members_are_found_by_their_whole_name)
{
	static const char text[] = "{\"ab\":1,\"a\":\"x\",\"c\":[\"a\",{\"d\":2}]}";
	const char *value;
	size_t size;

	CHECK(audit_json_member(text, strlen(text), "a", &value, &size) == 0 && size == 3);
	CHECK(audit_json_member(text, strlen(text), "ab", &value, &size) == 0 && *value == '1');
	CHECK(audit_json_member(text, strlen(text), "c", &value, &size) == 0 && size == 13);
	CHECK(audit_json_member(text, strlen(text), "d", &value, &size) == -ENOENT);
}

TEST(times_are_dates)
{
	char text[AUDIT_TIME_SIZE], want[AUDIT_TIME_SIZE];

	for (uint64_t day = 0; day < 200 * 366; day++) {
		time_t seconds = (time_t)(day * 86400 + day % 86400);
		struct tm tm;

		audit_time_format((uint64_t)seconds * 1000000000 + 42, text);
		gmtime_r(&seconds, &tm);
		strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S.000000042Z", &tm);
		CHECK_STR(text, want);
	}
}

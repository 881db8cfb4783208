/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "egress/core.h"
#include "egress/visit.h"

#include <stdlib.h>

static char app[] = "app.test";
static char *listed[] = {app};
static const struct visit_names names = {"box.corp.test", listed, 1};
static struct visit_refusal refusal;

static enum visit visit(const char *text)
{
	return visit_read(text, strlen(text), &names, &refusal);
}

TEST(requests_for_names_of_this_machine_and_listed_ones_pass)
{
	static const char *const good[] = {
		"GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
		"GET /\xc3\xa4 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"FOO /x?y HTTP/1.1\r\nA: b\r\nhost: [::1]:80\r\n\r\nbody",
		"GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: app.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.APP.test:8080\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: box.corp.test\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (visit(good[i]) != VISIT_PASS)
			test_fail(__FILE__, __LINE__, "%s", good[i]);
}

TEST(requests_for_other_names_and_unclear_ones_are_refused)
{
	static const struct {
		const char *text;
		unsigned status;
	} bad[] = {
		{"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
		{"A-METHOD-OF-MORE-THAN-THIRTY-TWO-CHARACTERS / HTTP/1.1\r\nHost: "
		 "evil.example\r\n\r\n",
		 421},
		{"POST /x HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\n\r\nbody", 421},
		{"GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n", 421},
		{"GET /a b HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
		{"GET / HTTP/1.1\r\nHost: myapp.test\r\n\r\n", 421},
		{"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400},
		{"GET / HTTP/1.1\nHost: evil.example\n\n", 400},
		{"GET / HTTP/1.1\r\nHost : evil.example\r\n\r\n", 400},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (visit(bad[i].text) != VISIT_REFUSE || refusal.status != bad[i].status)
			test_fail(__FILE__, __LINE__, "%u %s", refusal.status, bad[i].text);
}

TEST(other_protocols_pass_as_soon_as_they_are_clear)
{
	static const char *const others[] = {
		"SSH-2.0-OpenSSH_9.2\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"CONNECT evil.example:443 HTTP/1.1\r\n",
		"GET http://evil.example/ HTTP/1.1\r\n",
		"EHLO me\r\n",
		"PING\r\n",
		"GET key\r\n",
		"CD /tmp\r\n",
		"GET /\r\n",
		"GET /\1",
		"\x16\3\1",
		"{\"id\":",
		"\r\nGET / HTTP/1.1",
		"hello world",
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (visit(others[i]) != VISIT_PASS)
			test_fail(__FILE__, __LINE__, "%s", others[i]);
	CHECK_INT(visit_read("\0\0", 2, &names, &refusal), VISIT_PASS);
}

TEST(what_could_still_be_a_request_is_judged_later)
{
	CHECK_INT(visit(""), VISIT_WORD);
	CHECK_INT(visit("GET"), VISIT_WORD);
	CHECK_INT(visit("GET "), VISIT_LINE);
	CHECK_INT(visit("GET /x HTTP/1.1\r"), VISIT_LINE);
	CHECK_INT(visit("GET /x HTTP/1.1\r\n"), VISIT_HEAD);
	CHECK_INT(visit("GET /x HTTP/1.1\r\nHost: evil.example\r\n"), VISIT_HEAD);
}

/* Put text through a door in pieces of `step` bytes; count what it passes on. */
static enum door_state put(struct door *door, const char *text, size_t size, size_t step,
			   size_t *ret_passed)
{
	enum door_state state = DOOR_WAITS;

	for (size_t at = 0; at < size && (state == DOOR_WAITS || state == DOOR_PASSES);) {
		size_t room, n = size - at < step ? size - at : step;
		char *to = door_room(door, &room);

		CHECK(to);
		n = n < room ? n : room;
		memcpy(to, text + at, n);
		at += n;
		state = door_add(door, n, 1);
		if (state == DOOR_PASSES || state == DOOR_OPEN) {
			size_t taken;

			free(door_take(door, &taken));
			*ret_passed += taken;
		}
	}
	return state;
}

TEST(a_door_holds_a_request_until_its_head_is_there)
{
	static const char good[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	static const char bad[] = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";

	for (size_t step = 1; step < sizeof bad; step++) {
		struct door *door = door_new(&names);
		size_t passed = 0;

		CHECK_INT(put(door, good, sizeof good - 1, step, &passed), DOOR_OPEN);
		CHECK_INT(passed, sizeof good - 1);
		door_free(door);
		door = door_new(&names);
		passed = 0;
		CHECK_INT(put(door, bad, sizeof bad - 1, step, &passed), DOOR_REFUSES);
		CHECK(passed <= strlen("GET"));
		door_free(door);
	}
}

TEST(a_door_passes_on_half_a_line_after_a_silence_and_judges_it_all_the_same)
{
	static const char first[] = "GET / HT", rest[] = "TP/1.1\r\nHost: evil.example\r\n\r\n";
	struct door *door = door_new(&names);
	size_t passed = 0, taken;
	char answer[1024];

	CHECK_INT(put(door, first, strlen(first), 100, &passed), DOOR_WAITS);
	CHECK(passed == 0 && door_due(door) > 1);
	CHECK_INT(door_fire(door, 2), DOOR_WAITS);
	CHECK_INT(door_fire(door, door_due(door)), DOOR_PASSES);
	free(door_take(door, &taken));
	CHECK_INT(taken, strlen(first));
	CHECK_INT(put(door, rest, strlen(rest), 100, &passed), DOOR_REFUSES);
	CHECK_INT(passed, 0);
	CHECK(door_answer(door, answer, sizeof answer) > 0 && strstr(answer, "HTTP/1.1 421 "));
	door_free(door);
}

TEST(a_head_that_does_not_end_is_refused)
{
	static const char half[] = "GET / HTTP/1.1\r\nHost: localhost\r\n";
	struct door *door = door_new(&names);
	size_t passed = 0;

	CHECK_INT(put(door, half, strlen(half), 100, &passed), DOOR_WAITS);
	CHECK_INT(door_fire(door, 20 * SECOND_NS), DOOR_WAITS);
	CHECK_INT(door_fire(door, 31 * SECOND_NS), DOOR_REFUSES);
	door_free(door);
	door = door_new(&names);
	CHECK_INT(put(door, half, strlen(half), 100, &passed), DOOR_WAITS);
	CHECK_INT(door_add(door, 0, 1), DOOR_REFUSES);
	door_free(door);
}

TEST(what_is_very_long_is_refused_or_passes)
{
	const size_t size = 200000;
	cleanup_free char *text = malloc(size);
	struct door *door = door_new(&names);
	size_t passed = 0;

	CHECK(text && door);
	memset(text, 'x', size);
	CHECK_INT(put(door, text, size, 5000, &passed), DOOR_PASSES);
	CHECK_INT(passed, size);
	CHECK_INT(put(door, "\1", 1, 1, &passed), DOOR_OPEN);
	door_free(door);

	door = door_new(&names);
	text[size - 2] = ' ';
	CHECK_INT(put(door, text, size, 5000, &passed), DOOR_REFUSES);
	door_free(door);

	door = door_new(&names);
	passed = 0;
	memcpy(text, "GET /", 5);
	CHECK_INT(put(door, text, size, 5000, &passed), DOOR_REFUSES);
	CHECK_INT(passed, 0);
	door_free(door);

	door = door_new(&names);
	memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
	CHECK_INT(put(door, text, size, 5000, &passed), DOOR_REFUSES);
	CHECK_INT(passed, 0);
	door_free(door);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"

#include <atoll/error.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define COMMON "\"prev\":\"0\",\"time\":\"2026-11-16T10:45:39.123456789Z\",\"run\":\"k3v7q2ma\""

/* A log with this content. */
static void open_text(const char *text, size_t size, struct events **ret)
{
	char path[] = "/tmp/atoll-test-events-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK(write(fd, text, size) == (ssize_t)size);
	close(fd);
	CHECK(events_open_path("", path, ret, NULL) == 0);
	unlink(path);
}

static void show(const char *text, const char *expected)
{
	cleanup_buf struct buf out = BUF_INIT(4096);

	event_show(text, &out);
	CHECK_STR(out.data ? out.data : "", expected);
}

TEST(lines_are_read_and_what_all_have_is_known)
{
	static const char text[] =
		"{" COMMON ",\"seq\":0,\"kind\":\"open\",\"new\":[{}]}\n"
		"{" COMMON ",\"seq\":1,\"step\":3,\"kind\":\"from-later\"}\n{\"half";
	cleanup_events struct events *events = NULL;
	cleanup_event struct event event = {0};

	open_text(text, sizeof text - 1, &events);
	CHECK(events_next(events, &event, NULL) == 1);
	CHECK(event.seq == 0 && event.step == 0 && streq(event.kind, "open"));
	CHECK(event.time_ns == 1794825939123456789U);
	CHECK(events_next(events, &event, NULL) == 1);
	CHECK(event.step == 3 && streq(event.kind, "from-later"));
	CHECK(events_next(events, &event, NULL) == 0);
	CHECK(events->is_cut && events->n_lines == 2);
}

TEST(a_line_that_is_no_event_is_named_and_the_next_is_read)
{
	static const char *const bad[] = {"",
					  "[]",
					  "{}",
					  "{\"seq\":1}",
					  "nonsense",
					  "{\"seq\":0,\"seq\":1," COMMON ",\"kind\":\"open\"}",
					  "{\"seq\":-1," COMMON ",\"kind\":\"open\"}",
					  "{\"seq\":0,\"time\":\"now\",\"kind\":\"open\"}"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cleanup_events struct events *events = NULL;
		cleanup_event struct event event = {0};
		struct atoll_error err = {0};
		char text[512];
		int size = snprintf(text, sizeof text,
				    "%s\n{" COMMON ",\"seq\":1,\"kind\":\"x\"}\n", bad[i]);

		open_text(text, (size_t)size, &events);
		CHECK(events_next(events, &event, &err) == -EBADMSG);
		CHECK(strstr(err.text, "line 1 of") != NULL);
		CHECK(events_next(events, &event, &err) == 1);
		CHECK(events_next(events, &event, &err) == 0 && !events->is_cut);
	}
}

TEST(a_line_that_is_too_long_is_passed_over)
{
	size_t size = EVENTS_LINE_MAX + 400;
	cleanup_free char *text = malloc(size + 200);
	cleanup_events struct events *events = NULL;
	cleanup_event struct event event = {0};

	memset(text, 'x', size);
	size += (size_t)sprintf(text + size, "\n{" COMMON ",\"seq\":1,\"kind\":\"x\"}\n");
	open_text(text, size, &events);
	CHECK(events_next(events, &event, NULL) == -EBADMSG);
	CHECK(events_next(events, &event, NULL) == 1);
	CHECK(event.seq == 1);
	CHECK(events_next(events, &event, NULL) == 0);
}

TEST(bytes_that_are_no_text_survive_and_are_shown)
{
	static const char text[] =
		"{" COMMON ",\"seq\":0,\"kind\":\"change\",\"path\":\"a\\udcff\\u0000\\ud83d\\ude00"
		"\\\\udc80\xf4\x8d\xb2\x80z\"}\n";
	static const char expected[] = "a\xff\0\xf0\x9f\x98\x80\\udc80\xf4\x8d\xb2\x80z";
	cleanup_buf struct buf bytes = BUF_INIT(4096);
	cleanup_events struct events *events = NULL;
	cleanup_event struct event event = {0};
	const char *path;

	open_text(text, sizeof text - 1, &events);
	CHECK(events_next(events, &event, NULL) == 1);
	path = event_text(event.object, "path");
	event_bytes(path, strlen(path), &bytes);
	CHECK(bytes.used == sizeof expected - 1);
	CHECK(memcmp(bytes.data, expected, bytes.used) == 0);
	show(path, "a\\xff\\x00\xf0\x9f\x98\x80\\udc80\\xf4\\x8d\\xb2\\x80z");
}

TEST(nothing_that_a_terminal_obeys_is_shown)
{
	show("plain /path-1", "plain /path-1");
	show("a\033[2Jb\r\n\t\177", "a\\x1b[2Jb\\x0d\\n\\t\\x7f");
	show("\xe2\x80\xae"
	     "evil\xc2\x9b",
	     "\\xe2\\x80\\xaeevil\\xc2\\x9b");
	show("\xc3\xa4\xe6\xbc\xa2", "\xc3\xa4\xe6\xbc\xa2");
}

TEST(times_are_read_strictly)
{
	uint64_t ns;

	CHECK(event_read_time("1970-01-01T00:00:00Z", &ns) && ns == 0);
	CHECK(event_read_time("2000-02-29T23:59:59.5Z", &ns) && ns == 951868799500000000U);
	CHECK(!event_read_time("", &ns));
	CHECK(!event_read_time("2026-11-16", &ns));
	CHECK(!event_read_time("2026-11-16T10:45:39", &ns));
	CHECK(!event_read_time("2026-11-16T10:45:39.1Zx", &ns));
	CHECK(!event_read_time("2026-13-16T10:45:39Z", &ns));
}

TEST(a_fifo_is_no_log_and_is_not_waited_for)
{
	char path[] = "/tmp/atoll-test-fifo-XXXXXX";
	struct events *events;
	struct atoll_error err = {0};

	CHECK(mkdtemp(path) != NULL);
	rmdir(path);
	CHECK(mkfifo(path, 0600) == 0);
	CHECK(events_open_path("", path, &events, &err) < 0);
	CHECK(strstr(err.text, "no plain file") != NULL);
	unlink(path);
}

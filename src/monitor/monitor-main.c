/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define CHANNEL	   3
#define CONFIG_MAX ((size_t)64 << 10)
/* What has come in and is in no batch yet; then nothing more is read, and the supervisor waits. */
#define INPUT_MAX ((size_t)1 << 20)

struct monitor {
	struct monitor_config config;
	struct ask *ask;
	char *input;
	size_t used;
	bool has_ended; /* nothing will follow */
	struct batch batch;
	int64_t first_ns; /* when the first of the batch came */
	struct batch asked;
	bool is_asking;
};

/* ---- in ---- */

static ssize_t read_more(struct monitor *monitor)
{
	ssize_t got = read(CHANNEL, monitor->input + monitor->used, INPUT_MAX - monitor->used);

	if (got > 0)
		monitor->used += (size_t)got;
	else if (got == 0 || (errno != EINTR && errno != EAGAIN))
		monitor->has_ended = true;
	return got;
}

/* The first line; everything else has to wait for it. */
static int read_config(struct monitor *monitor)
{
	char *end;
	int r;

	while (!(end = memchr(monitor->input, '\n', monitor->used))) {
		if (monitor->used > CONFIG_MAX)
			return -EMSGSIZE;
		if (read_more(monitor) <= 0 && monitor->has_ended)
			return -EPIPE;
	}
	r = config_read(monitor->input, (size_t)(end - monitor->input), &monitor->config);
	monitor->used -= (size_t)(end + 1 - monitor->input);
	memmove(monitor->input, end + 1, monitor->used);
	return r;
}

static void fill_batch(struct monitor *monitor)
{
	char *at = monitor->input, *end;

	while (monitor->batch.n < monitor->config.batch &&
	       (end = memchr(at, '\n', monitor->used - (size_t)(at - monitor->input)))) {
		if (!batch_add(&monitor->batch, at, (size_t)(end - at)))
			break;
		if (monitor->batch.n == 1)
			monitor->first_ns = clock_monotonic_ns();
		at = end + 1;
	}
	monitor->used -= (size_t)(at - monitor->input);
	memmove(monitor->input, at, monitor->used);
}

/* ---- out ---- */

static void pass_on(const struct monitor_answer *answer)
{
	if (send(CHANNEL, answer, sizeof *answer, MSG_NOSIGNAL) != (ssize_t)sizeof *answer)
		_exit(0); /* nobody is there any more */
}

static void fail(struct monitor *monitor, const char *problem)
{
	struct monitor_answer answer = {
		.verdict = (uint32_t)monitor->config.on_failure,
		.is_failure = 1,
		.last = monitor->asked.last,
	};
	char text[200];

	snprintf(text, sizeof text, "the monitor did not answer as it should: %s", problem);
	str_show(text, answer.why, sizeof answer.why);
	pass_on(&answer);
}

static void take_answer(struct monitor *monitor)
{
	struct monitor_answer answer;
	const char *problem, *body;
	size_t size = 0;

	monitor->is_asking = false;
	body = ask_result(monitor->ask, &size, &problem);
	if (body && answer_read(body, size, &monitor->asked, &answer, &problem) == 0)
		pass_on(&answer);
	else
		fail(monitor, problem);
}

static void begin_asking(struct monitor *monitor)
{
	batch_done(&monitor->asked);
	monitor->asked = monitor->batch;
	monitor->batch = (struct batch){0};
	if (ask_begin(monitor->ask, question_body(&monitor->config, &monitor->asked)) < 0)
		fail(monitor, "no memory for the question");
	else
		monitor->is_asking = true;
}

/* ---- the loop ---- */

static int64_t ask_at_ns(const struct monitor *monitor)
{
	if (monitor->batch.n == 0)
		return INT64_MAX;
	if (monitor->has_ended || monitor->batch.n >= monitor->config.batch ||
	    monitor->batch.used >= BATCH_SIZE_MAX / 2)
		return 0;
	return monitor->first_ns + (int64_t)monitor->config.interval_ms * 1000000;
}

static int wait_ms(const struct monitor *monitor)
{
	int64_t at_ns = ask_at_ns(monitor), left_ns;

	if (at_ns == INT64_MAX || monitor->is_asking)
		return 1000;
	left_ns = at_ns - clock_monotonic_ns();
	return left_ns <= 0 ? 0 : left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000) + 1;
}

static bool has_input(void)
{
	struct pollfd fd = {.fd = CHANNEL, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

static void go_round(struct monitor *monitor)
{
	bool reads = !monitor->has_ended && monitor->used < INPUT_MAX;
	struct pollfd fd = {.fd = CHANNEL, .events = POLLIN};

	if (monitor->is_asking) {
		if (ask_wait(monitor->ask, reads ? CHANNEL : -1, wait_ms(monitor)))
			take_answer(monitor);
	} else if (reads) {
		poll(&fd, 1, wait_ms(monitor));
	}
	if (reads && has_input())
		read_more(monitor);
	fill_batch(monitor);
	if (!monitor->is_asking && clock_monotonic_ns() >= ask_at_ns(monitor))
		begin_asking(monitor);
}

int main(void)
{
	static struct monitor monitor;

	signal(SIGPIPE, SIG_IGN);
	monitor.input = malloc(INPUT_MAX);
	if (!monitor.input || read_config(&monitor) < 0) {
		fputs("atoll-monitor is started by atoll, where a contract names a monitor\n",
		      stderr);
		return 240;
	}
	if (lock_in(monitor.config.url) < 0) {
		fail(&monitor, "it could not lock itself in");
		return 242;
	}
	monitor.ask = ask_new(&monitor.config);
	if (!monitor.ask) {
		fail(&monitor, "libcurl could not be started");
		return 242;
	}
	while (!monitor.has_ended || monitor.is_asking || monitor.batch.n)
		go_round(&monitor);
	ask_free(monitor.ask);
	config_done(&monitor.config);
	batch_done(&monitor.asked);
	free(monitor.input);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/program.h"
#include "base/str.h"
#include "eventlog/watching.h"
#include "isolate/plan.h"
#include "monitor/monitor.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

/*
 * The program that asks a monitor (atoll-monitor)
 *
 * watching.c starts it with one socket. The first line on the socket is its configuration with the
 * key of the service; then it gets the lines of the event log and returns answers of a fixed size.
 */

static int find_program(char *ret, size_t size, struct atoll_error *err)
{
	if (program_find(MONITOR_PROGRAM, ret, size) < 0)
		return error_set(err, ATOLL_FAULT_HOST, ENOENT,
				 "audit.monitor needs the program " MONITOR_PROGRAM
				 ", which is installed beside atoll, and is not there");
	return 0;
}

int watch_monitor_check(const struct spec *spec, struct atoll_error *err)
{
	const struct spec_monitor *monitor = &spec->watch.monitor;
	char path[PATH_MAX];

	if (monitor->key && !getenv(monitor->key))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the monitor's key is to come from the variable %s, which is "
				 "not set",
				 monitor->origin, monitor->key);
	return find_program(path, sizeof path, err);
}

/* The buffer is wiped after sending: it contains the key. */
static int send_config(int fd, const struct spec_monitor *monitor, struct atoll_error *err)
{
	struct buf line = BUF_INIT(128 << 10);
	struct json json = {&line};
	ssize_t sent;

	json_open(&json, NULL, '{');
	json_str(&json, "url", monitor->url);
	json_str(&json, "model", monitor->model);
	json_str(&json, "prompt", monitor->prompt);
	json_str(&json, "key", monitor->key ? getenv(monitor->key) : NULL);
	json_uint(&json, "batch", monitor->batch);
	json_uint(&json, "interval_ms", monitor->interval_ms);
	json_uint(&json, "timeout_ms", monitor->timeout_ms);
	json_uint(&json, "on_failure", monitor->on_failure);
	json_close(&json, '}');
	buf_add_char(&line, '\n');
	sent = buf_error(&line) ? -1 : send(fd, line.data, line.used, MSG_NOSIGNAL);
	if (sent >= 0 && (size_t)sent != line.used)
		sent = -1;
	if (line.data)
		sodium_memzero(line.data, line.used);
	buf_done(&line);
	return sent < 0 ? error_set(err, ATOLL_FAULT_HOST, errno,
				    "send the monitor its configuration")
			: 0;
}

int watch_monitor_open(const struct spec *spec, struct watch_monitor *monitor,
		       struct atoll_error *err)
{
	char program[PATH_MAX];
	int ends[2], r;

	r = watch_monitor_check(spec, err);
	if (r == 0)
		r = find_program(program, sizeof program, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a channel to the monitor");
	/* With an empty environment, from which libcurl would take proxies. */
	monitor->pid = program_start(program, MONITOR_PROGRAM, ends[1], PROGRAM_ALONE);
	close(ends[1]);
	monitor->fd = ends[0];
	if (monitor->pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, -monitor->pid, "execute '%s'", program);
	return send_config(monitor->fd, &spec->watch.monitor, err);
}

static void fill_verdict(const struct monitor_answer *answer, struct watch_verdict *ret)
{
	*ret = (struct watch_verdict){.by = "monitor", .verdict = RULE_FLAG};
	if (answer->verdict < RULE_VERDICTS)
		ret->verdict = (enum rule_verdict)answer->verdict;
	ret->n_about = answer->n_about <= MONITOR_ABOUT_MAX ? answer->n_about : 0;
	memcpy(ret->about, answer->about, ret->n_about * sizeof *ret->about);
	if (!ret->n_about) {
		ret->about[0] = answer->last;
		ret->n_about = 1;
	}
	snprintf(ret->why, sizeof ret->why, "%.*s", (int)sizeof answer->why - 1, answer->why);
}

int watch_monitor_read(struct watch_monitor *monitor, struct watch_verdict *ret)
{
	struct monitor_answer answer;
	ssize_t got;

	_Static_assert(sizeof answer <= sizeof monitor->answer, "room for an answer");
	if (monitor->fd < 0 || monitor->has_ended)
		return -EPIPE;
	got = recv(monitor->fd, monitor->answer + monitor->got, sizeof answer - monitor->got,
		   MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0) {
		monitor->has_ended = true;
		return -EPIPE;
	}
	monitor->got += (size_t)got;
	if (monitor->got < sizeof answer)
		return 0;
	monitor->got = 0;
	memcpy(&answer, monitor->answer, sizeof answer);
	monitor->has_failed = answer.is_failure;
	fill_verdict(&answer, ret);
	/* An "allow" gets a line in the log only if it stands for a failed request. */
	return ret->verdict != RULE_OFF || answer.is_failure ? 1 : 2;
}

void watch_monitor_reap(struct watch_monitor *monitor)
{
	int status;

	if (monitor->pid <= 0)
		return;
	kill(monitor->pid, SIGKILL);
	while (waitpid(monitor->pid, &status, 0) < 0 && errno == EINTR)
		;
	monitor->pid = 0;
}

void watching_describe(const struct spec *spec, struct plan *plan)
{
	const struct spec_monitor *monitor = &spec->watch.monitor;
	struct atoll_error err = {0};

	for (int i = 0; i < RULE_COUNT; i++) {
		char clause[64];

		if (spec->watch.rules[i] <= RULE_FLAG)
			continue;
		snprintf(clause, sizeof clause, "audit.rules.%s", rule_name((enum rule_id)i));
		plan_add(plan, PLAN_NOTE, clause, rule_verdict_word(spec->watch.rules[i]),
			 "built-in rule over the record", NULL, spec->watch.rule_origins[i]);
	}
	if (!monitor->url)
		return;
	if (watch_monitor_check(spec, &err) < 0)
		plan_add(plan, PLAN_MISSING, "audit.monitor", monitor->url, MONITOR_PROGRAM,
			 err.text, monitor->origin);
	else
		plan_add(plan, PLAN_NOTE, "audit.monitor", monitor->url,
			 "is sent the run's events, and can have it stopped or ended", NULL,
			 monitor->origin);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-record.h"

#include "base/error.h"
#include "base/program.h"
#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The event log and the receipt of a sandbox. The program atoll-audit reads both: its output is the
 * answer. */

#define ARGUMENTS 8
#define LOG_MAX	  (UINT64_C(256) << 20) /* the usual maximum of an event log */

struct record_work {
	struct v1_work work;
	char *argv[ARGUMENTS + 1];
	size_t n;
	const char *type;
	int fd;
};

static void add_argument(struct record_work *own, const char *name, const char *value)
{
	char *text = NULL;

	if (own->n == ARGUMENTS)
		return;
	if (asprintf(&text, value ? "%s%s" : "%s", name, value) < 0)
		text = NULL;
	own->argv[own->n] = text;
	if (text)
		own->n++;
}

/* Reads the error message of atoll-audit, in one line. */
static int read_failure(int status, int errors_fd, struct atoll_error *err)
{
	char text[300] = "";
	ssize_t n = pread(errors_fd, text, sizeof text - 1, 0);
	enum atoll_fault fault = ATOLL_FAULT_BUG;
	const char *story = text;

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (starts_with(story, "atoll: "))
		story += strlen("atoll: ");
	if (starts_with(story, "there is no log"))
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
				 "the sandbox has no event log: its contract has 'record: off'");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 240)
		fault = ATOLL_FAULT_REQUEST;
	else if (WIFEXITED(status) && WEXITSTATUS(status) == 241)
		fault = ATOLL_FAULT_POLICY;
	else if (WIFEXITED(status) && WEXITSTATUS(status) == 242)
		fault = ATOLL_FAULT_HOST;
	return error_set(err, fault, 0, "%s", story[0] ? story : "the record cannot be read");
}

static int spawn(char **argv, uint64_t most, int out_fd, int errors_fd, struct atoll_error *err)
{
	const struct rlimit size = {most, most};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int r, status;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
	posix_spawn_file_actions_adddup2(&actions, errors_fd, 2);
	r = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return error_set(err, ATOLL_FAULT_HOST, r, "execute '%s'", argv[0]);
	/* What it has written before is little. */
	prlimit(pid, RLIMIT_FSIZE, &size, NULL);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return error_set(err, ATOLL_FAULT_HOST, errno, "wait for '%s'", argv[0]);
	}
	return status == 0 ? 0 : read_failure(status, errors_fd, err);
}

static int run_record(struct v1_work *work, struct atoll_error *err)
{
	struct record_work *own = (struct record_work *)work;
	char path[PATH_MAX];
	cleanup_fd int errors_fd = -1;
	int r = program_find("atoll-audit", path, sizeof path);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find 'atoll-audit', which is installed beside atoll");
	own->fd = v1_scratch(work, err);
	errors_fd = own->fd < 0 ? -1 : v1_scratch(work, err);
	if (errors_fd < 0)
		return -EIO;
	free(own->argv[0]);
	own->argv[0] = strdup(path);
	return own->argv[0] ? spawn(own->argv, work->reserved, own->fd, errors_fd, err)
			    : error_oom(err);
}

static void answer_record(struct v1_work *work, struct api_call *call)
{
	struct record_work *own = (struct record_work *)work;

	v1_answer_scratch(call, own->type, take_fd(&own->fd));
}

static void free_record(struct v1_work *work)
{
	struct record_work *own = (struct record_work *)work;

	for (size_t i = 0; i < own->n; i++)
		free(own->argv[i]);
	if (own->fd >= 0)
		close(own->fd);
}

static struct record_work *record_new(struct api_call *call, const struct box *box,
				      const char *what, const char *type)
{
	struct record_work *own = v1_work_new(call, sizeof *own, box);

	if (!own)
		return NULL;
	own->fd = -1;
	own->type = type;
	own->work.run = run_record;
	own->work.answer = answer_record;
	own->work.free = free_record;
	add_argument(own, "atoll-audit", NULL);
	add_argument(own, what, NULL);
	return own;
}

static void submit(struct record_work *own)
{
	add_argument(own, "--", NULL);
	add_argument(own, own->work.sandbox, NULL);
	if (v1_work_reserve(&own->work, LOG_MAX))
		v1_work_submit(&own->work);
}

void v1_log(struct api_call *call)
{
	static const char *const filters[] = {"kind", "step", "since"};
	struct box *box = v1_box(call);
	struct record_work *own = box ? record_new(call, box, "log", "application/x-ndjson") : NULL;

	if (!own)
		return;
	add_argument(own, "--json", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		const char *value = exchange_query(call->exchange, filters[i]);
		char name[16];

		snprintf(name, sizeof name, "--%s=", filters[i]);
		if (value)
			add_argument(own, name, value);
	}
	submit(own);
}

void v1_receipt(struct api_call *call)
{
	struct box *box = v1_box(call);
	const char *step = exchange_query(call->exchange, "step");
	struct record_work *own =
		box ? record_new(call, box, "attest", "application/x-ndjson") : NULL;

	if (!own)
		return;
	if (step)
		add_argument(own, "--step=", step);
	submit(own);
}

/* The event log of a job stays after its sandbox has ended. */
void v1_record_receipt(struct api_call *call, const char *sandbox)
{
	struct box box = {0};
	struct record_work *own;

	snprintf(box.sandbox, sizeof box.sandbox, "%s", sandbox);
	own = record_new(call, &box, "attest", "application/x-ndjson");
	if (own)
		submit(own);
}

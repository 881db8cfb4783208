/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "job/job.h"
#include "job/run.h"
#include "layer/layer.h"
#include "sandbox/holder-inner.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/*
 * One step
 *
 * To whoever supervises it a step is a run whose first process is reached by way of the holder: the
 * same messages, the same orders, and pipes or a terminal of the command's own, whose other ends
 * are here. So it is a back end, and run.c does the rest.
 */

/* How long the holder may take to end what it was told to kill. */
#define STOP_MS 10000

/* How often to ask, where one holder after the other is just ending. */
#define TRIES 100

/* What a struct cell is here. */
struct held {
	const struct spec *spec;
	struct layer_record *record;
	char *const *argv;
	char *const *env;
	char *cwd;
	const struct relay *relay;
	int result_fd;
	int report_fd; /* the holder's socket once more: run.c closes the other one first */
	size_t user;   /* of the contract's */
};

static struct held *held_of(struct cell *cell)
{
	return (struct held *)(void *)cell;
}

static const struct held *held_of_const(const struct cell *cell)
{
	return (const struct held *)(const void *)cell;
}

/* ---- what it executes ---- */

static int make_words(const struct held *held, struct atoll_error *err)
{
	cleanup_buf struct buf words = BUF_INIT(INIT_STEP_MAX);
	cleanup_fd int fd = memfd_create("atoll-step", MFD_CLOEXEC);
	struct init_step_head head = {0};
	int r;

	while (held->argv[head.n_argv])
		head.n_argv++;
	while (held->env[head.n_env])
		head.n_env++;
	head.has_ids = isolate_user_ids(held->spec, held->user, &head.uid, &head.gid);
	buf_add(&words, &head, sizeof head);
	buf_add(&words, held->cwd, strlen(held->cwd) + 1);
	for (char *const *word = held->argv; *word; word++)
		buf_add(&words, *word, strlen(*word) + 1);
	for (char *const *word = held->env; *word; word++)
		buf_add(&words, *word, strlen(*word) + 1);
	if (buf_error(&words) == -E2BIG)
		return error_set(err, ATOLL_FAULT_REQUEST, E2BIG, "the command");
	r = fd < 0 ? -errno : buf_error(&words);
	if (r == 0)
		r = fd_write_all(fd, words.data, words.used);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "keep the step's words") : take_fd(&fd);
}

/* As one would type it, more or less: for people. */
static void show_command(char *const argv[], char *ret, size_t size)
{
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; argv[i] && used + 1 < size; i++) {
		int n = snprintf(ret + used, size - used, "%s%s", i ? " " : "", argv[i]);

		used = n < 0 || (size_t)n >= size - used ? size - 1 : used + (size_t)n;
	}
}

/* ---- the back end ---- */

static int start(struct cell *cell, const int stdio[3], struct cell_handle *ret,
		 struct atoll_error *err)
{
	struct held *held = held_of(cell);
	struct hold_request request = {.version = HOLD_VERSION, .type = HOLD_EXEC};
	cleanup_fd int words = make_words(held, err), socket_fd = -1, life = -1, theirs = -1;
	struct hold_reply reply;
	int fds[8], ends[2], n = 0, r;

	if (words < 0)
		return words;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	life = ends[0], theirs = ends[1];
	fds[n++] = words;
	fds[n++] = held->result_fd;
	fds[n++] = theirs;
	for (int i = 0; i < 3; i++) {
		if (stdio[i] < 0)
			continue;
		request.stdio |= 1U << i;
		fds[n++] = stdio[i];
	}
	for (int i = RELAY_OUT; i < RELAY_COUNT; i++) {
		if (stdio[i] >= 0)
			fds[n++] = held->relay->streams[i].from;
	}
	show_command(held->argv, request.command, sizeof request.command);
	r = -ECONNRESET;
	for (int i = 0; r == -ECONNRESET && i < TRIES; i++) {
		if (socket_fd >= 0)
			close(take_fd(&socket_fd));
		socket_fd = hold_connect_or_start(held->record, err);
		r = socket_fd < 0 ? socket_fd
				  : hold_ask(socket_fd, &request, fds, (size_t)n, &reply, err);
	}
	if (r < 0)
		return r;
	ret->pid = reply.pid;
	ret->pid_fd = take_fd(&life); /* readable, that is at its end, when the step is over */
	held->report_fd = fcntl(socket_fd, F_DUPFD_CLOEXEC, 3);
	ret->control_fd = take_fd(&socket_fd);
	ret->listener_fd = ret->dns_fd = ret->layer_fd = ret->notice_fd = -1;
	ret->storage_fd = -1;
	return 0;
}

/* Of a step that has ended this is not heard by anybody. */
static void stop(struct cell *cell, const struct cell_handle *handle)
{
	const struct init_order order = {.type = INIT_SIGNAL_ALL, .signal = SIGKILL};
	struct pollfd life = {.fd = handle->pid_fd, .events = POLLIN};

	(void)cell;
	if (poll(&life, 1, 0) > 0)
		return;
	send(handle->control_fd, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
	poll(&life, 1, STOP_MS);
}

static void read_result(const struct held *held, struct hold_result *ret)
{
	if (pread(held->result_fd, ret, sizeof *ret, 0) < 0)
		*ret = (struct hold_result){0};
}

static void account(const struct cell *cell, struct cell_usage *ret)
{
	*ret = (struct cell_usage){0};
	if (pread(held_of_const(cell)->result_fd, ret, sizeof *ret,
		  offsetof(struct hold_result, usage)) < 0)
		*ret = (struct cell_usage){0};
	/* The sandbox's, not this step's: if that ends it, it is told. */
	ret->is_out_of_memory = false;
}

static const struct backend held_backend = {
	.name = "held",
	.has_terminals = true,
	.start = start,
	.stop = stop,
	.account = account,
};

/* ---- the step ---- */

/* What the caller wants to be told, and we are told by the holder. */
struct wish {
	const struct atoll_run_options *options;
	struct held *held;
};

static void on_started(int32_t pid, void *data)
{
	const struct wish *wish = data;
	struct hold_result *result = calloc(1, sizeof *result);

	if (result)
		read_result(wish->held, result);
	if (wish->options->started)
		wish->options->started(pid, wish->options->data);
	if (result && result->n_published && result->n_published <= ATOLL_PUBLISHED_MAX &&
	    wish->options->published)
		wish->options->published(result->published, result->n_published,
					 wish->options->data);
	free(result);
}

static void on_suspend(bool by_command, void *data)
{
	const struct wish *wish = data;

	wish->options->suspend(by_command, wish->options->data);
}

static void on_progress(const char *what, void *data)
{
	const struct wish *wish = data;

	wish->options->progress(what, wish->options->data);
}

static int take_result(const struct held *held, struct atoll_result *ret, struct atoll_error *err)
{
	struct hold_result *result = calloc(1, sizeof *result);
	size_t n;
	int r = 0;

	if (!result)
		return error_oom(err);
	read_result(held, result);
	ret->n_published = result->n_published < ATOLL_PUBLISHED_MAX ? result->n_published
								     : ATOLL_PUBLISHED_MAX;
	memcpy(ret->published, result->published, sizeof ret->published);
	memcpy(ret->network_note, result->network_note, sizeof ret->network_note);
	ret->network_note[sizeof ret->network_note - 1] = '\0';
	ret->n_connections = result->n_connections;
	n = result->n_connections < ATOLL_CONNECTIONS_MAX ? result->n_connections
							  : ATOLL_CONNECTIONS_MAX;
	memcpy(ret->connections, result->connections, n * sizeof *ret->connections);
	if (result->checkpoint.fault != ATOLL_FAULT_NONE) {
		*err = result->checkpoint;
		r = error_context(err, err->errnum ? -err->errnum : -EIO,
				  "the step has ended (status %d), and there is no checkpoint of "
				  "it",
				  atoll_result_status(ret));
	}
	free(result);
	return r;
}

/* How long the holder may take to write down how it ended; longer only if the disk is full. */
#define HEARD_MS 10000

/* For the record; and wait until it has been heard: who sees a step's end may look at its record
 * next. */
static void report(struct run *run, struct held *held)
{
	struct pollfd answer = {.fd = held->report_fd, .events = POLLIN};
	struct hold_report message = {0};
	union {
		struct init_message message;
		struct hold_heard heard;
	} from;

	eventlog_output_finish(&run->output, &message.said);
	memcpy(message.result, run->result, sizeof message.result);
	if (held->report_fd < 0 ||
	    send(held->report_fd, &message, sizeof message, MSG_NOSIGNAL) < 0)
		return;
	while (poll(&answer, 1, HEARD_MS) > 0) {
		ssize_t got = recv(held->report_fd, &from, sizeof from, MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) ||
		    (got == sizeof from.heard && from.heard.magic == HOLD_HEARD))
			return;
	}
}

static int run_step(struct run *run, struct held *held, struct atoll_error *err)
{
	sigset_t old;
	int r;

	held->result_fd = memfd_create("atoll-result", MFD_CLOEXEC);
	if (held->result_fd < 0 || ftruncate(held->result_fd, sizeof(struct hold_result)) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make room for the result");
	run->relay = malloc(sizeof *run->relay);
	if (!run->relay)
		return error_oom(err);
	held->relay = run->relay;
	if (run->spec->record != SPEC_RECORD_OFF)
		memcpy(run->result->run, held->record->info.id, sizeof run->result->run);
	eventlog_output_init(&run->output, run->spec, run->result->run, run->is_terminal[1]);
	run->cell = (struct cell *)(void *)held;
	run_hold_sigpipe(&old);
	r = run_cell(run, err);
	relay_close(run->relay);
	if (r == 0 && run->spec->record != SPEC_RECORD_OFF)
		report(run, held);
	if (r == 0)
		r = take_result(held, run->result, err);
	run_release_sigpipe(&old);
	return r;
}

/* Where it starts: from the contract's directory, if that is not said in full. */
static char *find_cwd(const struct spec *spec, const char *cwd)
{
	char *path = !cwd	     ? strdup(spec->cwd)
		     : cwd[0] == '/' ? strdup(cwd)
				     : path_join(spec->cwd, cwd);

	if (path)
		path_normalize(path);
	return path;
}

static int prepare(struct run *run, struct held *held, char *const env[], const char *cwd,
		   char ***ret_env, struct atoll_error *err)
{
	struct env_extra extra = {0};
	struct spec *spec = (struct spec *)held->spec;
	int r = run_choose_terminal(run, err);

	for (size_t i = 0; r == 0 && env && env[i]; i++)
		r = spec_add_variable(spec, env[i], "--env", err);
	if (r < 0)
		return r;
	r = spec_find_user(spec, run->options->user, err);
	if (r < 0)
		return r;
	extra.user = held->user = (size_t)r;
	extra.has_terminal = run->is_terminal[0];
	held->cwd = find_cwd(spec, cwd);
	if (!held->cwd)
		return error_oom(err);
	free(spec->cwd);
	spec->cwd = strdup(held->cwd); /* for PWD */
	if (!spec->cwd)
		return error_oom(err);
	*ret_env = env_build(spec, &extra, err);
	held->env = *ret_env;
	return *ret_env ? 0 : -ENOMEM;
}

static int exec_in(struct layer_record *record, struct atoll_job *job, char *const argv[],
		   char *const env[], const char *cwd, const struct atoll_run_options *options,
		   struct atoll_result *ret, struct atoll_error *err)
{
	struct held held = {.spec = job->spec,
			    .record = record,
			    .argv = argv,
			    .result_fd = -1,
			    .report_fd = -1};
	struct wish wish = {options, &held};
	struct atoll_run_options own = *options;
	struct run run = {.spec = job->spec,
			  .backend = &held_backend,
			  .is_step = true,
			  .options = &own,
			  .result = ret,
			  .handle = {.layer_fd = -1, .storage_fd = -1, .notice_fd = -1},
			  .net = {.state = NETCTL_OFF,
				  .listener_fd = -1,
				  .dns_fd = -1,
				  .channel_fd = -1,
				  .pid_fd = -1,
				  .slot_fd = -1,
				  .spec = job->spec,
				  .options = &own,
				  .result = ret}};
	char **made = NULL;
	int r;

	own.data = &wish;
	own.started = on_started;
	own.suspend = options->suspend ? on_suspend : NULL;
	own.progress = options->progress ? on_progress : NULL;
	own.ask = NULL;
	own.answer_fd = 0;
	own.published = NULL;
	own.connection = NULL;
	r = prepare(&run, &held, env, cwd, &made, err);
	if (r == 0)
		r = run_step(&run, &held, err);
	free(run.relay);
	env_free(made);
	free(held.cwd);
	if (held.result_fd >= 0)
		close(held.result_fd);
	if (held.report_fd >= 0)
		close(held.report_fd);
	eventlog_output_done(&run.output);
	return r;
}

int atoll_sandbox_exec(const char *id, char *const argv[], char *const env[], const char *cwd,
		       const struct atoll_run_options *options, struct atoll_result *ret,
		       struct atoll_error *err)
{
	static const struct atoll_run_options usual = {
		.stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2};
	struct layer_record *record = NULL;
	struct atoll_job *job = NULL;
	struct atoll_error unheard;
	int r;

	err = err ? err : &unheard;
	*err = (struct atoll_error){0};
	memset(ret, 0, offsetof(struct atoll_result, denials));
	if (!argv || !argv[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "no command");
	r = sandbox_open(id, &record, err);
	if (r == 0)
		r = sandbox_job(record, true, &job, err);
	if (r == 0)
		r = exec_in(record, job, argv, env, cwd, options ? options : &usual, ret, err);
	atoll_job_free(job);
	layer_record_close(record);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "job/job.h"
#include "job/run.h"
#include "layer/layer.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/*
 * `atoll exec`: an attached step, in the client (atoll_sandbox_exec())
 *
 * A step has the same life as a run: the messages and orders of pid 1, pipes or a terminal whose
 * other ends are here, signals, limits. So this file offers job/run.c a back end whose pid 1 is
 * reached through the holder's socket:
 *   start()    sends HOLDER_EXEC with the descriptors; the socket becomes the control socket
 *   run_cell() copies the streams and forwards signals until the step's life pipe is at its end
 *   report()   sends the result to the holder, for the event log
 * The holder's side is holder-attached.c. If this process ends, the holder ends the step.
 */

/* How long stop() waits for the end of a killed step. */
#define STOP_MS 10000

/* How often to connect again while one holder after the other is just ending. */
#define TRIES 100

/* The `struct cell` of this back end. */
struct attached_step {
	const struct spec *spec;
	struct layer_record *record;
	char *const *argv;
	char *const *env;
	char *cwd;
	const struct relay *relay;
	int result_fd;
	int report_fd; /* a copy of the holder's socket: run.c closes the other one before report()
			*/
	size_t user;   /* an index of the contract's users */
};

static struct attached_step *step_of(struct cell *cell)
{
	return (struct attached_step *)(void *)cell;
}

static const struct attached_step *step_of_const(const struct cell *cell)
{
	return (const struct attached_step *)(const void *)cell;
}

/* ---- the invocation ---- */

static int write_invocation(const struct attached_step *step, struct atoll_error *err)
{
	cleanup_buf struct buf invocation = BUF_INIT(INIT_STEP_MAX);
	cleanup_fd int fd = memfd_create("atoll-step", MFD_CLOEXEC);
	struct init_step_head head = {0};
	int r;

	while (step->argv[head.n_argv])
		head.n_argv++;
	while (step->env[head.n_env])
		head.n_env++;
	head.has_ids = isolate_user_ids(step->spec, step->user, &head.uid, &head.gid);
	buf_add(&invocation, &head, sizeof head);
	buf_add(&invocation, step->cwd, strlen(step->cwd) + 1);
	for (char *const *word = step->argv; *word; word++)
		buf_add(&invocation, *word, strlen(*word) + 1);
	for (char *const *word = step->env; *word; word++)
		buf_add(&invocation, *word, strlen(*word) + 1);
	if (buf_error(&invocation) == -E2BIG)
		return error_set(err, ATOLL_FAULT_REQUEST, E2BIG, "the command");
	r = fd < 0 ? -errno : buf_error(&invocation);
	if (r == 0)
		r = fd_write_all(fd, invocation.data, invocation.used);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "store the step's invocation")
		     : take_fd(&fd);
}

/* The command as one line, for people. */
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
	struct attached_step *step = step_of(cell);
	struct holder_request request = {.version = HOLDER_VERSION, .type = HOLDER_EXEC};
	cleanup_fd int invocation = write_invocation(step, err), socket_fd = -1, life = -1,
		       theirs = -1;
	struct holder_reply reply;
	int fds[8], ends[2], n = 0, r;

	if (invocation < 0)
		return invocation;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	life = ends[0], theirs = ends[1];
	fds[n++] = invocation;
	fds[n++] = step->result_fd;
	fds[n++] = theirs;
	for (int i = 0; i < 3; i++) {
		if (stdio[i] < 0)
			continue;
		request.stdio |= 1U << i;
		fds[n++] = stdio[i];
	}
	for (int i = RELAY_OUT; i < RELAY_COUNT; i++) {
		if (stdio[i] >= 0)
			fds[n++] = step->relay->streams[i].from;
	}
	show_command(step->argv, request.command, sizeof request.command);
	r = -ECONNRESET;
	for (int i = 0; r == -ECONNRESET && i < TRIES; i++) {
		if (socket_fd >= 0)
			close(take_fd(&socket_fd));
		socket_fd = holder_connect_or_start(step->record, err);
		r = socket_fd < 0 ? socket_fd
				  : holder_ask(socket_fd, &request, fds, (size_t)n, &reply, err);
	}
	if (r < 0)
		return r;
	ret->pid = reply.pid;
	ret->pid_fd =
		take_fd(&life); /* the read end is at its end (POLLHUP) when the step is over */
	step->report_fd = fcntl(socket_fd, F_DUPFD_CLOEXEC, 3);
	ret->control_fd = take_fd(&socket_fd);
	ret->listener_fd = ret->dns_fd = ret->layer_fd = ret->notice_fd = -1;
	ret->storage_fd = -1;
	return 0;
}

/* Kill the step and wait for its end; nothing happens if it has ended. */
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

static void read_result(const struct attached_step *step, struct attached_result *ret)
{
	if (pread(step->result_fd, ret, sizeof *ret, 0) < 0)
		*ret = (struct attached_result){0};
}

static void account(const struct cell *cell, struct cell_usage *ret)
{
	*ret = (struct cell_usage){0};
	if (pread(step_of_const(cell)->result_fd, ret, sizeof *ret,
		  offsetof(struct attached_result, usage)) < 0)
		*ret = (struct cell_usage){0};
	/* This flag is the sandbox's, not this step's. If memory ends the step, INIT_LIMIT arrives.
	 */
	ret->is_out_of_memory = false;
}

static const struct backend attached_backend = {
	.name = "held",
	.has_terminals = true,
	.start = start,
	.stop = stop,
	.account = account,
};

/* ---- the step ---- */

/* The caller's callbacks. Published ports come from the holder's result file. */
struct callbacks {
	const struct atoll_run_options *options;
	struct attached_step *step;
};

static void on_started(int32_t pid, void *data)
{
	const struct callbacks *callbacks = data;
	struct attached_result *result = calloc(1, sizeof *result);

	if (result)
		read_result(callbacks->step, result);
	if (callbacks->options->started)
		callbacks->options->started(pid, callbacks->options->data);
	if (result && result->n_published && result->n_published <= ATOLL_PUBLISHED_MAX &&
	    callbacks->options->published)
		callbacks->options->published(result->published, result->n_published,
					      callbacks->options->data);
	free(result);
}

static void on_suspend(bool by_command, void *data)
{
	const struct callbacks *callbacks = data;

	callbacks->options->suspend(by_command, callbacks->options->data);
}

static void on_progress(const char *what, void *data)
{
	const struct callbacks *callbacks = data;

	callbacks->options->progress(what, callbacks->options->data);
}

static int copy_result(const struct attached_step *step, struct atoll_result *ret,
		       struct atoll_error *err)
{
	struct attached_result *result = calloc(1, sizeof *result);
	size_t n;
	int r = 0;

	if (!result)
		return error_oom(err);
	read_result(step, result);
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

/* How long report() waits for the holder; longer only if the disk is full. */
#define HEARD_MS 10000

/* Send the result for the event log, and wait for the acknowledgement: the caller may read the log
 * next. */
static void report(struct run *run, struct attached_step *step)
{
	struct pollfd answer = {.fd = step->report_fd, .events = POLLIN};
	struct attached_report message = {0};
	union {
		struct init_message message;
		struct holder_ack heard;
	} from;

	eventlog_output_finish(&run->output, &message.said);
	memcpy(message.result, run->result, sizeof message.result);
	if (step->report_fd < 0 ||
	    send(step->report_fd, &message, sizeof message, MSG_NOSIGNAL) < 0)
		return;
	while (poll(&answer, 1, HEARD_MS) > 0) {
		ssize_t got = recv(step->report_fd, &from, sizeof from, MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) ||
		    (got == sizeof from.heard && from.heard.magic == HOLDER_ACK_MAGIC))
			return;
	}
}

static int run_step(struct run *run, struct attached_step *step, struct atoll_error *err)
{
	sigset_t old;
	int r;

	step->result_fd = memfd_create("atoll-result", MFD_CLOEXEC);
	if (step->result_fd < 0 || ftruncate(step->result_fd, sizeof(struct attached_result)) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make room for the result");
	run->relay = malloc(sizeof *run->relay);
	if (!run->relay)
		return error_oom(err);
	step->relay = run->relay;
	if (run->spec->record != SPEC_RECORD_OFF)
		memcpy(run->result->run, step->record->info.id, sizeof run->result->run);
	eventlog_output_init(&run->output, run->spec, run->result->run, run->is_terminal[1]);
	run->cell = (struct cell *)(void *)step;
	run_block_sigpipe(&old);
	r = run_cell(run, err);
	relay_close(run->relay);
	if (r == 0 && run->spec->record != SPEC_RECORD_OFF)
		report(run, step);
	if (r == 0)
		r = copy_result(step, run->result, err);
	run_restore_sigpipe(&old);
	return r;
}

/* A relative directory starts at the contract's directory. */
static char *find_cwd(const struct spec *spec, const char *cwd)
{
	char *path = !cwd	     ? strdup(spec->cwd)
		     : cwd[0] == '/' ? strdup(cwd)
				     : path_join(spec->cwd, cwd);

	if (path)
		path_normalize(path);
	return path;
}

static int prepare(struct run *run, struct attached_step *step, char *const env[], const char *cwd,
		   char ***ret_env, struct atoll_error *err)
{
	struct env_extra extra = {0};
	struct spec *spec = (struct spec *)step->spec;
	int r = run_choose_terminal(run, err);

	for (size_t i = 0; r == 0 && env && env[i]; i++)
		r = spec_add_variable(spec, env[i], "--env", err);
	if (r < 0)
		return r;
	r = spec_find_user(spec, run->options->user, err);
	if (r < 0)
		return r;
	extra.user = step->user = (size_t)r;
	extra.has_terminal = run->is_terminal[0];
	step->cwd = find_cwd(spec, cwd);
	if (!step->cwd)
		return error_oom(err);
	free(spec->cwd);
	spec->cwd = strdup(step->cwd); /* for the variable PWD */
	if (!spec->cwd)
		return error_oom(err);
	*ret_env = env_build(spec, &extra, err);
	step->env = *ret_env;
	return *ret_env ? 0 : -ENOMEM;
}

static int exec_in(struct layer_record *record, struct atoll_job *job, char *const argv[],
		   char *const env[], const char *cwd, const struct atoll_run_options *options,
		   struct atoll_result *ret, struct atoll_error *err)
{
	struct attached_step step = {.spec = job->spec,
				     .record = record,
				     .argv = argv,
				     .result_fd = -1,
				     .report_fd = -1};
	struct callbacks callbacks = {options, &step};
	struct atoll_run_options own = *options;
	struct run run = {.spec = job->spec,
			  .backend = &attached_backend,
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

	own.data = &callbacks;
	own.started = on_started;
	own.suspend = options->suspend ? on_suspend : NULL;
	own.progress = options->progress ? on_progress : NULL;
	own.ask = NULL;
	own.answer_fd = 0;
	own.published = NULL;
	own.connection = NULL;
	r = prepare(&run, &step, env, cwd, &made, err);
	if (r == 0)
		r = run_step(&run, &step, err);
	free(run.relay);
	env_free(made);
	free(step.cwd);
	if (step.result_fd >= 0)
		close(step.result_fd);
	if (step.report_fd >= 0)
		close(step.report_fd);
	eventlog_output_done(&run.output);
	return r;
}

int atoll_sandbox_exec(const char *id, char *const argv[], char *const env[], const char *cwd,
		       const struct atoll_run_options *options, struct atoll_result *ret,
		       struct atoll_error *err)
{
	static const struct atoll_run_options defaults = {
		.stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2};
	struct layer_record *record = NULL;
	struct atoll_job *job = NULL;
	struct atoll_error ignored;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	memset(ret, 0, offsetof(struct atoll_result, denials));
	if (!argv || !argv[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "no command");
	r = sandbox_open(id, &record, err);
	if (r == 0)
		r = sandbox_job(record, true, &job, err);
	if (r == 0)
		r = exec_in(record, job, argv, env, cwd, options ? options : &defaults, ret, err);
	atoll_job_free(job);
	layer_record_close(record);
	return r;
}

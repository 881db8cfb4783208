/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/remote-exec.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote-exec-post.h"
#include "remote/remote-http.h"
#include "remote/remote-stream.h"
#include "remote/remote.h"
#include "ui/ui.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FAILURES_MAX 60 /* connections in a row without an event */

enum {
	OPTION_ENV,
	OPTION_CHDIR,
	OPTION_USER,
	OPTION_TIMEOUT,
	OPTION_TTY,
	OPTION_NO_TTY,
	OPTION_JSON,
	OPTION_QUIET,
};

static const struct option exec_options[] = {
	{"env", 0, "NAME[=VALUE]", "set an environment variable; without a value, copy yours",
	 OPTION_ENV},
	{"chdir", 0, "DIR", "start it here, inside", OPTION_CHDIR},
	{"user", 0, "NAME", "as this user of the sandbox", OPTION_USER},
	{"timeout", 0, "SECONDS", "end it then", OPTION_TIMEOUT},
	{"tty", 0, NULL,
	 "give the command a private terminal (the default if standard input and output are a "
	 "terminal)",
	 OPTION_TTY},
	{"no-tty", 0, NULL, "give the command pipes, also at a terminal", OPTION_NO_TTY},
	{"json", 0, NULL, "print the result as JSON, as the last line of standard error",
	 OPTION_JSON},
	{"quiet", 'q', NULL, "do not say why it was ended", OPTION_QUIET},
	OPTION_HELP_ROW,
	{0},
};

struct request {
	const char *id;
	json_t *body; /* what is asked for */
	int tty;      /* 1: yes, -1: no, 0: if standard input and output are a terminal */
	bool is_json, is_quiet, is_help;
	char **command;
};

/* ---- what was asked ---- */

static int add_variable(struct request *request, const char *text, struct atoll_error *err)
{
	json_t *all = json_object_get(request->body, "environment");
	cleanup_free char *name = strndup(text, strcspn(text, "="));
	const char *value = strchr(text, '=');

	if (!name || !name[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is no variable", text);
	value = value ? value + 1 : getenv(name);
	if (!all) {
		all = json_object();
		json_object_set_new(request->body, "environment", all);
	}
	if (value && json_object_set_new(all, name, json_string(value)) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "variable '%s' is no text in UTF-8",
				 name);
	return 0;
}

/* Seconds with a fraction, or an age as in `create`: 90s, 2h. */
static int read_timeout(struct request *request, const char *value, struct atoll_error *err)
{
	char *end;
	double seconds = strtod(value, &end);
	uint64_t whole;

	if (*end || end == value) {
		if (amount_parse_age(value, &whole, err) < 0)
			return -EINVAL;
		seconds = (double)whole;
	}
	/* Refuse NaN and infinity. */
	if (!(seconds > 0 && seconds < 1e9))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is no number of seconds",
				 value);
	json_object_set_new(request->body, "timeoutMs", json_integer((json_int_t)(seconds * 1000)));
	return 0;
}

static int set_option(void *data, const struct option *option, const char *value,
		      struct atoll_error *err)
{
	struct request *request = data;

	switch (option->id) {
	case OPTION_ENV:
		return add_variable(request, value, err);
	case OPTION_CHDIR:
		json_object_set_new(request->body, "cwd", json_string(value));
		break;
	case OPTION_USER:
		json_object_set_new(request->body, "user", json_string(value));
		break;
	case OPTION_TIMEOUT:
		return read_timeout(request, value, err);
	}
	request->tty = option->id == OPTION_TTY	     ? 1
		       : option->id == OPTION_NO_TTY ? -1
						     : request->tty;
	request->is_json |= option->id == OPTION_JSON;
	request->is_quiet |= option->id == OPTION_QUIET;
	request->is_help |= option->id == OPTION_HELP;
	return 0;
}

static int read_request(char **args, struct request *request, struct atoll_error *err)
{
	struct options options = {"exec", exec_options, args};
	int r = options_read_with_id(&options, &request->id, &request->is_help, set_option, request,
				     err);

	if (r < 0)
		return r;
	request->command = options.next;
	if (!request->is_help && (!request->id || !request->command[0]))
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"usage: atoll --host URL exec ID [OPTION]... -- COMMAND; the id has "
			"to be said: a daemon knows no current directory");
	return 0;
}

static int fill_body(struct request *request, bool has_tty, struct atoll_error *err)
{
	struct winsize size = {.ws_col = 80, .ws_row = 24};
	json_t *words = json_array();
	char key[33];

	for (char **word = request->command; *word; word++) {
		json_t *text = json_string(*word);

		if (!text) {
			json_decref(words);
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "an argument of the command is no text in UTF-8");
		}
		json_array_append_new(words, text);
	}
	json_object_set_new(request->body, "command", words);
	remote_request_id(key);
	json_object_set_new(request->body, "requestId", json_string(key));
	json_object_set_new(request->body, "stdin", json_true());
	if (!has_tty)
		return 0;
	ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	json_object_set_new(request->body, "terminal",
			    json_pack("{s:i,s:i}", "columns", size.ws_col ? size.ws_col : 80,
				      "rows", size.ws_row ? size.ws_row : 24));
	return 0;
}

/* ---- what comes ---- */

static void write_piece(struct exec *exec, int which, const char *data, size_t size)
{
	cleanup_free char *shown = NULL;

	if (exec->is_terminal[which]) {
		shown = malloc(size + VT_HELD_MAX);
		if (!shown)
			return;
		size = vt_filter(&exec->filters[which], data, size, shown);
		data = shown;
	}
	/* The reader of standard output is gone: end by SIGPIPE, as a local program would. */
	if (fd_write_all(which + 1, data, size) == -EPIPE) {
		exec->signals |= UINT64_C(1) << SIGPIPE;
		exec->last_signal = SIGPIPE;
	}
}

/* Parses the most frequent event without a JSON parser:
 * {"stream":"out","offset":7,"data":"..."}. */
static bool on_output(struct exec *exec, const char *line)
{
	const char *number = strstr(line, "\"offset\":"), *text = strstr(line, "\"data\":\"");
	int which = starts_with(line, "{\"stream\":\"err\"");
	uint64_t offset = number ? strtoull(number + strlen("\"offset\":"), NULL, 10) : 0;
	cleanup_free char *bytes = NULL;
	size_t size;
	ssize_t n;

	if (!number || !text)
		return false;
	text += strlen("\"data\":\"");
	size = strcspn(text, "\"");
	bytes = malloc(size + 4);
	n = bytes ? base64_read(text, size, bytes) : -1;
	if (n < 0 || offset > exec->at[which])
		return false; /* continue at this offset */
	if (exec->at[which] - offset >= (uint64_t)n)
		return true;
	write_piece(exec, which, bytes + (exec->at[which] - offset),
		    (size_t)n - (exec->at[which] - offset));
	exec->at[which] = offset + (uint64_t)n;
	return true;
}

static bool on_event(void *own, const char *event, const char *line)
{
	struct exec *exec = own;
	char message[200];
	json_t *data;

	exec->failures = 0;
	if (streq(event, "output"))
		return on_output(exec, line);
	data = json_loads(line, 0, NULL);
	if (streq(event, "lost")) {
		exec->at[streq(text_of(data, "stream"), "err")] = (uint64_t)number_of(data, "to");
		print_problem("output is missing here: this side was too slow, and it is not kept "
			      "any more");
	}
	if (streq(event, "end"))
		exec->end = json_incref(data);
	if (streq(event, "gone"))
		error_set(&exec->gone, ATOLL_FAULT_HOST, 0, "%s (%s)",
			  str_show(text_of(data, "message"), message, sizeof message),
			  text_of(data, "cause"));
	json_decref(data);
	return true;
}

static size_t on_data(char *data, size_t size, size_t n, void *own)
{
	struct exec *exec = own;
	long status = 0;

	curl_easy_getinfo(exec->events, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		if (status >= 400 && status < 500 && status != 429)
			remote_failure(status, data, size * n, &exec->gone);
		return size * n;
	}
	return events_feed(&exec->reader, data, size * n) ? size * n : 0;
}

static void follow(struct exec *exec)
{
	cleanup_free char *path = NULL;
	char place[64], field[96];

	snprintf(place, sizeof place, "/steps/%" PRId64 "/events", exec->number);
	path = remote_path(exec->id, place, NULL);
	if (!path)
		return;
	buf_done(&exec->reader.buffer);
	exec->reader = (struct event_reader){.on_event = on_event, .own = exec};
	remote_prepare(&remote, exec->events, path);
	snprintf(field, sizeof field, "Last-Event-ID: %" PRIu64 "-%" PRIu64, exec->at[0],
		 exec->at[1]);
	curl_slist_free_all(exec->event_fields);
	exec->event_fields = curl_slist_append(NULL, field);
	if (remote.fields)
		exec->event_fields = curl_slist_append(exec->event_fields, remote.fields->data);
	curl_easy_setopt(exec->events, CURLOPT_HTTPHEADER, exec->event_fields);
	curl_easy_setopt(exec->events, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(exec->events, CURLOPT_WRITEDATA, exec);
	curl_easy_setopt(exec->events, CURLOPT_BUFFERSIZE, 512L << 10);
	/* The daemon sends a comment every 15 seconds. After a minute of silence the connection
	 * is dead. */
	curl_easy_setopt(exec->events, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(exec->events, CURLOPT_LOW_SPEED_TIME, 60L);
	curl_multi_add_handle(exec->multi, exec->events);
}

/* The connection broke: connect again after a delay. */
static void on_broken(struct exec *exec, CURLcode code)
{
	int64_t pause_ms = exec->failures < 5 ? 50 << exec->failures : 1000;

	curl_multi_remove_handle(exec->multi, exec->events);
	if (exec->end || exec->gone.fault != ATOLL_FAULT_NONE)
		return;
	if (++exec->failures > FAILURES_MAX) {
		error_set(&exec->gone, ATOLL_FAULT_HOST, 0,
			  "the daemon at '%s' cannot be reached any more: %s; the command goes on: "
			  "its step is %" PRId64,
			  remote.base, curl_easy_strerror(code), exec->number);
		return;
	}
	exec->again_ns = clock_monotonic_ns() + pause_ms * 1000000;
}

/* ---- the loop ---- */

static void see_transfers(struct exec *exec)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(exec->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		if (message->easy_handle == exec->events)
			on_broken(exec, message->data.result);
		else
			exec_sent(exec, message->data.result);
	}
}

static void wait_for_something(struct exec *exec)
{
	struct curl_waitfd fds[2] = {{.fd = exec->signal_fd, .events = CURL_WAIT_POLLIN},
				     {.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN}};
	unsigned n = exec_wants_input(exec) ? 2 : 1;
	int64_t left_ms = exec->again_ns ? (exec->again_ns - clock_monotonic_ns()) / 1000000 : 500;

	/* Retry input that the command had not read. */
	if (exec->n_input > 0 && exec->posting == POST_NONE)
		left_ms = 50;
	curl_multi_poll(exec->multi, fds, n, left_ms < 0 ? 0 : (int)left_ms, NULL);
	if (fds[0].revents)
		exec_read_signals(exec);
	if (n == 2 && fds[1].revents)
		exec_read_input(exec);
}

static void run_loop(struct exec *exec)
{
	int running;

	follow(exec);
	while (!exec->end && exec->gone.fault == ATOLL_FAULT_NONE) {
		exec_send(exec);
		curl_multi_perform(exec->multi, &running);
		see_transfers(exec);
		if (exec->end || exec->gone.fault != ATOLL_FAULT_NONE)
			break;
		if (exec->again_ns && clock_monotonic_ns() >= exec->again_ns) {
			exec->again_ns = 0;
			follow(exec);
		}
		wait_for_something(exec);
	}
}

/* ---- the terminal and signals ---- */

static void open_signals(struct exec *exec)
{
	static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
	struct sigaction before;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		/* Signals that the caller ignores stay ignored (nohup). */
		if (sigaction(passed[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaddset(&set, passed[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	exec->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	signal(SIGPIPE, SIG_IGN);
}

static void open_terminal(struct exec *exec)
{
	struct termios raw;

	for (int i = 0; i < 2; i++) {
		exec->is_terminal[i] = isatty(i + 1);
		vt_init(&exec->filters[i], exec->has_tty);
	}
	if (!exec->has_tty || tcgetattr(STDIN_FILENO, &exec->saved) < 0)
		return;
	raw = exec->saved;
	cfmakeraw(&raw);
	exec->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void give_terminal_back(struct exec *exec)
{
	char text[VT_RESET_MAX];

	for (int i = 0; i < 2; i++) {
		if (exec->is_terminal[i])
			fd_write_all(i + 1, text, vt_reset(&exec->filters[i], text));
	}
	if (exec->is_raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &exec->saved);
}

/* ---- its end ---- */

static int status_of_cause(const char *cause)
{
	if (streq(cause, "time-out"))
		return 243;
	if (streq(cause, "memory"))
		return 244;
	return streq(cause, "policy") ? 247 : 245;
}

/* If a signal to this process has ended the step, end by the same signal, as a local program
 * would. */
static int end_with(const struct exec *exec, const struct request *request)
{
	json_t *result = json_object_get(exec->end, "result");
	const char *cause = text_of(result, "cause"), *name = text_of(result, "signal");
	cleanup_free char *text = request->is_json ? json_dumps(exec->end, JSON_COMPACT) : NULL;
	int number;

	if (text)
		fprintf(stderr, "%s\n", text);
	if (cause[0]) {
		if (!request->is_quiet && !text)
			print_problem(text_of(result, "message"));
		return status_of_cause(cause);
	}
	if (!name[0])
		return (int)number_of(result, "exitCode") & 255;
	number = exec_signal_number(name);
	if (exec->last_signal && (number == exec->last_signal || number == SIGKILL)) {
		sigset_t set;

		signal(exec->last_signal, SIG_DFL);
		sigemptyset(&set);
		sigaddset(&set, exec->last_signal);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		raise(exec->last_signal);
	}
	return 128 + number;
}

static int run_step(const struct request *request, bool has_tty, struct atoll_error *err)
{
	static struct exec exec;
	cleanup_free char *path = remote_path(request->id, "/steps", NULL);
	json_t *step;
	int r = remote_call(&remote, "POST", path, json_incref(request->body), REMOTE_AGAIN, &step,
			    err);

	if (r < 0)
		return r;
	exec = (struct exec){.id = request->id, .has_tty = has_tty, .wants_input = true};
	exec.number = number_of(step, "number");
	json_decref(step);
	exec.multi = curl_multi_init();
	exec.events = curl_easy_init();
	exec.post = curl_easy_init();
	if (!exec.multi || !exec.events || !exec.post)
		return error_oom(err);
	open_signals(&exec);
	open_terminal(&exec);
	run_loop(&exec);
	give_terminal_back(&exec);
	if (!exec.end) {
		*err = exec.gone;
		return -EIO;
	}
	return end_with(&exec, request);
}

static int run_exec(char **args, struct atoll_error *err)
{
	struct request request = {.body = json_object()};
	int r = read_request(args, &request, err);
	bool has_tty = request.tty > 0 ||
		       (request.tty == 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));

	if (r == 0 && request.is_help) {
		help_command(&remote_exec, stdout);
		r = command_flush(err);
	} else if (r == 0) {
		r = fill_body(&request, has_tty, err);
		if (r == 0)
			r = run_step(&request, has_tty, err);
	}
	json_decref(request.body);
	return r;
}

const struct command remote_exec = {
	.name = "exec",
	.usage = "ID [OPTION]... -- COMMAND [ARGUMENT]...",
	.summary = "run one step in a sandbox of a daemon",
	.description = (const char *const[]){NULL},
	.options = exec_options,
	.run = run_exec,
};

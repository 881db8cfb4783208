/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/remote-exec-post.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote-exec.h"
#include "remote/remote-http.h"
#include "remote/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define AGAIN_NS (100 * INT64_C(1000000))

static const struct {
	const char *name;
	int number;
} names[] = {
	{"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT}, {"SIGILL", SIGILL},
	{"SIGTRAP", SIGTRAP}, {"SIGABRT", SIGABRT}, {"SIGBUS", SIGBUS},	  {"SIGFPE", SIGFPE},
	{"SIGKILL", SIGKILL}, {"SIGUSR1", SIGUSR1}, {"SIGSEGV", SIGSEGV}, {"SIGUSR2", SIGUSR2},
	{"SIGPIPE", SIGPIPE}, {"SIGALRM", SIGALRM}, {"SIGTERM", SIGTERM}, {"SIGXCPU", SIGXCPU},
	{"SIGXFSZ", SIGXFSZ}, {"SIGSYS", SIGSYS},
};

const char *exec_signal_name(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i].number == number)
			return names[i].name;
	}
	return "SIGTERM";
}

int exec_signal_number(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (streq(names[i].name, name))
			return names[i].number;
	}
	return SIGKILL;
}

/* ---- what there is to send ---- */

bool exec_wants_input(const struct exec *exec)
{
	return exec->wants_input && !exec->has_eof && exec->n_input == 0;
}

void exec_read_input(struct exec *exec)
{
	ssize_t n = read(STDIN_FILENO, exec->input, sizeof exec->input);

	if (n > 0)
		exec->n_input = (size_t)n;
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		exec->has_eof = true;
}

void exec_read_signals(struct exec *exec)
{
	struct signalfd_siginfo info;

	while (read(exec->signal_fd, &info, sizeof info) == sizeof info) {
		int number = (int)info.ssi_signo;

		if (number == SIGWINCH) {
			exec->wants_resize = exec->has_tty;
			continue;
		}
		exec->last_signal = number;
		/* A second SIGINT or SIGTERM is sent as SIGKILL. */
		if ((number == SIGINT || number == SIGTERM) && ++exec->n_ends > 1)
			number = SIGKILL;
		exec->signals |= UINT64_C(1) << number;
	}
}

/* ---- sending ---- */

/* Keeps the beginning of the response; longer ones are not needed. */
static size_t on_response(char *data, size_t size, size_t n, void *own)
{
	struct exec *exec = own;
	size_t room = sizeof exec->response - exec->n_response,
	       got = size * n < room ? size * n : room;

	memcpy(exec->response + exec->n_response, data, got);
	exec->n_response += got;
	return size * n;
}

static void post(struct exec *exec, enum exec_post what, const char *suffix, const char *data,
		 size_t size)
{
	cleanup_free char *path = NULL;
	char place[64];

	snprintf(place, sizeof place, "/steps/%" PRId64 "/%s", exec->number, suffix);
	path = remote_path(exec->id, place, NULL);
	if (!path)
		return;
	exec->posting = what;
	remote_prepare(&remote, exec->post, path);
	curl_slist_free_all(exec->post_fields);
	exec->post_fields =
		curl_slist_append(NULL, what == POST_INPUT || what == POST_EOF
						? "Content-Type: application/octet-stream"
						: "Content-Type: application/json");
	if (remote.fields)
		exec->post_fields = curl_slist_append(exec->post_fields, remote.fields->data);
	curl_easy_setopt(exec->post, CURLOPT_HTTPHEADER, exec->post_fields);
	curl_easy_setopt(exec->post, CURLOPT_POST, 1L);
	curl_easy_setopt(exec->post, CURLOPT_POSTFIELDS, data);
	curl_easy_setopt(exec->post, CURLOPT_POSTFIELDSIZE, (long)size);
	exec->n_response = 0;
	curl_easy_setopt(exec->post, CURLOPT_WRITEFUNCTION, on_response);
	curl_easy_setopt(exec->post, CURLOPT_WRITEDATA, exec);
	curl_easy_setopt(exec->post, CURLOPT_TIMEOUT, 60L);
	curl_multi_add_handle(exec->multi, exec->post);
}

static void post_signal(struct exec *exec)
{
	exec->posted_signal = __builtin_ctzll(exec->signals);
	snprintf(exec->body, sizeof exec->body, "{\"signal\":\"%s\"}",
		 exec_signal_name(exec->posted_signal));
	post(exec, POST_SIGNAL, "signal", exec->body, strlen(exec->body));
}

static void post_size(struct exec *exec)
{
	struct winsize size = {.ws_col = 80, .ws_row = 24};

	ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	snprintf(exec->body, sizeof exec->body, "{\"columns\":%u,\"rows\":%u}",
		 size.ws_col ? size.ws_col : 80U, size.ws_row ? size.ws_row : 24U);
	exec->wants_resize = false;
	post(exec, POST_RESIZE, "resize", exec->body, strlen(exec->body));
}

static void post_input(struct exec *exec, bool is_end)
{
	char suffix[64];

	snprintf(suffix, sizeof suffix, "stdin?offset=%" PRIu64 "%s", exec->input_at,
		 is_end ? "&eof=true" : "");
	post(exec, is_end ? POST_EOF : POST_INPUT, suffix, exec->input, is_end ? 0 : exec->n_input);
}

void exec_send(struct exec *exec)
{
	/* A command that does not read its input blocks the request: abort it before a signal is
	 * sent. Input has offsets and can be sent again. */
	if (exec->signals && (exec->posting == POST_INPUT || exec->posting == POST_EOF)) {
		curl_multi_remove_handle(exec->multi, exec->post);
		exec->posting = POST_NONE;
	}
	if (exec->posting != POST_NONE || clock_monotonic_ns() < exec->post_again_ns)
		return;
	if (exec->signals)
		post_signal(exec);
	else if (exec->wants_resize)
		post_size(exec);
	else if (exec->n_input > 0)
		post_input(exec, false);
	else if (exec->has_eof && !exec->eof_is_sent && exec->wants_input)
		post_input(exec, true);
}

/* Reads the offset that the daemon has accepted; the remaining bytes are sent again. */
static void on_input_accepted(struct exec *exec)
{
	json_t *told = json_loadb(exec->response, exec->n_response, 0, NULL);
	uint64_t taken = (uint64_t)json_integer_value(json_object_get(told, "taken")), n;

	n = taken > exec->input_at ? taken - exec->input_at : 0;
	if (n > exec->n_input)
		n = exec->n_input;
	memmove(exec->input, exec->input + n, exec->n_input - n);
	exec->n_input -= (size_t)n;
	exec->input_at += n;
	if (json_is_true(json_object_get(told, "closed"))) {
		exec->n_input = 0;
		exec->wants_input = false;
	}
	json_decref(told);
}

/* Schedules a retry if the request did not arrive, or the daemon is starting. True if it does. */
static bool is_to_repeat(struct exec *exec, CURLcode code, long status)
{
	if (code == CURLE_OK && status != 429 && status < 500)
		return false;
	exec->post_again_ns = clock_monotonic_ns() + AGAIN_NS;
	return true;
}

static void input_sent(struct exec *exec, CURLcode code, long status)
{
	if (is_to_repeat(exec, code, status))
		return;
	if (status == 200) {
		on_input_accepted(exec);
		return;
	}
	/* The step has ended, or has no input. */
	exec->n_input = 0;
	exec->wants_input = false;
}

void exec_sent(struct exec *exec, CURLcode code)
{
	enum exec_post what = exec->posting;
	long status = 0;

	curl_easy_getinfo(exec->post, CURLINFO_RESPONSE_CODE, &status);
	curl_multi_remove_handle(exec->multi, exec->post);
	exec->posting = POST_NONE;
	if (what == POST_INPUT)
		input_sent(exec, code, status);
	/* A retry that arrives twice is harmless. */
	if (what == POST_EOF)
		exec->eof_is_sent = !is_to_repeat(exec, code, status);
	if (what == POST_SIGNAL && code == CURLE_OK)
		exec->signals &= ~(UINT64_C(1) << exec->posted_signal);
	if (what == POST_RESIZE && code != CURLE_OK)
		exec->wants_resize = true;
}

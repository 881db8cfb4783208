/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/remote-http.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote-exec.h"
#include "remote/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#define ANSWER_MAX ((size_t)1 << 30)
#define TRIES	   6

struct remote remote;
int remote_exit_status;

/* ---- small things ---- */

const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

int64_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

double fraction_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

int64_t time_of(const json_t *object, const char *key)
{
	const char *text = text_of(object, key), *suffix;
	struct tm tm = {0};
	int ms = 0;

	suffix = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!suffix)
		return 0;
	if (suffix[0] == '.')
		ms = atoi(suffix + 1);
	return (int64_t)timegm(&tm) * 1000 + ms;
}

void remote_request_id(char ret[33])
{
	unsigned char bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		abort();
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

char *remote_path(const char *id, const char *suffix, ...)
{
	cleanup_buf struct buf out = BUF_INIT(64 * 1024);
	const char *name, *value;
	char joint = '?', *word;
	va_list args;

	word = id ? curl_easy_escape(remote.easy, id, 0) : NULL;
	buf_addf(&out, "/v1/sandboxes%s%s%s", word ? "/" : "", word ? word : "", suffix);
	curl_free(word);
	va_start(args, suffix);
	while ((name = va_arg(args, const char *))) {
		value = va_arg(args, const char *);
		if (!value)
			continue;
		word = curl_easy_escape(remote.easy, value, 0);
		buf_addf(&out, "%c%s=%s", joint, name, word ? word : "");
		curl_free(word);
		joint = '&';
	}
	va_end(args);
	return buf_take(&out);
}

/* ---- failures ---- */

static enum atoll_fault fault_of(const char *cause)
{
	static const struct {
		const char *cause;
		enum atoll_fault fault;
	} faults[] = {
		{"request", ATOLL_FAULT_REQUEST},  {"not-found", ATOLL_FAULT_REQUEST},
		{"conflict", ATOLL_FAULT_REQUEST}, {"unauthorized", ATOLL_FAULT_POLICY},
		{"policy", ATOLL_FAULT_POLICY},	   {"internal", ATOLL_FAULT_BUG},
	};

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		if (streq(faults[i].cause, cause))
			return faults[i].fault;
	}
	return ATOLL_FAULT_HOST;
}

int remote_failure(long status, const char *body, size_t size, struct atoll_error *err)
{
	json_t *answer = json_loadb(body ? body : "", size, 0, NULL);
	json_t *failure = json_object_get(answer, "error");
	char message[400];
	int r;

	remote_exit_status = (int)number_of(json_object_get(failure, "details"), "exitStatus");
	if (status == 401) /* the daemon's own text is for programmers */
		r = error_set(err, ATOLL_FAULT_POLICY, 0,
			      "no valid key for '%s': give one with --key or $ATOLL_KEY (where it "
			      "runs 'atoll serve key new' makes one)",
			      remote.base);
	else if (failure)
		r = error_set(err, fault_of(text_of(failure, "cause")), 0, "%s",
			      str_show(text_of(failure, "message"), message, sizeof message));
	else
		r = error_set(err, ATOLL_FAULT_HOST, 0, "'%s' answered with status %ld",
			      remote.base, status);
	json_decref(answer);
	return r;
}

/* ---- requests ---- */

void remote_prepare(const struct remote *at, CURL *easy, const char *path)
{
	cleanup_free char *url = NULL;

	if (asprintf(&url, "%s%s", at->base, path) < 0)
		url = NULL;
	curl_easy_reset(easy);
	curl_easy_setopt(easy, CURLOPT_URL, url ? url : "");
	if (at->unix_path)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, at->unix_path);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, at->fields);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	/* No proxy for a daemon on this machine, even if the environment names one. */
	if (starts_with(at->base, "http://127.") || starts_with(at->base, "http://localhost"))
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
}

static size_t add_body(char *data, size_t size, size_t n, void *own)
{
	struct buf *body = own;

	buf_add(body, data, size * n);
	return buf_error(body) < 0 ? 0 : size * n;
}

static size_t see_field(char *data, size_t size, size_t n, void *own)
{
	struct answer *answer = own;
	static const char name[] = "retry-after:";

	if (size * n > sizeof name && strncasecmp(data, name, sizeof name - 1) == 0)
		answer->retry_after_s = strtol(data + sizeof name - 1, NULL, 10);
	return size * n;
}

static int unreachable(const struct remote *at, CURLcode code, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, 0, "the daemon at '%s' cannot be reached: %s",
			 at->unix_path ? at->unix_path : at->base, curl_easy_strerror(code));
}

static CURLcode ask_once(struct remote *at, const char *method, const char *path, const char *body,
			 struct answer *ret)
{
	struct curl_slist *fields = NULL;
	CURLcode code;

	*ret = (struct answer){.body = BUF_INIT(ANSWER_MAX), .retry_after_s = -1};
	remote_prepare(at, at->easy, path);
	curl_easy_setopt(at->easy, CURLOPT_CUSTOMREQUEST, method);
	if (body || streq(method, "POST")) {
		fields = curl_slist_append(NULL, "Content-Type: application/json");
		if (at->fields)
			fields = curl_slist_append(fields, at->fields->data);
		curl_easy_setopt(at->easy, CURLOPT_HTTPHEADER, fields);
		curl_easy_setopt(at->easy, CURLOPT_POSTFIELDS, body ? body : "");
	}
	curl_easy_setopt(at->easy, CURLOPT_TIMEOUT, at->patience_s ? (long)at->patience_s : 120L);
	curl_easy_setopt(at->easy, CURLOPT_WRITEFUNCTION, add_body);
	curl_easy_setopt(at->easy, CURLOPT_WRITEDATA, &ret->body);
	curl_easy_setopt(at->easy, CURLOPT_HEADERFUNCTION, see_field);
	curl_easy_setopt(at->easy, CURLOPT_HEADERDATA, ret);
	code = curl_easy_perform(at->easy);
	curl_easy_getinfo(at->easy, CURLINFO_RESPONSE_CODE, &ret->status);
	curl_slist_free_all(fields);
	return code;
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

int remote_ask(struct remote *at, const char *method, const char *path, const char *body,
	       unsigned flags, struct answer *ret, struct atoll_error *err)
{
	int tries = flags & REMOTE_AGAIN ? TRIES : 1;
	CURLcode code = CURLE_OK;

	for (int i = 0; i < tries; i++) {
		code = ask_once(at, method, path, body, ret);
		if (code == CURLE_OK && (ret->retry_after_s < 0 || i + 1 == tries))
			return 0;
		if (i + 1 < tries) {
			buf_done(&ret->body);
			sleep_ms(code == CURLE_OK && ret->retry_after_s < 10
					 ? ret->retry_after_s * 1000 + 50
					 : 100L << i);
		}
	}
	buf_done(&ret->body);
	return unreachable(at, code, err);
}

int remote_call(struct remote *at, const char *method, const char *path, json_t *body,
		unsigned flags, json_t **ret, struct atoll_error *err)
{
	cleanup_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct answer answer;
	int r;

	json_decref(body);
	if (!path || (body && !text))
		return error_oom(err);
	r = remote_ask(at, method, path, text, flags, &answer, err);
	if (r < 0)
		return r;
	if (answer.status >= 300) {
		r = remote_failure(answer.status, answer.body.data, answer.body.used, err);
	} else if (ret) {
		*ret = json_loadb(answer.body.data ? answer.body.data : "", answer.body.used, 0,
				  NULL);
		if (!*ret)
			r = error_set(err, ATOLL_FAULT_HOST, 0,
				      "'%s' answered with something that is no JSON", at->base);
	}
	buf_done(&answer.body);
	return r;
}

/* ---- to a descriptor ---- */

struct copying {
	CURL *easy;
	int fd, failed;
	struct buf refusal;
};

static size_t copy_piece(char *data, size_t size, size_t n, void *own)
{
	struct copying *copying = own;
	long status = 0;

	curl_easy_getinfo(copying->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 300) {
		buf_add(&copying->refusal, data, size * n);
		return size * n;
	}
	copying->failed = fd_write_all(copying->fd, data, size * n);
	return copying->failed < 0 ? 0 : size * n;
}

int remote_copy(struct remote *at, const char *path, int fd, struct atoll_error *err)
{
	struct copying copying = {.easy = at->easy, .fd = fd, .refusal = BUF_INIT(1 << 20)};
	long status = 0;
	CURLcode code;
	int r = 0;

	remote_prepare(at, at->easy, path);
	curl_easy_setopt(at->easy, CURLOPT_WRITEFUNCTION, copy_piece);
	curl_easy_setopt(at->easy, CURLOPT_WRITEDATA, &copying);
	code = curl_easy_perform(at->easy);
	curl_easy_getinfo(at->easy, CURLINFO_RESPONSE_CODE, &status);
	if (copying.failed < 0)
		r = error_set(err, ATOLL_FAULT_HOST, -copying.failed, "write what came");
	else if (code != CURLE_OK)
		r = unreachable(at, code, err);
	else if (status >= 300)
		r = remote_failure(status, copying.refusal.data, copying.refusal.used, err);
	buf_done(&copying.refusal);
	return r;
}

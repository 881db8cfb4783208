/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/scope.h"
#include "monitor/monitor.h"

#include <curl/curl.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX ((size_t)256 << 10)

struct ask {
	const struct monitor_config *config;
	CURLM *multi;
	CURL *easy; /* the request at hand, or NULL */
	struct curl_slist *headers;
	char *body;
	struct buf answer;
	CURLcode result;
	long status;
	char problem[CURL_ERROR_SIZE];
};

static size_t take_data(char *data, size_t one, size_t size, void *out)
{
	struct buf *answer = out;

	buf_add(answer, data, one * size);
	return buf_error(answer) ? 0 : size;
}

struct ask *ask_new(const struct monitor_config *config)
{
	struct ask *ask = calloc(1, sizeof *ask);

	if (!ask || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
		free(ask);
		return NULL;
	}
	ask->config = config;
	ask->answer.limit = ANSWER_MAX;
	ask->multi = curl_multi_init();
	return ask;
}

static void end_request(struct ask *ask)
{
	if (ask->easy) {
		curl_multi_remove_handle(ask->multi, ask->easy);
		curl_easy_cleanup(ask->easy);
	}
	curl_slist_free_all(ask->headers);
	free(ask->body);
	ask->easy = NULL;
	ask->headers = NULL;
	ask->body = NULL;
}

void ask_free(struct ask *ask)
{
	if (!ask)
		return;
	end_request(ask);
	curl_multi_cleanup(ask->multi);
	buf_done(&ask->answer);
	free(ask);
}

static int add_header(struct ask *ask, const char *text)
{
	struct curl_slist *list = curl_slist_append(ask->headers, text);

	if (!list)
		return -ENOMEM;
	ask->headers = list;
	return 0;
}

static int add_headers(struct ask *ask)
{
	char *line;
	int r = add_header(ask, "Content-Type: application/json");

	if (r == 0)
		r = add_header(ask, "Accept: application/json");
	/* Not to wait for a "100 Continue" that many never send. */
	if (r == 0)
		r = add_header(ask, "Expect:");
	if (r < 0 || !ask->config->key)
		return r;
	if (asprintf(&line, "Authorization: Bearer %s", ask->config->key) < 0)
		return -ENOMEM;
	r = add_header(ask, line);
	sodium_memzero(line, strlen(line));
	free(line);
	return r;
}

/* No redirect: the next address would be the service's choice, not the contract's. No proxy and no
 * cookies, and the certificate is checked, which is the default and said here all the same. */
static void set_options(struct ask *ask)
{
	CURL *easy = ask->easy;

	curl_easy_setopt(easy, CURLOPT_URL, ask->config->url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, MONITOR_PROGRAM "/" ATOLL_VERSION);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)ask->config->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)ask->config->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, ask->headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, ask->body);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(ask->body));
	curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)ANSWER_MAX);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_data);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &ask->answer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, ask->problem);
}

int ask_begin(struct ask *ask, char *body)
{
	end_request(ask);
	buf_done(&ask->answer);
	ask->answer = (struct buf)BUF_INIT(ANSWER_MAX);
	ask->problem[0] = '\0';
	ask->status = 0;
	ask->body = body;
	ask->easy = curl_easy_init();
	if (!ask->easy || !body || add_headers(ask) < 0) {
		end_request(ask);
		return -ENOMEM;
	}
	set_options(ask);
	return curl_multi_add_handle(ask->multi, ask->easy) == CURLM_OK ? 0 : -ENOMEM;
}

static bool is_done(struct ask *ask)
{
	int left;
	CURLMsg *message;

	while ((message = curl_multi_info_read(ask->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		ask->result = message->data.result;
		curl_easy_getinfo(ask->easy, CURLINFO_RESPONSE_CODE, &ask->status);
		return true;
	}
	return false;
}

bool ask_wait(struct ask *ask, int fd, int timeout_ms)
{
	struct curl_waitfd extra = {.fd = fd, .events = CURL_WAIT_POLLIN};
	int running;

	curl_multi_perform(ask->multi, &running);
	if (is_done(ask))
		return true;
	curl_multi_poll(ask->multi, &extra, fd >= 0, timeout_ms, NULL);
	curl_multi_perform(ask->multi, &running);
	return is_done(ask);
}

const char *ask_result(const struct ask *ask, size_t *ret_size, const char **ret_problem)
{
	static char text[CURL_ERROR_SIZE + 64];

	*ret_problem = text;
	if (buf_error(&ask->answer)) {
		snprintf(text, sizeof text, "its answer is too long");
	} else if (ask->result != CURLE_OK) {
		snprintf(text, sizeof text, "%s",
			 ask->problem[0] ? ask->problem : curl_easy_strerror(ask->result));
	} else if (ask->status != 200) {
		snprintf(text, sizeof text, "it answered with status %ld", ask->status);
	} else {
		*ret_size = ask->answer.used;
		return ask->answer.data ? ask->answer.data : "";
	}
	return NULL;
}

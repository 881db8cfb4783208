/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/error.h>
#include <curl/curl.h>
#include <jansson.h>
#include <stdint.h>

struct remote;

struct answer {
	long status;
	struct buf body;
	long retry_after_s; /* -1: not given */
};

enum {
	REMOTE_AGAIN = 1, /* the request may be repeated if it is unknown whether it arrived */
};

/* Sends a request. `path` begins with "/v1"; `body` is JSON, or NULL. 0 for any answer of the
 * daemon; the caller frees its body. */
int remote_ask(struct remote *remote, const char *method, const char *path, const char *body,
	       unsigned flags, struct answer *ret, struct atoll_error *err);
/* The same; an answer that is not 2xx is an error. `ret` may be NULL. Releases `body`. */
int remote_call(struct remote *remote, const char *method, const char *path, json_t *body,
		unsigned flags, json_t **ret, struct atoll_error *err);
/* GET; copies the body of the answer to a descriptor as it arrives. */
int remote_copy(struct remote *remote, const char *path, int fd, struct atoll_error *err);
/* Sets the error that an answer of the daemon describes. */
int remote_failure(long status, const char *body, size_t size, struct atoll_error *err);
/* Sets the options that all requests share: address, key, timeouts. */
void remote_prepare(const struct remote *remote, CURL *easy, const char *path);

/* "/v1/sandboxes/ID" `suffix` "?name=value&..."; the arguments end with NULL. The caller frees it.
 */
char *remote_path(const char *id, const char *suffix, ...) __attribute__((sentinel));

/* Values of a JSON object. */
const char *text_of(const json_t *object, const char *key); /* "" if there is none */
int64_t number_of(const json_t *object, const char *key);   /* 0 */
double fraction_of(const json_t *object, const char *key);  /* 0 */
/* An RFC 3339 time as milliseconds since 1970; 0: none. */
int64_t time_of(const json_t *object, const char *key);
/* A random id for a request: 32 hex digits. */
void remote_request_id(char ret[33]);

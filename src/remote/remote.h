/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/error.h>
#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The commands of `atoll`, in a daemon elsewhere
 *
 * `atoll --host URL exec ...` starts this program with the same words: it speaks HTTP, for which
 * the light one has no libraries. Options, output and exit statuses are those of the local commands
 * where they make sense; what has no meaning far away is refused.
 *
 *   remote-address.c    where the daemon is, and which key it knows us by
 *   remote-http.c     one request and its answer; failures as ours
 *   remote-stream.c   a step's events, read from bytes as they come
 *   remote-exec.c     `exec`: output, input, signals, the terminal's size; remote-exec-post.c what
 * is sent to it remote-boxes.c    create, ls, rm, pause, resume; remote-checkpoints.c checkpoint,
 * rollback, fork, history remote-changes.c  diff, apply, undo, export, log top.c      `top`: what
 * is asked and done; top-screen.c how it is shown; screen.c the terminal
 */

struct remote {
	char *base;	 /* "http://127.0.0.1:8642", without a slash at its end */
	char *unix_path; /* of "unix:PATH"; NULL */
	char *key;	 /* "" for none */
	CURL *easy;
	struct curl_slist *fields;
	int patience_s; /* for an answer; 0: 120 */
};

struct answer {
	long status;
	struct buf body;
	long retry_after_s; /* -1: was not said */
};

/* ---- remote-address.c ---- */

/* `host` NULL: $ATOLL_HOST, or the daemon of this user on this machine. */
int remote_open(const char *host, struct remote *ret, struct atoll_error *err);
void remote_close(struct remote *remote);

/* ---- remote-http.c ---- */

enum {
	REMOTE_AGAIN = 1, /* may be sent again if nobody knows whether it has arrived */
};

/* `path` from "/v1" on; `body` is JSON, or NULL. 0 for any answer that came; its body is freed by
 * the caller. */
int remote_ask(struct remote *remote, const char *method, const char *path, const char *body,
	       unsigned flags, struct answer *ret, struct atoll_error *err);
/* The same, and what is no success is a failure. `ret` may be NULL; `body` is released. */
int remote_call(struct remote *remote, const char *method, const char *path, json_t *body,
		unsigned flags, json_t **ret, struct atoll_error *err);
/* The answer's body goes to a descriptor as it comes. */
int remote_copy(struct remote *remote, const char *path, int fd, struct atoll_error *err);
/* Makes an error of what the daemon said. */
int remote_failure(long status, const char *body, size_t size, struct atoll_error *err);
/* Sets what all requests have in common: place, key, times. */
void remote_prepare(const struct remote *remote, CURL *easy, const char *path);

/* "/v1/sandboxes/ID/rest?name=value&...", with NULL behind the last value; freed by the caller. */
char *remote_path(const char *id, const char *buffer, ...) __attribute__((sentinel));

const char *text_of(const json_t *object, const char *key); /* "" if there is none */
int64_t number_of(const json_t *object, const char *key);   /* 0 */
double fraction_of(const json_t *object, const char *key);  /* 0 */
/* Milliseconds since 1970 of an RFC 3339 time; 0: none. */
int64_t time_of(const json_t *object, const char *key);
/* A random id for a request, of 32 digits. */
void remote_request_id(char ret[33]);

/* ---- remote-stream.c ---- */

struct event_reader {
	struct buf buffer;
	/* `data` is a line of JSON. False: stop reading. */
	bool (*told)(void *own, const char *event, const char *data);
	void *own;
};
/* False if it was told to stop, or what comes is no stream of events. */
bool events_feed(struct event_reader *reader, const char *data, size_t size);
/* Into `ret`, which has room for 3/4 of the text; bytes, or -1. */
ssize_t base64_read(const char *text, size_t size, char *ret);

/* ---- the commands ---- */

struct command;
extern const struct command remote_create, remote_ls, remote_rm, remote_pause, remote_resume,
	remote_exec, remote_checkpoint, remote_rollback, remote_fork, remote_history, remote_diff,
	remote_apply, remote_undo, remote_export, remote_log, remote_top;
/* Ends with NULL. */
extern const struct command *const remote_commands[];
/* What a shell would exit with after the latest failure, where the daemon knows that (126, 127);
 * else 0. */
extern int remote_exit_status;
/* Of the program; set by main() before a command is run. */
extern struct remote remote;

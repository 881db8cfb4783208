/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/audit-section.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What does somebody else think of it?
 *
 * `atoll-monitor` stands between a run's supervisor and a service that judges events: it gets the
 * record's lines, asks in batches by an OpenAI-compatible chat completion, and passes verdicts on.
 * A program of its own because of libcurl and jansson, and because it alone talks to that service
 * and reads its answers; it locks itself in before the first.
 *
 *   monitor-main.c      the loop: lines in, verdicts out
 *   monitor-config.c    what the supervisor says first
 *   question.c  a batch of lines as a request
 *   monitor-ask.c       the request, by libcurl
 *   monitor-answer.c    what came back, read strictly
 *   monitor-confine.c      what it gives up
 *
 * The supervisor's end is src/eventlog/watch-monitor.c. They talk over descriptor 3, a stream
 * socket: first a line of JSON with the configuration (the key in it, which is therefore in no
 * argument and no environment), then the record's lines; and back struct monitor_answer, one for
 * each batch. When the supervisor has shut its side the rest is asked about, and the program ends.
 *
 * What stands in events is a stranger's: it is handed over as a quoted text in the user's message.
 * A model can be talked into a wrong verdict by it; into nothing else, because nothing but a
 * verdict, numbers of events and a text to be shown is taken from the answer.
 */

#define MONITOR_PROGRAM "atoll-monitor"

#define MONITOR_ABOUT_MAX 8

struct monitor_answer {
	uint32_t verdict; /* enum rule_verdict */
	uint32_t
		is_failure; /* no answer, or none that makes sense: the verdict is the contract's */
	uint32_t n_about;
	uint32_t reserved;
	uint64_t about[MONITOR_ABOUT_MAX];
	uint64_t last; /* the batch went so far */
	char why[224]; /* fit for people */
};

/* ---- for the program's own files ---- */

struct monitor_config {
	char *url, *model, *prompt, *key; /* prompt and key may be NULL */
	uint32_t batch;
	uint32_t interval_ms, timeout_ms;
	enum rule_verdict on_failure;
};

/* `text` is overwritten: there is a key in it. 0 or a negative errno. */
int config_read(char *text, size_t size, struct monitor_config *ret);
void config_done(struct monitor_config *config);

/* Lines that wait for the next question. */
struct batch {
	char *lines; /* each with its newline; without their hashes of the line before */
	size_t used, room;
	uint32_t n;
	uint64_t first, last; /* their numbers */
};

#define BATCH_SIZE_MAX ((size_t)256 << 10)

/* A line of the record; false if it does not fit any more. */
bool batch_add(struct batch *batch, const char *line, size_t size);
void batch_done(struct batch *batch);
/* The body of the request, to be freed. */
char *question_body(const struct monitor_config *config, const struct batch *batch);

/* What the service has said, as HTTP's body, about these events. 0, or -EBADMSG with why. */
int answer_read(const char *body, size_t size, const struct batch *batch,
		struct monitor_answer *ret, const char **ret_problem);

struct ask;
/* NULL: no memory. */
struct ask *ask_new(const struct monitor_config *config);
void ask_free(struct ask *ask);
/* 0 or a negative errno; `body` is taken over. */
int ask_begin(struct ask *ask, char *body);
/* Wait for `fd` (if not -1) or the service, at most so long. True once it has come to an end. */
bool ask_wait(struct ask *ask, int fd, int timeout_ms);
/* What it came to: the body, or NULL and why. Valid until the next ask_begin(). */
const char *ask_result(const struct ask *ask, size_t *ret_size, const char **ret_problem);

/* `url` says to which port it may talk. 0 or a negative errno. */
int lock_in(const char *url);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/vt.h"
#include "remote/remote.h"

#include <termios.h>

/*
 * `atoll --host URL exec`: a step far away, as if it were here
 *
 * One connection carries its events, another what is sent to it, one thing after the other. When
 * the first one breaks it is made anew, from the bytes on that have arrived: nothing is missing and
 * nothing comes twice. Input has offsets, so what may not have arrived is simply sent again.
 */

enum exec_post {
	POST_NONE,
	POST_INPUT,
	POST_EOF,
	POST_SIGNAL,
	POST_RESIZE,
};

struct exec {
	const char *id;
	int64_t number; /* of the step */
	CURLM *multi;

	/* What comes. */
	CURL *events;
	struct curl_slist *event_fields;
	struct event_reader reader;
	uint64_t at[2]; /* of standard output and error: what has been written here */
	int failures;	/* in a row */
	int64_t again_ns;
	json_t *end; /* the step, once it has ended */
	struct atoll_error gone;
	struct vt filters[2];
	bool is_terminal[2]; /* our standard output and error */

	/* What goes. */
	CURL *post;
	struct curl_slist *post_fields;
	enum exec_post posting;
	char input[65536];
	size_t n_input;
	uint64_t input_at; /* what was taken before it */
	char told[256];	   /* the answer to it */
	size_t n_told;
	int64_t post_again_ns;
	int posted_signal;
	bool wants_input, has_eof, eof_is_sent, wants_resize;
	char signal_name[16];
	char body[256];
	uint64_t signals; /* bit N: SIGN has to be passed on */
	unsigned n_ends;  /* SIGINT and SIGTERM that came */
	int last_signal;

	/* The terminal. */
	bool has_tty, is_raw;
	struct termios saved;
	int signal_fd;
};

/* ---- remote-exec-post.c ---- */

/* The next thing that has to be sent, if nothing is on its way. */
void exec_send(struct exec *exec);
/* It has arrived, or not. */
void exec_sent(struct exec *exec, CURLcode code);
/* Is it time to read more of our standard input? */
bool exec_wants_input(const struct exec *exec);
void exec_read_input(struct exec *exec);
void exec_read_signals(struct exec *exec);
const char *exec_signal_name(int number);
int exec_signal_number(const char *name);

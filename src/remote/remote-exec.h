/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/vt.h"
#include "remote/remote-stream.h"

#include <atoll/error.h>
#include <curl/curl.h>
#include <jansson.h>
#include <stdint.h>
#include <termios.h>

/*
 * `atoll --host URL exec`: a step in a box of a daemon
 *
 * One connection carries the events of the step. A second one sends input, signals and resizes, one
 * request at a time. If the first connection breaks, it is opened again at the offset of the bytes
 * that have arrived: no byte is lost or repeated. Input has offsets, so a request that may not have
 * arrived is sent again.
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

	/* Receiving. */
	CURL *events;
	struct curl_slist *event_fields;
	struct event_reader reader;
	uint64_t at[2]; /* bytes of standard output and error that are written here */
	int failures;	/* in a row */
	int64_t again_ns;
	json_t *end;		 /* the step, after it has ended */
	struct atoll_error gone; /* why the step cannot be followed any more */
	struct vt filters[2];
	bool is_terminal[2]; /* our standard output and error */

	/* Sending. */
	CURL *post;
	struct curl_slist *post_fields;
	enum exec_post posting;
	char input[65536];
	size_t n_input;
	uint64_t input_at;  /* the offset of `input` */
	char response[256]; /* the beginning of the response */
	size_t n_response;
	int64_t post_again_ns;
	int posted_signal;
	bool wants_input, has_eof, eof_is_sent, wants_resize;
	char signal_name[16];
	char body[256];
	uint64_t signals; /* bit N: signal N has to be sent */
	unsigned n_ends;  /* received SIGINT and SIGTERM */
	int last_signal;

	/* The terminal of this process. */
	bool has_tty, is_raw;
	struct termios saved;
	int signal_fd;
};

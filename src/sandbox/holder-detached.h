/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "eventlog/eventlog.h"
#include "sandbox/holder-protocol.h"

struct holder;
struct holder_client;

/* A connection that gets reports about a detached step. */
struct step_watcher {
	struct step_watcher *next;
	int fd; /* -1: closed; detached_sweep() frees the watcher */
	/* What was sent already. */
	bool has_invocation, has_input_fd, has_end;
	bool has_file[STEP_STREAMS];
	uint64_t sent[STEP_STREAMS]; /* bytes of a small stream */
	uint64_t need[STEP_STREAMS]; /* by STEP_CALL_NEED; UINT64_MAX: nothing */
	bool is_behind;		     /* a report is due */
	bool is_full;		     /* send() has returned EAGAIN: poll for POLLOUT */
};

/* One output stream of a detached step. */
struct output_stream {
	int from; /* the read end; -1: at its end */
	int file; /* the shared memory file; -1: the stream is small */
	uint64_t size, first;
	char *small;	 /* STEP_SMALL_OUTPUT bytes, or NULL */
	uint64_t need;	 /* the smallest of all watchers'; UINT64_MAX: none */
	uint64_t left;	 /* the need of a watcher whose connection broke; UINT64_MAX: none */
	bool is_waiting; /* not read now: the window is full of bytes that a watcher needs */
};

/* A step that goes on without its client. */
struct detached_step {
	struct detached_step *next;
	struct holder_client *client; /* its place while it lives; NULL: it has ended */
	uint32_t number;
	int32_t pid;
	enum atoll_step_state state;
	int64_t start_ns, end_ns;  /* CLOCK_REALTIME */
	int64_t begin_ns, over_ns; /* CLOCK_MONOTONIC; over_ns INT64_MIN: it was refused */
	int64_t deadline_ns;	   /* INT64_MAX: none */
	int64_t lost_until_ns;	   /* until then streams[].left counts; 0: it does not */
	uint64_t timeout_ms;
	char key[ATOLL_STEP_KEY];
	char label[ATOLL_STEP_LABEL];
	char user[32];
	char *invocation; /* as requested, for watchers */
	size_t invocation_size;
	bool has_stdin, has_terminal, has_channel;
	uint16_t columns, rows;
	bool is_forced; /* it was killed: do not wait for background processes' output */
	bool is_timed_out, is_over_output;
	bool is_go_pending; /* INIT_GO is due when the sandbox is thawed */
	bool has_changed;   /* reports to all watchers are due */
	bool is_end_sent;   /* a watcher got the end */
	int64_t report_ns;  /* reports wait until then at most; 0: they do not wait */
	int input_fd;	    /* -1: closed, or none */
	struct buf input;   /* accepted; the bytes from `input_at` on are not written yet */
	size_t input_at;
	uint64_t input_taken, input_written; /* bytes accepted and written in all */
	bool closes_input;		     /* close when all is written; or it is closed */
	struct output_stream streams[STEP_STREAMS];
	struct eventlog_output output;
	struct step_end *end;  /* set at the end, with its denials behind it */
	struct step_end *room; /* memory for `end`, allocated at the start */
	struct atoll_denial *denials;
	uint32_t n_denials, n_stored_denials;
	struct step_watcher *watchers;
};

/* Handle HOLDER_STEP: `data` is a struct step_start_request and its invocation. The connection
 * becomes a watcher. */
void detached_start(struct holder *holder, struct holder_client *client, const char *data,
		    size_t size, int *fds, size_t n);
/* Handle HOLDER_ATTACH: the connection becomes a watcher. */
int detached_attach(struct holder *holder, struct holder_client *client, uint32_t number,
		    struct atoll_error *err);
/* Handle HOLDER_LIST. */
void detached_send_list(struct holder *holder, int fd);

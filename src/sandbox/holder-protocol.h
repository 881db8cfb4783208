/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "eventlog/eventlog.h"
#include "init/init.h"
#include "isolate/isolate.h"

#include <atoll/layer.h>
#include <atoll/step.h>
#include <stddef.h>

struct layer_record;

/*
 * The messages between a client and the holder of a sandbox
 *
 * Both sides are the same version of atoll and the same user; the socket is SOCK_SEQPACKET. One
 * connection is one request. sandbox.h describes the order.
 */

#define HOLDER_VERSION 5

enum holder_request_type {
	HOLDER_EXEC,	   /* start an attached step */
	HOLDER_CHECKPOINT, /* `name`, or "" for "step-N" */
	HOLDER_ROLLBACK,   /* `name` */
	HOLDER_END,	/* end everything; refused while a step runs unless `is_forced`. `name` is
			 * HOLDER_REMOVE if the client removes the sandbox next */
	HOLDER_NOTE,	/* log a decision of a person: `name` about `command` */
	HOLDER_OUTCOME, /* log the result of a decision: `outcome` */

	HOLDER_STEP,   /* struct step_start_request: start a detached step */
	HOLDER_ATTACH, /* watch the detached step `number` */
	HOLDER_LIST,   /* answered by struct holder_reply and `count` struct step_report */
	HOLDER_STAY,   /* build the cell, and never end for lack of steps */
	HOLDER_FREEZE, /* stop every process inside, until HOLDER_THAW */
	HOLDER_THAW,
	HOLDER_USAGE,	  /* answered by struct holder_reply and struct atoll_sandbox_usage */
	HOLDER_NETWORK,	  /* replace the network rules by the text in the descriptor */
	HOLDER_QUESTIONS, /* answered by struct holder_reply and struct atoll_pending[] */
	HOLDER_ANSWER,	  /* answer question `name` with `number`, an enum atoll_answer_type */
	HOLDER_SAVE,	  /* keep the files written beside the workspace, and end the cell */
};

/* HOLDER_EXEC comes with these descriptors: the invocation (struct init_step_head), a file for
 * struct attached_result, the write end of a pipe that the holder keeps open until the step ends;
 * then one for each bit of 0, 1 and 2 in `stdio`; then the read ends of 1 and 2. The holder reads
 * and drops the output there once the client is gone. */
struct holder_request {
	uint32_t version;
	uint32_t type;
	uint32_t stdio;
	uint32_t number;
	bool is_forced;
	char name[64];
	union {
		char command[512]; /* for people */
		struct eventlog_outcome outcome;
	};
};

struct holder_reply {
	int32_t code; /* 0, or a negative errno with `error` */
	int32_t pid;  /* of pid 1, as the host sees it */
	uint64_t count;
	char name[64];
	struct atoll_error error;
};

/* ---- attached steps ---- */

/* The holder writes this into the file that came with HOLDER_EXEC: once when the step has started,
 * and again at its end. */
struct attached_result {
	struct cell_usage usage;
	struct atoll_error checkpoint; /* why the checkpoint after the step failed; else "" */
	uint32_t n_published;
	struct atoll_published published[ATOLL_PUBLISHED_MAX];
	char network_note[192];
	uint32_t n_connections;
	struct atoll_connection connections[ATOLL_CONNECTIONS_MAX];
};

/* The client sends this at the end of its step, for the event log. Answered by struct holder_ack.
 */
struct attached_report {
	struct eventlog_output_end said;
	unsigned char result[offsetof(struct atoll_result, denials)];
};

/* Also sent before the end of a connection with HOLDER_END and HOLDER_REMOVE: the event log
 * contains the removal. */
#define HOLDER_ACK_MAGIC 0x68656172
#define HOLDER_REMOVE	 "remove"

struct holder_ack {
	uint32_t magic;
};

/* ---- detached steps ---- */

#define STEP_STREAMS 2 /* standard output and standard error */

/* Behind it: a struct init_step_head and its texts (directory "": the default), or a descriptor
 * with these; `has_channel` brings one more descriptor. */
struct step_start_request {
	uint32_t version;
	uint32_t type;
	bool has_stdin, has_terminal, has_channel, has_invocation_fd;
	uint16_t columns, rows;
	uint64_t timeout_ms; /* as in atoll/step.h */
	char key[ATOLL_STEP_KEY];
	char label[ATOLL_STEP_LABEL];
	char user[32];
};

#define STEP_INVOCATION_MAX (48U << 10) /* larger ones come as a descriptor */

/* The state of a step, with everything behind it that this watcher has not got yet. */
struct step_report {
	uint32_t magic;
	uint32_t number;
	int32_t pid;
	uint32_t state; /* enum atoll_step_state */
	int64_t start_ns, end_ns;
	uint64_t size[STEP_STREAMS], first[STEP_STREAMS];
	/* Bytes of input that the holder has accepted, and has written to the command. */
	uint64_t input_taken, input_written;
	bool is_input_closed;
	bool has_stdin, has_terminal;
	bool brings_input;		/* the first descriptor is the input's */
	bool brings_file[STEP_STREAMS]; /* the next ones are the streams' output files */
	char key[ATOLL_STEP_KEY];
	char label[ATOLL_STEP_LABEL];
	char user[32];
	/* The sizes of the parts that follow, in this order; of a stream its latest bytes. */
	uint32_t invocation_size;
	uint32_t data_size[STEP_STREAMS];
	uint32_t end_size; /* struct step_end and its denials */
};

#define STEP_REPORT_MAGIC 0x746f6c64
#define STEP_REPORT_MAX	  (96U << 10) /* with all parts */

/* A client sends STEP_CALL_NEED once per so many bytes that it has read; the holder allows for as
 * much twice when a killed client comes back. */
#define STEP_NEED_INTERVAL (1U << 20)
#define STEP_NEED_SLACK	   (2 * STEP_NEED_INTERVAL)

/* A stream of at most STEP_SMALL_OUTPUT bytes is sent in reports. A longer one lies in a memory
 * file that the holder shares: a head that begins with `first`, then the stream. */
#define STEP_SMALL_OUTPUT 4096
#define STEP_OUTPUT_HEAD  4096

struct step_end {
	int32_t end, code;
	int32_t cause;			/* the errno of a step that has not started */
	uint32_t n_denials, n_reported; /* how many there were, and how many follow */
	char limit[16], limit_note[96];
	uint64_t limit_value, limit_used;
	uint64_t wall_ns, cpu_ns, peak_memory, output_bytes;
	struct atoll_usage usage[ATOLL_RESOURCE_COUNT];
	char network_note[192];
	char run[16];
	struct atoll_error error;
};

#define STEP_DENIALS_MAX 32
#define STEP_LIST_MAX	 400 /* steps in one answer */

enum step_call_type {
	STEP_CALL_SIGNAL,
	STEP_CALL_CLOSE_INPUT, /* once all accepted input is written */
	STEP_CALL_NEED,	       /* the offsets from which on this client still reads the output */
	STEP_CALL_DETACH,      /* the client ends the connection and needs no output */
	STEP_CALL_INPUT,       /* bytes of input follow, from offset `at` on */
};

struct step_call {
	uint32_t type;
	int32_t signal;
	bool is_all;
	uint64_t need[STEP_STREAMS];
	uint64_t at;
};

/* The holder accepts so much input ahead of the command's reads; one message brings one piece. */
#define STEP_INPUT_MAX	 (256U << 10)
#define STEP_INPUT_PIECE (32U << 10)

/* ---- the socket ---- */

/* A connection to the holder; -ENOENT if there is none. */
int holder_connect(const struct layer_record *record, struct atoll_error *err);
/* The same by a full id, without opening the record. With `waits` false: -EAGAIN if the holder's
 * queue of connections is full. */
int holder_connect_id(const char *id, bool waits, struct atoll_error *err);
/* holder_connect(), and start a holder if there is none. */
int holder_connect_or_start(struct layer_record *record, struct atoll_error *err);
/* In the holder: the socket that it listens on. */
int holder_listen(const struct layer_record *record, struct atoll_error *err);
/* Send a request and wait for the reply, which may be a failure. -ECONNRESET: the holder was ending
 * and has not read the request. -EPIPE: the holder has ended, and may have read it. */
int holder_ask(int fd, const struct holder_request *request, const int *fds, size_t n,
	       struct holder_reply *ret, struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "eventlog/eventlog.h"
#include "init/init.h"

#include <atoll/layer.h>
#include <atoll/step.h>
#include <stddef.h>

struct atoll_job;
struct layer_record;

/*
 * Who holds a sandbox, and how one talks to it
 *
 * A sandbox that nothing runs in is a record and nothing else. The first step starts its holder: a
 * process of its own session that builds the cell, with its first process as a service, and
 * listens on records/ID/socket. It locks records/ID/held as long as it lives, and records/ID/lock
 * only while it changes something. It ends when it is told to, when nothing has run for a while, or
 * by SIGTERM; everything inside ends with it, also by kill -9, and the next step starts another one
 * on the same layers.
 *
 * One connection is one request. After HOLD_EXEC it speaks as the control socket of a cell does
 * (struct init_message, struct init_order), for this step alone, so that whoever supervises it does
 * the same as with a run of its own.
 */

enum hold_type {
	HOLD_EXEC,
	HOLD_CHECKPOINT, /* `name`, or "" for "step-N" */
	HOLD_ROLLBACK,	 /* `name` */
	HOLD_END,	 /* end everything; refused while a step runs unless `is_forced` */
	HOLD_NOTE,	 /* write down that somebody decided: `name` about `command` */
	HOLD_OUTCOME,	 /* and what became of it: `outcome` */

	HOLD_STEP,   /* struct hold_start: a step that depends on nobody */
	HOLD_ATTACH, /* to one of these: `number` */
	HOLD_LIST,   /* answered by struct hold_reply and `count` struct hold_told behind it */
	HOLD_STAY,   /* build the cell, and do not end for want of work */
	HOLD_FREEZE, /* everything inside stands still, until HOLD_THAW */
	HOLD_THAW,
	HOLD_USAGE,	/* answered by struct hold_reply and struct atoll_sandbox_usage behind it */
	HOLD_NETWORK,	/* with a descriptor: other rules, the text of a `network` section */
	HOLD_QUESTIONS, /* answered by struct hold_reply and struct atoll_pending, `count` of them
			 */
	HOLD_ANSWER, /* to the question whose id is `name`: `number`, an enum atoll_answer_type */
	HOLD_SAVE,   /* keep what was written beside the workspace, and end everything inside */
};

#define HOLD_VERSION 5

/* With HOLD_EXEC come these descriptors: the step's words (struct init_step_head), a file for its
 * struct atoll_result, a pipe that is held open as long as the step lasts; then one for each of 0,
 * 1 and 2 that `stdio` has a bit for, and the reading ends of those of 1 and 2, from which the
 * holder drops what is left behind when the caller is gone. */
struct hold_request {
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

struct hold_reply {
	int32_t code; /* 0, or a negative errno with `error` */
	int32_t pid;  /* of the first process, as the host sees it */
	uint64_t count;
	char name[64];
	struct atoll_error error;
};

/* What the caller of a step knows of its end, for the record; answered by struct hold_heard. */
struct hold_report {
	struct eventlog_output_end said;
	unsigned char result[offsetof(struct atoll_result, denials)];
};

/* And to whoever ends a sandbox to remove it (HOLD_END, named HOLD_REMOVE): its log says so. */
#define HOLD_HEARD  0x68656172
#define HOLD_REMOVE "remove"

struct hold_heard {
	uint32_t magic;
};

/*
 * Steps that are kept (atoll/step.h)
 *
 * HOLD_STEP begins one, HOLD_ATTACH finds it again. From then on the connection is somebody who is
 * told of it: each struct hold_told is how things stand, with what he does not know yet behind it
 * and the descriptors that he does not have. He sends struct hold_call. When the connection ends
 * the step goes on.
 */

#define HOLD_STREAMS 2

/* What comes behind it: a struct init_step_head and its texts (directory, "": the usual one), or
 * their descriptor, and `channel` as a second one. */
struct hold_start {
	uint32_t version;
	uint32_t type;
	bool has_stdin, has_terminal, has_channel, has_words_fd;
	uint16_t columns, rows;
	uint64_t timeout_ms; /* as in atoll/step.h */
	char key[ATOLL_STEP_KEY];
	char label[ATOLL_STEP_LABEL];
	char user[32];
};

#define HOLD_START_MAX (48U << 10) /* larger words come as a descriptor */

struct hold_told {
	uint32_t magic;
	uint32_t number;
	int32_t pid;
	uint32_t state; /* enum atoll_step_state */
	int64_t start_ns, end_ns;
	uint64_t size[HOLD_STREAMS], first[HOLD_STREAMS];
	/* Of what it was given to read: taken, and written to it; and whether more is taken. */
	uint64_t input_taken, input_written;
	bool is_input_closed;
	bool has_stdin, has_terminal;
	bool brings_input;		/* its descriptor comes first */
	bool brings_file[HOLD_STREAMS]; /* then those of the streams' memory */
	char key[ATOLL_STEP_KEY];
	char label[ATOLL_STEP_LABEL];
	char user[32];
	/* What follows, in this order; of a stream its latest bytes. */
	uint32_t words_size;
	uint32_t data_size[HOLD_STREAMS];
	uint32_t end_size; /* struct hold_end and its denials */
};

#define HOLD_TOLD 0x746f6c64
/* So far a reader may get ahead of what the holder knows that he has read; and the same with what
 * he had just read when he was killed. */
#define HOLD_NEED_STEP	(1U << 20)
#define HOLD_NEED_SLACK (2 * HOLD_NEED_STEP)

#define HOLD_TOLD_MAX (96U << 10) /* with all that follows */

/* A stream that was never longer is told of as it is; another one lies in memory that is shared,
 * behind a page that begins with its `first`. */
#define HOLD_SMALL     4096
#define HOLD_FILE_HEAD 4096

struct hold_end {
	int32_t end, code;
	int32_t cause;		    /* of what has not started: the errno */
	uint32_t n_denials, n_told; /* how many there were, and how many follow */
	char limit[16], limit_note[96];
	uint64_t limit_value, limit_used;
	uint64_t wall_ns, cpu_ns, peak_memory, output_bytes;
	struct atoll_usage usage[ATOLL_RESOURCE_COUNT];
	char network_note[192];
	char run[16];
	struct atoll_error error;
};

#define HOLD_DENIALS_MAX 32
#define HOLD_LIST_MAX	 400 /* steps in one answer */

enum hold_call_type {
	HOLD_CALL_SIGNAL,
	HOLD_CALL_CLOSE_INPUT, /* once all that was taken is written */
	HOLD_CALL_NEED,
	HOLD_CALL_DETACH, /* he goes, and needs nothing any more */
	HOLD_CALL_INPUT,  /* bytes to read, behind it, from offset `at` on */
};

struct hold_call {
	uint32_t type;
	int32_t signal;
	bool is_all;
	uint64_t need[HOLD_STREAMS];
	uint64_t at;
};

/* So much is taken ahead of what the command reads; in pieces. */
#define HOLD_INPUT_MAX	 (256U << 10)
#define HOLD_INPUT_PIECE (32U << 10)

/* ---- holder-protocol.c ---- */

/* A connection to the holder; -ENOENT if there is none. */
int hold_connect(const struct layer_record *record, struct atoll_error *err);
/* The same by a whole id alone, without opening its record. If it is not to wait: -EAGAIN where too
 * many do already. */
int hold_connect_id(const char *id, bool waits, struct atoll_error *err);
/* The same, and one is started if need be. */
int hold_connect_or_start(struct layer_record *record, struct atoll_error *err);
/* A socket that it listens on. */
int hold_listen(const struct layer_record *record, struct atoll_error *err);
/* Send a request and wait for the reply, which may be a failure. -ECONNRESET: it was just ending,
 * and has not read it; -EPIPE: it has, perhaps, and has ended. */
int hold_ask(int fd, const struct hold_request *request, const int *fds, size_t n,
	     struct hold_reply *ret, struct atoll_error *err);

/* ---- holder.c ---- */

/* Start a holder, and wait until it listens; if it is to stay (HOLD_STAY), until it has built the
 * cell. -EBUSY: somebody else holds the sandbox. */
int hold_start(const char *id, bool stays, struct atoll_error *err);

/* ---- spawner.c ---- */

/* From now on holders are forks of `program`, which calls hold_nursery_serve(3). Before there are
 * threads; or once more, if hold_nursery_is_gone(). Without one the caller itself is forked. */
int hold_nursery_open(const char *program, struct atoll_error *err);
bool hold_nursery_is_gone(void);
void hold_nursery_close(void);
_Noreturn void hold_nursery_serve(int fd);

/* ---- step-client.c ---- */

/* Of one that has ended: what it printed stays, and the connection to its holder is closed, which
 * nobody watches any more. A daemon with a thousand steps a second would have all descriptors in
 * those. */
void step_hang_up(struct atoll_step *step);

/* ---- sandbox.c ---- */

/* atoll_sandbox_create() for whoever starts it at once: whether this host can do it is found out
 * then, and nothing waits for the disk. */
int sandbox_create_quickly(struct atoll_job *job, char ret_id[ATOLL_ID_SIZE],
			   struct atoll_error *err);
/* atoll_sandbox_start() for one that was just made, and that nobody else knows of. */
int sandbox_start_new(const char *id, struct atoll_error *err);

/* A record that is a sandbox's. */
int sandbox_open(const char *id, struct layer_record **ret, struct atoll_error *err);
/* One that nothing holds: what it may write at other places (each "INSIDE=PATH", as --write-at) is
 * this from now on, and nothing that was said so before. -EBUSY: something holds it. */
int sandbox_set_grants(const char *id, char *const *grants, size_t n, struct atoll_error *err);
/* The job that it was made from; `is_held` as in struct recipe. */
int sandbox_job(const struct layer_record *record, bool is_held, struct atoll_job **ret,
		struct atoll_error *err);

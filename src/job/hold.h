/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"
#include "job/record.h"

#include <atoll/layer.h>
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
};

#define HOLD_VERSION 2

/* With HOLD_EXEC come these descriptors: the step's words (struct init_step_head), a file for its
 * struct atoll_result, a pipe that is held open as long as the step lasts; then one for each of 0,
 * 1 and 2 that `stdio` has a bit for, and the reading ends of those of 1 and 2, from which the
 * holder drops what is left behind when the caller is gone. */
struct hold_request {
	uint32_t version;
	uint32_t type;
	uint32_t stdio;
	bool is_forced;
	char name[64];
	char command[512]; /* for people */
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
	struct record_said said;
	unsigned char result[offsetof(struct atoll_result, denials)];
};

#define HOLD_HEARD 0x68656172

struct hold_heard {
	uint32_t magic;
};

/* ---- hold-protocol.c ---- */

/* A connection to the holder; -ENOENT if there is none. */
int hold_connect(const struct layer_record *record, struct atoll_error *err);
/* The same, and one is started if need be. */
int hold_connect_or_start(struct layer_record *record, struct atoll_error *err);
/* A socket that it listens on. */
int hold_listen(const struct layer_record *record, struct atoll_error *err);
/* Send a request and wait for the reply, which may be a failure. -ECONNRESET: it was just ending,
 * and has not read it; -EPIPE: it has, perhaps, and has ended. */
int hold_ask(int fd, const struct hold_request *request, const int *fds, size_t n,
	     struct hold_reply *ret, struct atoll_error *err);

/* ---- hold.c ---- */

/* Start a holder, and wait until it listens, or somebody else does. */
int hold_start(const char *id, struct atoll_error *err);

/* ---- sandbox.c ---- */

/* A record that is a sandbox's. */
int sandbox_open(const char *id, struct layer_record **ret, struct atoll_error *err);
/* The job that it was made from. */
int sandbox_job(const struct layer_record *record, struct atoll_job **ret, struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "box/box.h"
#include "e2b/e2b-protocol.h"
#include "e2b/interpreter.h"

struct context;
struct interpreter;

/* An execution: a piece of code in the queue of a context. */
struct run {
	struct context *context;
	struct api_call *call; /* NULL: the client has gone */
	uint64_t number;
	char *request; /* a line for the kernel; NULL after it was sent */
	size_t size;
	struct held held; /* counts the bytes of `request` */
	bool has_begun;	  /* the answer */
	struct loop_timer quiet;
	int64_t drained_ns; /* when the client last had read everything */
	struct run *next;
};

struct context {
	struct interpreter *interpreter;
	char id[40];
	const char *language; /* a constant */
	char *cwd;	      /* NULL: the home */
	bool is_default;      /* for code that names only a language */
	bool is_starting, is_killed;
	uint64_t sync; /* lines before the one with this number are ignored; 0: none are */
	struct process_reader reader;
	struct buf line;
	bool is_skipping; /* drops the end of a line that was too long */
	bool is_reading;
	struct run *runs;	/* the queue; the kernel executes the first one */
	struct api_call *waits; /* the call that made or restarted the context; NULL */
	struct context *next;
};

struct interpreter {
	struct e2b *e2b;
	struct box *box;
	uint64_t gone; /* of box_on_gone() */
	struct context *contexts;
	struct interpreter *next;
};

/* The interpreter of the box. The first call makes it and finds its contexts. NULL: no memory. */
struct interpreter *interpreter_of(struct e2b *e2b, struct box *box);
/* The language of a name ("js" is "javascript"), or NULL. */
const char *interpreter_language(const char *name);
struct context *context_find(struct interpreter *interpreter, const char *id);
/* The context for code that names only a language; NULL: no memory. */
struct context *context_default(struct interpreter *interpreter, const char *language);
struct context *context_new(struct interpreter *interpreter, const char *id, const char *language,
			    const char *cwd);
/* Starts the kernel unless it runs; then the executions of the queue are sent to it. */
void context_start(struct context *context);
bool context_lives(const struct context *context);
/* `call` is answered when the kernel runs, or cannot run: by the context, or by null. One call at a
 * time. */
void context_wait(struct context *context, struct api_call *call);
/* Ends the kernel; `call` is answered when the next one runs. */
void context_restart(struct context *context, struct api_call *call);
/* Ends the kernel and frees the context; calls that wait for it are answered. */
void context_remove(struct context *context);
/* Sends a line to the kernel: {"op": OP, "id": NUMBER}. */
void context_send(struct context *context, const char *op, uint64_t number);
uint64_t context_number(void);

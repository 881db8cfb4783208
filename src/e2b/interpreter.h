/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "box/held.h"
#include "box/process.h"
#include "httpd/httpd.h"

/*
 * The code interpreter of a box (port 49999)
 *
 * A context is a process in the box, a kernel (src/guest/kernels), which executes one piece of code
 * after the other in a language and remembers what they have set. What it tells are lines that are
 * passed on to who asked; so a client that reads slowly makes its kernel wait, and nothing is
 * gathered here but a line.
 *
 *   interpreter.c          requests and answers
 *   interpreter-context.c  contexts: their kernels, found again by the processes' tags
 *   interpreter-run.c      executions: their queue, and what the kernel tells of them
 *
 * Nothing of it is in the database: the kernels are kept processes, and their tags tell which
 * context each is. When a daemon that was started again is asked, it finds them; what was being
 * executed has lost its reader with the daemon, and is interrupted as if that had gone away.
 */

#define INTERPRETER_CONTEXTS 64		/* in a box */
#define INTERPRETER_QUEUE    64		/* executions that wait in a context */
#define INTERPRETER_LINE     (4U << 20) /* of a kernel, and of code */

/* Serves a request to the interpreter of `box`, which runs; who may ask was looked at before. */
void interpreter_exchange(struct exchange *exchange, struct box *box);

/* ---- between its files ---- */

struct interpreter;
struct context;

/* Somebody who waits until a context's kernel is there, or gone; embedded in nothing: `call` NULL
 * when he has gone away. */
struct run {
	struct context *context;
	struct api_call *call;
	uint64_t number;
	char *request; /* a line for the kernel; NULL once it is sent */
	size_t size;
	struct held held; /* the request's bytes */
	bool has_begun;	  /* the answer */
	struct loop_timer quiet;
	int64_t drained_ns; /* when it last took what was sent */
	struct run *next;
};

struct context {
	struct interpreter *interpreter;
	char id[40];
	const char *language; /* a constant */
	char *cwd;	      /* NULL: the home */
	bool is_default;      /* is there although nobody has made it */
	bool is_starting, is_killed;
	uint64_t
		sync; /* what the kernel has to say before anything of it is believed; 0: nothing */
	struct process_reader reader;
	struct buf line;
	bool is_skipping; /* the rest of a line that was too long */
	bool is_reading;
	struct run *runs;	/* the first one is with the kernel once it is sent */
	struct api_call *waits; /* who made or restarted it, and wants to know */
	struct context *next;
};

struct interpreter {
	struct box *box;
	uint64_t gone; /* of box_on_gone() */
	struct context *contexts;
	struct interpreter *next;
};

/* ---- interpreter-context.c ---- */

/* The box's; made, and its contexts found, if need be. NULL: no memory. */
struct interpreter *interpreter_of(struct box *box);
/* In its one spelling ("js" is "javascript"), or NULL. */
const char *interpreter_language(const char *name);
struct context *context_find(struct interpreter *interpreter, const char *id);
/* The one for code that names only a language; NULL: no memory. */
struct context *context_default(struct interpreter *interpreter, const char *language);
struct context *context_new(struct interpreter *interpreter, const char *id, const char *language,
			    const char *cwd);
/* Its kernel is there, or will be; executions go to it then. */
void context_start(struct context *context);
bool context_lives(const struct context *context);
/* `call` is answered when its kernel is there (or cannot be): by the context, or by null. One at a
 * time. */
void context_wait(struct context *context, struct api_call *call);
/* Ends the kernel; `call` is answered when there is a new one. */
void context_restart(struct context *context, struct api_call *call);
/* With its kernel; what waits for it is told. */
void context_remove(struct context *context);
/* A line to the kernel: {"op": OP, "id": NUMBER}. */
void context_send(struct context *context, const char *op, uint64_t number);
uint64_t context_number(void);

/* ---- interpreter-run.c ---- */

/* Puts an execution into the queue; `request` is the queue's from then on. NULL: no memory, or the
 * tenant's clients hold too much of it. */
struct run *run_new(struct context *context, struct api_call *call, uint64_t number, char *request,
		    size_t size);
size_t run_count(const struct context *context);
/* The kernel can take the next one. */
void run_next(struct context *context);
/* Reads what the kernel has told. */
void run_read(struct context *context);
/* The kernel is gone, or never was: why. */
void run_fail_all(struct context *context, unsigned status, const char *why);
void run_kernel_gone(struct context *context, const char *why);
/* Cuts the connections of all. */
void run_cut_all(struct context *context);

/* ---- interpreter.c ---- */

void interpreter_answer_text(struct api_call *call, unsigned status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* What POST /contexts answers. */
void interpreter_answer_context(struct api_call *call, const struct context *context);
void interpreter_answer_null(struct api_call *call);

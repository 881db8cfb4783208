/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

struct context;

/*
 * The code interpreter of a box (port 49999)
 *
 * A context is a process in the box, a kernel (src/guest/kernels). It executes one piece of code
 * after the other in one language and keeps the state between them. Its lines are sent on to the
 * client of the execution. A client that reads slowly makes its kernel wait: only one line is
 * buffered here.
 *
 *   interpreter.c          requests and answers
 *   interpreter-context.c  contexts: their kernels, found again by the tags of processes
 *   interpreter-run.c      executions: their queue, and the lines of the kernel
 *
 * Nothing is stored in the database: kernels are detached steps, and their tags name the contexts.
 * A daemon that was started again finds the kernels at the first request. An execution that ran
 * meanwhile has lost its client and is interrupted.
 */

#define INTERPRETER_CONTEXTS 64		/* in a box */
#define INTERPRETER_QUEUE    64		/* executions that wait in a context */
#define INTERPRETER_LINE     (4U << 20) /* of a kernel, and of code */

/* Serves a request to the interpreter of `box`, which runs. The caller has checked the token. */
void interpreter_exchange(struct exchange *exchange, struct box *box);

/* ---- for interpreter-context.c and interpreter-run.c ---- */

void interpreter_answer_text(struct api_call *call, unsigned status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The answer of POST /contexts. */
void interpreter_answer_context(struct api_call *call, const struct context *context);
void interpreter_answer_null(struct api_call *call);

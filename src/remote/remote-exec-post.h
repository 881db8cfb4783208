/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "remote/remote-exec.h"

/* The sending side of `exec`. */

/* Starts the next request, if none is running. */
void exec_send(struct exec *exec);
/* Handles the end of a request; `code` says whether it arrived. */
void exec_sent(struct exec *exec, CURLcode code);
/* Should more of standard input be read? */
bool exec_wants_input(const struct exec *exec);
void exec_read_input(struct exec *exec);
void exec_read_signals(struct exec *exec);
const char *exec_signal_name(int number);
int exec_signal_number(const char *name);

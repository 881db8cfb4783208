/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process;
struct process_input;
struct process_own;

/* What cannot be written at once is kept, up to 16 MiB, and of a tenant as much as held.h says;
 * beyond that -EAGAIN. -EPIPE: closed, or it
 * has none. */
int process_write(struct process *process, const void *data, size_t size);
/* The same, from this offset on in all that it was ever given: what was taken already is left out,
 * and -ERANGE if something before it is missing. */
int process_write_at(struct process *process, uint64_t at, const void *data, size_t size);
/* So far its input was taken by the sandbox's holder, and survives this daemon; and so far by
 * anybody here. */
uint64_t process_input_taken(const struct process *process);
uint64_t process_input_end(const struct process *process);
/* The holder takes no more, or there is none. */
bool process_input_is_closed(const struct process *process);
void process_await_input(struct process *process, struct process_input *input);
void process_leave_input(struct process_input *input);
int process_close_stdin(struct process *process); /* 0 also if it is; -ENOTTY: a terminal */
void process_open_input(struct process_own *own);
void process_drop_input(struct process_own *own);
/* The holder has told something: perhaps it takes more, and somebody waits for that. */
void process_input_moved(struct process_own *own);
/* Nobody waits any more: they are told that it is gone. */
void process_drop_waiters(struct process_own *own);

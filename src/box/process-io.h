/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop_turn;
struct process_own;

/* Offsets may lie in the past; one before `process_first()` is moved there. */
void process_attach(struct process *process, struct process_reader *reader,
		    const uint64_t at[PROCESS_STREAMS]);
void process_detach(struct process_reader *reader);
void process_set_holds(struct process_reader *reader, bool holds);
/* `ready` is not called until process_wake(), which queues a call: for a reader whose client reads
 * nothing, so that more output costs nothing for it. Of a reader that holds. */
void process_idle(struct process_reader *reader);
/* In `ready`: it is called once more, in another turn. */
void process_go_on(struct process_reader *reader);
void process_wake(struct process_reader *reader);
/* Reads on from `at`, and moves it: bytes, or 0: none now. */
size_t process_read(struct process_reader *reader, enum process_stream stream, void *data,
		    size_t size);
uint64_t process_first(const struct process *process, enum process_stream stream);
uint64_t process_size(const struct process *process, enum process_stream stream);
/* It has ended, and the reader has read all. */
bool process_is_read(const struct process_reader *reader);
void process_notify_readers(struct process_own *own);
void process_compare_needs(struct loop_turn *turn);
/* All of them have left. */
void process_drop_readers(struct process_own *own);

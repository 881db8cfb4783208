/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/held.h"
#include "box/work.h"

/*
 * A file that a client writes
 *
 * write(2) waits: for the lock of an inode that a command inside holds as long as it likes, and for
 * a disk that has too much to write. So threads write and close files, never the event loop. A
 * tenant has two of these threads at most (box/work.h).
 *
 * One piece is written at a time: who is given a piece of a body hands it over, holds the exchange,
 * and goes on when `done` is called.
 */
struct put;
/* 0, or a negative errno of write(2) or close(2). */
typedef void put_done(int r, void *data);

/* Takes the descriptor, also on failure. NULL: no memory. `data` is handed to each `done`. */
struct put *put_new(struct daemon *daemon, struct tenant *tenant, int fd, void *data);
/* The bytes are copied. 0: `done` will be called from the event loop; -ENOMEM, or -EAGAIN: too much
 * is held for this tenant. Then it will not. */
int put_write(struct put *put, const void *bytes, size_t size, put_done *done);
/* Closes the file; then `done` is called, and the put is gone: what was written can be executed by
 * now. */
void put_end(struct put *put, put_done *done);
/* Nobody waits any more: it is closed when its last piece is written. NULL is fine. */
void put_drop(struct put *put);
/* Is a piece being written, or the file closed? */
bool put_is_busy(const struct put *put);
/* For fstat(2) and its like. */
int put_fd(const struct put *put);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"

/*
 * A file that a client writes
 *
 * write(2) can block: on the lock of an inode that a command inside holds, and on a slow disk. So
 * threads write and close files, never the event loop. A tenant has at most two of these threads at
 * a time (box/work.h).
 *
 * One piece is written at a time: the reader of a body calls put_write() and exchange_pause(), and
 * exchange_resume() when `done` is called.
 */
struct put;
/* 0, or a negative errno of write(2) or close(2). */
typedef void put_done(int r, void *data);

/* Owns the descriptor, also on failure. NULL: no memory. Each `done` gets `data`. */
struct put *put_new(struct daemon *daemon, struct tenant *tenant, int fd, void *data);
/* Copies the bytes. 0: `done` will be called from the event loop. -ENOMEM, or -EAGAIN if the tenant
 * has too many bytes: `done` will not be called. */
int put_write(struct put *put, const void *bytes, size_t size, put_done *done);
/* Closes the file, frees the put, and calls `done`: from then on the file can be executed (no
 * ETXTBSY). */
void put_end(struct put *put, put_done *done);
/* No `done` will be called; the file is closed after the last piece. NULL is fine. */
void put_drop(struct put *put);
/* Is a piece being written, or the file closed? */
bool put_is_busy(const struct put *put);
/* The descriptor, for fstat(2). */
int put_fd(const struct put *put);

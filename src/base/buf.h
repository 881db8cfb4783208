/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes that grow, up to a limit that is stated when the buffer is made
 *
 * Adding never reports a failure by itself: a buffer that ran out of memory or over its limit keeps
 * what it had and remembers the failure, and the one check at the end, buf_error(), tells. `data`
 * is always NUL-terminated once something was added, and NULL before.
 */
struct buf {
	char *data;
	size_t used;
	size_t room;
	size_t limit;
	int failed; /* errno of the first failure, or 0 */
};

#define BUF_INIT(max)                                                                              \
	{                                                                                          \
		.limit = (max)                                                                     \
	}

void buf_done(struct buf *buf);
void buf_add(struct buf *buf, const void *data, size_t size);
void buf_add_str(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0, or the negative errno of the first thing that did not fit (-ENOMEM, -E2BIG) or, in
 * buf_addf(), could not be formatted. */
int buf_error(const struct buf *buf);

/* `size` bytes more, for the caller to write; NULL if the buffer failed. */
char *buf_extend(struct buf *buf, size_t size);

/* The text, owned by the caller; NULL if the buffer failed. Never NULL for an empty good buffer. */
char *buf_take(struct buf *buf);

#define cleanup_buf cleanup_with(buf_done)

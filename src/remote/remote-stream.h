/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads server-sent events from bytes as they arrive. */
struct event_reader {
	struct buf buffer;
	/* `data` is a line of JSON. False: stop reading. */
	bool (*on_event)(void *own, const char *event, const char *data);
	void *own;
};
/* False if on_event() returned false, or the bytes are not such a stream. */
bool events_feed(struct event_reader *reader, const char *data, size_t size);
/* Decodes base64 into `ret`, which has room for 3/4 of the text. The number of bytes, or -1. */
ssize_t base64_read(const char *text, size_t size, char *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/inflate.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

/* Unpacks gzip by zlib; see inflate.h. intake.c calls it for each piece of a body. */

#define GZIP_ONLY 16 /* zlib: added to the window bits */

struct inflater {
	z_stream stream;
	uint64_t left;
	bool is_between; /* the last member has ended */
	bool is_empty;	 /* no byte came yet */
	bool has_more;	 /* `out` was full */
};

struct inflater *inflate_new(uint64_t max)
{
	struct inflater *inflater = calloc(1, sizeof *inflater);

	if (!inflater)
		return NULL;
	if (inflateInit2(&inflater->stream, MAX_WBITS + GZIP_ONLY) != Z_OK) {
		free(inflater);
		return NULL;
	}
	inflater->left = max;
	inflater->is_empty = true;
	return inflater;
}

void inflate_free(struct inflater *inflater)
{
	if (!inflater)
		return;
	inflateEnd(&inflater->stream);
	free(inflater);
}

static int step_once(struct inflater *inflater)
{
	switch (inflate(&inflater->stream, Z_NO_FLUSH)) {
	case Z_OK:
	case Z_BUF_ERROR: /* no input or no room: not an error */
		return 0;
	case Z_STREAM_END:
		inflater->is_between = true;
		return 0;
	case Z_MEM_ERROR:
		return -ENOMEM;
	default:
		return -EBADMSG;
	}
}

ssize_t inflate_step(struct inflater *inflater, const void *data, size_t size, size_t *ret_used,
		     void *out, size_t room)
{
	z_stream *stream = &inflater->stream;
	size_t made;
	int r;

	if (size > INT_MAX)
		size = INT_MAX;
	if (room > INT_MAX)
		room = INT_MAX;
	*ret_used = 0;
	if (size > 0)
		inflater->is_empty = false;
	if (inflater->is_between && size > 0) {
		if (inflateReset(stream) != Z_OK)
			return -EBADMSG;
		inflater->is_between = false;
	}
	if (inflater->is_between)
		return 0;
	stream->next_in = (Bytef *)data;
	stream->avail_in = (unsigned)size;
	stream->next_out = out;
	stream->avail_out = (unsigned)room;
	r = step_once(inflater);
	*ret_used = size - stream->avail_in;
	made = room - stream->avail_out;
	inflater->has_more = stream->avail_out == 0 && !inflater->is_between;
	if (r < 0)
		return r;
	if (made > inflater->left)
		return -E2BIG;
	inflater->left -= made;
	return (ssize_t)made;
}

bool inflate_has_more(const struct inflater *inflater)
{
	return inflater->has_more;
}

bool inflate_is_complete(const struct inflater *inflater)
{
	return inflater->is_between || inflater->is_empty;
}

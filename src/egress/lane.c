/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/exchange.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

/* ---- lanes ---- */

void lane_take(struct lane *lane, size_t size)
{
	lane->start += size;
	if (lane->start == lane->buf.used)
		lane->start = lane->buf.used = 0;
}

void lane_tidy(struct lane *lane)
{
	size_t size = lane_size(lane);

	/* Moving costs; a few bytes in front of many are left there. */
	if (lane->start == 0 || (lane->start < LANE_MAX / 2 && size > 0))
		return;
	memmove(lane->buf.data, lane_data(lane), size);
	lane->start = 0;
	lane->buf.used = size;
}

void lane_clear(struct lane *lane, bool wipes)
{
	if (wipes && lane->buf.data)
		OPENSSL_cleanse(lane->buf.data, lane->buf.room);
	buf_done(&lane->buf);
	*lane = (struct lane){.buf = BUF_INIT(LANE_LIMIT)};
}

/* ---- between streams and lanes ---- */

size_t side_fill(struct side *side, size_t most)
{
	/* One for all: what is read is in a lane before anybody else reads. */
	static char scratch[64 * 1024];
	ssize_t n;

	if (!side->may_read || side->is_ended || side->error ||
	    lane_size(&side->in) >= HTTP_HEAD_MAX || most == 0)
		return 0;
	n = stream_read(side->stream, scratch, most < sizeof scratch ? most : sizeof scratch);
	if (n == -EAGAIN)
		side->may_read = false;
	else if (n < 0)
		side->error = (int)n;
	else if (n == 0)
		side->is_ended = true;
	if (n <= 0)
		return 0;
	lane_tidy(&side->in);
	buf_add(&side->in.buf, scratch, (size_t)n);
	if (buf_error(&side->in.buf) < 0)
		side->error = -ENOMEM;
	if (memchr(scratch, '\n', (size_t)n))
		side->has_line = true;
	return (size_t)n;
}

size_t side_flush(struct side *side, size_t most)
{
	size_t size = lane_size(&side->out);
	ssize_t n;

	if (buf_error(&side->out.buf) < 0)
		side->error = -ENOMEM;
	if (!side->may_write || side->error || size == 0 || most == 0)
		return 0;
	n = stream_write(side->stream, lane_data(&side->out), size < most ? size : most);
	if (n == -EAGAIN)
		side->may_write = false;
	else if (n < 0)
		side->error = (int)n, side->is_write_error = true;
	if (n <= 0)
		return 0;
	lane_take(&side->out, (size_t)n);
	return (size_t)n;
}

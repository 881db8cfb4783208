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

static size_t n_kept_all;

size_t lane_max(void)
{
	return n_kept_all > LANES_MANY ? LANE_SMALL : LANE_MAX;
}

void lane_count(size_t now, size_t before)
{
	n_kept_all += now - before;
}

/* ---- between streams and lanes ---- */

/* One for all: what is read is elsewhere before anybody else reads. */
static char scratch[256 * 1024];

static size_t read_side(struct side *side, size_t most)
{
	ssize_t n;

	if (!side->may_read || side->is_ended || side->error || most == 0)
		return 0;
	n = stream_read(side->stream, scratch, most < sizeof scratch ? most : sizeof scratch);
	if (n == -EAGAIN)
		side->may_read = false;
	else if (n < 0)
		side->error = (int)n;
	else if (n == 0)
		side->is_ended = true;
	return n > 0 ? (size_t)n : 0;
}

static size_t write_side(struct side *side, const char *data, size_t size)
{
	ssize_t n;

	if (!side->may_write || side->error || size == 0)
		return 0;
	n = stream_write(side->stream, data, size);
	if (n == -EAGAIN)
		side->may_write = false;
	else if (n < 0)
		side->error = (int)n, side->is_write_error = true;
	return n > 0 ? (size_t)n : 0;
}

size_t side_fill(struct side *side, size_t most)
{
	size_t n;

	if (lane_size(&side->in) >= HTTP_HEAD_MAX)
		return 0;
	n = read_side(side, most < HTTP_HEAD_MAX ? most : HTTP_HEAD_MAX);
	if (n == 0)
		return 0;
	lane_tidy(&side->in);
	buf_add(&side->in.buf, scratch, n);
	if (buf_error(&side->in.buf) < 0)
		side->error = -ENOMEM;
	if (memchr(scratch, '\n', n))
		side->has_line = true;
	return n;
}

size_t side_pass(struct side *from, struct side *to, size_t most, size_t *ret_written)
{
	size_t n = read_side(from, most), done = 0, more = n;

	/* TLS writes a record at a time. */
	while (more > 0 && (more = write_side(to, scratch + done, n - done)) > 0)
		done += more;
	if (done < n)
		buf_add(&to->out.buf, scratch + done, n - done);
	*ret_written = done;
	return n;
}

size_t side_flush(struct side *side, size_t most)
{
	size_t size = lane_size(&side->out), n;

	if (buf_error(&side->out.buf) < 0)
		side->error = -ENOMEM;
	if (size == 0)
		return 0;
	n = write_side(side, lane_data(&side->out), size < most ? size : most);
	lane_take(&side->out, n);
	return n;
}

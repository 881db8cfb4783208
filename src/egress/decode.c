/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/decode.h"
#include "base/buf.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <zlib.h>

enum decode_state {
	DECODE_EMPTY,  /* no byte yet */
	DECODE_WITHIN, /* a stream */
	DECODE_BEHIND, /* it: another one may follow (gzip) */
	DECODE_OVER,   /* what follows is no stream, and is dropped */
};

struct decoder {
	enum coding coding;
	enum decode_state state;
	z_stream zlib;
};

enum coding coding_of(const struct http_head *head)
{
	enum coding coding = CODING_NONE;

	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_slice value = head->fields[i].value;

		if (!http_slice_is_like(head->fields[i].name, "content-encoding") ||
		    value.size == 0 || http_slice_is_like(value, "identity"))
			continue;
		if (coding != CODING_NONE)
			return CODING_UNKNOWN;
		if (http_slice_is_like(value, "gzip") || http_slice_is_like(value, "x-gzip"))
			coding = CODING_GZIP;
		else if (http_slice_is_like(value, "deflate"))
			coding = CODING_DEFLATE;
		else
			return CODING_UNKNOWN;
	}
	return coding;
}

struct decoder *decoder_new(enum coding coding)
{
	struct decoder *decoder = calloc(1, sizeof *decoder);

	if (!decoder)
		return NULL;
	decoder->coding = coding;
	/* 16: the format is gzip. */
	if (inflateInit2(&decoder->zlib, coding == CODING_GZIP ? 16 + MAX_WBITS : MAX_WBITS) !=
	    Z_OK) {
		free(decoder);
		return NULL;
	}
	return decoder;
}

void decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return;
	inflateEnd(&decoder->zlib);
	free(decoder);
}

/* The head of zlib: method 8, and two bytes that are a multiple of 31. With one byte there the
 * first half decides. */
static bool has_zlib_head(const uint8_t *data, size_t size)
{
	return (data[0] & 0x0f) == 8 && (size < 2 || (data[0] << 8 | data[1]) % 31 == 0);
}

static int start(struct decoder *decoder, const char *data, size_t size)
{
	if (decoder->state == DECODE_EMPTY && decoder->coding == CODING_DEFLATE &&
	    !has_zlib_head((const uint8_t *)data, size) &&
	    inflateReset2(&decoder->zlib, -MAX_WBITS) != Z_OK)
		return -EBADMSG;
	if (decoder->state == DECODE_BEHIND &&
	    (decoder->coding != CODING_GZIP || inflateReset(&decoder->zlib) != Z_OK))
		decoder->state = DECODE_OVER;
	return 0;
}

static int took(struct decoder *decoder, int result, bool was_behind)
{
	switch (result) {
	case Z_OK:
	case Z_BUF_ERROR: /* no room, or no data */
		decoder->state = DECODE_WITHIN;
		return decoder->zlib.avail_out == 0 || decoder->zlib.avail_in > 0;
	case Z_STREAM_END:
		decoder->state = DECODE_BEHIND;
		return decoder->zlib.avail_in > 0;
	default:
		/* Behind a whole stream some servers send zeros. */
		if (!was_behind)
			return -EBADMSG;
		decoder->state = DECODE_OVER;
		return 1;
	}
}

int decoder_step(struct decoder *decoder, const char *data, size_t size, size_t *ret_used,
		 struct buf *out)
{
	static char room[DECODE_PIECE];
	bool was_behind = decoder->state == DECODE_BEHIND;
	int r;

	*ret_used = 0;
	if (size > 0 && decoder->state != DECODE_WITHIN && decoder->state != DECODE_OVER &&
	    start(decoder, data, size) < 0)
		return -EBADMSG;
	if (decoder->state == DECODE_OVER || (size == 0 && decoder->state != DECODE_WITHIN)) {
		*ret_used = size;
		return 0;
	}
	decoder->zlib.next_in = (Bytef *)data;
	decoder->zlib.avail_in = (uInt)size;
	decoder->zlib.next_out = (Bytef *)room;
	decoder->zlib.avail_out = sizeof room;
	r = took(decoder, inflate(&decoder->zlib, Z_SYNC_FLUSH), was_behind);
	*ret_used = size - decoder->zlib.avail_in;
	if (r >= 0)
		buf_add(out, room, sizeof room - decoder->zlib.avail_out);
	OPENSSL_cleanse(room, sizeof room - decoder->zlib.avail_out);
	return r;
}

bool decoder_is_done(const struct decoder *decoder)
{
	return decoder->state != DECODE_WITHIN;
}

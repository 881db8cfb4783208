/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed answers are strangers' bytes: what comes out does not depend on how they were cut, and
 * comes in pieces of a bounded size. */
#include "base/buf.h"
#include "base/scope.h"
#include "egress/decode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOTAL_MAX (1 << 20)

static int decode(enum coding coding, const char *text, size_t size, size_t step, struct buf *out)
{
	struct decoder *decoder = decoder_new(coding);
	size_t at = 0;
	int r = 0;

	if (!decoder)
		abort();
	while (at < size && r >= 0 && out->used < TOTAL_MAX / 2) {
		size_t n = size - at < step ? size - at : step;

		do {
			size_t used, before = out->used;

			r = decoder_step(decoder, text + at, n, &used, out);
			if (used > n || out->used - before > DECODE_PIECE)
				abort();
			at += used;
			n -= used;
		} while (r > 0 && out->used < TOTAL_MAX / 2);
	}
	decoder_free(decoder);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf whole = BUF_INIT(TOTAL_MAX), cut = BUF_INIT(TOTAL_MAX);
	enum coding coding;
	size_t n;

	/* The first byte alone decides what a deflate stream is, so both readings get it alone. */
	if (size < 3 || size > 1 << 16)
		return 0;
	coding = data[0] % 2 ? CODING_GZIP : CODING_DEFLATE;
	decode(coding, (const char *)data + 2, size - 2, size, &whole);
	decode(coding, (const char *)data + 2, size - 2, data[1] % 64 + 2, &cut);
	n = whole.used < cut.used ? whole.used : cut.used;
	if (n > 0 && memcmp(whole.data, cut.data, n) != 0)
		abort();
	return 0;
}

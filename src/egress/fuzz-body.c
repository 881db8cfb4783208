/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies come from both sides. What their content is does not depend on how they were cut, and the
 * filter that hides values keeps every length and lets no value through. */
#include "base/buf.h"
#include "base/scope.h"
#include "egress/swap.h"
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Content and trailers to `out`. How much was used; negative for a bad body. */
static long read_all(struct body *body, const char *text, size_t size, size_t step, struct buf *out)
{
	size_t used = 0, end = 0;

	while (!body->is_done) {
		/* Of exactly its size, so that reading past it shows. */
		cleanup_free char *part = malloc(end - used + 1);
		struct body_piece piece;
		int r;

		if (!part)
			abort();
		memcpy(part, text + used, end - used);
		r = body_step(body, part, end - used, &piece);
		if (r < 0)
			return r;
		if (piece.used > end - used || piece.content.size > piece.used)
			abort();
		buf_add(out, piece.content.at, piece.content.size);
		if (piece.trailers.size > 0 &&
		    http_copy_trailers(piece.trailers.at, piece.trailers.size, out) < 0)
			return -1;
		used += piece.used;
		if (r == 0 && piece.used == 0 && end == size)
			break;
		if (r == 0)
			end = end + step < size ? end + step : size;
	}
	return (long)used;
}

static void fuzz_body(const char *text, size_t size, enum http_framing framing, size_t step)
{
	cleanup_buf struct buf whole = BUF_INIT(1 << 20), cut = BUF_INIT(1 << 20);
	struct body one, other;
	long used, cut_used;

	body_init(&one, framing, size / 2);
	body_init(&other, framing, size / 2);
	used = read_all(&one, text, size, size + 1, &whole);
	cut_used = read_all(&other, text, size, step, &cut);
	if ((used < 0) != (cut_used < 0) || one.is_done != other.is_done)
		abort();
	if (used >= 0 && (used != cut_used || whole.used != cut.used ||
			  (cut.used && memcmp(whole.data, cut.data, cut.used) != 0)))
		abort();
}

static struct swap *make_swap(void)
{
	static char name[] = "N", host[] = "h", header[] = "x";
	static struct network_secret secrets[] = {{.name = name, .host = host, .header = header},
						  {.name = name, .host = host, .header = header}};
	static const char *const shown[] = {"XYXYX", "ZZZZ"}, *const real[] = {"abaab", "baba"};
	const struct network network = {.secrets = secrets, .n_secrets = 2};
	struct swap *swap;

	if (swap_new(&network, shown, real, &swap, NULL) < 0)
		abort();
	return swap;
}

static void fuzz_filter(const char *text, size_t size, size_t step)
{
	/* Anew each time: it learns longer forms of a value from what it has swapped. */
	struct swap *swap = make_swap();
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct swap_filter filter = {0};

	for (size_t i = 0; i < size; i += step) {
		size_t n = size - i < step ? size - i : step;

		if (swap_filter(&filter, swap, "h", text + i, n, &out) < 0 || filter.n_held > 256 ||
		    out.used + filter.n_held != i + n)
			abort();
	}
	swap_filter_end(&filter, &out);
	if (out.used != size || memmem(out.data, out.used, "abaab", 5) ||
	    memmem(out.data, out.used, "baba", 4))
		abort();
	swap_filter_done(&filter);
	out.used = 0;
	if (swap_field(swap, "h", (struct http_slice){"x", 1}, (struct http_slice){text, size},
		       &out) == 0 &&
	    out.used != size)
		abort();
	swap_free(swap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step;
	const char *text = (const char *)data + 2;

	if (size < 2 || size > 1 << 17)
		return 0;
	step = data[1] % 32 + 1;
	size -= 2;
	switch (data[0] % 4) {
	case 0:
		fuzz_filter(text, size, step);
		break;
	case 1:
		fuzz_body(text, size, HTTP_LENGTH, step);
		break;
	case 2:
		fuzz_body(text, size, HTTP_TO_END, step);
		break;
	default:
		fuzz_body(text, size, HTTP_CHUNKED, step);
	}
	return 0;
}

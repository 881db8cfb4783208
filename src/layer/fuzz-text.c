/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "layer/layer.h"
#include "layer/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* The line that begins at `*at`, with its newline, and go on behind it. */
static size_t take_line(const char *text, size_t size, size_t *at)
{
	const char *newline = memchr(text + *at, '\n', size - *at);
	size_t length = newline ? (size_t)(newline + 1 - text) - *at : size - *at;

	*at += length;
	return length;
}

/* Take from the old text what the hunk says is there. */
static void expect(const char *old, size_t old_size, size_t *at, const char *line, size_t length)
{
	must(old_size - *at >= length && memcmp(old + *at, line, length) == 0);
	*at += length;
}

/* Does the diff, applied to `a`, give `b`? */
static void apply(const char *a, size_t a_size, const char *patch, size_t patch_size,
		  struct buf *out)
{
	size_t at = 0, line_no = 0;

	for (size_t p = 0; p < patch_size;) {
		const char *line = patch + p;
		size_t length = take_line(patch, patch_size, &p), from, n = 1;

		if (line[0] == '@') {
			must(sscanf(line, "@@ -%zu,%zu", &from, &n) >= 1);
			for (from -= n > 0; line_no < from; line_no++) {
				size_t begin = at;

				buf_add(out, a + begin, take_line(a, a_size, &at));
			}
			continue;
		}
		/* Without a newline at the end, says the line behind. */
		if (p < patch_size && patch[p] == '\\') {
			length--;
			take_line(patch, patch_size, &p);
		}
		if (line[0] != '+') {
			expect(a, a_size, &at, line + 1, length - 1);
			line_no++;
		}
		if (line[0] != '-')
			buf_add(out, line + 1, length - 1);
	}
	buf_add(out, a + at, a_size - at);
}

/* The input's first byte says where it is cut in two texts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf patch = BUF_INIT(1 << 24), out = BUF_INIT(1 << 24);
	size_t cut, added, removed;
	const char *a, *b;

	if (size < 1)
		return 0;
	cut = (size - 1) * data[0] / 255;
	a = (const char *)data + 1;
	b = a + cut;
	if (layer_diff_text(a, cut, b, size - 1 - cut, &patch, &added, &removed) == 0) {
		apply(a, cut, patch.data, patch.used, &out);
		must(out.used == size - 1 - cut &&
		     (out.used == 0 || memcmp(out.data, b, out.used) == 0));
	}
	buf_done(&patch);
	buf_done(&out);
	return 0;
}

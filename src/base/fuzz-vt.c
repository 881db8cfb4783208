/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says where the input is cut and whether it is interactive; whatever comes out must
 * be the same for any cut, and made of what is allowed. */
#include "base/scope.h"
#include "base/vt.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t filter(struct vt *vt, const char *in, size_t size, size_t piece, char *out)
{
	size_t n = 0;

	for (size_t at = 0; at < size; at += piece)
		n += vt_filter(vt, in + at, size - at < piece ? size - at : piece, out + n);
	return n;
}

/* No query, no string, nothing in 8-bit form. */
static void check(const char *out, size_t n, bool is_interactive)
{
	struct vt again;
	char *twice = malloc(n + VT_HELD_MAX);

	if (!twice)
		return;
	for (size_t i = 0; i < n; i++) {
		if (out[i] == 0x05 || out[i] == 0x7f || out[i] == 0)
			abort();
		if (out[i] == '\033' && (i + 1 == n || strchr("]PX^_kcZ", out[i + 1])))
			abort();
	}
	/* What has been filtered is left as it is. */
	vt_init(&again, is_interactive);
	if (vt_filter(&again, out, n, twice) != n || memcmp(out, twice, n) != 0)
		abort();
	free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *whole, *cut, reset[VT_RESET_MAX];
	struct vt one, two;
	size_t n, m;

	if (size < 1)
		return 0;
	whole = malloc(size + VT_HELD_MAX);
	cut = malloc(size + VT_HELD_MAX);
	if (whole && cut) {
		vt_init(&one, data[0] & 1);
		vt_init(&two, data[0] & 1);
		n = filter(&one, (const char *)data + 1, size - 1, size, whole);
		m = filter(&two, (const char *)data + 1, size - 1, 1 + (data[0] >> 1), cut);
		if (n != m || memcmp(whole, cut, n) != 0 || n > size - 1 + VT_HELD_MAX)
			abort();
		check(whole, n, data[0] & 1);
		if (vt_reset(&one, reset) > VT_RESET_MAX || one.on)
			abort();
	}
	free(whole);
	free(cut);
	return 0;
}

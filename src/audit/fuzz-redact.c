/* SPDX-License-Identifier: Apache-2.0 */
/* The text comes from the command. The output must be the text without the secrets, and
 * redacting the output again must find none. */
#include "audit/audit.h"
#include "base/scope.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf out = BUF_INIT(8 << 20);
	char previous[64];
	size_t n = size ? data[0] % sizeof previous : 0;
	const char *text;
	unsigned hits;

	if (size < 1 + n)
		return 0;
	memcpy(previous, data + 1, n);
	previous[n] = '\0';
	text = (const char *)data + 1 + n;
	size -= 1 + n;
	hits = audit_redact(text, size, n ? previous : NULL, &out);
	if (buf_error(&out))
		abort();
	if (hits == 0 && (out.used != size || (size && memcmp(out.data, text, size) != 0)))
		abort();
	if (hits && !memmem(out.data, out.used, "[redacted]", 10))
		abort();
	return 0;
}

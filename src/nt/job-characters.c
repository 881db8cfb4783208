/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of a job file. Called by its reader. */
#include "nt/job-characters.h"

bool job_is_visible(uint32_t c)
{
	if (c < 0x20)
		return c == '\n';
	return !(c == 0x7f || (c >= 0x80 && c < 0xa1) || c == 0xad || c == 0x34f || c == 0x61c ||
		 c == 0x115f || c == 0x1160 || c == 0x1680 || (c >= 0x17b4 && c <= 0x17b5) ||
		 (c >= 0x180b && c <= 0x180f) || (c >= 0x2000 && c <= 0x206f) || c == 0x2800 ||
		 c == 0x3000 || c == 0x3164 || (c >= 0xd800 && c <= 0xf8ff) ||
		 (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || c == 0xffa0 ||
		 (c >= 0xfff0 && c <= 0xffff) || c >= 0x1d000);
}

uint32_t job_decode(const char *text, size_t size)
{
	const unsigned char *c = (const unsigned char *)text;

	switch (size) {
	case 1:
		return c[0];
	case 2:
		return (c[0] & 0x1fU) << 6 | (c[1] & 0x3fU);
	case 3:
		return (c[0] & 0xfU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
	default:
		return (c[0] & 7U) << 18 | (c[1] & 0x3fU) << 12 | (c[2] & 0x3fU) << 6 |
		       (c[3] & 0x3fU);
	}
}

size_t job_copy_lines(const char *text, size_t size, char *ret)
{
	size_t used = 0;

	for (size_t i = 0; i < size; i++)
		if (text[i] != '\r' || i + 1 == size || text[i + 1] != '\n')
			ret[used++] = text[i];
	return used;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "init/notice.h"

#include <string.h>

/* The part that reads. What tells is in tell.c. */

const struct notice *notice_next(const void *packet, size_t size, size_t *offset,
				 const char **ret_texts, size_t max)
{
	const struct notice *notice;
	const char *at, *end;

	if (*offset > size || size - *offset < sizeof *notice)
		return NULL;
	notice = (const struct notice *)((const char *)packet + *offset);
	if (notice->size < sizeof *notice || notice->size > size - *offset || notice->size % 8)
		return NULL;
	at = notice->texts;
	end = (const char *)notice + notice->size;
	for (size_t i = 0; i < notice->n_texts; i++) {
		const char *stop = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

		if (!stop)
			return NULL;
		if (i < max)
			ret_texts[i] = at;
		at = stop + 1;
	}
	*offset += notice->size;
	return notice;
}

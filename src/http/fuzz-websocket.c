/* SPDX-License-Identifier: Apache-2.0 */
/* Frames come from servers. A head that was read is written again as it was. */
#include "base/buf.h"
#include "base/scope.h"
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of exactly its size, so that reading past it shows. */
	cleanup_free char *text = malloc(size + 1);
	cleanup_buf struct buf head = BUF_INIT(64);
	struct ws_frame frame;
	const char *why;

	if (!text || size > 64)
		return 0;
	memcpy(text, data, size);
	if (ws_read(text, size, &frame, &why) != HTTP_OK)
		return 0;
	ws_write_head(&head, frame.opcode, frame.is_final, frame.size);
	if (head.used != frame.head_size || memcmp(head.data, text, head.used) != 0)
		abort();
	return 0;
}

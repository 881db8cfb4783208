/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes frames. Called by both ends of the pipes between launcher and runner. */
#include "nt/frame.h"

#include "nt/bytes.h"

#include <errno.h>

int nt_frame_read(const uint8_t *data, size_t size, struct nt_frame *ret)
{
	uint32_t length;

	if (size < 4)
		return 0;
	length = read_u32(data);
	if (length < 1 || length > NT_FRAME_MAX)
		return -EPROTO;
	/* An unknown type is refused before its payload has come. */
	if (size < NT_FRAME_HEADER)
		return 0;
	if (data[4] < NT_FRAME_HELLO || data[4] >= NT_FRAME_TYPES)
		return -EPROTO;
	if (size - 4 < length)
		return 0;
	*ret = (struct nt_frame){
		.type = data[4], .payload = data + NT_FRAME_HEADER, .size = length - 1};
	return (int)(4 + length);
}

int nt_frame_header(enum nt_frame_type type, size_t size, uint8_t ret[NT_FRAME_HEADER])
{
	if (size >= NT_FRAME_MAX)
		return -E2BIG;
	write_u32(ret, (uint32_t)size + 1);
	ret[4] = (uint8_t)type;
	return 0;
}

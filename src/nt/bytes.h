/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Numbers in the binary forms of Windows: least significant byte first. */

static inline uint16_t read_u16(const uint8_t *data)
{
	return (uint16_t)(data[0] | data[1] << 8);
}

static inline uint32_t read_u32(const uint8_t *data)
{
	return read_u16(data) | (uint32_t)read_u16(data + 2) << 16;
}

static inline void write_u16(uint8_t *data, uint32_t value)
{
	data[0] = (uint8_t)value;
	data[1] = (uint8_t)(value >> 8);
}

static inline void write_u32(uint8_t *data, uint32_t value)
{
	write_u16(data, value);
	write_u16(data + 2, value >> 16);
}

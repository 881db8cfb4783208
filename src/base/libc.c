/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program brings along for the C library that it is linked with (see meson.build)
 *
 * Memory: the program allocates while it reads the contract and prepares, and then runs a command.
 * So memory is taken from one block after the other and given back at the end; only the last piece
 * is reused. The library's own way asks the kernel some sixty times in the same span.
 *
 * Checked variants of a few functions, which the distribution's static libraries were compiled to
 * call. The checks are made here as well.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK_SIZE (1 << 20)
#define ALIGNMENT  16

struct piece {
	size_t size;
	_Alignas(ALIGNMENT) char data[];
};

static struct {
	char *next, *end;
	struct piece *last;
} block;

static bool new_block(size_t size)
{
	size_t room = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;
	char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	block.next = memory;
	block.end = memory + room;
	return true;
}

void *malloc(size_t size)
{
	size_t taken;
	struct piece *piece;

	if (size > PTRDIFF_MAX - 4096) {
		errno = ENOMEM;
		return NULL;
	}
	taken = sizeof *piece + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if ((size_t)(block.end - block.next) < taken && !new_block(taken))
		return NULL;
	piece = (struct piece *)(void *)block.next;
	piece->size = taken - sizeof *piece;
	block.next += taken;
	block.last = piece;
	return piece->data;
}

static struct piece *piece_of(void *data)
{
	return (struct piece *)(void *)((char *)data - offsetof(struct piece, data));
}

void free(void *data)
{
	if (data && piece_of(data) == block.last) {
		/* calloc() counts on what it gets being zero. */
		memset(data, 0, block.last->size);
		block.next = (char *)block.last;
		block.last = NULL;
	}
}

void *calloc(size_t count, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return malloc(total);
}

void *realloc(void *data, size_t size)
{
	struct piece *piece = data ? piece_of(data) : NULL;
	void *moved;

	if (piece && size <= piece->size)
		return data;
	if (piece && piece == block.last && size <= PTRDIFF_MAX - 4096) {
		size_t more = (size - piece->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

		if ((size_t)(block.end - block.next) >= more) {
			block.next += more;
			piece->size += more;
			return data;
		}
	}
	moved = malloc(size);
	if (moved && piece)
		memcpy(moved, data, piece->size);
	return moved;
}

void __explicit_bzero_chk(void *data, size_t size, size_t room);
int __sprintf_chk(char *text, int flag, size_t room, const char *format, ...);

void __explicit_bzero_chk(void *data, size_t size, size_t room)
{
	if (size > room)
		abort();
	explicit_bzero(data, size);
}

int __sprintf_chk(char *text, int flag, size_t room, const char *format, ...)
{
	va_list arguments;
	int length;

	(void)flag;
	va_start(arguments, format);
	length = vsnprintf(text, room, format, arguments);
	va_end(arguments);
	if (length >= 0 && (size_t)length >= room)
		abort();
	return length;
}

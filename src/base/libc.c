/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program brings along for the C library that it is linked with (see meson.build)
 *
 * Memory: most runs allocate while they read the contract and prepare, and then wait for a command.
 * So memory is cut off one block after the other, which asks the kernel once where the library's
 * own way asks it some sixty times. What is freed waits in a list for the next piece of about its
 * size: whoever holds a sandbox for weeks does not grow. Large pieces are mappings of their own.
 * The program has one thread.
 *
 * Checked variants of a few functions, which the distribution's static libraries were compiled to
 * call. The checks are made here as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK_SIZE (1 << 20)
#define ALIGNMENT  16
#define LARGE	   (1 << 18) /* from here on the kernel is asked for each */
#define CLASSES	   52

struct piece {
	size_t size;
	_Alignas(ALIGNMENT) char data[];
};

struct spare {
	struct spare *next;
};

static struct {
	char *next, *end;
	struct piece *last;
	struct spare *spares[CLASSES];
} heap;

/* Eight steps up to 128 bytes, then four for each doubling: at most a quarter is not used. */
static unsigned class_of(size_t size)
{
	unsigned log;

	if (size <= 128)
		return size ? (unsigned)((size - 1) / 16) : 0;
	log = 63 - (unsigned)__builtin_clzl(size - 1);
	return 8 + (log - 7) * 4 + (unsigned)((size - 1 - ((size_t)1 << log)) >> (log - 2));
}

static size_t class_size(unsigned class)
{
	unsigned log = 7 + (class - 8) / 4;

	if (class < 8)
		return ((size_t) class + 1) * 16;
	return ((size_t)1 << log) + ((size_t)(class - 8) % 4 + 1) * ((size_t)1 << (log - 2));
}

static struct piece *piece_of(void *data)
{
	return (struct piece *)(void *)((char *)data - offsetof(struct piece, data));
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void *take_large(size_t size)
{
	size_t room = (sizeof(struct piece) + size + 4095) & ~(size_t)4095;
	struct piece *piece = size > PTRDIFF_MAX - 8192 ? NULL : map(room);

	if (!piece) {
		errno = ENOMEM;
		return NULL;
	}
	piece->size = room - sizeof *piece;
	return piece->data;
}

static void *take_new(size_t size)
{
	size_t taken = sizeof(struct piece) + size;

	if ((size_t)(heap.end - heap.next) < taken) {
		char *memory = map(BLOCK_SIZE);

		if (!memory) {
			errno = ENOMEM;
			return NULL;
		}
		heap.next = memory;
		heap.end = memory + BLOCK_SIZE;
	}
	heap.last = (struct piece *)(void *)heap.next;
	heap.last->size = size;
	heap.next += taken;
	return heap.last->data;
}

static void *take(size_t size, bool is_cleared)
{
	unsigned class;
	struct spare *spare;

	if (size > LARGE)
		return take_large(size);
	class = class_of(size);
	spare = heap.spares[class];
	if (!spare)
		return take_new(class_size(class));
	heap.spares[class] = spare->next;
	return is_cleared ? memset(spare, 0, size) : spare;
}

void *malloc(size_t size)
{
	return take(size, false);
}

void free(void *data)
{
	struct piece *piece = data ? piece_of(data) : NULL;
	struct spare *spare = data;
	unsigned class;

	if (!piece)
		return;
	if (piece->size > LARGE) {
		munmap(piece, sizeof *piece + piece->size);
		return;
	}
	/* One that was made longer in its place may lie between two classes. */
	class = class_of(piece->size);
	if (class_size(class) > piece->size)
		class --;
	spare->next = heap.spares[class];
	heap.spares[class] = spare;
	if (piece == heap.last)
		heap.last = NULL;
}

int heap_trim(void);

/* What was given back goes on to the kernel, but for the page that says so; what is wanted again is
 * zeros by then. Ends by pages are found in large pieces alone. */
int heap_trim(void)
{
	const uintptr_t page = 4096;
	int trimmed = 0;

	for (unsigned class = class_of(2 * page); class < CLASSES; class ++) {
		for (struct spare *spare = heap.spares[class]; spare; spare = spare->next) {
			const uintptr_t data = (uintptr_t)spare;
			const uintptr_t from = (data + sizeof *spare + page - 1) & ~(page - 1);
			const uintptr_t to = (data + piece_of(spare)->size) & ~(page - 1);

			if (to > from && madvise((void *)from, to - from, MADV_DONTNEED) == 0)
				trimmed = 1;
		}
	}
	return trimmed;
}

void *calloc(size_t count, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return take(total, true);
}

/* In its place, if nothing was cut off behind it. */
static bool grow(struct piece *piece, size_t size)
{
	size_t more;

	if (piece != heap.last || size > LARGE)
		return false;
	more = (size - piece->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if ((size_t)(heap.end - heap.next) < more)
		return false;
	heap.next += more;
	piece->size += more;
	return true;
}

void *realloc(void *data, size_t size)
{
	struct piece *piece = data ? piece_of(data) : NULL;
	void *moved;

	if (!piece)
		return malloc(size);
	if (size <= piece->size || grow(piece, size))
		return data;
	moved = malloc(size);
	if (!moved)
		return NULL;
	memcpy(moved, data, piece->size);
	free(data);
	return moved;
}

/* The library marks each descriptor by a call of its own, for kernels before 2.6.23; and looks
 * whether its thread is to be ended, which no thread of ours is. */
int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode = 0;

	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

void __explicit_bzero_chk(void *data, size_t size, size_t room);
int __sprintf_chk(char *text, int flag, size_t room, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

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

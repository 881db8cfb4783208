/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying and comparing, in place of the C library's (see libc.c)
 *
 * musl's memcpy is one `rep movsq` with single bytes before and behind, its strcmp and memcmp go
 * byte by byte. A start makes thousands of such calls, nearly all of them for a few bytes, and
 * processors take longer to begin a repeated instruction than to move those. What every x86-64 has
 * (SSE2) does sixteen at a time. Elsewhere the library's own are linked.
 *
 * Some are called before the thread's memory is there: so nothing here may have a stack protector,
 * which functions without arrays do not get.
 */
#ifdef __SSE2__

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STEP sizeof(__m128i)
#define PAGE 4096

typedef uint64_t __attribute__((may_alias, aligned(1))) word64;
typedef uint32_t __attribute__((may_alias, aligned(1))) word32;
typedef uint16_t __attribute__((may_alias, aligned(1))) word16;

static inline __m128i load(const void *from)
{
	return _mm_loadu_si128(from);
}

static inline void store(void *to, __m128i value)
{
	_mm_storeu_si128(to, value);
}

/* Up to 32 bytes, all read before any is written: the two may overlap. */
static inline void move_few(char *to, const char *from, size_t size)
{
	if (size >= 16) {
		const __m128i first = load(from), last = load(from + size - 16);

		store(to, first);
		store(to + size - 16, last);
	} else if (size >= 8) {
		const uint64_t first = *(const word64 *)from,
			       last = *(const word64 *)(from + size - 8);

		*(word64 *)to = first;
		*(word64 *)(to + size - 8) = last;
	} else if (size >= 4) {
		const uint32_t first = *(const word32 *)from,
			       last = *(const word32 *)(from + size - 4);

		*(word32 *)to = first;
		*(word32 *)(to + size - 4) = last;
	} else if (size >= 2) {
		const uint16_t first = *(const word16 *)from,
			       last = *(const word16 *)(from + size - 2);

		*(word16 *)to = first;
		*(word16 *)(to + size - 2) = last;
	} else if (size) {
		*to = *from;
	}
}

/* More than 32. The last bytes are read first, because `to` may lie a little before `from`. */
static inline void move_up(char *to, const char *from, size_t size)
{
	const __m128i last = load(from + size - STEP);
	size_t at = 0;

	for (; size - at > 2 * STEP; at += 2 * STEP) {
		const __m128i one = load(from + at), two = load(from + at + STEP);

		store(to + at, one);
		store(to + at + STEP, two);
	}
	/* 1 to 32 are left, and may have been written over: but not by what is before them. */
	if (size - at > STEP)
		store(to + at, load(from + at));
	store(to + size - STEP, last);
}

static inline void move_down(char *to, const char *from, size_t size)
{
	const __m128i first = load(from);

	for (; size > 2 * STEP; size -= 2 * STEP) {
		const __m128i one = load(from + size - STEP), two = load(from + size - 2 * STEP);

		store(to + size - STEP, one);
		store(to + size - 2 * STEP, two);
	}
	if (size > STEP)
		store(to + size - STEP, load(from + size - STEP));
	store(to, first);
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	if (size <= 2 * STEP)
		move_few(to, from, size);
	else
		move_up(to, from, size);
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	if (size <= 2 * STEP)
		move_few(to, from, size);
	else if ((uintptr_t)to - (uintptr_t)from >= size)
		move_up(to, from, size);
	else
		move_down(to, from, size);
	return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
	const unsigned char *x = a, *y = b;

	for (; size >= STEP; x += STEP, y += STEP, size -= STEP) {
		const unsigned same = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(load(x), load(y)));

		if (same != 0xffff) {
			const int at = __builtin_ctz(~same);

			return x[at] - y[at];
		}
	}
	for (; size; x++, y++, size--)
		if (*x != *y)
			return *x - *y;
	return 0;
}

/* Which of the sixteen bytes at `at`, an address that sixteen divides, are `byte`. */
static inline unsigned find_in(uintptr_t at, __m128i byte)
{
	return (unsigned)_mm_movemask_epi8(
		_mm_cmpeq_epi8(_mm_load_si128((const __m128i *)at), byte));
}

/* A block that begins before the text, or ends behind it, lies in a page that the text is in. */
size_t strlen(const char *text)
{
	const __m128i zero = _mm_setzero_si128();
	const unsigned before = (uintptr_t)text % STEP;
	uintptr_t at = (uintptr_t)text - before;
	unsigned found = find_in(at, zero) >> before;

	if (found)
		return (size_t)__builtin_ctz(found);
	do
		found = find_in(at += STEP, zero);
	while (!found);
	return at + (size_t)__builtin_ctz(found) - (uintptr_t)text;
}

void *memchr(const void *data, int c, size_t size)
{
	const __m128i byte = _mm_set1_epi8((char)c);
	const unsigned before = (uintptr_t)data % STEP;
	const uintptr_t first = (uintptr_t)data;
	uintptr_t at = first - before;
	unsigned found;

	if (!size)
		return NULL;
	found = find_in(at, byte) >> before << before;
	while (!found) {
		at += STEP;
		/* Not by a sum, which may be beyond the last address. */
		if (at - first >= size)
			return NULL;
		found = find_in(at, byte);
	}
	at += (size_t)__builtin_ctz(found);
	return at - first < size ? (void *)at : NULL;
}

static inline int is_near_end(const unsigned char *at)
{
	return (uintptr_t)at % PAGE > PAGE - STEP;
}

int strcmp(const char *a, const char *b)
{
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
	const __m128i zero = _mm_setzero_si128();

	for (;;) {
		/* Most differ here already; and behind a page there may be none. */
		if (*x != *y || !*x)
			return *x - *y;
		if (is_near_end(x) || is_near_end(y)) {
			x++, y++;
			continue;
		}
		const __m128i these = load(x);
		const unsigned differ =
			(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(these, load(y))) ^ 0xffff;
		const unsigned end = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(these, zero));

		if (differ | end) {
			const int at = __builtin_ctz(differ | end);

			return x[at] - y[at];
		}
		x += STEP, y += STEP;
	}
}

#endif

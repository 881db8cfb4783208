/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SSE2__

/* The program's own, beside those that the tests run on. */
#define memcpy	own_memcpy
#define memmove own_memmove
#define memcmp	own_memcmp
#define memchr	own_memchr
#define strlen	own_strlen
#define strcmp	own_strcmp
void *own_memcpy(void *restrict to, const void *restrict from, size_t size);
void *own_memmove(void *to, const void *from, size_t size);
int own_memcmp(const void *a, const void *b, size_t size);
void *own_memchr(const void *data, int c, size_t size);
size_t own_strlen(const char *text);
int own_strcmp(const char *a, const char *b);
#include "base/libc-string.c" // NOLINT(bugprone-suspicious-include)
#undef memcpy
#undef memmove
#undef memcmp
#undef memchr
#undef strlen
#undef strcmp

#define MOST 300

/* Two pages behind which there is none: whoever reads one byte too many does not come back. */
static unsigned char *edge_of_memory(void)
{
	unsigned char *pages =
		mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	CHECK(mprotect(pages + 2 * PAGE, PAGE, PROT_NONE) == 0);
	return pages + 2 * PAGE;
}

static void fill(unsigned char *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (unsigned char)random();
}

static int sign(int number)
{
	return (number > 0) - (number < 0);
}

TEST(copies_are_whole_and_nothing_beside_them_is_written)
{
	static unsigned char from[MOST + 64], to[MOST + 128], wanted[MOST + 128];

	for (size_t size = 0; size <= MOST; size++) {
		for (size_t a = 0; a < 17; a++) {
			const size_t b = (size_t)random() % 17;

			fill(from, sizeof from);
			fill(to, sizeof to);
			memcpy(wanted, to, sizeof to);
			memcpy(wanted + 32 + b, from + a, size);
			CHECK(own_memcpy(to + 32 + b, from + a, size) == to + 32 + b);
			CHECK(memcmp(to, wanted, sizeof to) == 0);
		}
	}
}

TEST(what_overlaps_is_moved_as_if_it_did_not)
{
	static unsigned char data[3 * MOST], wanted[3 * MOST];

	for (size_t size = 0; size <= MOST; size++) {
		for (size_t to = 0; to <= 2 * MOST;
		     to += to > MOST - 40 && to < MOST + 40 ? 1 : 37) {
			fill(data, sizeof data);
			memcpy(wanted, data, sizeof data);
			memmove(wanted + to, wanted + MOST, size);
			CHECK(own_memmove(data + to, data + MOST, size) == data + to);
			CHECK(memcmp(data, wanted, sizeof data) == 0);
		}
	}
}

TEST(texts_are_measured_and_compared_up_to_the_edge_of_memory)
{
	unsigned char *const end = edge_of_memory(), *const other = edge_of_memory();

	for (size_t size = 0; size < MOST; size++) {
		char *a = (char *)end - size - 1, *b;

		memset(a, 'a', size);
		a[size] = '\0';
		CHECK(own_strlen(a) == size);
		for (size_t back = 0; back < 20; back++) {
			const size_t at = size ? (size_t)random() % size : 0;

			b = (char *)other - size - 1 - back;
			memcpy(b, a, size + 1);
			CHECK(own_strcmp(a, b) == 0);
			if (!size)
				continue;
			b[at] = back % 2 ? '\xff' : '\0';
			CHECK(sign(own_strcmp(a, b)) == sign(strcmp(a, b)));
			CHECK(sign(own_strcmp(b, a)) == sign(strcmp(b, a)));
		}
	}
}

TEST(bytes_are_found_and_compared_up_to_the_edge_of_memory)
{
	unsigned char *const end = edge_of_memory(), *const other = edge_of_memory();

	CHECK(own_memchr(end, 'x', 0) == NULL);
	CHECK(own_memcmp(end, other, 0) == 0);
	for (size_t size = 1; size < MOST; size++) {
		unsigned char *a = end - size, *b = other - size;
		const size_t at = (size_t)random() % size;

		memset(a - 20, 'x', 20);
		memset(a, 'a', size);
		memcpy(b, a, size);
		CHECK(own_memchr(a, 'x', size) == NULL);
		CHECK(own_memcmp(a, b, size) == 0);
		a[at] = 'x';
		CHECK(own_memchr(a, 'x', size) == a + at);
		CHECK(own_memchr(a, 'x', at) == NULL);
		CHECK(own_memchr(a, 'x', (size_t)-1) == a + at);
		CHECK(own_memcmp(a, b, size) > 0 && own_memcmp(b, a, size) < 0);
		CHECK(own_memcmp(a, b, at) == 0);
	}
}

#else

TEST(texts_are_the_librarys_business)
{
	test_skip("an x86-64 processor");
}

#endif

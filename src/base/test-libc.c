/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

/* The program's own memory, beside the one that the tests run on. */
#define malloc	  own_malloc
#define calloc	  own_calloc
#define realloc	  own_realloc
#define free	  own_free
#define heap_trim own_heap_trim
#define open	  own_open
int own_open(const char *path, int flags, ...);
void *own_malloc(size_t size);
void *own_calloc(size_t count, size_t size);
void *own_realloc(void *data, size_t size);
void own_free(void *data);
#define __explicit_bzero_chk own_explicit_bzero_chk
#define __sprintf_chk	     own_sprintf_chk
#include "base/libc.c" // NOLINT(bugprone-suspicious-include)
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef heap_trim
#undef open

TEST(classes_hold_what_they_are_for_and_little_more)
{
	for (size_t size = 1; size <= LARGE; size++) {
		unsigned class = class_of(size);

		if (class >= CLASSES || class_size(class) < size ||
		    (class > 0 && class_size(class - 1) >= size))
			CHECK(class == 0 && size <= 16);
	}
	CHECK(class_of(LARGE) == CLASSES - 1);
	CHECK(class_size(class_of(129)) == 160);
}

TEST(what_is_freed_is_used_again)
{
	void *first = own_malloc(100), *second;

	memset(first, 'x', 100);
	own_free(first);
	second = own_malloc(110);
	CHECK(second == first);
	own_free(second);
	second = own_calloc(11, 10);
	CHECK(second == first);
	for (int i = 0; i < 110; i++)
		CHECK(((char *)second)[i] == 0);
	own_free(second);
	own_free(NULL);
}

TEST(what_is_trimmed_is_empty_and_used_again)
{
	const size_t size = (size_t)96 << 10;
	char *first = own_malloc(size), *beside = own_malloc(size), *again;
	unsigned char seen[1];

	memset(first, 'x', size);
	memset(beside, 'y', size);
	own_free(first);
	CHECK(own_heap_trim() == 1);
	/* In its middle nothing is there any more; what is in use stays. */
	CHECK(mincore((void *)(((uintptr_t)first + size / 2) & ~(uintptr_t)4095), 4096, seen) == 0);
	CHECK(!(seen[0] & 1));
	for (size_t i = 0; i < size; i++)
		CHECK(beside[i] == 'y');
	again = own_malloc(size);
	CHECK(again == first);
	memset(again, 'z', size);
	own_free(again);
	own_free(beside);
	again = own_calloc(1, size);
	for (size_t i = 0; i < size; i++)
		CHECK(again[i] == 0);
	own_free(again);
}

TEST(growing_keeps_the_content_and_gives_the_old_place_back)
{
	char *text = own_malloc(16), *between;

	memcpy(text, "0123456789abcde", 16);
	text = own_realloc(text, 4000);
	CHECK_STR(text, "0123456789abcde");
	between = own_malloc(16);
	text = own_realloc(text, 300000);
	CHECK_STR(text, "0123456789abcde");
	text = own_realloc(text, 900000);
	CHECK_STR(text, "0123456789abcde");
	own_free(text);
	own_free(between);
}

TEST(random_pieces_do_not_overlap)
{
	enum {
		N = 500
	};
	unsigned char *pieces[N] = {0};
	size_t sizes[N] = {0};
	unsigned seed = 7;
	const char *const start = heap.end;
	unsigned blocks = 0;
	const char *end = start;

	for (int round = 0; round < 200000; round++) {
		int i = rand_r(&seed) % N;

		for (size_t k = 0; k < sizes[i]; k += 97)
			CHECK(pieces[i][k] == (unsigned char)i);
		own_free(pieces[i]);
		sizes[i] = (size_t)rand_r(&seed) % (round % 50 ? 600 : 20000) + 1;
		pieces[i] = own_malloc(sizes[i]);
		CHECK(((uintptr_t)pieces[i] & 15) == 0);
		memset(pieces[i], i, sizes[i]);
		blocks += heap.end != end;
		end = heap.end;
	}
	/* 500 pieces of 300 bytes, some of 20,000: not a gigabyte for 200,000 of them. */
	CHECK(blocks < 40);
	for (int i = 0; i < N; i++)
		own_free(pieces[i]);
}

TEST(a_file_is_opened_in_one_call_and_closed_at_exec)
{
	cleanup_fd int dir = test_tempdir();
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof path, "/proc/self/fd/%d/f", dir);
	CHECK(own_open(path, O_RDONLY | O_CLOEXEC) == -1 && errno == ENOENT);
	fd = own_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0600);
	close(fd);
	fd = own_open(path, O_RDONLY);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == 0);
	close(fd);
}

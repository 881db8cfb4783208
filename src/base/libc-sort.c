/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting, in place of the C library's (see libc.c)
 *
 * musl's needs no memory, and for that compares twice as often and moves each item many times. What
 * a start sorts are a hundred pointers, mostly in order already.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FEW 256

typedef int compare_fn(const void *a, const void *b);

static void sort_few(void **items, size_t n, void **room, compare_fn *compare)
{
	const size_t half = n / 2;
	size_t a = 0, b = half, at = 0;

	if (n < 2)
		return;
	sort_few(items, half, room, compare);
	sort_few(items + half, n - half, room, compare);
	if (compare(&items[half - 1], &items[half]) <= 0)
		return;
	memcpy(room, items, half * sizeof *items);
	while (a < half && b < n)
		items[at++] = compare(&room[a], &items[b]) <= 0 ? room[a++] : items[b++];
	memcpy(items + at, room + a, (half - a) * sizeof *items);
}

static int compare_by(const void *a, const void *b, void *data)
{
	return (*(compare_fn **)data)(a, b);
}

void qsort(void *items, size_t n, size_t size, compare_fn *compare)
{
	void *room[FEW / 2];

	if (size == sizeof *room && n <= FEW && (uintptr_t)items % sizeof *room == 0)
		sort_few(items, n, room, compare);
	else
		qsort_r(items, n, size, compare_by, &compare);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "layer/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Between the lines that are the same at the beginning and at the end: first all of it at once; if
 * that would take more than EDITS_MAX changed lines, cut at lines that occur once in either text,
 * and each piece by itself; and a piece that is still too much differs as a whole.
 */
#define EDITS_MAX 1024
#define STEPS_MAX                                                                                  \
	((size_t)1 << 26) /* of all attempts together; then the rest differs as a whole            \
			   */

/* What the search works with. */
struct work {
	struct text_diff *diff;
	ptrdiff_t *rows;
	size_t most; /* edits that there is room for */
	size_t steps;
};

static int split(const char *data, size_t size, struct text_lines *ret)
{
	size_t n = 0;

	for (const char *c = data, *end = data + size; c < end; n++) {
		const char *newline = memchr(c, '\n', (size_t)(end - c));

		c = newline ? newline + 1 : end;
	}
	if (n > TEXT_LINES_MAX)
		return -E2BIG;
	ret->data = data;
	ret->at = calloc(n + 1, sizeof *ret->at);
	ret->ids = calloc(n + 1, sizeof *ret->ids);
	ret->is_changed = calloc(n + 1, sizeof *ret->is_changed);
	if (!ret->at || !ret->ids || !ret->is_changed)
		return -ENOMEM;
	for (const char *c = data, *end = data + size; c < end;) {
		const char *newline = memchr(c, '\n', (size_t)(end - c));

		ret->at[ret->n++] = (size_t)(c - data);
		c = newline ? newline + 1 : end;
	}
	ret->at[ret->n] = size;
	return 0;
}

/* Lines in a table of chains, so that each gets the number of the first one like it. */
struct numbers {
	struct {
		const char *line;
		size_t size;
		uint64_t hash;
		uint32_t next; /* 0: the last; else its place + 1 */
	} * known;
	uint32_t n;
	uint32_t *heads;
	size_t mask;
	uint64_t seed;
};

static uint64_t hash_line(const char *line, size_t size, uint64_t seed)
{
	uint64_t hash = seed;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)line[i]) * 0x100000001b3;
	return hash ^ hash >> 29;
}

static uint32_t number_of(struct numbers *numbers, const char *line, size_t size)
{
	uint64_t hash = hash_line(line, size, numbers->seed);
	uint32_t *head = &numbers->heads[hash & numbers->mask];

	for (uint32_t i = *head; i; i = numbers->known[i - 1].next)
		if (numbers->known[i - 1].hash == hash && numbers->known[i - 1].size == size &&
		    /* What is in a chain has its line. NOLINTNEXTLINE(*-NonNullParamChecker) */
		    memcmp(numbers->known[i - 1].line, line, size) == 0)
			return i - 1;
	numbers->known[numbers->n].line = line;
	numbers->known[numbers->n].size = size;
	numbers->known[numbers->n].hash = hash;
	numbers->known[numbers->n].next = *head;
	*head = numbers->n + 1;
	return numbers->n++;
}

static void number_lines(struct numbers *numbers, struct text_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		lines->ids[i] = number_of(numbers, lines->data + lines->at[i],
					  lines->at[i + 1] - lines->at[i]);
}

static int number_both(struct text_diff *diff, uint32_t *ret_n)
{
	size_t n = diff->a.n + diff->b.n, room = 16;
	struct numbers numbers = {.seed = 0xcbf29ce484222325 ^ (uintptr_t)diff};
	int r = 0;

	if (n >= UINT32_MAX / 2)
		return -E2BIG;
	while (room < n)
		room *= 2;
	numbers.mask = room - 1;
	numbers.known = calloc(n + 1, sizeof *numbers.known);
	numbers.heads = calloc(room, sizeof *numbers.heads);
	if (!numbers.known || !numbers.heads) {
		r = -ENOMEM;
	} else {
		number_lines(&numbers, &diff->a);
		number_lines(&numbers, &diff->b);
		*ret_n = numbers.n;
	}
	free(numbers.known);
	free(numbers.heads);
	return r;
}

/* A piece of both: lines from `a` on, `n` of them, and so on. */
struct piece {
	size_t a, n, b, m;
};

static void trim(const struct text_diff *diff, struct piece *piece)
{
	const uint32_t *a = diff->a.ids, *b = diff->b.ids;

	while (piece->n && piece->m && a[piece->a] == b[piece->b])
		piece->a++, piece->n--, piece->b++, piece->m--;
	while (piece->n && piece->m && a[piece->a + piece->n - 1] == b[piece->b + piece->m - 1])
		piece->n--, piece->m--;
}

static void differ(struct text_diff *diff, const struct piece *piece)
{
	memset(diff->a.is_changed + piece->a, true, piece->n);
	memset(diff->b.is_changed + piece->b, true, piece->m);
}

/*
 * The furthest point on each diagonal for every number of edits is kept, row behind row: row d has
 * 2d + 1 entries and begins at d * d.
 */
static ptrdiff_t *reach(ptrdiff_t *rows, ptrdiff_t d, ptrdiff_t k)
{
	return &rows[d * d + d + k];
}

/* Is diagonal `k` reached with one more edit from the one above (a line added) rather than from the
 * one on its left (a line deleted)? */
static bool is_from_above(ptrdiff_t *rows, ptrdiff_t d, ptrdiff_t k)
{
	if (k == -d)
		return true;
	return k != d && *reach(rows, d - 1, k - 1) < *reach(rows, d - 1, k + 1);
}

/* Diagonals that have left the piece hold what makes nobody start from there. */
#define OUTSIDE (-2)

static ptrdiff_t walk_diagonal(const struct text_diff *diff, const struct piece *piece,
			       ptrdiff_t *rows, ptrdiff_t d, ptrdiff_t k)
{
	ptrdiff_t n = (ptrdiff_t)piece->n, m = (ptrdiff_t)piece->m, x, y;

	if (d == 0)
		x = 0;
	else if (is_from_above(rows, d, k))
		x = *reach(rows, d - 1, k + 1);
	else
		x = *reach(rows, d - 1, k - 1) + 1;
	y = x - k;
	if (x < 0 || x > n || y < 0 || y > m)
		return OUTSIDE;
	while (x < n && y < m &&
	       diff->a.ids[(ptrdiff_t)piece->a + x] == diff->b.ids[(ptrdiff_t)piece->b + y])
		x++, y++;
	return x;
}

static void trace_back(struct text_diff *diff, const struct piece *piece, ptrdiff_t *rows,
		       ptrdiff_t d)
{
	ptrdiff_t x = (ptrdiff_t)piece->n, k = x - (ptrdiff_t)piece->m;

	for (; d > 0; d--) {
		if (is_from_above(rows, d, k)) {
			k++;
			x = *reach(rows, d - 1, k);
			diff->b.is_changed[(ptrdiff_t)piece->b + x - k] = true;
		} else {
			k--;
			x = *reach(rows, d - 1, k);
			diff->a.is_changed[(ptrdiff_t)piece->a + x] = true;
		}
	}
}

/* 1 if it would take too many edits, and then nothing is noted. */
static int compare_piece(struct work *work, const struct piece *piece)
{
	struct text_diff *diff = work->diff;
	ptrdiff_t *rows = work->rows;
	ptrdiff_t goal = (ptrdiff_t)piece->n - (ptrdiff_t)piece->m;

	if (piece->n == 0 || piece->m == 0) {
		differ(diff, piece);
		return 0;
	}
	for (ptrdiff_t d = 0; d <= (ptrdiff_t)work->most && work->steps < STEPS_MAX; d++) {
		work->steps += (size_t)d + 1;
		for (ptrdiff_t k = -d; k <= d; k++)
			*reach(rows, d, k) = OUTSIDE;
		for (ptrdiff_t k = -d; k <= d; k += 2) {
			ptrdiff_t x = walk_diagonal(diff, piece, rows, d, k);

			*reach(rows, d, k) = x;
			if (k == goal && x == (ptrdiff_t)piece->n) {
				trace_back(diff, piece, rows, d);
				return 0;
			}
		}
	}
	return 1;
}

/* Where each number occurs: its line + 1, 0 for nowhere, SIZE_MAX for several. */
static void find_single(const uint32_t *ids, size_t from, size_t n, size_t *places)
{
	for (size_t i = from; i < from + n; i++)
		places[ids[i]] = places[ids[i]] ? SIZE_MAX : i + 1;
}

struct anchor {
	size_t a, b;
	size_t before; /* the one before it in the longest row that ends with it; 0: none, else + 1
			*/
};

/* Of lines that occur once in both, in the order of the first text: those of the longest row that
 * is in order in the second as well. `tops` is room for as many. Returns the last, + 1. */
static size_t find_row(struct anchor *anchors, size_t n, size_t *tops)
{
	size_t length = 0;

	for (size_t i = 0; i < n; i++) {
		size_t low = 0, high = length;

		while (low < high) {
			size_t middle = (low + high) / 2;

			if (anchors[tops[middle]].b < anchors[i].b)
				low = middle + 1;
			else
				high = middle;
		}
		anchors[i].before = low ? tops[low - 1] + 1 : 0;
		tops[low] = i;
		length += low == length;
	}
	return length ? tops[length - 1] + 1 : 0;
}

static size_t list_anchors(const struct text_diff *diff, const struct piece *piece, uint32_t n_ids,
			   struct anchor *ret)
{
	cleanup_free size_t *in_a = calloc(n_ids + 1U, sizeof *in_a);
	cleanup_free size_t *in_b = calloc(n_ids + 1U, sizeof *in_b);
	size_t n = 0;

	if (!in_a || !in_b)
		return 0;
	find_single(diff->a.ids, piece->a, piece->n, in_a);
	find_single(diff->b.ids, piece->b, piece->m, in_b);
	for (size_t i = piece->a; i < piece->a + piece->n; i++) {
		uint32_t id = diff->a.ids[i];

		if (in_a[id] == i + 1 && in_b[id] && in_b[id] != SIZE_MAX)
			ret[n++] = (struct anchor){i, in_b[id] - 1, 0};
	}
	return n;
}

static void compare_or_differ(struct work *work, struct piece piece)
{
	trim(work->diff, &piece);
	if (compare_piece(work, &piece) == 1)
		differ(work->diff, &piece);
}

/* From the end to the beginning, because that is how a row is linked. */
static int compare_by_anchors(struct work *work, const struct piece *piece, uint32_t n_ids)
{
	cleanup_free struct anchor *anchors = calloc(piece->n + 1, sizeof *anchors);
	cleanup_free size_t *tops = calloc(piece->n + 1, sizeof *tops);
	size_t a_end = piece->a + piece->n, b_end = piece->b + piece->m, n;

	if (!anchors || !tops)
		return -ENOMEM;
	n = list_anchors(work->diff, piece, n_ids, anchors);
	for (size_t i = find_row(anchors, n, tops); i; i = anchors[i - 1].before) {
		const struct anchor *anchor = &anchors[i - 1];

		compare_or_differ(work, (struct piece){anchor->a + 1, a_end - anchor->a - 1,
						       anchor->b + 1, b_end - anchor->b - 1});
		a_end = anchor->a;
		b_end = anchor->b;
	}
	compare_or_differ(work,
			  (struct piece){piece->a, a_end - piece->a, piece->b, b_end - piece->b});
	return 0;
}

int text_diff_init(struct text_diff *diff, const char *a, size_t a_size, const char *b,
		   size_t b_size)
{
	struct work work = {.diff = diff};
	struct piece piece;
	uint32_t n_ids = 0;
	int r;

	*diff = (struct text_diff){0};
	r = split(a, a_size, &diff->a);
	if (r == 0)
		r = split(b, b_size, &diff->b);
	if (r == 0)
		r = number_both(diff, &n_ids);
	if (r < 0)
		return r;
	piece = (struct piece){0, diff->a.n, 0, diff->b.n};
	trim(diff, &piece);
	work.most = piece.n + piece.m < EDITS_MAX ? piece.n + piece.m : EDITS_MAX;
	work.rows = malloc(sizeof *work.rows * (work.most + 1) * (work.most + 1));
	if (!work.rows)
		return -ENOMEM;
	r = compare_piece(&work, &piece);
	if (r == 1)
		r = compare_by_anchors(&work, &piece, n_ids);
	free(work.rows);
	return r;
}

void text_diff_done(struct text_diff *diff)
{
	struct text_lines *both[] = {&diff->a, &diff->b};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		free(both[i]->at);
		free(both[i]->ids);
		free(both[i]->is_changed);
	}
	*diff = (struct text_diff){0};
}

bool text_diff_next(const struct text_diff *diff, struct text_change *change)
{
	size_t a = change->a + change->n_a, b = change->b + change->n_b;

	while (a < diff->a.n && b < diff->b.n && !diff->a.is_changed[a] && !diff->b.is_changed[b])
		a++, b++;
	*change = (struct text_change){.a = a, .b = b};
	while (a < diff->a.n && diff->a.is_changed[a])
		a++;
	while (b < diff->b.n && diff->b.is_changed[b])
		b++;
	change->n_a = a - change->a;
	change->n_b = b - change->b;
	return change->n_a || change->n_b;
}

bool text_is_binary(const char *data, size_t size)
{
	return size > 0 && memchr(data, '\0', size) != NULL;
}

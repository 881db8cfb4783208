/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which lines differ between two texts
 *
 * A line includes its newline; only the last may be without. The shortest list of changed lines
 * where that is affordable (Myers, "An O(ND) Difference Algorithm"), else a coarser one: always a
 * right one, in bounded time and memory.
 */
struct text_lines {
	const char *data;
	size_t *at; /* where each begins, and at the end where the text ends */
	size_t n;
	uint32_t *ids;	  /* equal lines of both texts have equal numbers */
	bool *is_changed; /* deleted from the first text, added in the second */
};

struct text_diff {
	struct text_lines a, b;
};

/* The texts are not copied. 0, -ENOMEM, or -E2BIG for more than TEXT_LINES_MAX lines, which take
 * some hundred bytes of memory each; text_diff_done() in any case. */
#define TEXT_LINES_MAX ((size_t)1 << 20)
int text_diff_init(struct text_diff *diff, const char *a, size_t a_size, const char *b,
		   size_t b_size);
void text_diff_done(struct text_diff *diff);

/* Lines `a` to `a` + `n_a` of the first became `b` to `b` + `n_b` of the second. */
struct text_change {
	size_t a, n_a, b, n_b;
};
/* The next one behind `change`, which is all zero in the beginning; false at the end. */
bool text_diff_next(const struct text_diff *diff, struct text_change *change);

/* Is it none of git's texts? */
bool text_is_binary(const char *data, size_t size);

struct atoll_change;
struct buf;
struct layer_stack;

#define TEXT_SIZE_MAX ((size_t)32 << 20) /* more is not compared line by line */

/* What a change had before or has after: a file's content, a link's target, nothing of others. 0,
 * -EFBIG past `limit`, or another negative errno. */
int text_load(const struct layer_stack *stack, const struct atoll_change *change, bool is_before,
	      size_t limit, struct buf *out);

/* A name as git writes it: as it is, or in quotes with escapes if it has a blank, a quote, a
 * control character or a byte beyond ASCII. `prefix` is put in front: "a/". */
void text_add_name(struct buf *out, const char *prefix, const char *name);

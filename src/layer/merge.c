/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "layer/layer.h"
#include "layer/text.h"

#include <errno.h>
#include <string.h>

/*
 * Three ways
 *
 * Two lists of changes of the same text, ours and theirs, in the order of its lines. Changes that
 * touch or overlap are one piece: if only one side has a hand in it, that side's lines count; if
 * both have, they must have made the same of it, or there is no merge. As in diff3, changes of
 * neighbouring lines touch.
 */

struct hand {
	struct text_diff diff;
	struct text_change next; /* not yet in a piece */
	bool has_next;
	ptrdiff_t shift; /* what is line N of the base is line N + shift here, before `next` */
};

static void advance(struct hand *hand)
{
	hand->shift = (ptrdiff_t)(hand->next.b + hand->next.n_b) -
		      (ptrdiff_t)(hand->next.a + hand->next.n_a);
	hand->has_next = text_diff_next(&hand->diff, &hand->next);
}

static void add_lines(struct buf *out, const struct text_lines *lines, size_t from, size_t to)
{
	if (from < to)
		buf_add(out, lines->data + lines->at[from], lines->at[to] - lines->at[from]);
}

/* A piece of the base: lines `from` up to `to`; which hands changed it, and where it is in each. */
struct piece {
	size_t from, to;
	bool is_changed[2];
	size_t start[2], end[2];
};

/* Take every change that touches the piece, of both hands, until there is none more. */
static void take_piece(struct hand hands[2], struct piece *piece)
{
	int first = !hands[1].has_next || (hands[0].has_next && hands[0].next.a <= hands[1].next.a)
			    ? 0
			    : 1;
	bool grows = true;

	*piece = (struct piece){.from = hands[first].next.a,
				.to = hands[first].next.a + hands[first].next.n_a};
	for (int i = 0; i < 2; i++)
		piece->start[i] = (size_t)((ptrdiff_t)piece->from + hands[i].shift);
	while (grows) {
		grows = false;
		for (int i = 0; i < 2; i++) {
			struct hand *hand = &hands[i];

			if (!hand->has_next || hand->next.a > piece->to)
				continue;
			if (hand->next.a + hand->next.n_a > piece->to)
				piece->to = hand->next.a + hand->next.n_a;
			piece->is_changed[i] = grows = true;
			advance(hand);
		}
	}
	for (int i = 0; i < 2; i++)
		piece->end[i] = (size_t)((ptrdiff_t)piece->to + hands[i].shift);
}

static bool is_same(const struct hand hands[2], const struct piece *piece)
{
	const struct text_lines *a = &hands[0].diff.b, *b = &hands[1].diff.b;
	size_t a_size = a->at[piece->end[0]] - a->at[piece->start[0]];
	size_t b_size = b->at[piece->end[1]] - b->at[piece->start[1]];

	return a_size == b_size && memcmp(a->data + a->at[piece->start[0]],
					  b->data + b->at[piece->start[1]], a_size) == 0;
}

static int merge(struct hand hands[2], struct buf *out)
{
	const struct text_lines *base = &hands[0].diff.a;
	size_t done = 0;

	while (hands[0].has_next || hands[1].has_next) {
		struct piece piece;
		int who;

		take_piece(hands, &piece);
		add_lines(out, base, done, piece.from);
		if (piece.is_changed[0] && piece.is_changed[1] && !is_same(hands, &piece))
			return 1;
		who = piece.is_changed[0] ? 0 : 1;
		add_lines(out, &hands[who].diff.b, piece.start[who], piece.end[who]);
		done = piece.to;
	}
	add_lines(out, base, done, base->n);
	return buf_error(out);
}

int layer_merge_text(const char *base, size_t n_base, const char *ours, size_t n_ours,
		     const char *theirs, size_t n_theirs, struct buf *out)
{
	struct hand hands[2] = {0};
	int r;

	if (text_is_binary(base, n_base) || text_is_binary(ours, n_ours) ||
	    text_is_binary(theirs, n_theirs))
		return 2;
	r = text_diff_init(&hands[0].diff, base, n_base, ours, n_ours);
	if (r == 0)
		r = text_diff_init(&hands[1].diff, base, n_base, theirs, n_theirs);
	if (r == 0) {
		for (int i = 0; i < 2; i++)
			hands[i].has_next = text_diff_next(&hands[i].diff, &hands[i].next);
		r = merge(hands, out);
	}
	text_diff_done(&hands[0].diff);
	text_diff_done(&hands[1].diff);
	/* More lines than are compared: as if it were no text. */
	return r == -E2BIG && buf_error(out) == 0 ? 2 : r;
}

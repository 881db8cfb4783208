/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "layer/layer.h"

#include <stdlib.h>

/* The merged text; NULL if there is none. */
static char *merged(const char *base, const char *ours, const char *theirs)
{
	struct buf out = BUF_INIT(1 << 20);
	int r = layer_merge_text(base, strlen(base), ours, strlen(ours), theirs, strlen(theirs),
				 &out);

	CHECK(r >= 0);
	if (r == 0)
		return out.data ? buf_take(&out) : strdup("");
	buf_done(&out);
	return NULL;
}

/* Which of both is ours must not matter. */
static void check_merge(const char *base, const char *ours, const char *theirs, const char *want)
{
	for (int turn = 0; turn < 2; turn++) {
		cleanup_free char *have =
			turn ? merged(base, theirs, ours) : merged(base, ours, theirs);

		if (want)
			CHECK_STR(have, want);
		else
			CHECK(have == NULL);
	}
}

TEST(changes_in_different_places_come_together)
{
	check_merge("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n",
		    "one\n2\n3\n4\nfive\n");
	check_merge("1\n2\n3\n4\n5\n", "2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n", "2\n3\n4\n5\n6\n");
	check_merge("1\n2\n3\n4\n5\n6\n7\n", "1\nx\n2\n3\n4\n5\nfoo\n7\n", "1\n2\n3\n5\n6\n7\n",
		    "1\nx\n2\n3\n5\nfoo\n7\n");
}

TEST(what_only_one_side_changed_is_its)
{
	check_merge("1\n2\n", "1\n2\n", "2\n3\n", "2\n3\n");
	check_merge("", "", "new\n", "new\n");
	check_merge("1\n2\n", "", "1\n2\n", "");
	check_merge("no newline", "no newline", "a newline\n", "a newline\n");
}

TEST(the_same_change_on_both_sides_is_one)
{
	check_merge("1\n2\n3\n", "1\ntwo\n3\n", "1\ntwo\n3\n", "1\ntwo\n3\n");
	check_merge("1\n2\n3\n4\n5\n", "1\ntwo\n3\n4\n5\n", "1\ntwo\n3\n4\nfive\n",
		    "1\ntwo\n3\n4\nfive\n");
}

TEST(changes_of_the_same_or_of_neighbouring_lines_are_a_conflict)
{
	check_merge("1\n2\n3\n", "1\ntwo\n3\n", "1\nzwei\n3\n", NULL);
	check_merge("1\n2\n3\n4\n", "1\ntwo\n3\n4\n", "1\n2\nthree\n4\n", NULL);
	check_merge("1\n2\n3\n", "1\n3\n", "1\n2 changed\n3\n", NULL);
	check_merge("1\n", "1\na\n", "1\nb\n", NULL);
	check_merge("", "a\n", "b\n", NULL);
}

TEST(what_is_no_text_is_not_merged)
{
	struct buf out = BUF_INIT(1 << 20);

	CHECK_INT(layer_merge_text("a\0b\n", 4, "a\n", 2, "a\0b\n", 4, &out), 2);
	buf_done(&out);
}

/* Edits far from each other on a random text must all be found in the merge. */
TEST(edits_of_different_lines_never_get_lost)
{
	srand(7);
	for (int round = 0; round < 300; round++) {
		cleanup_buf struct buf base = BUF_INIT(1 << 20), ours = BUF_INIT(1 << 20),
				       theirs = BUF_INIT(1 << 20), want = BUF_INIT(1 << 20);
		int n = 3 + rand() % 60;

		for (int i = 0; i < n; i++) {
			/* Lines that repeat, and between them some that stay. */
			bool is_edited = i % 3 == 1;
			int value = is_edited ? rand() % 5 : i, who = is_edited ? rand() % 3 : 0;
			const char *word = is_edited ? "w" : "line";

			buf_addf(&base, "%s %d\n", word, value);
			buf_addf(&ours, "%s %d%s\n", word, value, who == 1 ? " ours" : "");
			buf_addf(&theirs, "%s %d%s\n", word, value, who == 2 ? " theirs" : "");
			buf_addf(&want, "%s %d%s\n", word, value,
				 (const char *[]){"", " ours", " theirs"}[who]);
		}
		check_merge(base.data, ours.data, theirs.data, want.data);
	}
}

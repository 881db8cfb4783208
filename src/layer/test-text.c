/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/confine.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "layer/layer.h"
#include "layer/test-layers.h"
#include "layer/text.h"

#include <stdlib.h>

static struct buf diff;
static size_t added, removed;

static int compare(const char *a, const char *b)
{
	buf_done(&diff);
	diff = (struct buf)BUF_INIT(1 << 26);
	return layer_diff_text(a, strlen(a), b, strlen(b), &diff, &added, &removed);
}

TEST(a_changed_line_has_three_lines_around_it)
{
	CHECK_INT(compare("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"), 0);
	CHECK_STR(diff.data, "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
	CHECK_INT(added, 1);
	CHECK_INT(removed, 1);
}

TEST(changes_that_are_near_share_a_hunk_and_others_do_not)
{
	CHECK_INT(compare("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n"), 0);
	CHECK_STR(diff.data, "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
	CHECK_INT(compare("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n"), 0);
	CHECK_STR(diff.data, "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n"
			     "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

TEST(nothing_before_or_after_and_no_newline_at_the_end)
{
	CHECK_INT(compare("", "a\nb\n"), 0);
	CHECK_STR(diff.data, "@@ -0,0 +1,2 @@\n+a\n+b\n");
	CHECK_INT(compare("a\n", ""), 0);
	CHECK_STR(diff.data, "@@ -1 +0,0 @@\n-a\n");
	CHECK_INT(compare("a\nb", "a\nb\n"), 0);
	CHECK_STR(diff.data, "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
	CHECK_INT(compare("same", "same"), 0);
	CHECK_INT(diff.used, 0);
}

TEST(what_has_a_nul_is_no_text)
{
	struct buf out = BUF_INIT(100);

	CHECK_INT(layer_diff_text("a\0b", 3, "a", 1, &out, &added, &removed), 1);
	CHECK_INT(out.used, 0);
}

TEST(huge_texts_that_have_little_in_common_end_soon)
{
	cleanup_buf struct buf a = BUF_INIT(1 << 26), b = BUF_INIT(1 << 26);
	/* How long it takes is not for the sanitizers to see. */
	const unsigned lines = HAS_ASAN ? 60000 : 300000;

	for (unsigned i = 0; i < lines; i++) {
		buf_addf(&a, "%u\n", i * 7919 % 1000);
		buf_addf(&b, "%u\n", i * 104729 % 1000);
		if (i % 1000 == 0) {
			buf_addf(&a, "anchor %u\n", i);
			buf_addf(&b, "anchor %u\n", i);
		}
	}
	CHECK_INT(compare(a.data, b.data), 0);
	CHECK(added == removed && added > 0 && added <= lines);
}

TEST(the_shortest_list_of_changes_is_found)
{
	/* Myers' own example: five edits. */
	CHECK_INT(compare("a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n"), 0);
	CHECK_INT(added + removed, 5);
}

TEST(texts_of_changes_are_named_and_binary_ones_have_their_sizes)
{
	struct layers *l = layers_new(1);
	struct atoll_changes *list;
	static const char *const want[] = {
		"--- /dev/null\n+++ b/added\n@@ -0,0 +1 @@\n+new\n",
		"Binary file binary: 4 to 3 bytes\n",
		"",
		("--- a/link\n+++ b/link\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n"
		 "+new\n\\ No newline at end of file\n"),
		"--- \"a/na me\\012\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
	};

	layers_file(l, 0, "added", "new\n");
	layers_file(l, BASE, "binary", "old\n");
	layers_bytes(l, 0, "binary", "\0\1\2", 3);
	layers_dir(l, 0, "dir");
	layers_link(l, BASE, "link", "old");
	layers_link(l, 0, "link", "new");
	layers_file(l, BASE, "na me\n", "x\n");
	layers_whiteout(l, 0, "na me\n");
	list = layers_read(l);
	CHECK_INT(list->n, ARRAY_SIZE(want));
	for (size_t i = 0; i < list->n; i++) {
		char *text;
		size_t size;

		CHECK_INT(atoll_change_text(list, i, &text, &size, &added, &removed, NULL), 0);
		CHECK_STR(text, want[i]);
		free(text);
	}
}

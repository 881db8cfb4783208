/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of job files for Windows against the one of the Linux programs (libyaml)
 *
 * Random texts are made of pieces of job files. What job_tree_read() accepts, tree_read() must
 * accept with the same tree; the other direction does not hold, as the Windows reader knows less of
 * YAML. Of well-formed texts most must be accepted, or the comparison would say nothing.
 */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "nt/job-text.h"
#include "spec/document.h"

#include <stdint.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252;

static uint32_t roll(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32) % n;
}

static const char *same(const struct job_tree *ours, const struct job_node *node,
			const struct tree *theirs)
{
	const struct job_node *item = job_tree_first(ours, node);

	if ((node->kind == JOB_TEXT) != (theirs->kind == TREE_TEXT) ||
	    (node->kind == JOB_MAP) != (theirs->kind == TREE_MAP))
		return "kind";
	if (node->kind == JOB_TEXT)
		return strcmp(node->text, theirs->text) == 0 ? NULL : "text";
	for (size_t i = 0; i < theirs->n_items; i++, item = job_tree_next(ours, item)) {
		const char *problem;

		if (!item)
			return "number";
		if (node->kind == JOB_MAP && strcmp(item->key, theirs->items[i].key) != 0)
			return "key";
		problem = same(ours, item, &theirs->items[i]);
		if (problem)
			return problem;
	}
	return item ? "number" : NULL;
}

/* Returns whether our reader accepts the text. */
static bool compare(const char *text)
{
	struct atoll_error err = {0};
	struct job_tree ours;
	struct tree *theirs = NULL;
	const char *problem;

	if (job_tree_read("t", text, strlen(text), &ours, &err) < 0)
		return false;
	if (tree_read("t", text, strlen(text), &theirs, &err) < 0)
		test_fail(__FILE__, __LINE__, "only we accept:\n%s\n%s", text, err.text);
	problem = same(&ours, &ours.nodes[0], theirs);
	if (problem)
		test_fail(__FILE__, __LINE__, "%s differs:\n%s", problem, text);
	job_tree_done(&ours);
	tree_free(theirs);
	return true;
}

TEST(random_pieces_mean_the_same_to_both_readers)
{
	static const char *const pieces[] = {
		"a",	    "b:",     " ",    "  ",    "\n",	"\n  ",	 "\n- ", "- ",	  ": ",
		":",	    "'",      "\"",   "''",    "\\n",	"\\",	 "[",	 "]",	  "{",
		"}",	    ", ",     ",",    "#",     " # c",	"C:\\x", "1",	 "key: ", "-",
		"--x",	    "\n    ", "\r\n", "\n#\t", "\"q\"", "'s'",	 "null", "~",	  "\\u00e9",
		"\303\251", "*",      "&a",   "!t",    "%",	"@",	 "|",	 ">",	  "---",
		"...",	    "=",      "<<",   "?",     "? ",	"`",
	};
	char text[512];
	unsigned accepted = 0;

	for (int round = 0; round < 60000; round++) {
		size_t used = 0;

		for (uint32_t n = roll(12) + 1; n > 0; n--) {
			const char *piece = pieces[roll(ARRAY_SIZE(pieces))];

			memcpy(text + used, piece, strlen(piece));
			used += strlen(piece);
		}
		text[used] = '\0';
		accepted += compare(text);
	}
	CHECK(accepted > 2000);
}

/* ---- well-formed documents ---- */

static char document[1 << 16];
static size_t n_document;

static void put(const char *text)
{
	size_t size = strlen(text);

	if (n_document + size < sizeof document - 1) {
		memcpy(document + n_document, text, size);
		n_document += size;
	}
	document[n_document] = '\0';
}

static void put_scalar(void)
{
	static const char *const words[] = {
		"word", "two words", "C:\\Users\\x y", "12",	    "\"q\\n\"", "'it''s'",
		"x#y",	"a:b",	     "--flag",	       "~\\.cache", "\"\"",	"@!"};

	put(words[roll(ARRAY_SIZE(words) - 1)]);
}

static void put_value(int depth, int indent);

static void put_flow(int depth)
{
	bool is_map = roll(2);

	if (depth > 3 || roll(3) == 0) {
		put(roll(2) ? "\"x\"" : "word");
		return;
	}
	put(is_map ? "{" : "[");
	for (uint32_t i = 0, n = roll(4); i < n; i++) {
		char key[16];

		snprintf(key, sizeof key, "k%u: ", i);
		if (is_map)
			put(key);
		put_flow(depth + 1);
		put(i + 1 < n || roll(4) == 0 ? ", " : "");
		put(roll(6) == 0 ? "\n          " : "");
	}
	put(is_map ? "}" : "]");
}

static void put_indent(int indent)
{
	for (int i = 0; i < indent; i++)
		put(" ");
}

static void put_block(int depth, int indent)
{
	bool is_map = roll(2);

	for (uint32_t i = 0, n = roll(3) + 1; i < n; i++) {
		char key[16];

		put_indent(indent);
		snprintf(key, sizeof key, "k%u:", i);
		put(is_map ? key : "-");
		put_value(depth + 1, indent);
	}
}

static void put_value(int depth, int indent)
{
	switch (depth > 4 ? roll(2) : roll(4)) {
	case 0:
		put(" ");
		put_scalar();
		put(roll(4) == 0 ? " # why\n" : "\n");
		return;
	case 1:
		put(" ");
		put_flow(0);
		put("\n");
		return;
	default:
		put(roll(3) == 0 ? "\n\n" : roll(3) == 0 ? " # beneath\n" : "\n");
		put_block(depth, indent + 1 + (int)roll(3));
	}
}

TEST(well_formed_documents_are_accepted_and_mean_the_same)
{
	unsigned accepted = 0;

	for (int round = 0; round < 5000; round++) {
		n_document = 0;
		put_block(0, 0);
		accepted += compare(document);
	}
	CHECK(accepted > 4900);
}

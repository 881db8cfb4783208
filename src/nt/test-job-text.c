/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/test.h"
#include "nt/job-text.h"

#include <errno.h>

static void put(struct buf *out, const struct job_tree *tree, const struct job_node *node)
{
	const char *open = node->kind == JOB_MAP ? "{" : "[";

	if (node->kind == JOB_TEXT) {
		if (node->is_quoted)
			json_quote(out, node->text, strlen(node->text));
		else
			buf_add_str(out, node->text);
		return;
	}
	buf_add_str(out, open);
	for (const struct job_node *item = job_tree_first(tree, node); item;
	     item = job_tree_next(tree, item)) {
		if (node->kind == JOB_MAP)
			buf_addf(out, "%s:", item->key);
		put(out, tree, item);
		buf_add_str(out, ";");
	}
	buf_add_str(out, node->kind == JOB_MAP ? "}" : "]");
}

static void check_read(const char *text, const char *want)
{
	cleanup_buf struct buf out = BUF_INIT(10000);
	struct job_tree tree;
	struct atoll_error err = {0};
	int r = job_tree_read("job", text, strlen(text), &tree, &err);

	if (r < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
	put(&out, &tree, &tree.nodes[0]);
	CHECK_STR(out.data, want);
	job_tree_done(&tree);
}

static void check_refused(const char *text, const char *want)
{
	struct job_tree tree;
	struct atoll_error err = {0};

	CHECK(job_tree_read("job", text, strlen(text), &tree, &err) < 0);
	if (!strstr(err.text, want))
		test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", err.text, want);
}

TEST(maps_lists_and_words_are_read)
{
	check_read("a: 1\nb: two words # why\n", "{a:1;b:two words;}");
	check_read("a:\n  b:\n    - x\n    - y\n  c: z\n", "{a:{b:[x;y;];c:z;};}");
	check_read("a:\n- x\n- y\nb: 1\n", "{a:[x;y;];b:1;}");
	check_read("- k: v\n  l: w\n- - 1\n  - 2\n", "[{k:v;l:w;};[1;2;];]");
	check_read("a:\nb:\n", "{a:;b:;}");
	check_read("path: C:\\Users\\a b\n", "{path:C:\\Users\\a b;}");
	check_read("a: 'it''s'\nb: \"x\\n\\\"\\u00e9\"\n", "{a:\"it's\";b:\"x\\n\\\"\303\251\";}");
	check_read("{\n  \"a\": [1, \"b\"],\n  \"c\": {\"d\": null}\n}\n",
		   "{a:[1;\"b\";];c:{d:null;};}");
	check_read("# first\n\nword", "word");
	check_read("a:\r\n- 1\r\n", "{a:[1;];}");
	check_read("  #\tb\na: 1\n", "{a:1;}");
}

TEST(what_yaml_has_besides_is_refused_with_its_line)
{
	check_refused("a: &x 1\n", "job:1: a value that cannot begin");
	check_refused("a: *x\n", "cannot begin");
	check_refused("a: !!str 1\n", "cannot begin");
	check_refused("a: |\n  text\n", "cannot begin");
	check_refused("%YAML 1.2\n", "cannot begin");
	check_refused("---\na: 1\n", "a second document");
	check_refused("a: 1\n---\nb: 2\n", "a second document");
	check_refused("a: one\n  two\n", "job:2: a line that is indented differently");
	check_refused("a: 1\na: 2\n", "job:2: a key twice");
	check_refused("\ta: 1\n", "a tab");
	check_refused("a: b: c\n", "more behind a value");
	check_refused("a: \"x\ny\"\n", "not closed");
	check_refused("a: [1, 2\n", "without ',' or ']'");
	check_refused("a: 1\n b: 2\n", "indented differently");
	check_refused("", "nothing in it");
	check_refused("a: \xe2\x80\xae\n", "cannot be seen");
	check_refused("a: \xff\n", "UTF-8");
	check_refused("a:\rb\n", "cannot be seen");
	check_refused("a: \"\\x41\"\n", "an escape");
	check_refused("a: \"\\u0000\"\n", "cannot be seen");
	check_refused("? a\n", "cannot begin");
}

TEST(depth_is_bounded)
{
	char text[100];

	memset(text, '[', sizeof text);
	text[99] = '\0';
	check_refused(text, "too deep");
}

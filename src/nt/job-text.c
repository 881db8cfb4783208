/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text of a job file into a tree. Called by nt-job.c, and by a fuzzer.
 *
 * The reader goes through the text once. A value begins at a column; a map or list by indentation
 * goes on as long as further lines begin at the same column. Inside brackets columns do not count.
 */
#include "nt/job-text.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/job-characters.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

struct reader {
	const char *name;
	const char *at, *end;
	const char *line_start;
	unsigned line;
	int depth;
	struct job_tree *tree;
	struct atoll_error *err;
};

static int fail(struct reader *in, const char *what)
{
	return error_set(in->err, ATOLL_FAULT_REQUEST, EINVAL, "%s:%u: %s", in->name, in->line,
			 what);
}

/* ---- characters ---- */

static char peek(const struct reader *in)
{
	return in->at < in->end ? *in->at : '\0';
}

static char peek_after(const struct reader *in)
{
	return in->at + 1 < in->end ? in->at[1] : '\0';
}

static bool is_at_line_end(const struct reader *in)
{
	return in->at == in->end || *in->at == '\n';
}

static bool is_gap(char c)
{
	return c == ' ' || c == '\n' || c == '\0';
}

static size_t column(const struct reader *in)
{
	return (size_t)(in->at - in->line_start);
}

static void skip_blanks(struct reader *in)
{
	while (peek(in) == ' ')
		in->at++;
}

/* Blanks and a comment up to the end of the line. A comment needs a blank before it. */
static void skip_comment(struct reader *in)
{
	skip_blanks(in);
	if (peek(in) == '#' && (in->at == in->line_start || in->at[-1] == ' '))
		while (!is_at_line_end(in))
			in->at++;
}

static void skip_line_end(struct reader *in)
{
	in->at++;
	in->line++;
	in->line_start = in->at;
}

/* To the next character that is no blank, comment or line end. */
static void skip_to_token(struct reader *in)
{
	for (;;) {
		skip_comment(in);
		if (in->at == in->end || *in->at != '\n')
			return;
		skip_line_end(in);
	}
}

/* Whether the line that begins here has nothing but a comment: there a tab does no harm. */
static bool is_comment_line(const char *at, const char *end)
{
	while (at < end && *at == ' ')
		at++;
	return at < end && *at == '#';
}

static int check_characters(struct reader *in)
{
	const char *at = in->at;
	bool is_comment = is_comment_line(at, in->end);

	while (at < in->end) {
		size_t size = utf8_length(at, (size_t)(in->end - at));

		if (size == 0)
			return fail(in, "no valid UTF-8");
		if (!(is_comment && *at == '\t') && !job_is_visible(job_decode(at, size)))
			return fail(in, *at == '\t' ? "a tab; write blanks"
						    : "a character that cannot be seen");
		at += size;
		if (at[-1] == '\n') {
			in->line++;
			is_comment = is_comment_line(at, in->end);
		}
	}
	in->line = 1;
	return 0;
}

/* ---- the tree ---- */

static int add_node(struct reader *in, enum job_node_kind kind, size_t *ret)
{
	struct job_tree *tree = in->tree;

	if (tree->n_nodes == tree->room) {
		size_t room = tree->room ? 2 * tree->room : 64;
		struct job_node *nodes;

		if (tree->n_nodes >= JOB_NODES_MAX)
			return fail(in, "too many values");
		nodes = realloc(tree->nodes, room * sizeof *nodes);
		if (!nodes)
			return error_oom(in->err);
		tree->nodes = nodes;
		tree->room = room;
	}
	tree->nodes[tree->n_nodes] =
		(struct job_node){.kind = kind, .line = in->line, .text = "", .key = NULL};
	*ret = tree->n_nodes++;
	return 0;
}

/* Put a value behind the last one of a list or map. */
static void append(struct reader *in, size_t parent, size_t *last, size_t node)
{
	if (*last)
		in->tree->nodes[*last].next = node;
	else
		in->tree->nodes[parent].first = node;
	*last = node;
}

static int set_key(struct reader *in, size_t map, const char *key, size_t node)
{
	if (!*key)
		return fail(in, "an empty key");
	for (size_t i = in->tree->nodes[map].first; i; i = in->tree->nodes[i].next)
		if (streq(in->tree->nodes[i].key, key))
			return fail(in, "a key twice in one map");
	in->tree->nodes[node].key = key;
	return 0;
}

/* ---- words ---- */

static void put_char(struct reader *in, char c)
{
	in->tree->text[in->tree->used++] = c;
}

static void put_utf8(struct reader *in, uint32_t c)
{
	if (c < 0x80) {
		put_char(in, (char)c);
	} else if (c < 0x800) {
		put_char(in, (char)(0xc0 | c >> 6));
		put_char(in, (char)(0x80 | (c & 0x3f)));
	} else {
		put_char(in, (char)(0xe0 | c >> 12));
		put_char(in, (char)(0x80 | (c >> 6 & 0x3f)));
		put_char(in, (char)(0x80 | (c & 0x3f)));
	}
}

static int read_unicode(struct reader *in)
{
	uint32_t c = 0;

	if (in->end - in->at < 4)
		return fail(in, "\\u without four digits");
	for (int i = 0; i < 4; i++) {
		int digit = str_hex_value(in->at[i]);

		if (digit < 0)
			return fail(in, "\\u without four digits");
		c = c << 4 | (uint32_t)digit;
	}
	in->at += 4;
	if (c == 0 || !job_is_visible(c))
		return fail(in, "\\u with a character that cannot be seen");
	put_utf8(in, c);
	return 0;
}

static int read_escape(struct reader *in)
{
	static const char from[] = "\\\"/nt", to[] = "\\\"/\n\t";
	const char c = peek(in);
	const char *found = c ? strchr(from, c) : NULL;

	if (c == 'u') {
		in->at++;
		return read_unicode(in);
	}
	if (!found)
		return fail(in, "an escape that is none of \\\\ \\\" \\/ \\n \\t \\uXXXX");
	put_char(in, to[found - from]);
	in->at++;
	return 0;
}

static int read_quoted(struct reader *in)
{
	const char quote = *in->at++;

	while (!is_at_line_end(in)) {
		char c = *in->at++;

		if (c == '\\' && quote == '"') {
			int r = read_escape(in);

			if (r < 0)
				return r;
		} else if (c == quote && quote == '\'' && peek(in) == '\'') {
			put_char(in, '\'');
			in->at++;
		} else if (c == quote) {
			put_char(in, '\0');
			return 0;
		} else {
			put_char(in, c);
		}
	}
	return fail(in, "a quote that is not closed on its line");
}

static bool ends_word(const struct reader *in, bool is_flow)
{
	const char c = peek(in);

	if (c == ':')
		return is_gap(peek_after(in)) || (is_flow && strchr(",[]{}", peek_after(in)));
	if (c == '#')
		return in->at > in->line_start && in->at[-1] == ' ';
	return is_at_line_end(in) || (is_flow && c && strchr(",[]{}", c));
}

static int read_plain(struct reader *in, bool is_flow)
{
	const char c = peek(in);
	size_t start = in->tree->used;

	if (c == '\0' || strchr("?:,[]{}#&*!|>'\"%@`=<", c) || (c == '-' && is_gap(peek_after(in))))
		return fail(in, "a value that cannot begin like this without quotes");
	if (column(in) == 0 && in->end - in->at >= 3 &&
	    (memcmp(in->at, "---", 3) == 0 || memcmp(in->at, "...", 3) == 0))
		return fail(in, "a second document");
	/* Other readers take "-," in brackets for something else. */
	if (is_flow && c == '-' && strchr(",[]{}", peek_after(in)))
		return fail(in, "a value that cannot begin like this without quotes");
	while (!ends_word(in, is_flow))
		put_char(in, *in->at++);
	while (in->tree->used > start && in->tree->text[in->tree->used - 1] == ' ')
		in->tree->used--;
	put_char(in, '\0');
	return 0;
}

/* A word; `ret` points into the tree's text. */
static int read_word(struct reader *in, bool is_flow, const char **ret, bool *ret_is_quoted)
{
	const size_t start = in->tree->used;
	int r;

	*ret_is_quoted = peek(in) == '"' || peek(in) == '\'';
	r = *ret_is_quoted ? read_quoted(in) : read_plain(in, is_flow);
	*ret = in->tree->text + start;
	return r;
}

/* ---- brackets ---- */

static int read_flow(struct reader *in, size_t *ret);

static int read_flow_text(struct reader *in, size_t *ret)
{
	const unsigned line = in->line;
	const char *text;
	bool is_quoted;
	int r = read_word(in, true, &text, &is_quoted);

	if (r == 0)
		r = add_node(in, JOB_TEXT, ret);
	if (r < 0)
		return r;
	in->tree->nodes[*ret].line = line;
	in->tree->nodes[*ret].text = text;
	in->tree->nodes[*ret].is_quoted = is_quoted;
	return 0;
}

static int read_flow_pair(struct reader *in, size_t map, size_t *ret)
{
	const char *key;
	bool is_quoted;
	int r = read_word(in, true, &key, &is_quoted);

	if (r < 0)
		return r;
	if (peek(in) != ':' || !is_gap(peek_after(in)))
		return fail(in, "a key in { } without ': ' behind it");
	in->at++;
	skip_to_token(in);
	r = read_flow(in, ret);
	return r < 0 ? r : set_key(in, map, key, *ret);
}

static int read_flow_items(struct reader *in, size_t node, bool is_map)
{
	const char closing = is_map ? '}' : ']';
	size_t last = 0, item;
	int r;

	for (;;) {
		skip_to_token(in);
		if (peek(in) == closing)
			break;
		r = is_map ? read_flow_pair(in, node, &item) : read_flow(in, &item);
		if (r < 0)
			return r;
		append(in, node, &last, item);
		skip_to_token(in);
		if (peek(in) == ',')
			in->at++;
		else if (peek(in) != closing)
			return fail(in, is_map ? "a '{' without ',' or '}'"
					       : "a '[' without ',' or ']'");
	}
	in->at++;
	return 0;
}

static int read_flow(struct reader *in, size_t *ret)
{
	const bool is_map = peek(in) == '{';
	int r;

	if (!is_map && peek(in) != '[')
		return read_flow_text(in, ret);
	if (++in->depth > JOB_DEPTH_MAX)
		return fail(in, "values too deep within each other");
	r = add_node(in, is_map ? JOB_MAP : JOB_LIST, ret);
	if (r < 0)
		return r;
	in->at++;
	r = read_flow_items(in, *ret, is_map);
	in->depth--;
	return r;
}

/* ---- indentation ---- */

static int read_block(struct reader *in, size_t *ret);

/* Behind a value: nothing more on its line. */
static int finish_line(struct reader *in)
{
	skip_comment(in);
	return is_at_line_end(in) ? 0 : fail(in, "more behind a value");
}

/* A value on lines of its own, deeper than `above`, or nothing. */
static int read_beneath(struct reader *in, size_t above, bool may_be_list_here, size_t *ret)
{
	const unsigned line = in->line;
	int r;

	skip_to_token(in);
	if (in->at < in->end && (column(in) > above || (may_be_list_here && column(in) == above &&
							peek(in) == '-' && is_gap(peek_after(in)))))
		return read_block(in, ret);
	r = add_node(in, JOB_TEXT, ret);
	if (r == 0)
		in->tree->nodes[*ret].line = line;
	return r;
}

/* The value behind "key:". */
static int read_value(struct reader *in, size_t above, size_t *ret)
{
	int r;

	skip_comment(in);
	if (is_at_line_end(in))
		return read_beneath(in, above, true, ret);
	if (in->at[-1] != ' ')
		return fail(in, "a value without a blank before it");
	r = read_flow(in, ret);
	return r < 0 ? r : finish_line(in);
}

/* The next line of a map or list, at its column. Returns 1, 0 at its end, or an error. */
static int next_line(struct reader *in, size_t here)
{
	skip_to_token(in);
	if (in->at == in->end || column(in) < here)
		return 0;
	return column(in) == here ? 1 : fail(in, "a line that is indented differently");
}

static int read_block_map(struct reader *in, const char *key, size_t here, size_t *ret)
{
	size_t last = 0, value;
	bool is_quoted;
	int r = add_node(in, JOB_MAP, ret);

	while (r == 0) {
		if (peek(in) != ':' || !is_gap(peek_after(in)))
			return fail(in, "a line without 'key: '");
		in->at++;
		r = read_value(in, here, &value);
		if (r == 0)
			r = set_key(in, *ret, key, value);
		if (r < 0)
			return r;
		append(in, *ret, &last, value);
		r = next_line(in, here);
		if (r <= 0)
			return r;
		if (peek(in) == '-' && is_gap(peek_after(in)))
			return fail(in, "a list item where a key belongs");
		r = read_word(in, false, &key, &is_quoted);
	}
	return r;
}

static int read_item(struct reader *in, size_t here, size_t *ret)
{
	in->at++; /* the dash */
	skip_comment(in);
	if (is_at_line_end(in))
		return read_beneath(in, here, false, ret);
	return read_block(in, ret);
}

static int read_block_list(struct reader *in, size_t here, size_t *ret)
{
	size_t last = 0, item;
	int r = add_node(in, JOB_LIST, ret);

	while (r == 0) {
		if (peek(in) != '-' || !is_gap(peek_after(in)))
			/* A list may stand at its key's column: the next key ends it. */
			return 0;
		r = read_item(in, here, &item);
		if (r < 0)
			return r;
		append(in, *ret, &last, item);
		r = next_line(in, here);
		if (r <= 0)
			return r;
		r = 0;
	}
	return r;
}

static int read_block_inner(struct reader *in, size_t *ret)
{
	const size_t here = column(in);
	const unsigned line = in->line;
	const char *text;
	bool is_quoted;
	int r;

	if (peek(in) == '-' && is_gap(peek_after(in)))
		return read_block_list(in, here, ret);
	if (peek(in) == '[' || peek(in) == '{') {
		r = read_flow(in, ret);
		return r < 0 ? r : finish_line(in);
	}
	r = read_word(in, false, &text, &is_quoted);
	if (r < 0)
		return r;
	if (peek(in) == ':' && is_gap(peek_after(in)))
		return read_block_map(in, text, here, ret);
	r = add_node(in, JOB_TEXT, ret);
	if (r < 0)
		return r;
	in->tree->nodes[*ret].line = line;
	in->tree->nodes[*ret].text = text;
	in->tree->nodes[*ret].is_quoted = is_quoted;
	return finish_line(in);
}

static int read_block(struct reader *in, size_t *ret)
{
	int r;

	if (++in->depth > JOB_DEPTH_MAX)
		return fail(in, "values too deep within each other");
	r = read_block_inner(in, ret);
	in->depth--;
	return r;
}

static int read_all(struct reader *in)
{
	size_t top;
	int r = check_characters(in);

	if (r < 0)
		return r;
	skip_to_token(in);
	if (in->at == in->end)
		return fail(in, "nothing in it");
	r = read_block(in, &top);
	if (r < 0)
		return r;
	skip_to_token(in);
	return in->at == in->end ? 0 : fail(in, "a line that is indented differently");
}

int job_tree_read(const char *name, const char *text, size_t size, struct job_tree *ret,
		  struct atoll_error *err)
{
	cleanup_free char *lines = NULL;
	struct reader in = {.name = name, .line = 1, .tree = ret, .err = err};
	int r;

	*ret = (struct job_tree){0};
	if (size > JOB_TEXT_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, E2BIG, "%s: over 1 MiB", name);
	/* Every word is at least as long in the file as here, but for its NUL. */
	ret->text = malloc(2 * size + 2);
	lines = malloc(size + 1);
	if (!ret->text || !lines) {
		job_tree_done(ret);
		return error_oom(err);
	}
	in.at = in.line_start = lines;
	in.end = lines + job_copy_lines(text, size, lines);
	r = read_all(&in);
	if (r < 0)
		job_tree_done(ret);
	return r;
}

void job_tree_done(struct job_tree *tree)
{
	free(tree->nodes);
	free(tree->text);
	*tree = (struct job_tree){0};
}

const struct job_node *job_tree_first(const struct job_tree *tree, const struct job_node *node)
{
	return node->first ? &tree->nodes[node->first] : NULL;
}

const struct job_node *job_tree_next(const struct job_tree *tree, const struct job_node *node)
{
	return node->next ? &tree->nodes[node->next] : NULL;
}

const struct job_node *job_tree_get(const struct job_tree *tree, const struct job_node *map,
				    const char *key)
{
	if (map->kind != JOB_MAP)
		return NULL;
	for (const struct job_node *node = job_tree_first(tree, map); node;
	     node = job_tree_next(tree, node))
		if (streq(node->key, key))
			return node;
	return NULL;
}

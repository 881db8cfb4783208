/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/document.h"

#include "spec/spec-inner.h"

#include <errno.h>
#include <yaml.h>

#define TEXT_MAX  ((size_t)1 << 20)
#define DEPTH_MAX 32
/* Keys are compared with each other, so their number is bounded; a command may have 4096 words. */
#define KEYS_MAX  2048
#define ITEMS_MAX 8192

struct reader {
	const char *name;
	const char *text;
	yaml_parser_t parser;
	struct atoll_error *err;
};

static void tree_done(struct tree *tree)
{
	for (size_t i = 0; i < tree->n_items; i++)
		tree_done(&tree->items[i]);
	free(tree->items);
	free(tree->key);
	free(tree->text);
}

void tree_free(struct tree *tree)
{
	if (!tree)
		return;
	tree_done(tree);
	free(tree);
}

const struct tree *tree_get(const struct tree *map, const char *key)
{
	for (size_t i = 0; map && map->kind == TREE_MAP && i < map->n_items; i++)
		if (streq(map->items[i].key, key))
			return &map->items[i];
	return NULL;
}

static bool is_among(const char *text, const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		if (streq(text, words[i]))
			return true;
	return false;
}

static size_t count_digits(const char **text)
{
	size_t n = strspn(*text, "0123456789_");

	*text += n;
	return n;
}

static enum tree_type type_of_number(const char *p)
{
	enum tree_type type = TREE_INTEGER;
	size_t digits;

	p += *p == '-' || *p == '+';
	if (streq(p, ".inf") || streq(p, ".Inf") || streq(p, ".INF") || streq(p, ".nan"))
		return TREE_NUMBER;
	if (p[0] == '0' && p[1] && strchr("xob", p[1]) && p[2])
		return p[2 + strspn(p + 2, "0123456789abcdefABCDEF_")] ? TREE_STRING : TREE_NUMBER;
	digits = count_digits(&p);
	if (*p == '.') {
		type = TREE_NUMBER;
		p++;
		digits += count_digits(&p);
	}
	if (digits && (*p == 'e' || *p == 'E')) {
		type = TREE_NUMBER;
		p++;
		p += *p == '-' || *p == '+';
		digits = count_digits(&p);
	}
	return digits && *p == '\0' ? type : TREE_STRING;
}

static enum tree_type type_of_plain(const char *text)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const bools[] = {"true",  "True",  "TRUE", "false",
					    "False", "FALSE", NULL};
	static const char *const disputed[] = {"yes", "Yes", "YES", "no",  "No",  "NO", "on",
					       "On",  "ON",  "off", "Off", "OFF", NULL};

	if (is_among(text, nulls))
		return TREE_NULL;
	if (is_among(text, bools))
		return TREE_BOOL;
	if (is_among(text, disputed))
		return TREE_DISPUTED;
	return type_of_number(text);
}

static int fail(struct reader *reader, size_t line, const char *what)
{
	return error_set(reader->err, ATOLL_FAULT_REQUEST, 0, "%s:%zu: %s", reader->name, line + 1,
			 what);
}

/* The line of a byte: a reader's error knows no line. */
static size_t line_at(const char *text, size_t offset)
{
	size_t line = 0;

	for (size_t i = 0; i < offset; i++)
		line += text[i] == '\n';
	return line;
}

static int next_event(struct reader *reader, yaml_event_t *ret_event)
{
	yaml_parser_t *parser = &reader->parser;

	if (yaml_parser_parse(parser, ret_event))
		return 0;
	if (parser->error == YAML_MEMORY_ERROR)
		return error_oom(reader->err);
	if (parser->error == YAML_READER_ERROR)
		return fail(
			reader, line_at(reader->text, parser->problem_offset),
			"a control character; write it as an escape (\"\\t\") in double quotes");
	/* "- *.example.com" */
	if (parser->context && strstr(parser->context, "an alias"))
		return fail(reader, parser->problem_mark.line,
			    "a value that begins with * must stand in quotes: \"*.example.com\"");
	if (!parser->context)
		return error_set(reader->err, ATOLL_FAULT_REQUEST, 0, "%s:%zu: not valid YAML: %s",
				 reader->name, parser->problem_mark.line + 1, parser->problem);
	return error_set(reader->err, ATOLL_FAULT_REQUEST, 0,
			 "%s:%zu: not valid YAML: %s (%s, from line %zu)", reader->name,
			 parser->problem_mark.line + 1, parser->problem, parser->context,
			 parser->context_mark.line + 1);
}

/* Things that make one place of the file mean another. */
static int check_plainness(struct reader *reader, const yaml_event_t *event)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	switch (event->type) {
	case YAML_ALIAS_EVENT:
		return fail(reader, event->start_mark.line,
			    "aliases (*name) are not allowed; write the value out");
	case YAML_SCALAR_EVENT:
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
		break;
	default:
		break;
	}
	if (anchor)
		return fail(
			reader, event->start_mark.line,
			"anchors (&name) are not allowed; write the value out where it is used");
	if (tag)
		return fail(reader, event->start_mark.line,
			    "tags (!name) are not allowed; leave the tag out");
	return 0;
}

static int read_text(struct reader *reader, const yaml_event_t *event, struct tree *ret)
{
	const char *text = (const char *)event->data.scalar.value;

	if (strlen(text) != event->data.scalar.length)
		return fail(reader, event->start_mark.line,
			    "a NUL character in a value; no path, word or variable can hold one");
	ret->kind = TREE_TEXT;
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		ret->type = type_of_plain(text);
	return spec_set_text(&ret->text, text, reader->err);
}

/* Place for one more item, zeroed and counted. */
static struct tree *add_item(struct tree *tree)
{
	size_t n = tree->n_items;

	if ((n & (n - 1)) == 0) {
		struct tree *grown = reallocarray(tree->items, n ? 2 * n : 1, sizeof *grown);

		if (!grown)
			return NULL;
		tree->items = grown;
	}
	tree->items[n] = (struct tree){0};
	tree->n_items++;
	return &tree->items[n];
}

static int read_value(struct reader *reader, const yaml_event_t *event, unsigned depth,
		      struct tree *ret);

static int read_list(struct reader *reader, unsigned depth, struct tree *list)
{
	list->kind = TREE_LIST;
	for (;;) {
		cleanup_with(yaml_event_delete) yaml_event_t event = {0};
		struct tree *item;
		int r = next_event(reader, &event);

		if (r < 0 || event.type == YAML_SEQUENCE_END_EVENT)
			return r;
		if (list->n_items == ITEMS_MAX)
			return fail(reader, event.start_mark.line,
				    "a list of more than 8192 entries");
		item = add_item(list);
		if (!item)
			return error_oom(reader->err);
		r = read_value(reader, &event, depth + 1, item);
		if (r < 0)
			return r;
	}
}

static int read_key(struct reader *reader, const yaml_event_t *event, struct tree *map,
		    char **ret_key)
{
	const struct tree *earlier;
	const char *key;
	int r = check_plainness(reader, event);

	if (r < 0)
		return r;
	if (event->type != YAML_SCALAR_EVENT)
		return fail(reader, event->start_mark.line,
			    "a list or mapping as a key; keys are words");
	key = (const char *)event->data.scalar.value;
	if (strlen(key) != event->data.scalar.length || key[0] == '\0')
		return fail(reader, event->start_mark.line, "an empty key; keys are words");
	if (map->n_items == KEYS_MAX)
		return fail(reader, event->start_mark.line, "a mapping of more than 2048 keys");
	earlier = tree_get(map, key);
	if (earlier)
		return error_set(reader->err, ATOLL_FAULT_REQUEST, 0,
				 "%s:%zu: key '%s' is there already, in line %u; keep one of them",
				 reader->name, event->start_mark.line + 1, shown(key),
				 earlier->key_line);
	return spec_set_text(ret_key, key, reader->err);
}

static int read_map(struct reader *reader, unsigned depth, struct tree *map)
{
	map->kind = TREE_MAP;
	for (;;) {
		cleanup_with(yaml_event_delete) yaml_event_t key_event = {0};
		cleanup_with(yaml_event_delete) yaml_event_t event = {0};
		cleanup_free char *key = NULL;
		struct tree *item;
		int r = next_event(reader, &key_event);

		if (r < 0 || key_event.type == YAML_MAPPING_END_EVENT)
			return r;
		r = read_key(reader, &key_event, map, &key);
		if (r == 0)
			r = next_event(reader, &event);
		if (r < 0)
			return r;
		item = add_item(map);
		if (!item)
			return error_oom(reader->err);
		item->key = take_ptr(key);
		item->key_line = (unsigned)key_event.start_mark.line + 1;
		r = read_value(reader, &event, depth + 1, item);
		if (r < 0)
			return r;
	}
}

static int read_value(struct reader *reader, const yaml_event_t *event, unsigned depth,
		      struct tree *ret)
{
	int r = check_plainness(reader, event);

	if (r < 0)
		return r;
	if (depth > DEPTH_MAX)
		return fail(reader, event->start_mark.line, "nested deeper than 32 levels");
	ret->line = (unsigned)event->start_mark.line + 1;
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return read_text(reader, event, ret);
	case YAML_SEQUENCE_START_EVENT:
		return read_list(reader, depth, ret);
	case YAML_MAPPING_START_EVENT:
		return read_map(reader, depth, ret);
	default:
		return fail(reader, event->start_mark.line, "the file is empty; write 'command:'");
	}
}

/* The document's start is behind us; read its one value, and make sure that nothing follows. */
static int read_document(struct reader *reader, struct tree *ret)
{
	cleanup_with(yaml_event_delete) yaml_event_t root = {0};
	cleanup_with(yaml_event_delete) yaml_event_t end = {0};
	cleanup_with(yaml_event_delete) yaml_event_t after = {0};
	int r = next_event(reader, &root);

	if (r == 0)
		r = read_value(reader, &root, 1, ret);
	if (r == 0)
		r = next_event(reader, &end);
	if (r == 0)
		r = next_event(reader, &after);
	if (r == 0 && after.type != YAML_STREAM_END_EVENT)
		r = fail(
			reader, after.start_mark.line,
			"a second document; one file is one job, so put it into a file of its own");
	return r;
}

static int read_stream(struct reader *reader, struct tree *ret)
{
	cleanup_with(yaml_event_delete) yaml_event_t stream = {0};
	cleanup_with(yaml_event_delete) yaml_event_t start = {0};
	int r = next_event(reader, &stream);

	if (r == 0)
		r = next_event(reader, &start);
	if (r < 0)
		return r;
	if (start.type == YAML_STREAM_END_EVENT)
		return fail(reader, 0, "the file is empty; write at least 'command:'");
	if (start.data.document_start.version_directive ||
	    start.data.document_start.tag_directives.start !=
		    start.data.document_start.tag_directives.end)
		return fail(reader, start.start_mark.line,
			    "directives (%YAML, %TAG) are not allowed; leave the line out");
	return read_document(reader, ret);
}

/* What is wrong with the bytes themselves, before YAML has a say. */
static int check_bytes(struct reader *reader, const char *text, size_t size)
{
	size_t line = 0;

	if (size > TEXT_MAX)
		return fail(reader, 0, "the file is larger than 1 MiB; a job is a small text");
	if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		return fail(reader, 0,
			    "the file begins with a byte order mark (BOM); save it without");
	if (size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
		return fail(reader, 0, "the file is UTF-16 (by its BOM); save it as UTF-8");
	for (size_t i = 0; i < size;) {
		size_t length = utf8_length(text + i, size - i);

		if (length == 0)
			return fail(reader, line, "not valid UTF-8; save the file as UTF-8");
		if (text[i] == '\0')
			return fail(reader, line, "a NUL character; this is no text file");
		line += text[i] == '\n';
		i += length;
	}
	return 0;
}

int tree_read(const char *name, const char *text, size_t size, struct tree **ret_tree,
	      struct atoll_error *err)
{
	struct reader reader = {.name = name, .text = text, .err = err};
	struct tree *tree;
	int r = check_bytes(&reader, text, size);

	if (r < 0)
		return r;
	tree = calloc(1, sizeof *tree);
	if (!tree || !yaml_parser_initialize(&reader.parser)) {
		free(tree);
		return error_oom(err);
	}
	yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
	r = read_stream(&reader, tree);
	yaml_parser_delete(&reader.parser);
	if (r == 0)
		*ret_tree = tree;
	else
		tree_free(tree);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-line.h"

#include "base/scope.h"
#include "base/str.h"

#include <stdlib.h>

struct reader {
	const char *at, *end;
	struct line *line;
};

/* The position after the closing quote; NULL if there is none. */
static const char *string_end(const char *at, const char *end)
{
	while (at < end && *at != '"')
		at += *at == '\\' ? 2 : 1;
	return at < end ? at + 1 : NULL;
}

/* Appends a character as UTF-8; U+DC80..U+DCFF become single bytes. */
static void put_escaped(struct line *line, unsigned code)
{
	char *out = line->texts + line->used;

	if (code < 0x80) {
		*out = (char)code;
		line->used += 1;
	} else if (code >= 0xdc80 && code <= 0xdcff) {
		*out = (char)(code - 0xdc00);
		line->used += 1;
	} else if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		line->used += 2;
	} else {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		line->used += 3;
	}
}

static unsigned hex4(const char *at)
{
	unsigned code = 0;

	for (int i = 0; i < 4; i++) {
		int digit = str_hex_value(at[i]);

		code = code << 4 | (unsigned)(digit < 0 ? 0 : digit);
	}
	return code;
}

/* Reads a string after its opening quote; NULL only if it has no end. */
static const char *read_string(struct reader *reader)
{
	static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";
	struct line *line = reader->line;
	const char *at = reader->at, *end = string_end(at, reader->end), *start;

	if (!end || end > reader->end)
		return NULL;
	reader->at = end--;
	/* Leave room for two more empty strings and their NULs. */
	if (line->used + 8 >= sizeof line->texts)
		return "";
	start = line->texts + line->used;
	while (at < end && line->used + 8 < sizeof line->texts) {
		const char *escape;

		if (*at != '\\') {
			line->texts[line->used++] = *at++;
			continue;
		}
		if (at[1] == 'u' && end - at >= 6) {
			put_escaped(line, hex4(at + 2));
			at += 6;
			continue;
		}
		escape = at[1] ? strchr(from, at[1]) : NULL;
		line->texts[line->used++] = escape ? to[escape - from] : at[1];
		at += 2;
	}
	line->texts[line->used++] = '\0';
	return start;
}

/* Skips a value that no rule needs. */
static bool skip(struct reader *reader)
{
	int depth = 0;

	while (reader->at < reader->end) {
		char c = *reader->at;

		if (depth == 0 && (c == ',' || c == '}'))
			return true;
		if (c == '"') {
			reader->at = string_end(reader->at + 1, reader->end);
			if (!reader->at)
				return false;
			continue;
		}
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		reader->at++;
	}
	return false;
}

static bool read_list(struct reader *reader)
{
	struct line *line = reader->line;

	while (reader->at < reader->end && *reader->at != ']') {
		const char *text;

		if (*reader->at == ',') {
			reader->at++;
			continue;
		}
		if (*reader->at++ != '"')
			return false;
		text = read_string(reader);
		if (!text)
			return false;
		if (line->argc < LINE_ARGS_MAX)
			line->argv[line->argc++] = text;
	}
	reader->at++;
	return reader->at <= reader->end;
}

static enum line_kind find_kind(const char *word)
{
	static const struct {
		const char *word;
		enum line_kind kind;
	} kinds[] = {
		{"exec", LINE_EXEC},
		{"denial", LINE_DENIAL},
		{"connection", LINE_CONNECTION},
		{"change", LINE_CHANGE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(word, kinds[i].word))
			return kinds[i].kind;
	return LINE_OTHER;
}

static const char **text_slot(struct line *line, const char *key, size_t size)
{
	const struct {
		const char *key;
		const char **slot;
	} slots[] = {
		{"program", &line->program}, {"path", &line->path},	{"action", &line->action},
		{"object", &line->object},   {"name", &line->name},	{"address", &line->address},
		{"request", &line->request}, {"change", &line->change}, {"type", &line->type},
	};

	for (size_t i = 0; i < ARRAY_SIZE(slots); i++)
		if (strlen(slots[i].key) == size && memcmp(slots[i].key, key, size) == 0)
			return slots[i].slot;
	return NULL;
}

static void read_number(struct line *line, const char *key, size_t size, const char *at)
{
	if (size == 3 && memcmp(key, "seq", 3) == 0)
		line->seq = strtoull(at, NULL, 10);
	else if (size == 4 && memcmp(key, "step", 4) == 0)
		line->step = (uint32_t)strtoul(at, NULL, 10);
	else if (size == 3 && memcmp(key, "pid", 3) == 0)
		line->pid = (int32_t)strtol(at, NULL, 10);
	else if (size == 6 && memcmp(key, "parent", 6) == 0)
		line->parent = (int32_t)strtol(at, NULL, 10);
	else if (size == 4 && memcmp(key, "port", 4) == 0)
		line->port = (uint16_t)strtoul(at, NULL, 10);
	else if (size == 5 && memcmp(key, "fresh", 5) == 0)
		line->is_fresh = *at == 't';
}

/* Reads one `"key":value`. */
static bool read_pair(struct reader *reader)
{
	struct line *line = reader->line;
	const char *key = reader->at + 1, *end;
	const char **slot;
	size_t size;

	if (*reader->at != '"')
		return false;
	end = string_end(key, reader->end);
	if (!end || end >= reader->end || *end != ':')
		return false;
	size = (size_t)(end - key) - 1;
	reader->at = end + 1;
	if (reader->at >= reader->end)
		return false;
	if (*reader->at == '"') {
		bool is_kind = size == 4 && memcmp(key, "kind", 4) == 0;

		slot = text_slot(line, key, size);
		if (!slot && !is_kind)
			return skip(reader);
		reader->at++;
		end = read_string(reader);
		if (!end)
			return false;
		if (!is_kind) {
			*slot = end;
			return true;
		}
		line->kind = find_kind(end);
		return line->kind != LINE_OTHER;
	}
	if (*reader->at == '[' && size == 4 && memcmp(key, "argv", 4) == 0) {
		reader->at++;
		return read_list(reader);
	}
	read_number(line, key, size, reader->at);
	return skip(reader);
}

bool line_parse(const char *text, size_t size, struct line *ret)
{
	struct reader reader = {text, text + size, ret};

	memset(ret, 0, offsetof(struct line, argv));
	ret->argc = ret->used = 0;
	ret->program = ret->path = ret->action = ret->object = "";
	ret->name = ret->address = ret->request = ret->change = ret->type = "";
	if (size < 2 || text[0] != '{' || text[size - 1] != '}')
		return false;
	while (reader.at < reader.end && *reader.at != '}') {
		reader.at++;
		if (reader.at >= reader.end || !read_pair(&reader))
			return false;
	}
	ret->argv[ret->argc] = NULL;
	return ret->kind != LINE_OTHER;
}

const char *line_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

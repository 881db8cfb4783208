/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/git-config-read.h"

#include <string.h>

enum {
	ENTRIES_MAX = 1024, /* each may cost a walk through the old text (git_config_vet) */
};

enum {
	CHAR_END = -1,
	CHAR_BAD = -2,
};

static int peek_char(const struct git_config_reader *reader, size_t *ret_size)
{
	*ret_size = 0;
	if (reader->at == reader->end)
		return CHAR_END;
	*ret_size = 1;
	if (*reader->at == '\0')
		return CHAR_BAD;
	if (*reader->at != '\r')
		return (unsigned char)*reader->at;
	*ret_size = 2;
	return reader->end - reader->at >= 2 && reader->at[1] == '\n' ? '\n' : CHAR_BAD;
}

static int next_char(struct git_config_reader *reader)
{
	size_t size;
	int c = peek_char(reader, &size);

	if (c == CHAR_BAD)
		return c;
	reader->at += size;
	if (c == '\n')
		reader->line++;
	return c;
}

static bool is_end_of_line(int c)
{
	return c == '\n' || c == CHAR_END;
}

static bool is_blank(int c)
{
	return c == ' ' || c == '\t';
}

static bool is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key_char(int c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

/* Put one more character at the end of a text; false if it is full. */
static bool append(char *text, size_t room, size_t *used, int c)
{
	if (*used + 1 >= room)
		return false;
	text[(*used)++] = (char)c;
	text[*used] = '\0';
	return true;
}

static int to_lower(int c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* The word of a section or key into `text`, in lower case. Returns the character behind it. */
static int read_word(struct git_config_reader *reader, char *text, size_t room)
{
	size_t used = strlen(text);

	for (;;) {
		int c = next_char(reader);

		if (!is_key_char(c))
			return c;
		if (!append(text, room, &used, to_lower(c)))
			return CHAR_BAD;
	}
}

/* Behind "[section " up to the final bracket. */
static bool read_subsection(struct git_config_reader *reader, struct git_config_entry *entry)
{
	size_t used = 0;
	int c;

	do
		c = next_char(reader);
	while (is_blank(c));
	if (c != '"')
		return false;
	for (;;) {
		c = next_char(reader);
		if (c == '"')
			break;
		if (c == '\\')
			c = next_char(reader);
		if (is_end_of_line(c) || c == CHAR_BAD)
			return false;
		if (!append(entry->subsection, sizeof entry->subsection, &used, c))
			return false;
	}
	entry->has_subsection = true;
	return next_char(reader) == ']';
}

/* Behind the opening bracket. The entry keeps the section for all keys that follow. */
static bool read_section(struct git_config_reader *reader, struct git_config_entry *entry)
{
	int c;

	entry->section[0] = entry->subsection[0] = '\0';
	entry->has_subsection = false;
	c = read_word(reader, entry->section, sizeof entry->section);
	if (!*entry->section)
		return false;
	reader->has_section = true;
	if (c == ']')
		return true;
	return is_blank(c) && read_subsection(reader, entry);
}

/* What follows a backslash; CHAR_BAD for what git does not know. */
static int read_escape(struct git_config_reader *reader)
{
	int c = next_char(reader);

	switch (c) {
	case 't':
		return '\t';
	case 'b':
		return '\b';
	case 'n':
		return '\n';
	case '\\':
	case '"':
		return c;
	default:
		return CHAR_BAD;
	}
}

static bool skip_continuation(struct git_config_reader *reader)
{
	size_t size;

	if (peek_char(reader, &size) != '\n')
		return false;
	next_char(reader);
	return true;
}

/* Behind the '=' up to the end of the line, which a backslash moves to the next. */
static bool read_value(struct git_config_reader *reader, struct git_config_entry *entry)
{
	bool is_quoted = false, is_comment = false;
	size_t used = 0, kept = 0; /* blanks behind `kept` count only if something follows */

	entry->has_value = true;
	for (;;) {
		int c = next_char(reader);

		if (c == CHAR_BAD || (is_end_of_line(c) && is_quoted))
			return false;
		if (is_end_of_line(c))
			break;
		if (is_comment)
			continue;
		if (!is_quoted && (c == ';' || c == '#')) {
			is_comment = true;
			continue;
		}
		if (!is_quoted && is_blank(c)) {
			if (used && !append(entry->value, sizeof entry->value, &used, c))
				return false;
			continue;
		}
		kept = used;
		if (c == '"') {
			is_quoted = !is_quoted;
			continue;
		}
		if (c == '\\') {
			if (skip_continuation(reader))
				continue;
			c = read_escape(reader);
			if (c == CHAR_BAD)
				return false;
		}
		if (!append(entry->value, sizeof entry->value, &used, c))
			return false;
		kept = used;
	}
	entry->value[kept] = '\0';
	return true;
}

static bool read_key(struct git_config_reader *reader, struct git_config_entry *entry, int first)
{
	int c;

	entry->key[0] = (char)to_lower(first);
	entry->key[1] = entry->value[0] = '\0';
	entry->has_value = false;
	c = read_word(reader, entry->key, sizeof entry->key);
	while (is_blank(c))
		c = next_char(reader);
	if (is_end_of_line(c))
		return true;
	return c == '=' && read_value(reader, entry);
}

static bool skip_comment(struct git_config_reader *reader)
{
	int c;

	do
		c = next_char(reader);
	while (!is_end_of_line(c) && c != CHAR_BAD);
	return c != CHAR_BAD;
}

int git_config_read(struct git_config_reader *reader, struct git_config_entry *entry)
{
	for (;;) {
		int c;

		reader->started = reader->line;
		c = next_char(reader);
		if (c == CHAR_END)
			return 0;
		if (c == '\n' || is_blank(c))
			continue;
		if (c == '#' || c == ';') {
			if (!skip_comment(reader))
				return -1;
			continue;
		}
		if (c == '[') {
			if (!read_section(reader, entry))
				return -1;
			continue;
		}
		if (!is_letter(c) || !reader->has_section || ++reader->entries > ENTRIES_MAX)
			return -1;
		return read_key(reader, entry, c) ? 1 : -1;
	}
}

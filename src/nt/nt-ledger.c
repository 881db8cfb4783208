/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the ledger's lines. Called by the engine, which keeps the file. */
#include "nt/nt-ledger.h"

#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt-path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAGIC	   "atoll1"
#define FIELDS_MAX 5

static uint32_t checksum(const char *data, size_t size)
{
	uint32_t crc = 0xffffffffU;

	for (size_t i = 0; i < size; i++) {
		crc ^= (uint8_t)data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
	}
	return ~crc;
}

/* ---- writing ---- */

static void put_field(struct buf *out, const char *text)
{
	buf_add_char(out, '\t');
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == '%' || *text == 0x7f)
			buf_addf(out, "%%%02x", (unsigned)(unsigned char)*text);
		else
			buf_add_char(out, *text);
	}
}

char *nt_ledger_line(const char *kind, const char *const *fields)
{
	cleanup_buf struct buf out = BUF_INIT(NT_LEDGER_LINE_MAX);

	buf_add_str(&out, MAGIC);
	put_field(&out, kind);
	for (; *fields; fields++)
		put_field(&out, *fields);
	if (buf_error(&out) < 0)
		return NULL;
	buf_addf(&out, "\t%08x\n", checksum(out.data, out.used));
	return buf_take(&out);
}

/* ---- reading ---- */

static bool unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		if (*text != '%') {
			*out++ = *text;
			continue;
		}
		int high = str_hex_value(text[1]);
		int low = high < 0 ? -1 : str_hex_value(text[2]);

		if (low < 0 || (high == 0 && low == 0))
			return false;
		*out++ = (char)(high << 4 | low);
		text += 2;
	}
	*out = '\0';
	return true;
}

/* Split a line whose checksum is right. Returns the number of fields, or -1. */
static int split(char *line, size_t size, char **fields)
{
	char sum[9], *at, *last = size > 9 ? line + size - 9 : NULL;
	int n = 0;

	if (!last || *last != '\t' || memchr(line, '\0', size))
		return -1;
	snprintf(sum, sizeof sum, "%08x", checksum(line, (size_t)(last - line)));
	if (memcmp(last + 1, sum, 8) != 0)
		return -1;
	*last = '\0';
	if (!starts_with(line, MAGIC "\t"))
		return -1;
	for (at = line + strlen(MAGIC) + 1; at; n++) {
		char *tab = strchr(at, '\t');

		if (n == FIELDS_MAX)
			return -1;
		if (tab)
			*tab++ = '\0';
		fields[n] = at;
		at = tab;
	}
	for (int i = 0; i < n; i++)
		if (!unescape(fields[i]))
			return -1;
	return n;
}

static bool read_number(const char *text, unsigned *ret)
{
	uint64_t value = 0;

	if (!*text || strlen(text) > 7)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (unsigned)(*text - '0');
	}
	*ret = (unsigned)value;
	return true;
}

static struct nt_ledger_root *root_by_number(struct nt_ledger *ledger, const char *text)
{
	unsigned number;

	if (!read_number(text, &number))
		return NULL;
	for (size_t i = 0; i < ledger->n_roots; i++)
		if (ledger->roots[i].number == number)
			return &ledger->roots[i];
	return NULL;
}

/* Returns 1, 0 for a line that makes no sense, or -ENOMEM. */
static int add_root(struct nt_ledger *ledger, char **fields)
{
	struct nt_ledger_root root = {0}, *roots;

	if (!read_number(fields[1], &root.number) || root_by_number(ledger, fields[1]) ||
	    nt_sid_parse(fields[2], strlen(fields[2]), &root.sid) != (int)strlen(fields[2]) ||
	    !nt_sid_is_ours(&root.sid) || nt_ledger_find(ledger, fields[3]))
		return 0;
	root.path = strdup(fields[3]);
	roots = root.path ? realloc(ledger->roots, (ledger->n_roots + 1) * sizeof *roots) : NULL;
	if (!roots) {
		free(root.path);
		return -ENOMEM;
	}
	ledger->roots = roots;
	roots[ledger->n_roots++] = root;
	return 1;
}

static int add_thing(struct nt_ledger *ledger, const char *kind, const char *name)
{
	struct nt_ledger_thing thing = {.kind = strdup(kind), .name = strdup(name)}, *things;

	things = thing.kind && thing.name
			 ? realloc(ledger->things, (ledger->n_things + 1) * sizeof *things)
			 : NULL;
	if (!things) {
		free(thing.kind);
		free(thing.name);
		return -ENOMEM;
	}
	ledger->things = things;
	things[ledger->n_things++] = thing;
	return 1;
}

static int remove_thing(struct nt_ledger *ledger, const char *kind, const char *name)
{
	for (size_t i = ledger->n_things; i-- > 0;) {
		struct nt_ledger_thing *thing = &ledger->things[i];

		if (!streq(thing->kind, kind) || !streq(thing->name, name))
			continue;
		free(thing->kind);
		free(thing->name);
		/* The others stay in order: what was made last is removed first. */
		ledger->n_things--;
		memmove(thing, thing + 1, (ledger->n_things - i) * sizeof *thing);
	}
	return 1;
}

static int apply_line(struct nt_ledger *ledger, char **fields, int n)
{
	static const char *const kinds[] = {"made",   "account", "rule",
					    "filter", "profile", "registry"};
	static const struct {
		const char *kind;
		enum nt_root_state state;
	} states[] = {{"changing", NT_ROOT_CHANGING},
		      {"granted", NT_ROOT_GRANTED},
		      {"returned", NT_ROOT_FREE}};

	if (n == 4 && streq(fields[0], "root"))
		return add_root(ledger, fields);
	for (size_t i = 0; n == 2 && i < ARRAY_SIZE(states); i++) {
		struct nt_ledger_root *root;

		if (!streq(fields[0], states[i].kind))
			continue;
		root = root_by_number(ledger, fields[1]);
		if (root)
			root->state = states[i].state;
		return root != NULL;
	}
	for (size_t i = 0; n == 2 && i < ARRAY_SIZE(kinds); i++)
		if (streq(fields[0], kinds[i]))
			return add_thing(ledger, fields[0], fields[1]);
	if (n == 2 && streq(fields[0], "removed"))
		return remove_thing(ledger, "made", fields[1]);
	if (n == 3 && streq(fields[0], "undone"))
		return remove_thing(ledger, fields[1], fields[2]);
	return 0;
}

int nt_ledger_read(const char *text, size_t size, struct nt_ledger *ret)
{
	*ret = (struct nt_ledger){0};
	while (size > 0) {
		const char *end = memchr(text, '\n', size);
		const size_t length = end ? (size_t)(end - text) : size;
		cleanup_free char *line = malloc(length + 1);
		char *fields[FIELDS_MAX];
		int n, r;

		if (!line)
			goto out_of_memory;
		memcpy(line, text, length);
		line[length] = '\0';
		/* A line without its end is the torn last one. */
		n = end && length <= NT_LEDGER_LINE_MAX ? split(line, length, fields) : -1;
		r = n < 0 ? 0 : apply_line(ret, fields, n);
		if (r < 0)
			goto out_of_memory;
		ret->n_damaged += r == 0;
		text += length + (end ? 1 : 0);
		size -= length + (end ? 1 : 0);
	}
	return 0;
out_of_memory:
	nt_ledger_done(ret);
	return -ENOMEM;
}

void nt_ledger_done(struct nt_ledger *ledger)
{
	for (size_t i = 0; i < ledger->n_roots; i++)
		free(ledger->roots[i].path);
	for (size_t i = 0; i < ledger->n_things; i++) {
		free(ledger->things[i].kind);
		free(ledger->things[i].name);
	}
	free(ledger->roots);
	free(ledger->things);
	*ledger = (struct nt_ledger){0};
}

const struct nt_ledger_root *nt_ledger_find(const struct nt_ledger *ledger, const char *path)
{
	for (size_t i = 0; i < ledger->n_roots; i++)
		if (nt_path_equal(ledger->roots[i].path, path))
			return &ledger->roots[i];
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diff-json.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"

#include "cli/diff-print.h"

#define JSON_MAX ((size_t)1 << 30)

static const char *type_word(mode_t mode)
{
	static const struct {
		mode_t type;
		const char *word;
	} words[] = {
		{S_IFREG, "file"},	   {S_IFDIR, "directory"}, {S_IFLNK, "link"},
		{S_IFIFO, "fifo"},	   {S_IFSOCK, "socket"},   {S_IFCHR, "character device"},
		{S_IFBLK, "block device"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if ((mode & S_IFMT) == words[i].type)
			return words[i].word;
	return "unknown";
}

static void add_object(struct json *json, const char *key, const struct stat *st)
{
	char mode[8];

	if (!st->st_mode) {
		json_none(json, key);
		return;
	}
	snprintf(mode, sizeof mode, "%04o", st->st_mode & 07777);
	json_open(json, key, '{');
	json_str(json, "type", type_word(st->st_mode));
	json_str(json, "mode", mode);
	json_uint(json, "size", (uint64_t)st->st_size);
	json_close(json, '}');
}

static void add_change(struct json *json, const struct atoll_change *change)
{
	static const char *const kinds[] = {
		[ATOLL_ADDED] = "added",
		[ATOLL_CHANGED] = "changed",
		[ATOLL_DELETED] = "deleted",
		[ATOLL_RENAMED] = "renamed",
	};
	static const char *const parts[] = {"content", "type", "mode", "xattrs", "owner", "time"};

	json_open(json, NULL, '{');
	json_str(json, "path", change->path);
	json_str(json, "from", change->from);
	json_str(json, "kind", kinds[change->kind]);
	json_open(json, "parts", '[');
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (change->parts & 1U << i)
			json_str(json, NULL, parts[i]);
	json_close(json, ']');
	json_str(json, "mark", change->mark);
	json_str(json, "conflict", change->conflict);
	if (change->link_group)
		json_uint(json, "link_group", change->link_group);
	add_object(json, "before", &change->before);
	add_object(json, "after", &change->after);
	json_close(json, '}');
}

int diff_print_json(const struct diff_view *view, FILE *out, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(JSON_MAX);
	struct json json = {.out = &text};
	int r;

	json_open(&json, NULL, '{');
	json_str(&json, "record", view->changes->record->id);
	json_open(&json, "changes", '[');
	for (size_t i = 0; i < view->changes->n; i++)
		if (!view->wanted || view->wanted[i])
			add_change(&json, &view->changes->items[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	buf_add_char(&text, '\n');
	r = buf_error(&text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "list the changes");
	fwrite(text.data, 1, text.used, out);
	return 0;
}

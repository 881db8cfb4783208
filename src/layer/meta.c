/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * What is known about a record, as text
 *
 * Lines "key=value". A backslash in a value is written \\, a line's end \n. Keys that this file
 * does not know are kept: other rooms have theirs (layer_record_set()), and so may a newer version.
 */

#define META_VERSION "1"

static const char *const kind_words[] = {
	[ATOLL_RECORD_RUN] = "run", [ATOLL_RECORD_SANDBOX] = "sandbox"};
static const char *const state_words[] = {[ATOLL_RECORD_LIVE] = "kept", /* only a lock says so */
					  [ATOLL_RECORD_KEPT] = "kept",
					  [ATOLL_RECORD_APPLIED] = "applied",
					  [ATOLL_RECORD_BROKEN] = "broken"};

/* ---- out ---- */

static void add_text(struct buf *out, const char *key, const char *value)
{
	if (!value || !value[0])
		return;
	buf_addf(out, "%s=", key);
	for (; *value; value++) {
		if (*value == '\\' || *value == '\n')
			buf_add_char(out, '\\');
		buf_add_char(out, *value == '\n' ? 'n' : *value);
	}
	buf_add_char(out, '\n');
}

static void add_number(struct buf *out, const char *key, uint64_t value)
{
	buf_addf(out, "%s=%" PRIu64 "\n", key, value);
}

static void add_layers(struct buf *out, const struct layer_record *record)
{
	if (record->n_layers == 0)
		return;
	buf_add_str(out, "layers=");
	for (size_t i = 0; i < record->n_layers; i++)
		buf_addf(out, "%s%s", i ? " " : "", record->layers[i]);
	buf_add_char(out, '\n');
}

void meta_format(const struct layer_record *record, struct buf *out)
{
	const struct atoll_record *info = &record->info;

	add_text(out, "version", META_VERSION);
	add_text(out, "kind", kind_words[info->kind]);
	add_text(out, "state", state_words[info->state]);
	add_text(out, "name", info->name);
	add_text(out, "parent", info->parent);
	add_text(out, "digest", info->digest);
	add_text(out, "workspace", info->workspace);
	add_text(out, "command", info->command);
	add_number(out, "start", info->start_ns);
	add_number(out, "end", info->end_ns);
	buf_addf(out, "status=%d\n", info->status);
	add_number(out, "bytes", info->bytes);
	add_number(out, "checkpoints", info->n_checkpoints);
	add_number(out, "memory", info->is_memory);
	add_number(out, "dev", record->workspace_dev);
	add_number(out, "ino", record->workspace_ino);
	add_number(out, "mode", record->workspace_mode);
	add_number(out, "base", record->base_time_ns);
	add_number(out, "uid", record->owner_uid);
	add_number(out, "gid", record->owner_gid);
	add_number(out, "applies", record->n_applies);
	add_layers(out, record);
	for (size_t i = 0; i < record->n_keys; i++)
		add_text(out, record->keys[i], record->values[i]);
}

/* ---- in ---- */

static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		if (*from == '\\' && from[1]) {
			from++;
			*to++ = *from == 'n' ? '\n' : *from;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

static int parse_layers(struct layer_record *record, char *value)
{
	char *rest = value, *id;

	while ((id = strsep(&rest, " "))) {
		if (!store_is_id(id))
			return -EBADMSG;
		if (layer_record_push(record, id) < 0)
			return -ENOMEM;
	}
	/* They stand with the topmost first, and each was put on top of the one before. */
	for (size_t i = 0; i < record->n_layers / 2; i++) {
		char *other = record->layers[record->n_layers - 1 - i];

		record->layers[record->n_layers - 1 - i] = record->layers[i];
		record->layers[i] = other;
	}
	return 0;
}

static int parse_word(const char *const *words, size_t n, const char *value)
{
	for (size_t i = 1; i <= n; i++) {
		if (streq(words[n - i], value))
			return (int)(n - i);
	}
	return -1;
}

static int parse_text(struct layer_record *record, const char *key, char *value)
{
	struct atoll_record *info = &record->info;
	struct {
		const char *key;
		char *room;
		size_t size;
	} const texts[] = {
		{"name", info->name, sizeof info->name},
		{"parent", info->parent, sizeof info->parent},
		{"digest", info->digest, sizeof info->digest},
	};
	char **fresh = streq(key, "workspace") ? &info->workspace
		       : streq(key, "command") ? &info->command
					       : NULL;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (streq(key, texts[i].key)) {
			snprintf(texts[i].room, texts[i].size, "%s", value);
			return 1;
		}
	}
	if (!fresh)
		return 0;
	free(*fresh);
	*fresh = strdup(value);
	return *fresh ? 1 : -ENOMEM;
}

static bool parse_number(struct layer_record *record, const char *key, const char *value)
{
	struct atoll_record *info = &record->info;
	uint64_t number = strtoull(value, NULL, 10);
	struct {
		const char *key;
		uint64_t *big;
		uint32_t *small;
	} const numbers[] = {
		{"start", &info->start_ns},
		{"end", &info->end_ns},
		{"bytes", &info->bytes},
		{"checkpoints", &info->n_checkpoints},
		{"dev", &record->workspace_dev},
		{"ino", &record->workspace_ino},
		{"base", &record->base_time_ns},
		{"applies", &record->n_applies},
		{"mode", NULL, &record->workspace_mode},
		{"uid", NULL, &record->owner_uid},
		{"gid", NULL, &record->owner_gid},
	};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (!streq(key, numbers[i].key))
			continue;
		if (numbers[i].big)
			*numbers[i].big = number;
		else if (numbers[i].small)
			*numbers[i].small = (uint32_t)number;
		return true;
	}
	return false;
}

static int parse_line(struct layer_record *record, const char *key, char *value)
{
	struct atoll_record *info = &record->info;
	int r;

	if (streq(key, "version"))
		return streq(value, META_VERSION) ? 0 : -EPROTONOSUPPORT;
	if (streq(key, "kind")) {
		r = parse_word(kind_words, ARRAY_SIZE(kind_words), value);
		info->kind = r < 0 ? ATOLL_RECORD_RUN : (enum atoll_record_kind)r;
		return r < 0 ? -EBADMSG : 0;
	}
	if (streq(key, "state")) {
		r = parse_word(state_words, ARRAY_SIZE(state_words), value);
		info->state = r < 0 ? ATOLL_RECORD_KEPT : (enum atoll_record_state)r;
		return r < 0 ? -EBADMSG : 0;
	}
	if (streq(key, "status")) {
		info->status = atoi(value);
		return 0;
	}
	if (streq(key, "memory")) {
		info->is_memory = streq(value, "1");
		return 0;
	}
	if (streq(key, "layers"))
		return parse_layers(record, value);
	if (parse_number(record, key, value))
		return 0;
	r = parse_text(record, key, value);
	if (r != 0)
		return r < 0 ? r : 0;
	return layer_record_set(record, key, value, NULL);
}

int meta_parse(struct layer_record *record, char *text, struct atoll_error *err)
{
	char *rest = text, *line;
	bool has_version = false;
	int r = 0;

	while (r == 0 && (line = strsep(&rest, "\n")) && rest) {
		char *equals = strchr(line, '=');

		if (!equals)
			continue;
		*equals = '\0';
		unescape(equals + 1);
		has_version |= streq(line, "version");
		r = parse_line(record, line, equals + 1);
	}
	if (r == -EPROTONOSUPPORT)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "record '%s' was made by a newer version of atoll",
				 record->info.id);
	if (r == -ENOMEM)
		return error_oom(err);
	if (r < 0 || !has_version || !record->info.workspace)
		return store_refuse(err, ATOLL_FAULT_HOST, EBADMSG,
				    "record '%s' is damaged; `atoll discard %s --force` removes it",
				    record->info.id, record->info.id);
	return 0;
}

void meta_done(struct layer_record *record)
{
	char id[ATOLL_ID_SIZE];

	strcpy(id, record->info.id);
	for (size_t i = 0; i < record->n_keys; i++) {
		free(record->keys[i]);
		free(record->values[i]);
	}
	for (size_t i = 0; i < record->n_layers; i++)
		free(record->layers[i]);
	free(record->keys);
	free(record->values);
	free(record->layers);
	free(record->info.workspace);
	free(record->info.command);
	record->keys = record->values = record->layers = NULL;
	record->n_keys = record->n_layers = 0;
	record->info = (struct atoll_record){.status = -1};
	strcpy(record->info.id, id);
}

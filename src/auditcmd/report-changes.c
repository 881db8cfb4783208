/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/report-changes.h"

#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/report-model.h"
#include "auditcmd/report.h"
#include "base/scope.h"
#include "base/str.h"

#include <atoll/layer.h>
#include <stdlib.h>

/*
 * The texts of changed files
 *
 * The log has names and hashes. The texts are in the layer, as long as it exists, in their present
 * state: if a sandbox has gone on, or the host has changed files, they differ from what the run
 * left. The page says so.
 */

/* Finds a change by the bytes of its name, because the layer's list has bytes. */
static json_t *find_change(const json_t *index, const char *path)
{
	return json_object_get(index, path);
}

/* jansson's keys are UTF-8: convert other bytes to the form of the log. */
static void add_key(const char *bytes, struct buf *out)
{
	size_t size = strlen(bytes);

	for (size_t i = 0; i < size;) {
		size_t length = utf8_length(bytes + i, size - i);
		unsigned char byte = (unsigned char)bytes[i];

		if (length)
			buf_add(out, bytes + i, length);
		else
			buf_addf(out, "\xf4\x8d%c%c", byte < 0xc0 ? 0xb2 : 0xb3,
				 0x80 | (byte & 0x3f));
		i += length ? length : 1;
	}
}

static json_t *make_index(const json_t *changes)
{
	json_t *index = json_object(), *each;
	size_t i;

	json_array_foreach(changes, i, each)
	{
		const char *name = event_text(each, "name");

		/* Several steps may change a file; the layer has the last state. */
		if (name)
			json_object_set(index, name, each);
		json_object_del(each, "name");
	}
	return index;
}

/* Appends a text, escaped line by line; newlines stay. */
static json_t *make_text(char *text, bool *ret_is_cut)
{
	cleanup_buf struct buf shown = BUF_INIT(REPORT_DIFF_MAX + (8 << 10));
	char *next = text, *line;

	*ret_is_cut = false;
	while ((line = strsep(&next, "\n")) && (next || *line)) {
		if (shown.used > REPORT_DIFF_MAX || strlen(line) > REPORT_DIFF_MAX / 20) {
			*ret_is_cut = true;
			break;
		}
		for (char *tab; (tab = strchr(line, '\t')); line = tab + 1) {
			*tab = '\0';
			event_show(line, &shown);
			buf_add_char(&shown, '\t');
		}
		event_show(line, &shown);
		buf_add_char(&shown, '\n');
	}
	return report_move_text(&shown);
}

static json_t *new_change(const struct atoll_change *change)
{
	static const char *const words[] = {[ATOLL_ADDED] = "added",
					    [ATOLL_CHANGED] = "changed",
					    [ATOLL_DELETED] = "deleted",
					    [ATOLL_RENAMED] = "renamed"};
	cleanup_buf struct buf path = BUF_INIT(1 << 20), from = BUF_INIT(1 << 20);

	event_show(change->path, &path);
	if (change->from)
		event_show(change->from, &from);
	return json_pack("{s:o, s:o?, s:s, s:s?}", "path", report_move_text(&path), "from",
			 change->from ? report_move_text(&from) : NULL, "change",
			 words[change->kind], "mark", change->mark);
}

/* Returns the number of bytes that were added. */
static size_t add_diff(struct atoll_changes *changes, size_t i, json_t *entry)
{
	cleanup_free char *text = NULL;
	size_t size, added, removed;
	json_t *shown;
	bool is_cut;

	if (atoll_change_text(changes, i, &text, &size, &added, &removed, NULL) < 0)
		return 0;
	shown = make_text(text, &is_cut);
	size = json_string_length(shown);
	json_object_set_new(entry, "diff", shown);
	json_object_set_new(entry, "added", json_integer((json_int_t)added));
	json_object_set_new(entry, "removed", json_integer((json_int_t)removed));
	if (changes->items[i].is_binary)
		json_object_set_new(entry, "binary", json_true());
	if (is_cut)
		json_object_set_new(entry, "cut", json_true());
	return size;
}

static uint64_t add_diffs(struct report *report, struct atoll_changes *changes, const json_t *index)
{
	bool is_own_list = json_array_size(report->changes) == 0;
	size_t used = 0;
	uint64_t n_left = 0;

	for (size_t i = 0; i < changes->n; i++) {
		cleanup_buf struct buf key = BUF_INIT(1 << 20);
		json_t *entry = NULL;

		add_key(changes->items[i].path, &key);
		if (key.data)
			entry = find_change(index, key.data);
		if (!entry && is_own_list) {
			report->n_changes++;
			if (json_array_size(report->changes) < REPORT_CHANGES_MAX) {
				entry = new_change(&changes->items[i]);
				json_array_append_new(report->changes, entry);
			}
		}
		if (entry && used < REPORT_DIFFS_MAX)
			used += add_diff(changes, i, entry);
		else
			n_left += entry != NULL;
	}
	return n_left;
}

json_t *report_diffs(struct report *report, const struct events *events)
{
	json_t *index = make_index(report->changes);
	struct atoll_changes *changes;
	struct atoll_error err = {0};
	uint64_t n_left = 0;
	json_t *said;

	if (!events->id[0]) {
		said = json_pack(
			"{s:b, s:s}", "there", 0, "why",
			"this log was read from a file; the texts are where it was written");
	} else if (atoll_changes_open(events->id, &changes, &err) < 0) {
		cleanup_buf struct buf why = BUF_INIT(4096);

		event_show(err.text, &why);
		said = json_pack("{s:b, s:o}", "there", 0, "why", report_move_text(&why));
	} else {
		n_left = add_diffs(report, changes, index);
		said = json_pack("{s:b, s:I}", "there", 1, "left_out", (json_int_t)n_left);
		atoll_changes_close(changes);
	}
	json_decref(index);
	return said;
}

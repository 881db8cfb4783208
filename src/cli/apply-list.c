/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/apply-list.h"

#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#define JSON_MAX ((size_t)256 << 20)
/* The list is cut after this many names; 'atoll diff' shows all. */
#define NAMES_MAX 40

static char *copy_of(struct apply_list *list, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	list->has_failed |= text && !copy;
	return copy;
}

void apply_list_add(const struct atoll_change *change, enum atoll_apply_fate fate, const char *why,
		    void *data)
{
	struct apply_list *list = data;
	struct apply_entry *more;

	if (fate == ATOLL_FATE_LEFT)
		return;
	/* Doubles the array when the number is a power of two. */
	if ((list->n & (list->n - 1)) == 0) {
		more = reallocarray(list->items, list->n ? 2 * list->n : 1, sizeof *more);
		if (!more) {
			list->has_failed = true;
			return;
		}
		list->items = more;
	}
	list->items[list->n++] = (struct apply_entry){
		.path = copy_of(list, change->path),
		.from = copy_of(list, change->from),
		.why = copy_of(list, why),
		.kind = change->kind,
		.fate = fate,
	};
}

void apply_list_done(struct apply_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->items[i].path);
		free(list->items[i].from);
		free(list->items[i].why);
	}
	free(list->items);
	*list = (struct apply_list){0};
}

/* ---- for people ---- */

/* Prints an absolute path if the current directory is not the workspace, so that the command
 * works as it is printed. */
static void print_path(FILE *out, const struct apply_place *place, const char *path)
{
	cleanup_free char *whole = NULL;
	char here[PATH_MAX];

	if (place->workspace && getcwd(here, sizeof here) && !streq(here, place->workspace) &&
	    asprintf(&whole, "%s/%s", place->workspace, path) > 0)
		path = whole;
	print_word(out, path);
}

static void print_names(const struct apply_list *list, FILE *out)
{
	static const char letters[] = {[ATOLL_ADDED] = 'A',
				       [ATOLL_CHANGED] = 'C',
				       [ATOLL_DELETED] = 'D',
				       [ATOLL_RENAMED] = 'R'};
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct apply_entry *entry = &list->items[i];

		if (entry->fate != ATOLL_FATE_APPLIED && entry->fate != ATOLL_FATE_MERGED)
			continue;
		if (n++ >= NAMES_MAX)
			continue;
		fprintf(out, "  %c ", letters[entry->kind]);
		if (entry->from) {
			print_escaped(out, entry->from);
			fputs(" -> ", out);
		}
		print_escaped(out, entry->path);
		fputs(entry->fate == ATOLL_FATE_MERGED ? " (merged)\n" : "\n", out);
	}
	if (n > NAMES_MAX)
		fprintf(out, "  and %zu more\n", n - NAMES_MAX);
}

static void print_held(const struct apply_list *list, const struct atoll_apply_report *report,
		       const struct apply_place *place, FILE *out)
{
	size_t n = 0;

	if (report->n_held == 0)
		return;
	fprintf(out, "held back, because the host would execute or trust %s:\n",
		report->n_held == 1 ? "it" : "them");
	for (size_t i = 0; i < list->n && n < NAMES_MAX; i++) {
		const struct apply_entry *entry = &list->items[i];

		if (entry->fate != ATOLL_FATE_HELD)
			continue;
		n++;
		fputs("  ! ", out);
		print_escaped(out, entry->path);
		fprintf(out, " (%s)\n      atoll apply --run %s -- ", entry->why ? entry->why : "",
			report->record);
		print_path(out, place, entry->path);
		fputc('\n', out);
	}
	if (report->n_held > n)
		fprintf(out, "  and %" PRIu64 " more\n", report->n_held - n);
}

static void print_conflicts(const struct apply_list *list, const struct atoll_apply_report *report,
			    const struct apply_place *place, FILE *out)
{
	if (report->n_conflicts == 0)
		return;
	for (size_t i = 0; i < list->n; i++) {
		const struct apply_entry *entry = &list->items[i];

		if (entry->fate != ATOLL_FATE_CONFLICT)
			continue;
		fputs("  conflict: ", out);
		print_escaped(out, entry->path);
		fputs(": ", out);
		print_escaped(out, entry->why ? entry->why : "changed on the host");
		fputc('\n', out);
	}
	fprintf(out,
		"  'atoll diff %s' shows what the run did. %s\n"
		"  --force takes the run's, and 'atoll undo' brings the host's back; or name "
		"paths\n"
		"  that do not conflict: atoll apply --run %s -- PATH...\n",
		report->record,
		place->was_merged ? "What could be merged is not among these."
				  : "--merge joins the changes of texts;",
		report->record);
}

void apply_list_text(const struct apply_list *list, const struct atoll_apply_report *report,
		     const struct apply_place *place, FILE *out, FILE *problems)
{
	print_conflicts(list, report, place, problems);
	if (report->n_conflicts)
		return;
	print_names(list, out);
	if (report->n_applied == 0 && report->n_held == 0)
		fprintf(out, "nothing to apply: the host has all that %s changed\n",
			report->record);
	else if (place->is_dry)
		fprintf(out, "would apply %" PRIu64 " change%s of %s\n", report->n_applied,
			report->n_applied == 1 ? "" : "s", report->record);
	else if (report->n_applied > 0)
		fprintf(out, "applied %" PRIu64 " change%s of %s; to undo this: atoll undo %s\n",
			report->n_applied, report->n_applied == 1 ? "" : "s", report->record,
			report->record);
	print_held(list, report, place, out);
	if (report->n_dropped > 0) {
		fputs("This host could not keep: ", problems);
		print_escaped(problems, report->dropped);
		fputc('\n', problems);
	}
}

/* ---- for programs ---- */

static void json_fate(struct json *json, const struct apply_list *list, const char *key,
		      enum atoll_apply_fate fate)
{
	static const char *const kinds[] = {[ATOLL_ADDED] = "added",
					    [ATOLL_CHANGED] = "changed",
					    [ATOLL_DELETED] = "deleted",
					    [ATOLL_RENAMED] = "renamed"};

	json_open(json, key, '[');
	for (size_t i = 0; i < list->n; i++) {
		const struct apply_entry *entry = &list->items[i];
		bool is_merged = entry->fate == ATOLL_FATE_MERGED;

		if (entry->fate != fate && !(is_merged && fate == ATOLL_FATE_APPLIED))
			continue;
		json_open(json, NULL, '{');
		json_str(json, "path", entry->path);
		json_str(json, "kind", kinds[entry->kind]);
		if (entry->from)
			json_str(json, "from", entry->from);
		if (fate == ATOLL_FATE_APPLIED)
			json_bool(json, "merged", is_merged);
		else
			json_str(json, "why", entry->why);
		json_close(json, '}');
	}
	json_close(json, ']');
}

int apply_list_json(const struct apply_list *list, const struct atoll_apply_report *report,
		    const struct apply_place *place, FILE *out)
{
	cleanup_buf struct buf text = BUF_INIT(JSON_MAX);
	struct json json = {.out = &text};

	json_open(&json, NULL, '{');
	json_str(&json, "record", report->record);
	json_bool(&json, "dry", place->is_dry);
	json_fate(&json, list, "applied", ATOLL_FATE_APPLIED);
	json_fate(&json, list, "held", ATOLL_FATE_HELD);
	json_fate(&json, list, "conflicts", ATOLL_FATE_CONFLICT);
	json_uint(&json, "n_dropped", report->n_dropped);
	json_str(&json, "dropped", report->dropped);
	json_close(&json, '}');
	if (buf_error(&text) < 0)
		return buf_error(&text);
	fwrite(text.data, 1, text.used, out);
	fputc('\n', out);
	return 0;
}

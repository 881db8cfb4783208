/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

/*
 * Finding records
 */

static void scope_close_store(struct layer_store *store)
{
	layer_store_close(store);
}

/* One that is damaged is passed over: it must not hide the others. */
static struct layer_record *open_quietly(const struct layer_store *store, const char *id)
{
	struct layer_record *record;

	return record_open_id(store, id, &record, NULL) < 0 ? NULL : record;
}

static uint64_t time_of(const struct layer_record *record)
{
	return record->info.end_ns > record->info.start_ns ? record->info.end_ns
							   : record->info.start_ns;
}

/* ---- by what a person says ---- */

static int find_latest(const struct layer_store *store, const struct store_ids *ids,
		       struct layer_record **ret, struct atoll_error *err)
{
	struct layer_record *best = NULL;
	char here[PATH_MAX];

	if (!getcwd(here, sizeof here))
		return error_set(err, ATOLL_FAULT_HOST, errno, "find the current directory");
	for (size_t i = 0; i < ids->n; i++) {
		struct layer_record *record = open_quietly(store, ids->items[i]), *loser = record;

		if (record && path_is_within(here, record->info.workspace) &&
		    !record_is_void(record) && (!best || time_of(record) > time_of(best))) {
			loser = best;
			best = record;
		}
		layer_record_close(loser);
	}
	if (!best)
		return store_refuse(
			err, ATOLL_FAULT_REQUEST, ENOENT,
			"no run of this directory is kept; `atoll ls --all` lists those "
			"of others");
	*ret = best;
	return 0;
}

static struct layer_record *find_name(const struct layer_store *store, const struct store_ids *ids,
				      const char *name)
{
	for (size_t i = 0; i < ids->n; i++) {
		struct layer_record *record = open_quietly(store, ids->items[i]);

		if (record && record->info.name[0] && streq(record->info.name, name))
			return record;
		layer_record_close(record);
	}
	return NULL;
}

static int find_beginning(const struct layer_store *store, const struct store_ids *ids,
			  const char *text, struct layer_record **ret, struct atoll_error *err)
{
	const char *found = NULL;
	char shown[64];

	str_show(text, shown, sizeof shown);
	for (size_t i = 0; text[0] && i < ids->n; i++) {
		if (!starts_with(ids->items[i], text))
			continue;
		if (found)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "'%s' is the beginning of several: '%s', '%s'", shown,
					 found, ids->items[i]);
		found = ids->items[i];
	}
	if (found && record_open_id(store, found, ret, err) == 0)
		return 0;
	return store_refuse(err, ATOLL_FAULT_REQUEST, ENOENT,
			    "there is no record or sandbox '%s'; `atoll ls --all` lists them",
			    shown);
}

int layer_record_open(const char *id, struct layer_record **ret, struct atoll_error *err)
{
	cleanup_with(scope_close_store) struct layer_store store = {.fd = -1};
	cleanup_with(store_ids_done) struct store_ids ids = {0};
	int r = layer_store_open(false, &store, err);

	if (r == -ENOENT)
		return store_refuse(err, ATOLL_FAULT_REQUEST, ENOENT, "no run is kept yet");
	if (r < 0)
		return r;
	if (id && store_is_id(id)) {
		r = record_open_id(&store, id, ret, err);
		if (r != -ENOENT)
			return r;
	}
	r = store_list(&store, "records", &ids, err);
	if (r < 0)
		return r;
	if (!id)
		return find_latest(&store, &ids, ret, err);
	*ret = find_name(&store, &ids, id);
	return *ret ? 0 : find_beginning(&store, &ids, id, ret, err);
}

/* ---- all of them ---- */

static uint64_t layer_bytes(const struct layer_record *record, const char *layer)
{
	char path[sizeof "layers/" + ATOLL_ID_SIZE];

	snprintf(path, sizeof path, "layers/%s", layer);
	return layer_tree_bytes(record->store.fd, path);
}

static uint64_t count_bytes(const struct layer_record *record, bool with_layers)
{
	struct layer_roots roots;
	/* What was counted at the end of a run still holds; the rest is little. */
	uint64_t bytes = record->info.kind == ATOLL_RECORD_RUN && record->info.end_ns
				 ? record->info.bytes
				 : layer_tree_bytes(record->fd, ".");

	layer_roots_get(record, &roots);
	for (size_t i = 0; with_layers && i < record->n_layers; i++)
		bytes += layer_bytes(record, record->layers[i]);
	for (size_t i = 0; with_layers && i < roots.n; i++)
		bytes += layer_bytes(record, roots.ids[i]);
	return bytes;
}

/* Also one that cannot be read, so that somebody hears of it. */
static bool fill_info(const struct layer_store *store, const char *id, bool with_bytes,
		      bool with_layers, struct atoll_record *ret)
{
	struct layer_record *record;
	int r = record_open_id(store, id, &record, NULL);

	if (r == -ENOENT)
		return false;
	if (r < 0) {
		*ret = (struct atoll_record){.state = ATOLL_RECORD_BROKEN,
					     .status = -1,
					     .workspace = strdup(""),
					     .command = strdup("(damaged)")};
		strcpy(ret->id, id);
		return true;
	}
	if (record_is_void(record)) {
		layer_record_close(record);
		return false;
	}
	record->info.state = record_state(record);
	record->info.bytes = with_bytes ? count_bytes(record, with_layers) : 0;
	*ret = record->info;
	record->info.workspace = record->info.command = NULL;
	layer_record_close(record);
	return true;
}

static int compare_start(const void *a, const void *b)
{
	const struct atoll_record *x = a, *y = b;

	return (x->start_ns < y->start_ns) - (x->start_ns > y->start_ns);
}

int store_records(const struct layer_store *store, bool with_bytes, bool with_layers,
		  struct atoll_record **ret, size_t *ret_n, struct atoll_error *err)
{
	cleanup_with(store_ids_done) struct store_ids ids = {0};
	struct atoll_record *list;
	size_t n = 0;
	int r = store_list(store, "records", &ids, err);

	if (r < 0)
		return r;
	list = calloc(ids.n + 1, sizeof *list);
	if (!list)
		return error_oom(err);
	for (size_t i = 0; i < ids.n; i++)
		n += fill_info(store, ids.items[i], with_bytes, with_layers, &list[n]);
	qsort(list, n, sizeof *list, compare_start);
	*ret = list;
	*ret_n = n;
	return 0;
}

int atoll_records_list(bool with_bytes, struct atoll_record **ret, size_t *ret_n,
		       struct atoll_error *err)
{
	cleanup_with(scope_close_store) struct layer_store store = {.fd = -1};
	int r = layer_store_open(false, &store, err);

	*ret = NULL;
	*ret_n = 0;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return store_records(&store, with_bytes, true, ret, ret_n, err);
}

void atoll_records_free(struct atoll_record *records, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(records[i].workspace);
		free(records[i].command);
	}
	free(records);
}

/* ---- names ---- */

static bool is_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";
	size_t length = strlen(name);

	return length > 0 && length < sizeof((struct atoll_record *)0)->name &&
	       strspn(name, letters) == length && name[0] != '-' && name[0] != '.';
}

int layer_record_name(struct layer_record *record, const char *name, struct atoll_error *err)
{
	cleanup_with(store_ids_done) struct store_ids ids = {0};
	cleanup_fd int lock = -1;
	struct layer_record *other;
	char shown[80];
	int r;

	if (!is_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' cannot be a name: letters, digits, '.', '_' and '-', at "
				 "most 63, and not '-' or '.' first",
				 str_show(name, shown, sizeof shown));
	lock = store_lock(&record->store);
	if (lock < 0)
		return error_set(err, ATOLL_FAULT_HOST, -lock, "lock '%s'", record->store.path);
	r = store_list(&record->store, "records", &ids, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ids.n; i++) {
		if (streq(ids.items[i], name))
			return store_refuse(err, ATOLL_FAULT_REQUEST, EEXIST,
					    "'%s' is the id of another record", name);
	}
	other = find_name(&record->store, &ids, name);
	if (other) {
		r = store_refuse(err, ATOLL_FAULT_REQUEST, EEXIST,
				 "there is a sandbox '%s' already ('%s')", name, other->info.id);
		layer_record_close(other);
		return streq(name, record->info.name) ? 0 : r;
	}
	strcpy(record->info.name, name);
	return layer_record_save_soon(record, err);
}

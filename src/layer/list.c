/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <limits.h>

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
		    (!best || time_of(record) > time_of(best))) {
			loser = best;
			best = record;
		}
		layer_record_close(loser);
	}
	if (!best)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
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
	return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
			 "there is no record or sandbox '%s'; `atoll ls --all` lists them", shown);
}

int layer_record_open(const char *id, struct layer_record **ret, struct atoll_error *err)
{
	cleanup_with(scope_close_store) struct layer_store store = {.fd = -1};
	cleanup_with(store_ids_done) struct store_ids ids = {0};
	int r = layer_store_open(false, &store, err);

	if (r == -ENOENT)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "no run is kept yet");
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox keeps on the disk
 *
 * Its directory with the writable top, and every sealed layer that its meta or one of its
 * checkpoints names. Layers that it was branched with are somebody else's, as long as it does not
 * change them, and it never does: the key `inherited` names them, and they do not count to its
 * limit. A sealed layer never changes, so its size is written beside it once it is known.
 *
 * Called when a cell starts (what is kept counts to limits.disk), before a checkpoint copies the
 * top, and by the daemon for what its tenants keep.
 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_FILE "size" /* in layers/ID: what layer_tree_bytes() has found */

static uint64_t sealed_bytes(const struct layer_store *store, const char *id)
{
	char path[64], dir[32], text[32] = "";
	cleanup_fd int fd = -1;
	uint64_t bytes;

	snprintf(dir, sizeof dir, "layers/%s", id);
	snprintf(path, sizeof path, "%s/" SIZE_FILE, dir);
	fd = openat(store->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strchr(text, '\n'))
		return strtoull(text, NULL, 10);
	bytes = layer_tree_bytes(store->fd, dir);
	if (fd >= 0)
		close(take_fd(&fd));
	/* Without it the layer is read again. */
	fd = openat(store->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)!dprintf(fd, "%" PRIu64 "\n", bytes);
	return bytes;
}

static bool is_listed(const char *list, const char *id)
{
	return list && strstr(list, id);
}

uint64_t layer_names_bytes(const struct layer_store *store, const struct layer_names *names)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < names->n; i++)
		bytes += sealed_bytes(store, names->ids[i]);
	return bytes;
}

uint64_t layer_record_kept(const struct layer_record *record)
{
	const char *inherited = layer_record_get(record, LAYER_INHERITED);
	cleanup_with(layer_names_done) struct layer_names names = {0}, own = {0};
	uint64_t bytes = layer_tree_bytes(record->fd, ".");

	/* A branch of a version that did not write these down: it cannot be told whose they are. */
	if (!inherited && record->info.parent[0])
		return bytes;
	if (layer_names_add(&names, &record->store, record->info.id) < 0)
		return bytes;
	for (size_t i = 0; i < names.n; i++) {
		if (!is_listed(inherited, names.ids[i]) && !layer_names_find(&own, names.ids[i]))
			layer_names_put(&own, names.ids[i]);
	}
	return bytes + layer_names_bytes(&record->store, &own);
}

uint64_t layer_kept_add(const struct layer_store *store, const char *id, struct layer_names *names)
{
	cleanup_with(layer_names_done) struct layer_names found = {0};
	char path[32];

	if (layer_names_add(&found, store, id) == 0) {
		for (size_t i = 0; i < found.n; i++) {
			if (!layer_names_find(names, found.ids[i]))
				layer_names_put(names, found.ids[i]);
		}
	}
	snprintf(path, sizeof path, "records/%s", id);
	return layer_tree_bytes(store->fd, path);
}

uint64_t layer_names_bytes_but(const struct layer_store *store, const struct layer_names *names,
			       const struct layer_names *others)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < names->n; i++) {
		if (!layer_names_find(others, names->ids[i]))
			bytes += sealed_bytes(store, names->ids[i]);
	}
	return bytes;
}

uint64_t layer_kept_all(const char *id)
{
	cleanup_with(layer_store_close) struct layer_store store = {.fd = -1};
	cleanup_with(layer_names_done) struct layer_names names = {0};
	uint64_t bytes;

	if (layer_store_open(false, &store, NULL) < 0)
		return 0;
	bytes = layer_kept_add(&store, id, &names);
	return bytes + layer_names_bytes(&store, &names);
}

int layer_record_inherit(struct layer_record *record, struct atoll_error *err)
{
	cleanup_free char *text = NULL;
	struct layer_roots roots;
	size_t n = 0;

	layer_roots_get(record, &roots);
	text = calloc(record->n_layers + roots.n + 1, ATOLL_ID_SIZE);
	if (!text)
		return error_oom(err);
	for (size_t i = 0; i < record->n_layers; i++)
		n += (size_t)sprintf(text + n, "%s%s", n ? "," : "", record->layers[i]);
	for (size_t i = 0; i < roots.n; i++)
		n += (size_t)sprintf(text + n, "%s%s", n ? "," : "", roots.ids[i]);
	return layer_record_set(record, LAYER_INHERITED, n ? text : "-", err);
}

int layer_check_copy(const struct layer_record *record, struct atoll_error *err)
{
	const char *disk = layer_record_get(record, LAYER_DISK);
	uint64_t most = disk ? strtoull(disk, NULL, 10) : 0, kept, top;

	if (!most)
		return 0;
	kept = layer_record_kept(record);
	top = layer_tree_bytes(record->fd, "top");
	if (kept <= most && top <= most - kept)
		return 0;
	return store_refuse(err, ATOLL_FAULT_POLICY, EDQUOT,
			    "sandbox '%s' keeps %" PRIu64 " MiB, a checkpoint would copy %" PRIu64
			    " MiB more, and limits.disk is %" PRIu64
			    " MiB; roll back, remove the sandbox, or let it stop first",
			    record->info.id, kept >> 20, top >> 20, most >> 20);
}

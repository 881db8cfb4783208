/* SPDX-License-Identifier: Apache-2.0 */
#include "box/table.h"

#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/life.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Finding boxes: by id in a table of chains, and those of a tenant in the order of their start in a
 * list. Ids are random, so a simple sum of their characters spreads them well enough; who asks for
 * others cannot make chains longer.
 */

#define SIZE_FIRST 256

static size_t place_of(const char *id, size_t size)
{
	size_t hash = 5381;

	for (; *id; id++)
		hash = hash * 33 + (unsigned char)*id;
	return hash & (size - 1);
}

static int grow(struct daemon *daemon)
{
	size_t size = daemon->table_size ? daemon->table_size * 2 : SIZE_FIRST;
	struct daemon_box **table = calloc(size, sizeof(struct daemon_box *));

	if (!table)
		return daemon->table_size ? 0 : -ENOMEM; /* chains get longer */
	for (size_t i = 0; i < daemon->table_size; i++) {
		struct daemon_box *box = daemon->table[i], *next;

		for (; box; box = next) {
			struct daemon_box **chain = &table[place_of(box->box.id, size)];

			next = box->next_same_hash;
			box->next_same_hash = *chain;
			*chain = box;
		}
	}
	free(daemon->table);
	daemon->table = table;
	daemon->table_size = size;
	return 0;
}

static bool is_older(const struct box *a, int64_t start_ms, const char *id)
{
	return a->start_ms != start_ms ? a->start_ms < start_ms : strcmp(a->id, id) < 0;
}

/* New ones are mostly the newest. */
static void link_by_start(struct daemon_box *box)
{
	struct daemon_tenant *tenant = inner_tenant(box->box.tenant);
	struct daemon_box *older = tenant->newest;

	while (older && !is_older(&older->box, box->box.start_ms, box->box.id))
		older = older->older;
	box->older = older;
	box->newer = older ? older->newer : tenant->oldest;
	*(box->older ? &box->older->newer : &tenant->oldest) = box;
	*(box->newer ? &box->newer->older : &tenant->newest) = box;
}

int table_put(struct daemon *daemon, struct daemon_box *box)
{
	struct daemon_box **chain;

	if (daemon->n_boxes >= daemon->table_size && grow(daemon) < 0)
		return -ENOMEM;
	chain = &daemon->table[place_of(box->box.id, daemon->table_size)];
	box->next_same_hash = *chain;
	*chain = box;
	daemon->n_boxes++;
	box->is_listed = true;
	link_by_start(box);
	return 0;
}

void table_remove(struct daemon *daemon, struct daemon_box *box)
{
	struct daemon_tenant *tenant = inner_tenant(box->box.tenant);
	struct daemon_box **chain;

	if (!box->is_listed)
		return;
	chain = &daemon->table[place_of(box->box.id, daemon->table_size)];
	while (*chain != box)
		chain = &(*chain)->next_same_hash;
	*chain = box->next_same_hash;
	*(box->older ? &box->older->newer : &tenant->oldest) = box->newer;
	*(box->newer ? &box->newer->older : &tenant->newest) = box->older;
	daemon->n_boxes--;
	box->is_listed = false;
}

struct daemon_box *table_find(const struct daemon *daemon, const char *id)
{
	char plain[BOX_ID_SIZE];
	size_t length = strcspn(id, "-");
	struct daemon_box *box;

	if (length >= sizeof plain || !daemon->table_size)
		return NULL;
	memcpy(plain, id, length);
	plain[length] = '\0';
	box = daemon->table[place_of(plain, daemon->table_size)];
	while (box && !streq(box->box.id, plain))
		box = box->next_same_hash;
	return box;
}

void table_free(struct daemon *daemon)
{
	for (size_t i = 0; i < daemon->table_size; i++) {
		struct daemon_box *box = daemon->table[i], *next;

		for (; box; box = next) {
			next = box->next_same_hash;
			box_free(box);
		}
	}
	free(daemon->table);
	daemon->table = NULL;
	daemon->table_size = daemon->n_boxes = 0;
}

/* ---- for others ---- */

struct box *box_find_any(struct daemon *daemon, const char *id)
{
	struct daemon_box *box = table_find(daemon, id);

	return box ? &box->box : NULL;
}

struct box *box_find(struct tenant *tenant, const char *id)
{
	struct box *box = box_find_any(tenant->daemon, id);

	return box && box->tenant == tenant ? box : NULL;
}

struct box *box_next_any(struct daemon *daemon, const struct box *after)
{
	size_t i = 0;

	if (after && inner(after)->next_same_hash)
		return &inner(after)->next_same_hash->box;
	if (after)
		i = place_of(after->id, daemon->table_size) + 1;
	for (; i < daemon->table_size; i++) {
		if (daemon->table[i])
			return &daemon->table[i]->box;
	}
	return NULL;
}

size_t daemon_n_boxes(const struct daemon *daemon)
{
	return daemon->n_boxes;
}

static struct box *box_of(struct daemon_box *box)
{
	return box ? &box->box : NULL;
}

struct box *box_next(struct tenant *tenant, const struct box *after, bool is_newest_first)
{
	struct daemon_tenant *mine = inner_tenant(tenant);

	if (!after)
		return box_of(is_newest_first ? mine->newest : mine->oldest);
	return box_of(is_newest_first ? inner(after)->older : inner(after)->newer);
}

struct box *box_next_from(struct tenant *tenant, int64_t start_ms, const char *id,
			  bool is_newest_first)
{
	struct daemon_tenant *mine = inner_tenant(tenant);
	struct daemon_box *box = is_newest_first ? mine->newest : mine->oldest;

	if (is_newest_first) {
		while (box && !is_older(&box->box, start_ms, id))
			box = box->older;
		return box_of(box);
	}
	while (box && (is_older(&box->box, start_ms, id) ||
		       (box->box.start_ms == start_ms && streq(box->box.id, id))))
		box = box->newer;
	return box_of(box);
}

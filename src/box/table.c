/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "box/box-inner.h"

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

static int grow(struct house *house)
{
	size_t size = house->table_size ? house->table_size * 2 : SIZE_FIRST;
	struct house_box **table = calloc(size, sizeof(struct house_box *));

	if (!table)
		return house->table_size ? 0 : -ENOMEM; /* chains get longer */
	for (size_t i = 0; i < house->table_size; i++) {
		struct house_box *box = house->table[i], *next;

		for (; box; box = next) {
			struct house_box **chain = &table[place_of(box->box.id, size)];

			next = box->next_same_hash;
			box->next_same_hash = *chain;
			*chain = box;
		}
	}
	free(house->table);
	house->table = table;
	house->table_size = size;
	return 0;
}

static bool is_older(const struct box *a, int64_t start_ms, const char *id)
{
	return a->start_ms != start_ms ? a->start_ms < start_ms : strcmp(a->id, id) < 0;
}

/* New ones are mostly the newest. */
static void link_by_start(struct house_box *box)
{
	struct house_tenant *tenant = inner_tenant(box->box.tenant);
	struct house_box *older = tenant->newest;

	while (older && !is_older(&older->box, box->box.start_ms, box->box.id))
		older = older->older;
	box->older = older;
	box->newer = older ? older->newer : tenant->oldest;
	*(box->older ? &box->older->newer : &tenant->oldest) = box;
	*(box->newer ? &box->newer->older : &tenant->newest) = box;
}

int table_put(struct house *house, struct house_box *box)
{
	struct house_box **chain;

	if (house->n_boxes >= house->table_size && grow(house) < 0)
		return -ENOMEM;
	chain = &house->table[place_of(box->box.id, house->table_size)];
	box->next_same_hash = *chain;
	*chain = box;
	house->n_boxes++;
	box->is_listed = true;
	link_by_start(box);
	return 0;
}

void table_remove(struct house *house, struct house_box *box)
{
	struct house_tenant *tenant = inner_tenant(box->box.tenant);
	struct house_box **chain;

	if (!box->is_listed)
		return;
	chain = &house->table[place_of(box->box.id, house->table_size)];
	while (*chain != box)
		chain = &(*chain)->next_same_hash;
	*chain = box->next_same_hash;
	*(box->older ? &box->older->newer : &tenant->oldest) = box->newer;
	*(box->newer ? &box->newer->older : &tenant->newest) = box->older;
	house->n_boxes--;
	box->is_listed = false;
}

struct house_box *table_find(const struct house *house, const char *id)
{
	char plain[BOX_ID_SIZE];
	size_t length = strcspn(id, "-");
	struct house_box *box;

	if (length >= sizeof plain || !house->table_size)
		return NULL;
	memcpy(plain, id, length);
	plain[length] = '\0';
	box = house->table[place_of(plain, house->table_size)];
	while (box && !streq(box->box.id, plain))
		box = box->next_same_hash;
	return box;
}

void table_free(struct house *house)
{
	for (size_t i = 0; i < house->table_size; i++) {
		struct house_box *box = house->table[i], *next;

		for (; box; box = next) {
			next = box->next_same_hash;
			box_free(box);
		}
	}
	free(house->table);
	house->table = NULL;
	house->table_size = house->n_boxes = 0;
}

/* ---- for others ---- */

struct box *box_find_any(struct house *house, const char *id)
{
	struct house_box *box = table_find(house, id);

	return box ? &box->box : NULL;
}

struct box *box_find(struct tenant *tenant, const char *id)
{
	struct box *box = box_find_any(tenant->house, id);

	return box && box->tenant == tenant ? box : NULL;
}

struct box *box_next_any(struct house *house, const struct box *after)
{
	size_t i = 0;

	if (after && inner(after)->next_same_hash)
		return &inner(after)->next_same_hash->box;
	if (after)
		i = place_of(after->id, house->table_size) + 1;
	for (; i < house->table_size; i++) {
		if (house->table[i])
			return &house->table[i]->box;
	}
	return NULL;
}

size_t house_n_boxes(const struct house *house)
{
	return house->n_boxes;
}

static struct box *box_of(struct house_box *box)
{
	return box ? &box->box : NULL;
}

struct box *box_next(struct tenant *tenant, const struct box *after, bool is_newest_first)
{
	struct house_tenant *mine = inner_tenant(tenant);

	if (!after)
		return box_of(is_newest_first ? mine->newest : mine->oldest);
	return box_of(is_newest_first ? inner(after)->older : inner(after)->newer);
}

struct box *box_next_from(struct tenant *tenant, int64_t start_ms, const char *id,
			  bool is_newest_first)
{
	struct house_tenant *mine = inner_tenant(tenant);
	struct house_box *box = is_newest_first ? mine->newest : mine->oldest;

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

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is nobody's any more
 *
 * Sandboxes are removed by threads of the second rank, some at a time, because whose layers are
 * still needed is looked for once for all of them. If the daemon is killed meanwhile, the next one
 * finds what is left: no row names it.
 */

#define AT_ONCE	 64
#define REMOVERS 2

struct removal {
	char sandbox[ATOLL_ID_SIZE];
	struct box_last_look *look; /* NULL: nobody counts what it has used */
	void (*done)(void *data);
	void *data;
	struct removal *next;
};

struct remover {
	struct work_item item;
	struct house *house;
	struct removal *list;
	bool is_done;
};

static void remove_list(struct work_item *item)
{
	struct remover *remover = (struct remover *)item;
	const char *ids[AT_ONCE];
	size_t n = 0;

	for (const struct removal *at = remover->list; at; at = at->next) {
		if (at->look)
			look_last(at->sandbox, at->look);
		ids[n++] = at->sandbox;
	}
	/* What cannot be removed now is tried again at the next start. */
	atoll_sandboxes_remove(ids, n, true, NULL, NULL);
	remover->is_done = true;
}

static void go_on(struct house *house);

static void list_removed(struct work_item *item)
{
	struct remover *remover = (struct remover *)item;
	struct house *house = remover->house;
	struct removal *next;

	/* The daemon stops, and there are no threads any more; nobody else would do it. */
	if (!remover->is_done)
		remove_list(item);
	house->n_removers--;
	for (struct removal *at = remover->list; at; at = next) {
		next = at->next;
		house->n_removing--;
		if (at->done)
			at->done(at->data);
		free(at);
	}
	free(remover);
	go_on(house);
}

static void go_on(struct house *house)
{
	struct remover *remover;
	struct removal **end;
	size_t n = 0;

	if (!house->to_remove || house->n_removers >= REMOVERS)
		return;
	remover = calloc(1, sizeof *remover);
	if (!remover)
		return; /* when the next one comes */
	remover->house = house;
	remover->item = (struct work_item){.run = remove_list, .done = list_removed};
	remover->list = house->to_remove;
	for (end = &remover->list; *end && n < AT_ONCE; n++)
		end = &(*end)->next;
	house->to_remove = *end;
	*end = NULL;
	house->n_removers++;
	work_submit(house->work, &remover->item, WORK_LATER);
}

void remove_sandbox(struct house *house, const char *sandbox, void (*done)(void *data), void *data)
{
	remove_measured(house, sandbox, NULL, done, data);
}

void remove_measured(struct house *house, const char *sandbox, struct box_last_look *look,
		     void (*done)(void *data), void *data)
{
	struct removal *removal = calloc(1, sizeof *removal);

	if (!removal) {
		if (done)
			done(data);
		return;
	}
	snprintf(removal->sandbox, sizeof removal->sandbox, "%s", sandbox);
	removal->look = look;
	removal->done = done;
	removal->data = data;
	removal->next = house->to_remove;
	house->to_remove = removal;
	house->n_removing++;
	go_on(house);
}

/* ---- at the start ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Ids of the boxes' sandboxes, in order: `house->n_boxes` of them. */
static char (*list_boxes(struct house *house))[ATOLL_ID_SIZE]
{
	char(*ids)[ATOLL_ID_SIZE] = calloc(house->n_boxes + 1, sizeof *ids);
	size_t n = 0;

	for (struct box *box = NULL; ids && (box = box_next_any(house, box));)
		memcpy(ids[n++], box->sandbox, sizeof *ids);
	if (ids)
		qsort(ids, n, sizeof *ids, compare);
	return ids;
}

int remove_strangers(struct house *house, struct atoll_error *err)
{
	cleanup_free char(*known)[ATOLL_ID_SIZE] = list_boxes(house);
	struct atoll_record *records;
	size_t n;
	int r = known ? atoll_records_list(false, &records, &n, err) : error_oom(err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (!bsearch(records[i].id, known, house->n_boxes, sizeof *known, compare) &&
		    !kind_has(house, records[i].id))
			remove_sandbox(house, records[i].id, NULL, NULL);
	}
	atoll_records_free(records, n);
	return 0;
}

/* ---- now and then ---- */

static void run_tidy(struct work_item *item)
{
	/* Nothing goes because it is old or much: only what nobody has a name for. */
	const struct atoll_gc_options options = {.max_age_s = UINT64_MAX / 4,
						 .max_bytes = UINT64_MAX / 4};

	(void)item;
	atoll_gc(&options, NULL);
}

static void tidied(struct work_item *item)
{
	free(item);
}

void remove_tidy(struct house *house)
{
	struct work_item *item = calloc(1, sizeof *item);

	if (!item)
		return;
	*item = (struct work_item){.run = run_tidy, .done = tidied};
	work_submit(house->work, item, WORK_LATER);
}

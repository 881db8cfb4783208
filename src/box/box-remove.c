/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box-remove.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/meter.h"
#include "box/template.h"
#include "box/work.h"

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
	struct daemon *daemon;
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

static void go_on(struct daemon *daemon);

static void list_removed(struct work_item *item)
{
	struct remover *remover = (struct remover *)item;
	struct daemon *daemon = remover->daemon;
	struct removal *next;

	/* The daemon stops, and there are no threads any more; nobody else would do it. */
	if (!remover->is_done)
		remove_list(item);
	daemon->n_removers--;
	for (struct removal *at = remover->list; at; at = next) {
		next = at->next;
		daemon->n_removing--;
		if (at->done)
			at->done(at->data);
		free(at);
	}
	free(remover);
	go_on(daemon);
}

static void go_on(struct daemon *daemon)
{
	struct remover *remover;
	struct removal **end;
	size_t n = 0;

	if (!daemon->to_remove || daemon->n_removers >= REMOVERS)
		return;
	remover = calloc(1, sizeof *remover);
	if (!remover)
		return; /* when the next one comes */
	remover->daemon = daemon;
	remover->item = (struct work_item){.run = remove_list, .done = list_removed};
	remover->list = daemon->to_remove;
	for (end = &remover->list; *end && n < AT_ONCE; n++)
		end = &(*end)->next;
	daemon->to_remove = *end;
	*end = NULL;
	daemon->n_removers++;
	work_submit(daemon->work, &remover->item, WORK_LATER);
}

void remove_sandbox(struct daemon *daemon, const char *sandbox, void (*done)(void *data),
		    void *data)
{
	remove_measured(daemon, sandbox, NULL, done, data);
}

void remove_measured(struct daemon *daemon, const char *sandbox, struct box_last_look *look,
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
	removal->next = daemon->to_remove;
	daemon->to_remove = removal;
	daemon->n_removing++;
	go_on(daemon);
}

/* ---- at the start ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Ids of the boxes' sandboxes, in order: `daemon->n_boxes` of them. */
static char (*list_boxes(struct daemon *daemon))[ATOLL_ID_SIZE]
{
	char(*ids)[ATOLL_ID_SIZE] = calloc(daemon->n_boxes + 1, sizeof *ids);
	size_t n = 0;

	for (struct box *box = NULL; ids && (box = box_next_any(daemon, box));)
		memcpy(ids[n++], box->sandbox, sizeof *ids);
	if (ids)
		qsort(ids, n, sizeof *ids, compare);
	return ids;
}

int remove_strangers(struct daemon *daemon, struct atoll_error *err)
{
	cleanup_free char(*known)[ATOLL_ID_SIZE] = list_boxes(daemon);
	struct atoll_record *records;
	size_t n;
	int r = known ? atoll_records_list(false, &records, &n, err) : error_oom(err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (!bsearch(records[i].id, known, daemon->n_boxes, sizeof *known, compare) &&
		    !kind_has(daemon, records[i].id))
			remove_sandbox(daemon, records[i].id, NULL, NULL);
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

void remove_tidy(struct daemon *daemon)
{
	struct work_item *item = calloc(1, sizeof *item);

	if (!item)
		return;
	*item = (struct work_item){.run = run_tidy, .done = tidied};
	work_submit(daemon->work, item, WORK_LATER);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/file-watch.h"

#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>

#define EVENTS                                                                                     \
	(IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |             \
	 IN_DELETE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

struct watch *watch_find(struct watcher *watcher, uint64_t id)
{
	struct watch *watch = watcher->watches;

	while (watch && watch->id != id)
		watch = watch->next;
	return watch;
}

/* ---- nodes and places ---- */

static struct node **node_place(struct watcher *watcher, int wd)
{
	struct node **place = &watcher->nodes[(unsigned)wd % NODE_TABLE];

	while (*place && (*place)->wd != wd)
		place = &(*place)->next;
	return place;
}

struct node *node_find(struct watcher *watcher, int wd)
{
	return *node_place(watcher, wd);
}

static void free_places(struct watcher *watcher, struct node *node)
{
	while (node->places) {
		struct place *place = node->places;

		node->places = place->next;
		watcher->n_places--;
		free(place);
	}
}

void node_drop(struct watcher *watcher, int wd)
{
	struct node **place = node_place(watcher, wd);
	struct node *node = *place;

	if (!node)
		return;
	*place = node->next;
	free_places(watcher, node);
	free(node);
}

static int add_to_node(struct watcher *watcher, int wd, struct watch *watch, const char *relative)
{
	struct node **at = node_place(watcher, wd);
	struct place *place;

	if (!*at) {
		*at = calloc(1, sizeof **at);
		if (!*at)
			return -ENOMEM;
		(*at)->wd = wd;
	}
	for (place = (*at)->places; place; place = place->next)
		if (place->watch == watch && strcmp(place->relative, relative) == 0)
			return 0;
	place = watcher->n_places < PLACES_MAX ? malloc(sizeof *place + strlen(relative) + 1)
					       : NULL;
	if (!place)
		return -EMFILE;
	place->watch = watch;
	place->next = (*at)->places;
	strcpy(place->relative, relative);
	(*at)->places = place;
	watcher->n_places++;
	return 0;
}

int place_add(struct watcher *watcher, struct watch *watch, const char *relative)
{
	char path[PATH_SIZE];
	int wd, r;

	if (!watch_join(path, watch->root, relative))
		return -ENAMETOOLONG;
	wd = inotify_add_watch(watcher->inotify.fd, path,
			       EVENTS | (relative[0] ? IN_DONT_FOLLOW : 0));
	if (wd < 0)
		return errno == ENOSPC ? -EMFILE : -errno;
	r = add_to_node(watcher, wd, watch, relative);
	if (r < 0 && node_find(watcher, wd) && !node_find(watcher, wd)->places) {
		inotify_rm_watch(watcher->inotify.fd, wd);
		node_drop(watcher, wd);
	}
	return r;
}

static bool is_beneath(const char *relative, const char *top)
{
	size_t length = strlen(top);

	return length == 0 || (strncmp(relative, top, length) == 0 &&
			       (relative[length] == '\0' || relative[length] == '/'));
}

void places_drop(struct watcher *watcher, const struct watch *watch, const char *relative)
{
	for (size_t i = 0; i < NODE_TABLE; i++) {
		struct node *next;

		for (struct node *node = watcher->nodes[i]; node; node = next) {
			struct place **at = &node->places;

			next = node->next;
			while (*at) {
				struct place *place = *at;

				if (place->watch != watch ||
				    !is_beneath(place->relative, relative)) {
					at = &place->next;
					continue;
				}
				*at = place->next;
				watcher->n_places--;
				free(place);
			}
			if (!node->places) {
				inotify_rm_watch(watcher->inotify.fd, node->wd);
				node_drop(watcher, node->wd);
			}
		}
	}
}

/* ---- what was told ---- */

uint64_t told_key(const struct watch *watch, const char *name, unsigned by)
{
	uint64_t key = 0xcbf29ce484222325 ^ watch->id;

	for (; *name; name++)
		key = (key ^ (unsigned char)*name) * 0x100000001b3;
	key = (key ^ by) * 0x100000001b3;
	return key ? key : 1;
}

static uint64_t *told_slot(const struct watcher *watcher, uint64_t key)
{
	size_t at = (size_t)(key ^ key >> 32) % TOLD_TABLE;

	while (watcher->told[at] && watcher->told[at] != key)
		at = (at + 1) % TOLD_TABLE;
	return &watcher->told[at];
}

/* A table that is full remembers no more: something is told twice then. */
void told_add(struct watcher *watcher, uint64_t key)
{
	uint64_t *slot;

	if (!watcher->told)
		watcher->told = calloc(TOLD_TABLE, sizeof *watcher->told);
	if (!watcher->told || watcher->n_told >= TOLD_TABLE / 2)
		return;
	slot = told_slot(watcher, key);
	watcher->n_told += *slot == 0;
	*slot = key;
}

bool told_has(const struct watcher *watcher, uint64_t key)
{
	return watcher->told && *told_slot(watcher, key) == key;
}

/* The slot keeps something that is no key of any name, so that those behind it are still found. */
bool told_remove(struct watcher *watcher, uint64_t key)
{
	if (!told_has(watcher, key))
		return false;
	*told_slot(watcher, key) = UINT64_MAX;
	return true;
}

void told_forget(struct watcher *watcher)
{
	free(watcher->told);
	watcher->told = NULL;
	watcher->n_told = 0;
}

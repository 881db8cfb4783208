/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>

/*
 * Which sealed layers somebody needs
 *
 * A layer is needed as long as its id stands in some record's meta or checkpoints, or in the link
 * that tells of a seal that nobody could write down (top-layer.c). Nothing counts that, so all of
 * them are read to find it out: once for all layers that are asked for.
 */

#define NAMING_MAX ((size_t)64 << 20)

void layer_names_done(struct layer_names *names)
{
	free(names->ids);
	*names = (struct layer_names){0};
}

int layer_names_put(struct layer_names *names, const char *id)
{
	if (names->n == names->room) {
		size_t room = names->room ? 2 * names->room : 64;
		void *more = realloc(names->ids, room * sizeof *names->ids);

		if (!more)
			return -ENOMEM;
		names->ids = more;
		names->room = room;
	}
	memcpy(names->ids[names->n], id, STORE_ID_LENGTH);
	names->ids[names->n++][STORE_ID_LENGTH] = '\0';
	return 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

/* Every word that could be an id. Those that are none do no harm: they name no layer. */
static int add_words(struct layer_names *names, const struct buf *text)
{
	size_t start = 0;

	for (size_t i = 0; i <= text->used; i++) {
		if (i < text->used && is_letter(text->data[i]))
			continue;
		if (i - start == STORE_ID_LENGTH && layer_names_put(names, text->data + start) < 0)
			return -ENOMEM;
		start = i + 1;
	}
	return 0;
}

static int add_unsaved(struct layer_names *names, const struct layer_store *store,
		       const char *record)
{
	char path[64], layer[ATOLL_ID_SIZE] = "";

	snprintf(path, sizeof path, "records/%s/sealing", record);
	if (readlinkat(store->fd, path, layer, sizeof layer - 1) < 0)
		return errno == ENOENT ? 0 : -errno;
	return store_is_id(layer) ? layer_names_put(names, layer) : 0;
}

int layer_names_add(struct layer_names *names, const struct layer_store *store, const char *record)
{
	static const char *const files[] = {"checkpoints", "meta"};
	cleanup_buf struct buf text = BUF_INIT(NAMING_MAX);
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		cleanup_fd int fd = -1;
		int r;

		snprintf(path, sizeof path, "records/%s/%s", record, files[i]);
		fd = openat(store->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? -errno : fd_read_all(fd, &text);
		if (r < 0 && r != -ENOENT)
			return r;
		buf_add_char(&text, '\n');
	}
	if (buf_error(&text) < 0)
		return buf_error(&text);
	if (add_words(names, &text) < 0)
		return -ENOMEM;
	return add_unsaved(names, store, record);
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void sort(struct layer_names *names)
{
	if (names->n > 1)
		qsort(names->ids, names->n, sizeof *names->ids, compare);
}

bool layer_names_have(const struct layer_names *names, const char *id)
{
	return names->n && bsearch(id, names->ids, names->n, sizeof *names->ids, compare);
}

bool layer_names_find(const struct layer_names *names, const char *id)
{
	for (size_t i = 0; i < names->n; i++) {
		if (streq(names->ids[i], id))
			return true;
	}
	return false;
}

int layer_names_read(const struct layer_store *store, struct layer_names *ret)
{
	cleanup_with(store_ids_done) struct store_ids records = {0};
	int r = store_list(store, "records", &records, NULL);

	*ret = (struct layer_names){0};
	for (size_t i = 0; r == 0 && i < records.n; i++)
		r = layer_names_add(ret, store, records.items[i]);
	if (r < 0)
		layer_names_done(ret);
	sort(ret);
	return r;
}

/* First the records are gone, then the others are asked: of two that are removed at once the later
 * one sees that nobody is left. */
void layer_names_drop(const struct layer_store *store, struct layer_names *lost)
{
	cleanup_with(layer_names_done) struct layer_names needed = {0};
	cleanup_with(store_ids_done) struct store_ids layers = {0};

	/* What cannot be read may name each of them. */
	if (!lost->n || store_list(store, "layers", &layers, NULL) < 0 || !layers.n ||
	    layer_names_read(store, &needed) < 0)
		return;
	sort(lost);
	for (size_t i = 0; i < layers.n; i++) {
		char path[sizeof "layers/" + ATOLL_ID_SIZE];

		snprintf(path, sizeof path, "layers/%s", layers.items[i]);
		if (layer_names_have(lost, layers.items[i]) &&
		    !layer_names_have(&needed, layers.items[i]))
			store_throw_away(store, store->fd, path, NULL);
	}
}

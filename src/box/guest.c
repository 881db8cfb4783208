/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/guest-call.h"
#include "box/guest-reply.h"
#include "box/guest-types.h"
#include "box/held.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the requests ---- */

static void ask(struct box *box, const char *user, enum guest_question kind, uint32_t number,
		const char *const *words, guest_done *done, guest_opened *opened, void *data)
{
	struct guest_call *call = call_new(box, user, kind);
	struct atoll_error err = {0};

	if (!call) {
		error_oom(&err);
		if (done)
			done(NULL, 0, &err, data);
		else
			opened(-1, NULL, &err, data);
		return;
	}
	call->done = done;
	call->opened = opened;
	call->data = data;
	call_ask(call, number, 0, words);
}

void guest_stat(struct box *box, const char *user, const char *path, guest_done *done, void *data)
{
	ask(box, user, GUEST_ASK_STAT, 0, (const char *const[]){path, NULL}, done, NULL, data);
}

void guest_list(struct box *box, const char *user, const char *path, uint32_t depth,
		guest_listed *done, void *data)
{
	struct guest_call *call = call_new(box, user, GUEST_ASK_LIST);
	struct atoll_error err = {0};

	if (!call) {
		error_oom(&err);
		done(NULL, &err, data);
		return;
	}
	call->listed = done;
	call->data = data;
	call_ask(call, depth, 0, (const char *const[]){path, NULL});
}

void guest_make_dir(struct box *box, const char *user, const char *path, guest_done *done,
		    void *data)
{
	ask(box, user, GUEST_ASK_MAKE_DIR, 0, (const char *const[]){path, NULL}, done, NULL, data);
}

void guest_move(struct box *box, const char *user, const char *from, const char *to,
		guest_done *done, void *data)
{
	ask(box, user, GUEST_ASK_MOVE, 0, (const char *const[]){from, to, NULL}, done, NULL, data);
}

void guest_remove(struct box *box, const char *user, const char *path, guest_done *done, void *data)
{
	ask(box, user, GUEST_ASK_REMOVE, 0, (const char *const[]){path, NULL}, done, NULL, data);
}

void guest_open(struct box *box, const char *user, const char *path, guest_opened *done, void *data)
{
	ask(box, user, GUEST_ASK_OPEN, 0, (const char *const[]){path, NULL}, NULL, done, data);
}

void guest_write(struct box *box, const char *user, const char *path,
		 const struct box_pairs *metadata, guest_opened *done, void *data)
{
	const char *words[2 + 2 * GUEST_METADATA_PAIRS] = {path};
	size_t n = metadata ? metadata->n : 0;

	/* Whoever asks has looked at how much it is. */
	for (size_t i = 0; i < n && i < GUEST_METADATA_PAIRS; i++) {
		words[1 + 2 * i] = metadata->items[i].name;
		words[2 + 2 * i] = metadata->items[i].value;
	}
	ask(box, user, GUEST_ASK_WRITE, 0, words, NULL, done, data);
}

void guest_compose(struct box *box, const char *user, char *const *from, size_t n, const char *to,
		   guest_done *done, void *data)
{
	const char **words = calloc(n + 2, sizeof *words);
	struct atoll_error err = {0};

	if (!words) {
		error_oom(&err);
		done(NULL, 0, &err, data);
		return;
	}
	words[0] = to;
	for (size_t i = 0; i < n; i++)
		words[1 + i] = from[i];
	ask(box, user, GUEST_ASK_COMPOSE, 0, words, done, NULL, data);
	free(words);
}

void guest_connect(struct box *box, uint16_t port, guest_opened *done, void *data)
{
	ask(box, NULL, GUEST_ASK_CONNECT, port, (const char *const[]){NULL}, NULL, done, data);
}

/* ---- lists ---- */

void guest_list_free(struct guest_list *list)
{
	if (!list)
		return;
	reply_done(&list->reply);
	parts_free(list->parts);
	held_drop(&list->held);
	free(list);
}

size_t guest_list_next(struct guest_list *list, const struct guest_entry **ret)
{
	struct guest_part *first = list->parts;

	reply_done(&list->reply);
	while (first && !list->has_failed) {
		if (list->has_begun) {
			list->parts = first->next;
			held_set(&list->held, NULL,
				 list->held.bytes > first->size ? list->held.bytes - first->size
								: 0);
			free(first);
			first = list->parts;
		}
		list->has_begun = true;
		/* It was read before, and made sense. */
		list->has_failed = first && part_read(first, &list->reply) < 0;
		if (list->reply.n > 0) {
			*ret = list->reply.entries;
			return list->reply.n;
		}
	}
	return 0;
}

bool guest_list_has_failed(const struct guest_list *list)
{
	return list->has_failed;
}

bool guest_list_is_short(const struct guest_list *list)
{
	return !list->parts || !list->parts->next;
}

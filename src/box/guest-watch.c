/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest-watch.h"

#include "base/error.h"
#include "box/box-types.h"
#include "box/guest-call.h"
#include "box/guest-link.h"
#include "box/guest-reply.h"
#include "box/guest-types.h"
#include "box/guest.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert((int)GUEST_CREATE == GUEST_TELL_CREATE && (int)GUEST_WRITE == GUEST_TELL_WRITE &&
		       (int)GUEST_REMOVE == GUEST_TELL_REMOVE &&
		       (int)GUEST_RENAME == GUEST_TELL_RENAME &&
		       (int)GUEST_CHMOD == GUEST_TELL_CHMOD && (int)GUEST_LOST == GUEST_TELL_LOST,
	       "events have the same numbers on the wire");

/* ---- callbacks, in which the watch may be ended ---- */

static void leave(struct guest_watch *watch)
{
	watch->is_busy = false;
	if (watch->is_ended)
		free(watch);
}

static void report(struct guest_watch *watch, enum guest_event event, const char *name,
		   const struct guest_entry *entry)
{
	watch->is_busy = true;
	watch->told(event, name, entry, watch->data);
	leave(watch);
}

static void unlink_watch(struct guest_watch *watch)
{
	struct guest_watch **place = watch->guest ? &watch->guest->watches : NULL;

	while (place && *place && *place != watch)
		place = &(*place)->next;
	if (place && *place)
		*place = watch->next;
	watch->guest = NULL;
}

/* Of the call, which is over then. */
void watch_armed(struct guest_watch *watch, const struct atoll_error *err)
{
	struct guest *guest = watch->call->guest;

	watch->id = watch->call->id;
	watch->call = NULL;
	if (err->fault == ATOLL_FAULT_NONE && guest) {
		watch->guest = guest;
		watch->next = guest->watches;
		guest->watches = watch;
	}
	watch->is_busy = true;
	watch->done(NULL, 0, err, watch->data);
	leave(watch);
}

void watch_lost(struct guest_watch *watch)
{
	watch->guest = NULL;
	report(watch, GUEST_LOST, "", NULL);
}

bool watch_event(struct guest *guest, const struct guest_head *head, const char *packet)
{
	struct guest_watch *watch = guest->watches;
	struct guest_reply reply = {0};
	struct guest_part *part = NULL;
	int r;

	if (head->number > GUEST_TELL_LOST || head->n > 1 || head->id >= guest->next_id)
		return false;
	while (watch && watch->id != head->id)
		watch = watch->next;
	/* Ended a moment ago. */
	if (!watch)
		return true;
	r = part_new(head, packet, &part);
	if (r == 0)
		r = reply_read(part, &reply);
	if (r == 0)
		report(watch, (enum guest_event)head->number, reply.path,
		       reply.n ? &reply.entries[0] : NULL);
	else if (r == -ENOMEM)
		report(watch, GUEST_LOST, "", NULL);
	reply_done(&reply);
	parts_free(part);
	return r != -EBADMSG;
}

/* ---- */

struct guest_watch *guest_watch(struct box *box, const char *user, const char *path,
				bool is_recursive, bool wants_entries, guest_done *done,
				guest_watched *told, void *data)
{
	struct guest_watch *watch = calloc(1, sizeof *watch);
	struct guest_call *call = watch ? call_new(box, user, GUEST_ASK_WATCH) : NULL;
	const char *words[] = {path, NULL};

	if (!call) {
		free(watch);
		return NULL;
	}
	*watch = (struct guest_watch){.call = call, .done = done, .told = told, .data = data};
	call->watch = watch;
	call_ask(call, 0,
		 (is_recursive ? GUEST_RECURSIVE : 0U) | (wants_entries ? GUEST_ENTRIES : 0U),
		 words);
	return watch;
}

void guest_unwatch(struct guest_watch *watch)
{
	if (!watch)
		return;
	if (watch->call) {
		/* Still being armed: when that is done it is ended at once. */
		watch->call->watch = NULL;
		watch->call->is_mute = true;
		watch->call = NULL;
	}
	if (watch->guest) {
		guest_send_unwatch(watch->guest, watch->id);
		unlink_watch(watch);
	}
	watch->is_ended = true;
	if (!watch->is_busy)
		free(watch);
}

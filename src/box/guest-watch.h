/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/guest.h"

#include <atoll/error.h>
#include <stdbool.h>

struct box;
struct guest;
struct guest_head;
struct guest_watch;

/* `done` tells when the watches are armed; then `told`, until guest_unwatch(), which is also fine
 * before, and within either of them. What is returned stays the caller's until then, also after a
 * failure or a loss; nothing is called after it. NULL: no memory, and `done` is not called. */
struct guest_watch *guest_watch(struct box *box, const char *user, const char *path,
				bool is_recursive, bool wants_entries, guest_done *done,
				guest_watched *told, void *data);
void guest_unwatch(struct guest_watch *watch); /* NULL is fine */
void watch_armed(struct guest_watch *watch, const struct atoll_error *err);
/* false: it makes no sense. */
bool watch_event(struct guest *guest, const struct guest_head *head, const char *packet);
void watch_lost(struct guest_watch *watch);

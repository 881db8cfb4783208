/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/guest-types.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stdint.h>

struct box;
struct guest_head;

/* The last word: calls back, and frees it. `fd` is the callee's. */
void call_finish(struct guest_call *call, const struct atoll_error *err, int fd);
/* The same from the loop. */
void call_fail_later(struct guest_call *call, const struct atoll_error *err);
void call_free(struct guest_call *call);
/* Tells of the failure now; what else comes for it is passed over. It stays with its guest, unless
 * whoever is told ends that. */
void call_mute(struct guest_call *call, const struct atoll_error *err);
/* A packet for it came; false: it makes no sense. Takes the descriptor. */
bool call_receive(struct guest_call *call, const struct guest_head *head, const char *packet,
		  int fd, bool *ret_is_over);
/* If lists hold too much in all, the largest of the box that holds most fails; until it fits. */
void calls_make_room(void);
struct guest_call *call_new(struct box *box, const char *user, enum guest_question kind);
/* The words of the question: copied. */
void call_ask(struct guest_call *call, uint32_t number, uint32_t flags, const char *const *words);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "box/box.h"
#include "httpd/route.h"

/*
 * A list of files as an answer
 *
 * A short list is answered at once. A long one is written in pieces of the tenant's lane, as far as
 * the client reads: a list of 250,000 entries takes 0.25 s to write and has 60 MiB.
 */
struct listing;

/* Answers {HEAD[entry,entry,...]TAIL}; owns the list. The caller frees the result by listing_free()
 * when the exchange has ended. NULL: the call was answered. */
struct listing *listing_answer(struct api_call *call, struct tenant *tenant,
			       struct guest_list *list, const char *head, const char *tail,
			       void (*write)(struct json *json, const struct guest_entry *entry));
void listing_free(struct listing *listing); /* NULL is fine */

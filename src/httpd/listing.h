/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "box/guest.h"
#include "httpd/route.h"

/*
 * A list of files as an answer
 *
 * A short one is written at once. A long one is written piece by piece, each in a turn of its
 * tenant, and only as far as the client reads: a list of 250,000 entries takes a quarter of a
 * second to write, and 60 MiB.
 */
struct listing;

/* {HEAD[entry,entry,...]TAIL}. Takes the list. What is returned is the caller's until the exchange
 * is over: listing_free(). NULL: it was answered. */
struct listing *listing_answer(struct api_call *call, struct tenant *tenant,
			       struct guest_list *list, const char *head, const char *tail,
			       void (*write)(struct json *json, const struct guest_entry *entry));
void listing_free(struct listing *listing); /* NULL is fine */

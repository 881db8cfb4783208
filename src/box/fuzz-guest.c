/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest-reply.h"
#include "box/guest-types.h"
#include "box/guest.h"

/* What comes from inside a box: a packet of a list, and one that is an answer, which make sense or
 * not. */

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
	if (!text || strlen(text) > GUEST_STRING_MAX)
		abort();
}

static void check_entry(const struct guest_entry *entry)
{
	check_text(entry->path);
	check_text(entry->name);
	check_text(entry->owner);
	check_text(entry->group);
	if (entry->path[0] != '/' || entry->is_link != (entry->target != NULL) ||
	    !memchr("fdl?", entry->type, 4) || entry->metadata.n > GUEST_METADATA_PAIRS)
		abort();
	for (size_t i = 0; i < entry->metadata.n; i++) {
		check_text(entry->metadata.items[i].name);
		check_text(entry->metadata.items[i].value);
	}
}

static struct guest_part *read_packet(const uint8_t *data, size_t size)
{
	struct guest_part *part = NULL;
	struct guest_cursor cursor;
	struct guest_head head;

	/* As if the packet's size were right: a fuzzer has better things to guess. */
	if (size >= sizeof head) {
		memcpy(&head, data, sizeof head);
		head.size = (uint32_t)size;
		part_new(&head, (const char *)data, &part);
	}
	guest_get_head(data, size, &head, &cursor);
	return part;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct guest_reply reply = {0};
	struct atoll_error err = {0};
	size_t half = size > 2 && data[0] % 4 == 0 ? size / 2 : 0;
	struct guest_part *first = half ? read_packet(data, half) : NULL;
	struct guest_part *last = read_packet(data + half, size - half);

	if (first && part_read(first, &reply) == 0) {
		for (size_t i = 0; i < reply.n; i++)
			check_entry(&reply.entries[i]);
		reply_done(&reply);
	}
	if (last && reply_read(last, &reply) == 0) {
		check_text(reply.path);
		for (size_t i = 0; i < reply.n; i++)
			check_entry(&reply.entries[i]);
		reply_error((int)reply.n, reply.path, &err);
		if (err.fault == ATOLL_FAULT_NONE || !err.text[0])
			abort();
	}
	reply_done(&reply);
	parts_free(first);
	parts_free(last);
	return 0;
}

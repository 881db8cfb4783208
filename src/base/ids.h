/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Ids in layers that are nobody's on the host
 *
 * Where several users write to one sandbox, a layer of root's keeps who owns what: the first user's
 * files are the workspace's owner's, and those of inside id N have this number and N. It lies
 * between the two blocks of isolate/slots.h, where neither accounts nor runs have ids; so a file of
 * the store can belong to no process. On the host they become the workspace's owner's.
 */
#define IDS_KEPT_FIRST 0x77fe0000u
#define IDS_KEPT_COUNT 0x10000u

/* An id inside that owns no file and is in no group, of a sandbox that has a range of ids. Likewise
 * between the two blocks: no file of the host's has it, so no mapped tree shows one as its. */
#define IDS_STRANGER 0x77ff0000u

static inline bool ids_is_kept(uint32_t id)
{
	return id >= IDS_KEPT_FIRST && id - IDS_KEPT_FIRST < IDS_KEPT_COUNT;
}

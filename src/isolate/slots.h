/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct atoll_error;

/*
 * Host ids for sandboxes that root starts
 *
 * Each class of identities owns a block of host ids that nothing else hands out: above every
 * account, every range of subordinate ids (useradd stops at 600100000) and the ranges that systemd
 * gives to containers (up to 0x6fffffff), below those that it keeps for foreign images (from
 * 0x7ffe0000). The numbers are fixed, so that a firewall can know them.
 *
 * A block is cut into slots. A run takes one for its length, by locking one byte of a file: an
 * open-file-description lock, which the kernel drops when the last process that has the
 * descriptor is gone, however it went. There is nothing to sweep. A sandbox with many ids will take
 * neighbouring slots with one lock over several bytes.
 */

#define SLOTS_DIR    "/run/atoll"
#define SLOTS_FILE   "ids"
#define SLOTS_IDS    1024u	 /* host ids in a slot; the first is the sandbox's */
#define SLOTS_BLOCK  0x07fe0000u /* host ids in a class */
#define SLOTS_NUMBER (SLOTS_BLOCK / SLOTS_IDS)

/* Of an online slot, for egress: the firewall lets the first of these ask resolvers wherever they
 * are, and answer those who connect to it; the second has leave to connect to what is near, because
 * its contract names an address there, or another proxy. */
#define SLOTS_EGRESS	  1
#define SLOTS_EGRESS_NEAR 2

/* By enum spec_identity. */
struct slots_class {
	const char *account; /* whom the block belongs to after `atoll setup` */
	uint32_t first;	     /* the lowest host id of the block */
};
#define SLOTS_CLASSES 2
extern const struct slots_class slots_classes[SLOTS_CLASSES];

/* Are we root of the machine, and not of some container that has only a part of all ids? */
bool slots_are_ours(void);

/*
 * Take a free slot of a class; needs root. Returns a descriptor that holds it: the slot is free
 * again when every copy of it is closed. `dir` is SLOTS_DIR but in tests; it is made if need be.
 */
int slots_take(const char *dir, unsigned class, uint32_t *ret_first_id, struct atoll_error *err);

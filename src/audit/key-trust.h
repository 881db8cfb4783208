/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-base.h"

#include <stdbool.h>

struct atoll_verify_options;

/* The public keys whose signatures are accepted. */
#define AUDIT_TRUST_MAX 256
struct audit_trust {
	struct {
		unsigned char public[32];
		char id[AUDIT_KEY_SIZE];
	} keys[AUDIT_TRUST_MAX];
	size_t n;
};

/* Adds a key, unless the list has it or is full. */
void audit_trust_add(struct audit_trust *trust, const unsigned char public[32]);
bool audit_trust_has(const struct audit_trust *trust, const char *id);
/* Reads a hand-over note. If both keys have signed it and the list has one of them, adds the other
 * one and returns true. Otherwise, also if the list has both, returns false. */
bool audit_trust_hand_over(struct audit_trust *trust, const char *note, size_t size);

/* Reads keys/ID.handover, the hand-over from the key `id` to the key `ret_to`. Returns the size of
 * the note, or a negative errno. */
#define AUDIT_HAND_OVER_MAX 1024
int audit_hand_over_read(int state_fd, const char *id, char ret[AUDIT_HAND_OVER_MAX],
			 char ret_to[AUDIT_KEY_SIZE]);
/* Adds all keys that hand-overs in the store connect with the keys in `ret`. With `with_current`,
 * adds the store's own key first; -ENOENT without a message if it has none. */
int audit_trust_load(int state_fd, bool with_current, struct audit_trust *ret,
		     struct atoll_error *err);
/* Fills in the keys for a verification: the key in the file options->key_path, or the store's own,
 * and the keys connected with it by hand-overs. `state_fd` may be -1: there is no store. */
int audit_trust_for(int state_fd, const struct atoll_verify_options *options,
		    struct audit_trust *ret, struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct atoll_error;
struct network;

/*
 * Values of secrets
 *
 * netctl_init() reads the values before the sandbox exists, into memory that is empty in a forked
 * child (MADV_WIPEONFORK) and in core dumps, and wipes it when egress has them. The sandbox gets
 * placeholders.
 */
struct secret {
	const char *value; /* in that memory, NUL-terminated */
	size_t size;
	char *placeholder;
};

struct secrets {
	struct secret *list; /* in the contract's order */
	size_t n;
	char *memory; /* with the values */
	size_t used, room;
};

/* Such memory, zeroed; NULL on failure. secrets_free() wipes `used` bytes; takes NULL. */
void *secrets_alloc(size_t size);
void secrets_free(void *memory, size_t used, size_t size);

/* Read the values of a contract's secrets and make placeholders. An error names the secret, never
 * its value. */
int secrets_read(const struct network *network, struct secrets *ret, struct atoll_error *err);

/* Wipe the values. The placeholders stay. */
void secrets_forget(struct secrets *secrets);
void secrets_done(struct secrets *secrets);

/* A text of the same length and shape: a prefix that vendors document ("sk-", "ghp_") or a short
 * first word with 16 characters and more behind it, then other letters and digits in the places of
 * letters and digits, and the rest as it is. Never the value itself: -EINVAL where too little of it
 * could differ. `ret` has room for `size` + 1 bytes. */
int secrets_placeholder(const char *value, size_t size, char *ret);

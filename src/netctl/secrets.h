/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct atoll_error;
struct network;

/*
 * Credentials that stay outside
 *
 * Values are read before the sandbox exists, into memory that a clone of us finds empty
 * (MADV_WIPEONFORK), goes into no core dump, and is wiped as soon as egress has them. The sandbox
 * gets placeholders.
 */
struct secret {
	const char *value; /* in such memory, NUL-terminated */
	size_t size;
	char *placeholder;
};

struct secrets {
	struct secret *list; /* in the contract's order */
	size_t n;
	char *memory; /* where the values are */
	size_t used, room;
};

/* Memory of that kind, zeroed; NULL if there is none. secrets_free() wipes what was used; takes
 * NULL. */
void *secrets_alloc(size_t size);
void secrets_free(void *memory, size_t used, size_t size);

/* Read all of a contract's and make placeholders. A failure names the secret and never its value.
 */
int secrets_read(const struct network *network, struct secrets *ret, struct atoll_error *err);

/* The values are not needed any more; placeholders stay. */
void secrets_forget(struct secrets *secrets);
void secrets_done(struct secrets *secrets);

/* A text of the same length and shape: a prefix that vendors document ("sk-", "ghp_") or a short
 * first word with 16 characters and more behind it, then other letters and digits in the places of
 * letters and digits, and the rest as it is. Never the value itself: -EINVAL where too little of it
 * could differ. `ret` has room for `size` + 1 bytes. */
int secrets_placeholder(const char *value, size_t size, char *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/sign.h"

struct checked_keys;

/* The part of a receipt that a check refuses. The values are exit statuses of `atoll verify`; 1
 * means an event log that is not closed. */
enum receipt_fault {
	RECEIPT_GOOD = 0,
	RECEIPT_FORGED = 2,   /* not signed by a trusted key, changed later, or the two statements
			       * do not belong together */
	RECEIPT_NONE = 3,     /* the file is missing or is not a receipt */
	RECEIPT_FILES = 4,    /* a file is missing or has other content */
	RECEIPT_LOG = 5,      /* the event log does not verify, or has other effects */
	RECEIPT_HARDWARE = 6, /* the hardware signed something else */
};

struct receipt {
	json_t *provenance, *own; /* the two statements */
	unsigned char signer[SIGN_RAW_SIZE];
	char key[SIGN_ID_SIZE];
	unsigned n_signers; /* the number of changes of the signer from line to line */
};

/* Reads a receipt, checks its signatures against `keys`, and that the two statements belong
 * together. `ret_fault` is set on failure. */
int receipt_open(const char *path, const struct checked_keys *keys, struct receipt *ret,
		 enum receipt_fault *ret_fault, struct atoll_error *err);
void receipt_done(struct receipt *receipt);
#define cleanup_receipt cleanup_with(receipt_done)

/* A value of atoll's predicate by its path: "log", "note". NULL if there is none. */
const json_t *receipt_get(const struct receipt *receipt, const char *key, const char *below);

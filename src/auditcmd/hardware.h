/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

struct atoll_error;

/*
 * Hardware's word about a log's head
 *
 * A key in a file says who signed; whoever has the machine has the file. A TPM, or the processor of
 * a confidential machine, signs with a key that nobody can take out of it, and here it signs a hash
 * of the log's head: it was there when that head was. What that proves is in doc/record.md; mostly
 * it is as much as one knows about the key.
 */

#define HARDWARE_NONCE_SIZE 32
#define HARDWARE_PCR	    23 /* the one that is left to applications, and that they may reset */

struct hardware_claim {
	const char *checkpoint; /* the head's signed note */
	size_t checkpoint_size;
	unsigned char nonce[HARDWARE_NONCE_SIZE];
	unsigned char signer[32]; /* the key that signs the receipt */
};

/* ---- tpm.c ---- */

/* Extend the register with the hash of the checkpoint, and have it quoted. `tcti` is how to reach
 * the TPM, "device:/dev/tpmrm0" or "swtpm:host=127.0.0.1,port=2321". `ret_root`: "tpm" or "swtpm".
 */
int tpm_quote(const char *tcti, const struct hardware_claim *claim, json_t **ret,
	      const char **ret_root, struct atoll_error *err);

/* ---- tpm-check.c ---- */

/* Does what tpm_quote() returned speak of this checkpoint? `key`, if it is not NULL, is the TPM's
 * public key as it is known from elsewhere. Only libcrypto is needed. */
int tpm_check(const json_t *quote, const struct hardware_claim *claim, EVP_PKEY *key,
	      struct atoll_error *err);

/* Is `value` what a register holds that held `before` and was extended with `hash`? */
bool tpm_follows(const unsigned char before[32], const unsigned char hash[32],
		 const unsigned char value[32]);

/* ---- tsm.c ---- */

/* 1 with a report; 0 where the kernel offers none, or not to this user; a negative errno if that
 * is not as it should be. `ret_root`: "sev-snp", "tdx", or what the kernel calls it. */
int tsm_report(const struct hardware_claim *claim, json_t **ret, const char **ret_root,
	       struct atoll_error *err);
/* Does a report speak of this checkpoint, key and nonce? The processor's own signature is not
 * checked: that takes its maker's certificates. */
int tsm_check(const json_t *report, const struct hardware_claim *claim, struct atoll_error *err);

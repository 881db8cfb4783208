/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * A hardware signature over the head of an event log
 *
 * The signing key of a store is a file: anybody with access to the machine can copy it. A TPM, or
 * the processor of a confidential machine, signs with a key that cannot be read out. It signs a
 * hash of the head, which proves that the hardware was present when the head existed. doc/record.md
 * states what that proves; it is worth as much as is known about the hardware's key.
 */

#define HARDWARE_NONCE_SIZE 32
#define HARDWARE_PCR	    23 /* the register for applications, which they may reset */

struct hardware_claim {
	const char *checkpoint; /* the signed note of the head */
	size_t checkpoint_size;
	unsigned char nonce[HARDWARE_NONCE_SIZE];
	unsigned char signer[32]; /* the public key that signs the receipt */
};

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/hardware.h"

#include <jansson.h>
#include <openssl/types.h>
#include <stdbool.h>

struct atoll_error;

/* Checks that a quote from tpm_quote() is about this head. `key`, if not NULL, is the TPM's public
 * key as the verifier knows it. Needs libcrypto only, no TPM. */
int tpm_check(const json_t *quote, const struct hardware_claim *claim, EVP_PKEY *key,
	      struct atoll_error *err);

/* Is `value` the value of a register that was `before` and was extended with `hash`? */
bool tpm_follows(const unsigned char before[32], const unsigned char hash[32],
		 const unsigned char value[32]);

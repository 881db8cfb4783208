/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/hardware.h"

#include <jansson.h>

struct atoll_error;

/* Extends the register with the hash of the head, and gets a quote of it. `tcti` is the address of
 * the TPM: "device:/dev/tpmrm0" or "swtpm:host=127.0.0.1,port=2321". `ret_root`: "tpm" or "swtpm".
 */
int tpm_quote(const char *tcti, const struct hardware_claim *claim, json_t **ret,
	      const char **ret_root, struct atoll_error *err);

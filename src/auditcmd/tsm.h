/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/hardware.h"

#include <jansson.h>

struct atoll_error;

/* Gets a report of a confidential machine. 1 with a report; 0 if the kernel offers none, or not to
 * this user; or a negative errno. `ret_root`: "sev-snp", "tdx", or the kernel's name for it. */
int tsm_report(const struct hardware_claim *claim, json_t **ret, const char **ret_root,
	       struct atoll_error *err);
/* Checks that a report is about this head, key and nonce. Does not check the processor's signature:
 * that needs the certificates of its maker. */
int tsm_check(const json_t *report, const struct hardware_claim *claim, struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>

struct holder;

/* Start event rules and the monitor, if the contract has any. */
int holder_rules_open(struct holder *holder, struct atoll_error *err);
/* Read verdicts; one that is more than a flag kills all steps. */
void holder_rules_check(struct holder *holder);
void holder_rules_close(struct holder *holder);

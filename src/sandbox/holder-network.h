/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>

struct holder;

/* Handle HOLDER_NETWORK: replace the network rules by the text in `fd`. */
int holder_set_network(struct holder *holder, int fd, struct atoll_error *err);
/* At the start: load rules that replaced the contract's in an earlier holder. */
int holder_load_network(struct holder *holder, struct atoll_error *err);

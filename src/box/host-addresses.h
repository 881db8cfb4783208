/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct network_address;

/* Is it one of this machine's own, on any interface? */
bool box_host_has(const struct network_address *address);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The text for a firewall rule that names every port from 1 to 65535 except the given ones:
 * "1-3127,3129-65535". Ports may come in any order and more than once; port 0 does not count.
 * Returns the length of the text, 0 if no port is left, or -E2BIG if `size` is too small. */
int nt_port_complement(const uint16_t *ports, size_t n_ports, char *ret, size_t size);

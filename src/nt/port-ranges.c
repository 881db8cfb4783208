/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the ports that a firewall rule blocks. Called by the planner of the elevated set-up. */
#include "nt/port-ranges.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PORTS 65536

struct ports {
	uint8_t bits[PORTS / 8];
};

static void set_port(struct ports *ports, uint16_t port)
{
	ports->bits[port / 8] |= (uint8_t)(1U << port % 8);
}

static bool has_port(const struct ports *ports, unsigned port)
{
	return ports->bits[port / 8] >> port % 8 & 1;
}

static int put_range(unsigned first, unsigned last, char *ret, size_t size, size_t used)
{
	const char *comma = used ? "," : "";
	int n = first == last ? snprintf(ret + used, size - used, "%s%u", comma, first)
			      : snprintf(ret + used, size - used, "%s%u-%u", comma, first, last);

	return n < 0 || (size_t)n >= size - used ? -E2BIG : n;
}

int nt_port_complement(const uint16_t *ports, size_t n_ports, char *ret, size_t size)
{
	struct ports excluded = {0};
	size_t used = 0;

	if (size == 0)
		return -E2BIG;
	ret[0] = '\0';
	for (size_t i = 0; i < n_ports; i++)
		set_port(&excluded, ports[i]);
	for (unsigned first = 1, last; first < PORTS; first = last + 1) {
		int n;

		last = first;
		if (has_port(&excluded, first))
			continue;
		while (last + 1 < PORTS && !has_port(&excluded, last + 1))
			last++;
		n = put_range(first, last, ret, size, used);
		if (n < 0)
			return n;
		used += (size_t)n;
	}
	return (int)used;
}

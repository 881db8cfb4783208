/* SPDX-License-Identifier: Apache-2.0 */
#include "box/host-addresses.h"

#include "spec/network.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stddef.h>

static bool is_same(const struct sockaddr *one, const struct network_address *address)
{
	struct network_address own;

	if (one->sa_family == AF_INET)
		network_address_of_v4(&((const struct sockaddr_in *)(const void *)one)->sin_addr,
				      &own);
	else if (one->sa_family == AF_INET6)
		memcpy(own.bytes, &((const struct sockaddr_in6 *)(const void *)one)->sin6_addr, 16);
	else
		return false;
	return memcmp(&own, address, sizeof own) == 0;
}

/* For what is said at once. Addresses come and go: who keeps the rule is egress, which asks the
 * kernel when it connects. */
bool box_host_has(const struct network_address *address)
{
	struct ifaddrs *all = NULL;
	bool has = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *one = all; one && !has; one = one->ifa_next)
		has = one->ifa_addr && is_same(one->ifa_addr, address);
	freeifaddrs(all);
	return has;
}

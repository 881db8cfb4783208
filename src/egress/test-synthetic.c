/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "egress/core.h"

#include <arpa/inet.h>
#include <sodium.h>

static struct network_address v4(uint32_t number)
{
	struct network_address address = {{[10] = 0xff, 0xff}};
	struct in_addr base;

	inet_pton(AF_INET, EGRESS_SYNTHETIC_V4, &base);
	base.s_addr = htonl(ntohl(base.s_addr) + number);
	memcpy(address.bytes + 12, &base, 4);
	return address;
}

static struct network_address v6(uint32_t number)
{
	struct network_address address = v4(number), block;

	inet_pton(AF_INET6, EGRESS_SYNTHETIC_V6, block.bytes);
	memcpy(address.bytes, block.bytes, 12);
	return address;
}

TEST(a_name_is_found_by_both_of_its_addresses)
{
	struct names *names = names_new();
	uint32_t a = names_number(names, "a.test"), b = names_number(names, "b.test");
	struct network_address address = v4(a);

	CHECK(a && b && a != b);
	CHECK_INT(names_number(names, "a.test"), a);
	CHECK_STR(names_of(names, &address), "a.test");
	address = v6(b);
	CHECK_STR(names_of(names, &address), "b.test");
	address = v6(b + 1);
	CHECK(network_is_synthetic(&address) && !names_of(names, &address));
	names_free(names);
}

TEST(the_blocks_end_where_they_end)
{
	struct network_address address;

	CHECK(network_address("198.18.0.0", 10, &address) == 0 && network_is_synthetic(&address));
	CHECK(network_address("198.19.255.255", 14, &address) == 0);
	CHECK(network_is_synthetic(&address));
	CHECK(network_address("198.20.0.0", 10, &address) == 0 && !network_is_synthetic(&address));
	CHECK(network_address("198.17.255.255", 14, &address) == 0);
	CHECK(!network_is_synthetic(&address));
	CHECK(network_address("64:ff9b:1:a701::1", 17, &address) == 0);
	CHECK(network_is_synthetic(&address));
	CHECK(network_address("64:ff9b:1:a702::1", 17, &address) == 0);
	CHECK(!network_is_synthetic(&address));
}

TEST(the_oldest_that_nobody_uses_goes_and_its_address_rests)
{
	struct names *names = names_new();
	char name[32];
	uint32_t first, second, held;
	struct network_address address;

	held = names_number(names, "held.test");
	names_hold(names, "held.test");
	first = names_number(names, "first.test");
	second = names_number(names, "second.test");
	for (int i = 3; i < NAMES_MAX; i++) {
		snprintf(name, sizeof name, "n%d.test", i);
		CHECK(names_number(names, name));
	}
	address = v4(first);
	CHECK_STR(names_of(names, &address), "first.test"); /* which makes it a young one */
	CHECK(names_number(names, "more.test") != second);
	address = v4(second);
	CHECK(!names_of(names, &address));
	address = v4(held);
	CHECK_STR(names_of(names, &address), "held.test");
	address = v4(first);
	CHECK_STR(names_of(names, &address), "first.test");
	for (int i = 0; i < 50000; i++) {
		snprintf(name, sizeof name, "m%d.test", i);
		CHECK(names_number(names, name) != second);
	}
	names_release(names, "held.test");
	for (int i = 0; i < NAMES_MAX; i++) {
		snprintf(name, sizeof name, "o%d.test", i);
		CHECK(names_number(names, name));
	}
	address = v4(held);
	CHECK(!names_of(names, &address) || strcmp(names_of(names, &address), "held.test") != 0);
	names_free(names);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "netctl/connections.h"

static struct atoll_result result;

static struct atoll_connection make(const char *name, unsigned port, int verdict)
{
	struct atoll_connection connection = {.port = (uint16_t)port,
					      .verdict = verdict,
					      .count = 1,
					      .sent = 10,
					      .received = 100,
					      .start_ns = 1000,
					      .duration_ns = 5};

	snprintf(connection.name, sizeof connection.name, "%s", name);
	return connection;
}

static void add(const char *name, unsigned port, int verdict)
{
	struct atoll_connection connection = make(name, port, verdict);

	connections_add(&result, &connection);
}

TEST(those_alike_are_added_up)
{
	result = (struct atoll_result){0};
	add("a.test", 443, ATOLL_CONN_ALLOWED);
	add("b.test", 443, ATOLL_CONN_ALLOWED);
	add("a.test", 443, ATOLL_CONN_ALLOWED);
	add("a.test", 80, ATOLL_CONN_ALLOWED);
	add("a.test", 443, ATOLL_CONN_REFUSED);
	CHECK_INT(result.n_connections, 4);
	CHECK_INT(result.connections[0].count, 2);
	CHECK_INT(result.connections[0].sent, 20);
	CHECK_INT(result.connections[0].received, 200);
	CHECK_INT(result.connections[0].duration_ns, 10);
}

TEST(addresses_as_such_are_told_apart)
{
	struct atoll_connection one = make("", 22, ATOLL_CONN_REFUSED);

	result = (struct atoll_result){0};
	snprintf(one.address, sizeof one.address, "10.0.0.1");
	connections_add(&result, &one);
	snprintf(one.address, sizeof one.address, "10.0.0.2");
	connections_add(&result, &one);
	CHECK_INT(result.n_connections, 2);
}

TEST(a_name_keeps_one_line_whatever_address_it_has)
{
	struct atoll_connection one = make("a.test", 443, ATOLL_CONN_ALLOWED);

	result = (struct atoll_result){0};
	snprintf(one.address, sizeof one.address, "192.0.2.1");
	connections_add(&result, &one);
	snprintf(one.address, sizeof one.address, "192.0.2.2");
	connections_add(&result, &one);
	CHECK_INT(result.n_connections, 1);
	CHECK_STR(result.connections[0].address, "192.0.2.1");
}

TEST(what_does_not_fit_is_counted)
{
	char name[32];

	result = (struct atoll_result){0};
	for (int i = 0; i < ATOLL_CONNECTIONS_MAX + 7; i++) {
		snprintf(name, sizeof name, "h%d.test", i);
		add(name, 443, ATOLL_CONN_REFUSED);
	}
	CHECK_INT(result.n_connections, ATOLL_CONNECTIONS_MAX + 7);
}

TEST(what_came_over_a_socket_is_put_into_form)
{
	struct atoll_connection one;

	memset(&one, 'x', sizeof one);
	connections_tidy(&one);
	CHECK_INT(strlen(one.name), sizeof one.name - 1);
	CHECK_INT(strlen(one.reason), sizeof one.reason - 1);
	CHECK_INT(strlen(one.program), sizeof one.program - 1);
	CHECK_INT(one.verdict, ATOLL_CONN_FAILED);
	one.count = 0;
	connections_tidy(&one);
	CHECK_INT(one.count, 1);
}

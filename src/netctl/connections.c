/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/connections.h"

#include "base/str.h"

void connections_tidy(struct atoll_connection *connection)
{
	connection->program[sizeof connection->program - 1] = '\0';
	connection->name[sizeof connection->name - 1] = '\0';
	connection->address[sizeof connection->address - 1] = '\0';
	connection->rule[sizeof connection->rule - 1] = '\0';
	connection->reason[sizeof connection->reason - 1] = '\0';
	connection->request[sizeof connection->request - 1] = '\0';
	if (connection->verdict < ATOLL_CONN_ALLOWED || connection->verdict > ATOLL_CONN_FAILED)
		connection->verdict = ATOLL_CONN_FAILED;
	if (connection->count == 0)
		connection->count = 1;
}

static bool is_alike(const struct atoll_connection *a, const struct atoll_connection *b)
{
	return a->port == b->port && a->verdict == b->verdict && streq(a->name, b->name) &&
	       (a->name[0] || streq(a->address, b->address)) && streq(a->rule, b->rule);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void merge(struct atoll_connection *into, const struct atoll_connection *one)
{
	into->sent = sum(into->sent, one->sent);
	into->received = sum(into->received, one->received);
	into->duration_ns = sum(into->duration_ns, one->duration_ns);
	into->count = into->count > UINT32_MAX - one->count ? UINT32_MAX : into->count + one->count;
	if (one->start_ns < into->start_ns)
		into->start_ns = one->start_ns;
	if (one->reason[0])
		memcpy(into->reason, one->reason, sizeof into->reason);
	if (one->request[0])
		memcpy(into->request, one->request, sizeof into->request);
	if (!into->address[0])
		memcpy(into->address, one->address, sizeof into->address);
	if (!into->program[0])
		memcpy(into->program, one->program, sizeof into->program);
}

void connections_add(struct atoll_result *result, const struct atoll_connection *connection)
{
	uint32_t kept = result->n_connections < ATOLL_CONNECTIONS_MAX ? result->n_connections
								      : ATOLL_CONNECTIONS_MAX;

	for (uint32_t i = 0; i < kept; i++) {
		if (is_alike(&result->connections[i], connection)) {
			merge(&result->connections[i], connection);
			return;
		}
	}
	if (kept < ATOLL_CONNECTIONS_MAX)
		result->connections[kept] = *connection;
	result->n_connections++;
}

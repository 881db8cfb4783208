/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary-network.h"

#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "ui/ui.h"

#include <atoll/atoll.h>
#include <inttypes.h>

#define LINES_MAX  10
#define NAME_WIDTH 40

static uint32_t n_listed(const struct atoll_result *result)
{
	return result->n_connections < ATOLL_CONNECTIONS_MAX ? result->n_connections
							     : ATOLL_CONNECTIONS_MAX;
}

static void format_bytes(uint64_t value, char *ret, size_t size)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	double scaled = (double)value / 1024;
	size_t i = 0;

	if (value < 1024) {
		snprintf(ret, size, "%" PRIu64 " B", value);
		return;
	}
	for (; scaled >= 1024 && i + 1 < ARRAY_SIZE(units); i++)
		scaled /= 1024;
	snprintf(ret, size, "%.1f %s", scaled, units[i]);
}

/* "host:port", in the syntax of --allow. */
static void format_peer(const struct atoll_connection *connection, bool shows_port, char *ret,
			size_t size)
{
	const char *host = connection->name[0] ? connection->name : connection->address;
	bool is_v6 = strchr(host, ':') != NULL;
	char port[8] = "";

	if (shows_port && connection->port)
		snprintf(port, sizeof port, ":%u", connection->port);
	snprintf(ret, size, "%s%s%s%s", is_v6 && port[0] ? "[" : "", host,
		 is_v6 && port[0] ? "]" : "", port);
}

static bool is_published(const struct atoll_connection *connection)
{
	return starts_with(connection->rule, "listen ");
}

static void print_talk(const struct atoll_connection *connection, FILE *out)
{
	char peer[320], sent[32], received[32];

	format_peer(connection, true, peer, sizeof peer);
	format_bytes(connection->sent, sent, sizeof sent);
	format_bytes(connection->received, received, sizeof received);
	if (is_published(connection))
		snprintf(peer, sizeof peer, "published port %u", connection->port);
	fputs("  ", out);
	print_escaped(out, peer);
	fprintf(out, "%*s %3u connection%s %10s out %10s in",
		strlen(peer) < NAME_WIDTH ? NAME_WIDTH - (int)strlen(peer) : 0, "",
		connection->count, connection->count == 1 ? " " : "s", sent, received);
	if (connection->reason[0]) {
		fputs("; ", out);
		print_escaped(out, connection->reason);
	}
	fputc('\n', out);
}

/* Was the connection refused because no line lists it? Most other refusals cannot be allowed. */
static bool wants_line(const struct atoll_connection *connection)
{
	const char *reason = connection->reason;

	return connection->rule[0] == '\0' && !is_published(connection) &&
	       (!reason[0] || ends_with(reason, "not allowed") ||
		starts_with(reason, "a person said no") || starts_with(reason, "nobody "));
}

/* A name that resolves to a near address: --allow with the address itself allows it. */
static bool wants_address(const struct atoll_connection *connection)
{
	return starts_with(connection->reason, "the address is not allowed") &&
	       connection->address[0];
}

static void print_hint(const struct atoll_connection *connection, FILE *out)
{
	struct atoll_connection shown = *connection;
	char peer[320];

	if (!wants_line(connection) && !wants_address(connection))
		return;
	if (wants_address(connection))
		shown.name[0] = '\0';
	format_peer(&shown, connection->port != 80 && connection->port != 443, peer, sizeof peer);
	fputs("; --allow ", out);
	print_escaped(out, peer);
}

static void print_refusal(const struct atoll_connection *connection, FILE *out)
{
	char peer[320];

	format_peer(connection, true, peer, sizeof peer);
	if (is_published(connection))
		snprintf(peer, sizeof peer, "published port %u", connection->port);
	fputs("  ", out);
	print_escaped(out, peer);
	if (connection->program[0]) {
		fputs(" (", out);
		print_escaped(out, connection->program);
		fputc(')', out);
	}
	fputs(": ", out);
	print_escaped(out, connection->reason[0] ? connection->reason : "not allowed");
	/* The reason of an HTTP request already names host and method. */
	if (connection->verdict == ATOLL_CONN_REFUSED && connection->rule[0] &&
	    !strstr(connection->reason, connection->rule)) {
		fputs(" (", out);
		print_escaped(out, connection->rule);
		fputc(')', out);
	}
	if (connection->request[0] && !strstr(connection->reason, connection->request)) {
		fputs(", ", out);
		print_escaped(out, connection->request);
	}
	if (connection->count > 1)
		fprintf(out, ", %u times", connection->count);
	if (connection->verdict == ATOLL_CONN_REFUSED)
		print_hint(connection, out);
	fputc('\n', out);
}

/* A DNS lookup, if a connection to the same name is listed, too. */
static bool is_repeated(const struct atoll_result *result,
			const struct atoll_connection *connection)
{
	for (uint32_t i = 0; connection->port == 0 && i < n_listed(result); i++) {
		const struct atoll_connection *other = &result->connections[i];

		if (other->port != 0 && other->verdict == connection->verdict &&
		    streq(other->name, connection->name))
			return true;
	}
	return false;
}

static bool is_in_group(const struct atoll_result *result, uint32_t i, enum atoll_verdict verdict)
{
	const struct atoll_connection *connection = &result->connections[i];

	return connection->verdict == (int32_t)verdict && !is_repeated(result, connection);
}

static void print_group(const struct atoll_result *result, enum atoll_verdict verdict, FILE *out)
{
	uint32_t entries = 0;
	uint64_t count = 0;

	for (uint32_t i = 0; i < n_listed(result); i++) {
		if (is_in_group(result, i, verdict))
			entries++, count += result->connections[i].count;
	}
	if (entries == 0)
		return;
	if (verdict == ATOLL_CONN_ALLOWED)
		fputs("atoll: connections:\n", out);
	else
		fprintf(out, "atoll: %s %" PRIu64 " connection%s:\n",
			verdict == ATOLL_CONN_REFUSED ? "refused" : "could not make", count,
			count == 1 ? "" : "s");
	for (uint32_t i = 0, shown = 0; i < n_listed(result) && shown < LINES_MAX; i++) {
		if (!is_in_group(result, i, verdict))
			continue;
		shown++;
		if (verdict == ATOLL_CONN_ALLOWED)
			print_talk(&result->connections[i], out);
		else
			print_refusal(&result->connections[i], out);
	}
	if (entries > LINES_MAX)
		fprintf(out, "  and %u more\n", entries - LINES_MAX);
}

void summary_network_text(const struct atoll_result *result, FILE *out)
{
	print_group(result, ATOLL_CONN_ALLOWED, out);
	print_group(result, ATOLL_CONN_FAILED, out);
	print_group(result, ATOLL_CONN_REFUSED, out);
	if (result->n_connections > ATOLL_CONNECTIONS_MAX)
		fprintf(out, "atoll: and %u more attempts, which are not listed\n",
			result->n_connections - ATOLL_CONNECTIONS_MAX);
	if (result->network_note[0]) {
		fputs("atoll: ", out);
		print_escaped(out, result->network_note);
		fputc('\n', out);
	}
}

static const char *verdict_word(int32_t verdict)
{
	return verdict == ATOLL_CONN_ALLOWED   ? "allowed"
	       : verdict == ATOLL_CONN_REFUSED ? "refused"
					       : "failed";
}

static void write_connection(struct json *json, const struct atoll_connection *connection)
{
	json_open(json, NULL, '{');
	json_str(json, "name", connection->name[0] ? connection->name : NULL);
	json_str(json, "address", connection->address[0] ? connection->address : NULL);
	json_uint(json, "port", connection->port);
	json_str(json, "verdict", verdict_word(connection->verdict));
	json_str(json, "rule", connection->rule[0] ? connection->rule : NULL);
	json_str(json, "reason", connection->reason[0] ? connection->reason : NULL);
	json_str(json, "request", connection->request[0] ? connection->request : NULL);
	json_str(json, "program", connection->program);
	json_int(json, "pid", connection->pid);
	json_uint(json, "count", connection->count);
	json_uint(json, "sent", connection->sent);
	json_uint(json, "received", connection->received);
	json_uint(json, "start_ns", connection->start_ns);
	json_uint(json, "duration_ns", connection->duration_ns);
	json_close(json, '}');
}

void summary_network_json(const struct atoll_result *result, struct json *json)
{
	json_str(json, "network_note", result->network_note[0] ? result->network_note : NULL);
	json_open(json, "published", '[');
	for (uint32_t i = 0; i < result->n_published; i++) {
		json_open(json, NULL, '{');
		json_uint(json, "port", result->published[i].port);
		json_uint(json, "host_port", result->published[i].host_port);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_uint(json, "n_connections", result->n_connections);
	json_open(json, "connections", '[');
	for (uint32_t i = 0; i < n_listed(result); i++)
		write_connection(json, &result->connections[i]);
	json_close(json, ']');
}

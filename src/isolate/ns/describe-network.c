/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/scope.h"
#include "isolate/ns/cell.h"
#include "isolate/ns/probe.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The lines of the plan about the network, but for the way to egress, which each back end has its
 * own of. */

#define DEFAULT_ORIGIN "default"

static const char *origin_or_default(const char *origin)
{
	return origin ? origin : DEFAULT_ORIGIN;
}

/* More text behind what is there; what does not fit is cut. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
							 const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, size - used, format, args);
	va_end(args);
}

/* "pypi.org:443,8443" */
static void rule_subject(const struct network_rule *rule, char *ret, size_t size)
{
	snprintf(ret, size, "%s", rule->host);
	for (size_t i = 0; i < rule->n_ports; i++)
		append(ret, size, "%c%u", i ? ',' : ':', rule->ports[i]);
}

static void add_words(char *text, size_t size, const char *what, char *const *words, size_t n)
{
	if (!n)
		return;
	append(text, size, "%s%s", text[0] ? "; " : "", what);
	for (size_t i = 0; i < n; i++)
		append(text, size, " %s", words[i]);
}

static const struct {
	const char *key;
	size_t offset;
	bool is_size;
} limits[] = {
	{"rate", offsetof(struct network_limits, rate), true},
	{"bytes", offsetof(struct network_limits, bytes), true},
	{"connections", offsetof(struct network_limits, connections), false},
	{"requests", offsetof(struct network_limits, requests), false},
};

/* "4 MiB", and "" for what is not limited. */
static void limit_text(const struct network_limits *of, size_t i, char *ret, size_t size)
{
	uint64_t value = *(const uint64_t *)((const char *)of + limits[i].offset);

	ret[0] = '\0';
	if (value != SPEC_UNLIMITED)
		spec_format_limit(limits[i].is_size ? SPEC_DISK : SPEC_FILES, value, ret, size);
}

static void rule_note(const struct network_rule *rule, char *ret, size_t size)
{
	char value[48];

	ret[0] = '\0';
	if (!rule->n_ports)
		append(ret, size, "ports 80 and 443");
	add_words(ret, size, "methods", rule->methods, rule->n_methods);
	add_words(ret, size, "paths", rule->paths, rule->n_paths);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		limit_text(&rule->limits, i, value, sizeof value);
		if (value[0])
			append(ret, size, "%s%s %s", ret[0] ? "; " : "", limits[i].key, value);
	}
}

static const char *rule_mechanism(const struct network_rule *rule)
{
	if (rule->kind == NETWORK_LITERAL)
		return "egress: rule by address";
	switch (rule->tls) {
	case NETWORK_TLS_INSPECT:
		return "egress: rule by name; TLS is opened, every request judged, the server's "
		       "certificate checked";
	case NETWORK_TLS_OFF:
		return "egress: rule by name; what is said is not looked at";
	case NETWORK_TLS_PASS:
	default:
		return "egress: rule by name; the name in TLS and HTTP must be the same";
	}
}

static void describe_lines(const struct network *network, struct plan *plan)
{
	char subject[512], note[512];

	for (size_t i = 0; i < network->n_allow; i++) {
		const struct network_rule *rule = &network->allow[i];

		rule_subject(rule, subject, sizeof subject);
		rule_note(rule, note, sizeof note);
		plan_add(plan, PLAN_ENFORCED, "network.allow", subject, rule_mechanism(rule),
			 note[0] ? note : NULL, rule->origin);
	}
	for (size_t i = 0; i < network->n_deny; i++) {
		const struct network_rule *rule = &network->deny[i];

		rule_subject(rule, subject, sizeof subject);
		plan_add(plan, PLAN_ENFORCED, "network.deny", subject,
			 rule->kind == NETWORK_LITERAL ? "egress: rule by address"
						       : "egress: rule by name",
			 rule->n_ports ? "beats every allow line"
				       : "all ports; beats every allow line",
			 rule->origin);
	}
}

static void describe_near(const struct network *network, struct plan *plan)
{
	char subject[512];

	if (network->has_near && network->n_near == 0)
		plan_add(plan, PLAN_ENFORCED, "network.near", "nothing",
			 "egress: by address, when it connects",
			 "what is not public or this host's own is refused, whatever is allowed",
			 NULL);
	for (size_t i = 0; i < network->n_near; i++) {
		rule_subject(&network->near[i], subject, sizeof subject);
		plan_add(plan, PLAN_ENFORCED, "network.near", subject,
			 "egress: by address, when it connects",
			 "if an allow line names it, too; nothing else that is near",
			 network->near[i].origin);
	}
}

static void describe_secrets(const struct network *network, struct plan *plan)
{
	for (size_t i = 0; i < network->n_secrets; i++) {
		const struct network_secret *secret = &network->secrets[i];
		char subject[512];

		snprintf(subject, sizeof subject, "%s for %s", secret->name, secret->host);
		plan_add(plan, PLAN_ENFORCED, "network.secrets", subject,
			 "a placeholder inside; egress puts the value in, to that host and over "
			 "checked TLS only",
			 secret->header, secret->origin);
	}
}

/* Which requests get through to it. */
static void describe_listen_names(const struct network_listen *line, struct plan *plan)
{
	char value[512] = "addresses, localhost, names without a dot, this machine's name";

	for (size_t i = 0; i < line->n_names; i++)
		append(value, sizeof value, ", %s", line->names[i]);
	plan_add(plan, PLAN_ENFORCED, "network.listen.names", value,
		 "egress reads the Host of a connection's first HTTP request",
		 "TLS and other protocols pass unseen", line->origin);
}

static void describe_listen(const struct cell *cell, struct plan *plan)
{
	const struct network *network = &cell->spec->network;

	for (size_t i = 0; i < network->n_listen; i++) {
		const struct network_listen *line = &network->listen[i];
		char subject[64] = "";

		append(subject, sizeof subject, "%u", line->port);
		if (line->host_port)
			append(subject, sizeof subject, " at host port %u", line->host_port);
		if (cell->bare)
			plan_add(plan, PLAN_MISSING, "network.listen", subject,
				 "egress on the host's loopback",
				 "without namespaces nothing can be published", line->origin);
		else
			plan_add(plan, PLAN_ENFORCED, "network.listen", subject,
				 "egress on the host's loopback",
				 line->host_port ? "every user of this host can connect"
						 : "any free host port, told at the start; every "
						   "user of this host can connect",
				 line->origin);
		if (!cell->bare)
			describe_listen_names(line, plan);
	}
}

static void describe_limits(const struct network *network, struct plan *plan)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		char clause[32], value[48];

		limit_text(&network->limits, i, value, sizeof value);
		if (!value[0])
			continue;
		snprintf(clause, sizeof clause, "network.%s", limits[i].key);
		plan_add(plan, PLAN_ENFORCED, clause, value, "egress counts, of the whole run",
			 i == 0	  ? "a second, both ways together"
			 : i == 1 ? "both ways together; then everything is cut"
			 : i == 3 ? "a second"
				  : NULL,
			 origin_or_default(network->mode_origin));
	}
}

/* The files that programs look at for authorities. */
static void describe_authority(const struct cell *cell, struct plan *plan)
{
	if (!network_inspects(&cell->spec->network))
		return;
	plan_add(plan, PLAN_NOTE, "network.authority", cell->bare ? "$SSL_CERT_FILE" : CELL_BUNDLE,
		 "an authority of the run's own, whose key only egress has",
		 "programs that bring authorities of their own do not know it", DEFAULT_ORIGIN);
	for (size_t i = 0; !cell->bare && i < cell->n_bundles; i++)
		plan_add(plan, PLAN_ENFORCED, "network.authority", cell->bundles[i],
			 "bind mount, read-only: the host's authorities and the run's own", NULL,
			 DEFAULT_ORIGIN);
	for (size_t i = 0; !cell->bare && i < cell->n_keystores; i++)
		plan_add(plan, PLAN_ENFORCED, "network.authority", cell->keystores[i],
			 "bind mount, read-only: the host's authorities and the run's own",
			 "a key store of Java", DEFAULT_ORIGIN);
}

static void describe_odds(const struct network *network, struct plan *plan)
{
	plan_add(plan, PLAN_ENFORCED, "network.names", NULL,
		 "egress answers with addresses that stand for names",
		 "nothing is looked up outside before a rule has allowed the connection; what is "
		 "found "
		 "must be public, or named as an address",
		 DEFAULT_ORIGIN);
	if (network->asks)
		plan_add(plan, PLAN_ENFORCED, "network.ask", "unlisted names",
			 "egress holds the connection until a person has decided",
			 "no answer is a no", origin_or_default(network->asks_origin));
	if (network->upstream)
		plan_add(plan, PLAN_WEAKER, "network.upstream",
			 strchr(network->upstream, '@') ? "a proxy" : network->upstream,
			 "egress goes through it",
			 "names are looked up here, too, and refused where one of their addresses "
			 "is "
			 "not public; a name that only the proxy can look up leads wherever the "
			 "proxy leads it",
			 origin_or_default(network->upstream_origin));
	plan_add(plan, PLAN_NOTE, "network.proxy", network->has_proxy_variables ? "set" : "not set",
		 "HTTP_PROXY and its like, for programs that want a proxy",
		 "HTTP CONNECT and SOCKS 5, judged in the same way", DEFAULT_ORIGIN);
}

void describe_network(const struct cell *cell, struct plan *plan)
{
	const struct network *network = &cell->spec->network;

	describe_odds(network, plan);
	describe_lines(network, plan);
	describe_near(network, plan);
	describe_secrets(network, plan);
	describe_listen(cell, plan);
	describe_limits(network, plan);
	describe_authority(cell, plan);
}

const char *describe_mode(const struct cell *cell)
{
	return cell->spec->network.mode == NETWORK_OPEN ? "open" : "rules";
}

/* For a plan it is found out by trying, which takes a few milliseconds. What is started fails where
 * it cannot be had; whether there is IPv6 it does not say. */
static int way_errnum(const struct cell *cell)
{
	cleanup_fd int fd = -1;

	if (cell->is_plan)
		return ns_try_network();
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd < 0 && errno == EAFNOSUPPORT ? EAFNOSUPPORT : 0;
}

void ns_describe_network(const struct cell *cell, struct plan *plan)
{
	static const char way[] =
		"nftables tproxy in the sandbox's own network namespace: every connection "
		"ends in egress";
	const struct network *network = &cell->spec->network;
	int errnum;

	if (!network_is_on(network)) {
		plan_add(plan, PLAN_ENFORCED, "network", "off",
			 "network namespace with only a loopback", NULL,
			 origin_or_default(network->mode_origin));
		return;
	}
	errnum = way_errnum(cell);
	if (errnum && errnum != EAFNOSUPPORT)
		plan_add(plan, PLAN_MISSING, "network", describe_mode(cell), way, NET_FIX,
			 origin_or_default(network->mode_origin));
	else
		plan_add(plan, PLAN_ENFORCED, "network", describe_mode(cell), way,
			 errnum ? "IPv4 only, this kernel has no IPv6; UDP but for DNS goes nowhere"
				: "IPv4 and IPv6; UDP but for DNS goes nowhere",
			 origin_or_default(network->mode_origin));
	describe_network(cell, plan);
}

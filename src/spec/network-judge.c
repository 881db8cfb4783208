/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts
 *
 * Names come in their one spelling and are compared from their ends, at a dot, so that
 * "evilgood.test" is not below "good.test" and "good.test.evil.test" neither. Nothing here
 * allocates, and no answer depends on the order of lines that settle nothing between them.
 */
#include "spec/network-inner.h"

#include <stdio.h>

static bool is_below(const char *name, const char *domain)
{
	size_t size = strlen(name), tail = strlen(domain);

	return size > tail + 1 && name[size - tail - 1] == '.' && streq(name + size - tail, domain);
}

bool network_rule_has_name(const struct network_rule *rule, const char *name)
{
	switch (rule->kind) {
	case NETWORK_EXACT:
		return streq(name, rule->domain);
	case NETWORK_BELOW:
		return is_below(name, rule->domain);
	case NETWORK_WITHIN:
		return streq(name, rule->domain) || is_below(name, rule->domain);
	case NETWORK_ANY:
		return true;
	case NETWORK_LITERAL:
		return false;
	}
	return false;
}

static bool has_address(const struct network_rule *rule, const struct network_address *address)
{
	if (rule->kind == NETWORK_ANY)
		return true;
	return rule->kind == NETWORK_LITERAL &&
	       network_block_has(&rule->base, rule->prefix, address);
}

uint16_t network_rule_port(const struct network_rule *rule, size_t n)
{
	static const uint16_t usual[] = {80, 443};

	if (rule->n_ports)
		return n < rule->n_ports ? rule->ports[n] : 0;
	return n < ARRAY_SIZE(usual) ? usual[n] : 0;
}

bool network_rule_has_port(const struct network_rule *rule, bool is_deny, uint16_t port)
{
	if (is_deny && rule->n_ports == 0)
		return true;
	for (size_t i = 0; network_rule_port(rule, i); i++)
		if (network_rule_port(rule, i) == port)
			return true;
	return false;
}

static bool has_host(const struct network_rule *rule, const char *name,
		     const struct network_address *address)
{
	return name ? network_rule_has_name(rule, name) : has_address(rule, address);
}

static const struct network_rule *find_deny(const struct network *network, const char *name,
					    const struct network_address *address, uint16_t port)
{
	struct network_address carried;
	bool carries = address && network_carried(address, &carried);

	for (size_t i = 0; i < network->n_deny; i++) {
		const struct network_rule *rule = &network->deny[i];

		if (!network_rule_has_port(rule, true, port))
			continue;
		if (has_host(rule, name, address) || (carries && has_host(rule, NULL, &carried)))
			return rule;
	}
	return NULL;
}

/* How much of the host a line states. */
static size_t specificity(const struct network_rule *rule)
{
	if (rule->kind == NETWORK_LITERAL)
		return rule->prefix;
	return 4 * strlen(rule->domain) + (rule->kind == NETWORK_EXACT	 ? 2
					   : rule->kind == NETWORK_BELOW ? 1
									 : 0);
}

static bool is_better(const struct network_rule *rule, const struct network_rule *than)
{
	if (!than || specificity(rule) != specificity(than))
		return !than || specificity(rule) > specificity(than);
	return rule->n_ports && !than->n_ports;
}

/* An address that stands for a name is nobody's, and a metadata service is not meant by whoever
 * allows a whole block. */
static bool may_be_literal(const struct network_rule *rule, const struct network_address *address)
{
	if (network_is_synthetic(address))
		return false;
	return rule->prefix == 128 || !network_is_metadata(address);
}

static const struct network_rule *find_allow(const struct network *network, const char *name,
					     const struct network_address *address, uint16_t port)
{
	const struct network_rule *best = NULL;

	for (size_t i = 0; i < network->n_allow; i++) {
		const struct network_rule *rule = &network->allow[i];

		if (has_host(rule, name, address) && network_rule_has_port(rule, false, port) &&
		    (name || may_be_literal(rule, address)) && is_better(rule, best))
			best = rule;
	}
	return best;
}

enum network_verdict network_judge(const struct network *network, const char *name,
				   const struct network_address *address, uint16_t port,
				   const struct network_rule **ret_rule)
{
	bool is_odd = !name && network_address_oddity(address);

	*ret_rule = NULL;
	if (network->mode == NETWORK_OFF || port == 0)
		return NETWORK_REFUSED;
	*ret_rule = find_deny(network, name, address, port);
	if (*ret_rule)
		return NETWORK_DENIED;
	*ret_rule = find_allow(network, name, address, port);
	if (*ret_rule)
		return NETWORK_ALLOWED;
	if (is_odd)
		return NETWORK_REFUSED;
	if (network->mode == NETWORK_OPEN)
		return NETWORK_ALLOWED;
	return network->asks ? NETWORK_ASK : NETWORK_REFUSED;
}

/* A deny line about all ports. */
static bool is_shut_out(const struct network *network, const char *name)
{
	for (size_t i = 0; i < network->n_deny; i++)
		if (network->deny[i].n_ports == 0 && network_rule_has_name(&network->deny[i], name))
			return true;
	return false;
}

bool network_knows(const struct network *network, const char *name)
{
	if (network->mode == NETWORK_OFF || is_shut_out(network, name))
		return false;
	if (network->mode == NETWORK_OPEN || network->asks)
		return true;
	for (size_t i = 0; i < network->n_allow; i++) {
		const struct network_rule *rule = &network->allow[i];

		if (!network_rule_has_name(rule, name))
			continue;
		for (size_t j = 0; network_rule_port(rule, j); j++)
			if (!find_deny(network, name, NULL, network_rule_port(rule, j)))
				return true;
	}
	return false;
}

static bool is_near(const struct network *network, const struct network_address *address,
		    uint16_t port)
{
	for (size_t i = 0; i < network->n_near; i++) {
		if (network_rule_has_port(&network->near[i], true, port) &&
		    has_address(&network->near[i], address) &&
		    may_be_literal(&network->near[i], address))
			return true;
	}
	return false;
}

bool network_allows_odd(const struct network *network, const struct network_address *address,
			uint16_t port)
{
	const struct network_rule *rule;

	if (network->has_near && !is_near(network, address, port))
		return false;
	return network_judge(network, NULL, address, port, &rule) == NETWORK_ALLOWED && rule;
}

/* ---- requests ---- */

/* The byte that an escape stands for, or -1. */
static int escaped(const char *p)
{
	int high = str_hex_value(p[1]), low = high < 0 ? -1 : str_hex_value(p[2]);

	return low < 0 ? -1 : high << 4 | low;
}

#define ESCAPED 0x100

/* The next character of a path. An escape is the character itself where RFC 3986 says that both
 * are the same, and else marked, so that it equals only another escape. */
static int next_unit(const char **p)
{
	int c = (unsigned char)*(*p)++;
	int byte;

	if (c != '%')
		return c;
	byte = escaped(*p - 1);
	if (byte < 0)
		return '%';
	*p += 2;
	if ((byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z') ||
	    strchr("-._~", byte ? byte : 'x'))
		return byte;
	return ESCAPED | byte;
}

/* "." or "..", also with parameters behind it ("..;x"), which some servers cut off first. */
static bool is_dots(const char *component)
{
	int units[3];

	for (int i = 0; i < 3; i++) {
		units[i] = next_unit(&component);
		if (units[i] == '\0' || units[i] == '/' || units[i] == ';' ||
		    units[i] == (ESCAPED | ';'))
			return i > 0;
		if (units[i] != '.')
			return false;
	}
	return false;
}

bool network_path_is_plain(const char *path)
{
	if (path[0] != '/')
		return false;
	for (const char *p = path; *p;) {
		const char *start = p;
		int unit = next_unit(&p);

		if (unit == '%' || unit == '\\' || unit <= ' ' || (unit >= 0x7f && unit < ESCAPED))
			return false;
		if (unit == '/' && (*p == '/' || is_dots(p)))
			return false;
		/* Slashes and control characters in disguise, and what is one when it is decoded
		 * twice, or by a reader of UTF-8 that takes more bytes than needed (%c0%af). */
		if (*start == '%' &&
		    ((unit & ~1) == (ESCAPED | 0xc0) || unit == (ESCAPED | '/') ||
		     unit == (ESCAPED | '\\') || unit == (ESCAPED | '%') ||
		     unit == (ESCAPED | 0x7f) || (unit >= ESCAPED && unit < (ESCAPED | ' '))))
			return false;
	}
	return true;
}

/* Steps back only to the last star of each kind, so that the time is bounded by the product of the
 * lengths. */
static bool path_matches(const char *pattern, const char *path)
{
	const char *after[2] = {NULL}, *from[2] = {NULL}; /* of "*" and of "**" */

	for (;;) {
		const char *p = pattern, *t = path;

		if (*pattern == '*') {
			bool is_deep = pattern[1] == '*';

			pattern += is_deep ? 2 : 1;
			after[is_deep] = pattern;
			from[is_deep] = path;
			if (is_deep)
				after[0] = NULL;
			continue;
		}
		if (*path == '\0' && *pattern == '\0')
			return true;
		if (*path && *pattern && next_unit(&p) == next_unit(&t)) {
			pattern = p;
			path = t;
			continue;
		}
		/* Whatever a star takes, less is left for the rest of the pattern. */
		if (*path == '\0')
			return false;
		/* Let the last star have one more. */
		if (after[0] && *from[0] && *from[0] != '/') {
			next_unit(&from[0]);
			pattern = after[0];
			path = from[0];
		} else if (after[1] && *from[1]) {
			next_unit(&from[1]);
			pattern = after[1];
			path = from[1];
			after[0] = NULL;
		} else {
			return false;
		}
	}
}

static bool has_method(const struct network_rule *rule, const char *method)
{
	for (size_t i = 0; i < rule->n_methods; i++)
		if (streq(rule->methods[i], method))
			return true;
	return rule->n_methods == 0;
}

bool network_rule_permits(const struct network_rule *rule, const char *method, const char *path)
{
	if (!rule)
		return true;
	if (!has_method(rule, method))
		return false;
	if (rule->n_paths == 0)
		return true;
	if (!network_path_is_plain(path))
		return false;
	for (size_t i = 0; i < rule->n_paths; i++)
		if (path_matches(rule->paths[i], path))
			return true;
	return false;
}

/* ---- for people ---- */

void network_rule_text(const struct network_rule *rule, bool is_deny, char *ret, size_t size)
{
	bool needs_brackets = rule->n_ports && strchr(rule->host, ':');
	char unicode[NETWORK_NAME_MAX * 4], ports[NETWORK_PORTS_MAX * 6 + 1] = "";
	size_t used = 0;

	for (size_t i = 0; i < rule->n_ports && used < sizeof ports; i++)
		used += (size_t)snprintf(ports + used, sizeof ports - used, "%c%u", i ? ',' : ':',
					 rule->ports[i]);
	snprintf(ret, size, "%s %s%s%s%s", is_deny ? "deny" : "allow", needs_brackets ? "[" : "",
		 rule->host, needs_brackets ? "]" : "", ports);
	used = strlen(ret);
	if (rule->kind != NETWORK_LITERAL && idn_to_unicode(rule->domain, unicode, sizeof unicode))
		snprintf(ret + used, size - used, " \"%.*s%s\"", (int)(rule->domain - rule->host),
			 rule->host, unicode);
	used = strlen(ret);
	if (rule->origin)
		snprintf(ret + used, size - used, " (%s)", rule->origin);
}

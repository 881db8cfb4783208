/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does what is said about the network fit together?
 *
 *	choose_mode()	off, unless something was asked for
 *	check_broad()	no pattern for half of the Internet by a slip
 *	merge()		the same line twice is one; two that differ about a port are an error
 *	settle_tls()	methods, paths and secrets need TLS opened
 *	secrets, ports, identity
 *
 * Whoever reads a contract must be able to tell what happens without knowing an order of lines,
 * so nothing is settled by one.
 */
#include "base/buf.h"
#include "spec/network-inner.h"

#include <stdio.h>

/* ---- the mode ---- */

/* The first thing that makes no sense without a network; NULL if there is none. */
static const char *first_wish(const struct network *network, const char **ret_origin)
{
	if (network->n_allow) {
		*ret_origin = network->allow[0].origin;
		return "allow";
	}
	if (network->asks) {
		*ret_origin = network->asks_origin;
		return "ask";
	}
	if (network->n_secrets) {
		*ret_origin = network->secrets[0].origin;
		return "secrets";
	}
	if (network->n_listen) {
		*ret_origin = network->listen[0].origin;
		return "listen";
	}
	return NULL;
}

static void drop_listen(struct network *network, size_t i)
{
	network_listen_done(&network->listen[i]);
	memmove(&network->listen[i], &network->listen[i + 1],
		(--network->n_listen - i) * sizeof *network->listen);
}

static void drop_secret(struct network *network, size_t i)
{
	struct network_secret *secret = &network->secrets[i];

	free(secret->name);
	free(secret->host);
	free(secret->header);
	free(secret->from);
	free(secret->origin);
	memmove(secret, secret + 1, (--network->n_secrets - i) * sizeof *secret);
}

/* `--net off` takes away what the file asks for; what other flags ask for stays, and is a
 * contradiction. */
static void drop_file(struct network *network)
{
	for (size_t i = network->n_allow; i-- > 0;)
		if (!origin_is_flag(network->allow[i].origin))
			network_drop_rule(network->allow, &network->n_allow, i);
	for (size_t i = network->n_secrets; i-- > 0;)
		if (!origin_is_flag(network->secrets[i].origin))
			drop_secret(network, i);
	for (size_t i = network->n_listen; i-- > 0;)
		if (!origin_is_flag(network->listen[i].origin))
			drop_listen(network, i);
	if (network->asks && !origin_is_flag(network->asks_origin))
		network->asks = false;
}

static int choose_mode(struct network *network, struct atoll_error *err)
{
	const char *origin, *wish;

	if (network->mode == NETWORK_OFF && network->mode_origin &&
	    origin_is_flag(network->mode_origin))
		drop_file(network);
	wish = first_wish(network, &origin);
	if (!network->mode_origin)
		network->mode = wish ? NETWORK_RULES : NETWORK_OFF;
	else if (network->mode == NETWORK_OFF && wish)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' contradicts 'network: off' (%s); take one of them away",
				 origin, wish, network->mode_origin);
	if (network->mode == NETWORK_OPEN && network->asks)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: 'ask' contradicts an open network (%s): nothing is left to "
				 "ask about; take one of them away",
				 network->asks_origin,
				 network->mode_origin ? network->mode_origin : "network");
	return 0;
}

static int settle_identity(struct spec *spec, struct atoll_error *err)
{
	if (!network_is_on(&spec->network))
		return 0;
	if (origin_is_default(spec->identity_origin))
		spec->identity = SPEC_ONLINE;
	if (spec->identity == SPEC_ONLINE)
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "%s: identity 'offline' contradicts the network that is asked for; write "
			 "'online', or take the network away",
			 spec->identity_origin);
}

/* ---- lines ---- */

static int check_broad(const struct spec *spec, const struct network_rule *rule,
		       struct atoll_error *err)
{
	if ((rule->kind != NETWORK_BELOW && rule->kind != NETWORK_WITHIN) ||
	    strchr(rule->domain, '.'))
		return 0;
	for (size_t i = 0; i < spec->n_broad; i++)
		if (streq(spec->broad[i].text, rule->host))
			return 0;
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s: allow '%s' would open everything below '%s', which is many people's; "
			 "if that is meant, add --accept-broad '%s'",
			 rule->origin, rule->host, rule->domain, rule->host);
}

static bool same_words(char *const *a, size_t n, char *const *b, size_t m)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < m; j++)
			found += streq(a[i], b[j]);
	return n == m && found == n;
}

static bool has_limits(const struct network_rule *rule)
{
	for (enum network_limit id = 0; id < NETWORK_LIMIT_COUNT; id++)
		if (network_limit_value(&rule->limits, id) != SPEC_UNLIMITED)
			return true;
	return false;
}

static bool same_but_ports(const struct network_rule *a, const struct network_rule *b)
{
	return a->tls == b->tls && a->has_tls == b->has_tls &&
	       memcmp(&a->limits, &b->limits, sizeof a->limits) == 0 &&
	       same_words(a->methods, a->n_methods, b->methods, b->n_methods) &&
	       same_words(a->paths, a->n_paths, b->paths, b->n_paths);
}

static bool same_ports(const struct network_rule *a, const struct network_rule *b)
{
	size_t i = 0;

	while (network_rule_port(a, i) && network_rule_port(a, i) == network_rule_port(b, i))
		i++;
	return network_rule_port(a, i) == network_rule_port(b, i);
}

static uint16_t common_port(const struct network_rule *a, const struct network_rule *b)
{
	for (size_t i = 0; network_rule_port(a, i); i++)
		if (network_rule_has_port(b, false, network_rule_port(a, i)))
			return network_rule_port(a, i);
	return 0;
}

/* Take `other`'s ports over; both have the usual ones if they name none. */
static int unite_ports(struct network_rule *rule, const struct network_rule *other,
		       struct atoll_error *err)
{
	int r = 0;

	for (int pass = 0; pass < 2; pass++) {
		const struct network_rule *from = pass ? other : rule;
		uint16_t ports[NETWORK_PORTS_MAX];
		size_t n = 0;

		for (; n < NETWORK_PORTS_MAX && network_rule_port(from, n); n++)
			ports[n] = network_rule_port(from, n);
		for (size_t i = 0; r == 0 && i < n; i++) {
			char text[8];

			r = network_rule_add_port(
				rule, text, (size_t)snprintf(text, sizeof text, "%u", ports[i]),
				rule->origin, err);
		}
	}
	return r;
}

/* Of two allow lines for the same host. 1: the second is gone into the first. */
static int merge_pair(struct network_rule *first, const struct network_rule *second,
		      struct atoll_error *err)
{
	uint16_t port = common_port(first, second);
	int r;

	if (port == 0)
		return 0;
	/* With limits it would matter whether they count together. */
	if (same_but_ports(first, second) && (same_ports(first, second) || !has_limits(first))) {
		r = unite_ports(first, second, err);
		return r < 0 ? r : 1;
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "%s: '%s' with port %u is there already (%s), with other terms; keep one "
			 "of them, or give them different ports",
			 second->origin, second->host, port, first->origin);
}

static int merge_allow(struct network *network, struct atoll_error *err)
{
	for (size_t i = 0; i < network->n_allow; i++) {
		for (size_t j = i + 1; j < network->n_allow;) {
			struct network_rule *first = &network->allow[i],
					    *second = &network->allow[j];
			int r = streq(first->host, second->host) ? merge_pair(first, second, err)
								 : 0;

			if (r < 0)
				return r;
			if (r > 0)
				network_drop_rule(network->allow, &network->n_allow, j);
			else
				j++;
		}
	}
	return 0;
}

/* Only the very same line: others add up by themselves. */
static void merge_deny(struct network *network)
{
	for (size_t i = 0; i < network->n_deny; i++) {
		for (size_t j = network->n_deny; --j > i;) {
			const struct network_rule *a = &network->deny[i], *b = &network->deny[j];

			if (streq(a->host, b->host) && !a->n_ports == !b->n_ports &&
			    same_ports(a, b))
				network_drop_rule(network->deny, &network->n_deny, j);
		}
	}
}

static int settle_tls(struct network_rule *rule, struct atoll_error *err)
{
	const char *what = rule->n_methods ? "methods" : rule->n_paths ? "paths" : NULL;

	if (rule->kind == NETWORK_LITERAL &&
	    (what || (rule->has_tls && rule->tls == NETWORK_TLS_INSPECT)))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' at an address: what is inside TLS can be judged only "
				 "where a certificate names the host; write its name",
				 rule->origin, what ? what : "tls: inspect");
	if (!what)
		return 0;
	if (rule->has_tls && rule->tls != NETWORK_TLS_INSPECT)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' contradicts 'tls: %s': they are seen only where TLS is "
				 "opened; write 'tls: inspect', or leave it out",
				 rule->origin, what, network_tls_word(rule->tls));
	rule->tls = NETWORK_TLS_INSPECT;
	return 0;
}

/* ---- secrets ---- */

static bool has_tls_port(const struct network_rule *rule, bool is_usual)
{
	if (is_usual)
		return network_rule_has_port(rule, false, 443);
	return network_rule_port(rule, 1) || network_rule_port(rule, 0) != 80;
}

/* Open TLS in the lines for the secret's host: those with port 443, or if there are none, those
 * with any other port than 80. The number of lines. */
static int open_tls(struct network *network, const struct network_secret *secret, bool is_usual,
		    struct atoll_error *err)
{
	int n = 0;

	for (size_t i = 0; i < network->n_allow; i++) {
		struct network_rule *rule = &network->allow[i];

		if (rule->kind != NETWORK_EXACT || !streq(rule->host, secret->host) ||
		    !has_tls_port(rule, is_usual))
			continue;
		if (rule->has_tls && rule->tls != NETWORK_TLS_INSPECT)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "%s: the secret '%s' is put in where TLS is opened, and "
					 "'%s' says 'tls: %s' (%s); write 'tls: inspect', or leave "
					 "it out",
					 secret->origin, secret->name, rule->host,
					 network_tls_word(rule->tls), rule->origin);
		rule->tls = NETWORK_TLS_INSPECT;
		n++;
	}
	return n;
}

static const struct network_rule *pattern_for(const struct network *network, const char *name)
{
	for (size_t i = 0; i < network->n_allow; i++)
		if (network_rule_has_name(&network->allow[i], name))
			return &network->allow[i];
	return NULL;
}

/* TLS of other hosts is not opened because of a secret, so a pattern is not enough. */
static int no_line(const struct network *network, const struct network_secret *secret,
		   struct atoll_error *err)
{
	const struct network_rule *other = pattern_for(network, secret->host);

	if (!other)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the secret '%s' is for '%s', which no line allows; add "
				 "--allow %s",
				 secret->origin, secret->name, secret->host, secret->host);
	if (other->kind == NETWORK_EXACT)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the secret '%s' goes only over TLS, and '%s' is allowed only "
				 "with port 80 (%s); add port 443",
				 secret->origin, secret->name, secret->host, other->origin);
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "%s: the secret '%s' is for '%s', which only '%s' allows (%s); give the "
			 "host a line of its own, because its TLS will be opened: --allow %s",
			 secret->origin, secret->name, secret->host, other->host, other->origin,
			 secret->host);
}

static int settle_secrets(struct network *network, struct atoll_error *err)
{
	for (size_t i = 0; i < network->n_secrets; i++) {
		const struct network_secret *secret = &network->secrets[i];
		int n;

		for (size_t j = 0; j < i; j++)
			if (streq(secret->name, network->secrets[j].name))
				return error_set(err, ATOLL_FAULT_REQUEST, 0,
						 "%s: the secret '%s' is there already (%s); a "
						 "name stands for one value at one host",
						 secret->origin, secret->name,
						 network->secrets[j].origin);
		n = open_tls(network, secret, true, err);
		if (n == 0)
			n = open_tls(network, secret, false, err);
		if (n <= 0)
			return n < 0 ? n : no_line(network, secret, err);
	}
	return 0;
}

static int check_variables(const struct spec *spec, struct atoll_error *err)
{
	const struct network *network = &spec->network;

	for (size_t i = 0; i < network->n_secrets; i++)
		for (size_t j = 0; j < spec->n_variables; j++)
			if (!network->secrets[i].is_set &&
			    streq(network->secrets[i].name, spec->variables[j].name))
				return error_set(err, ATOLL_FAULT_REQUEST, 0,
						 "%s: the variable '%s' is a secret (%s), of which "
						 "only a placeholder goes inside; take this line "
						 "away",
						 spec->variables[j].origin,
						 network->secrets[i].name,
						 network->secrets[i].origin);
	return 0;
}

/* ---- published ports ---- */

static int check_listen(const struct network *network, struct atoll_error *err)
{
	for (size_t i = 0; i < network->n_listen; i++) {
		const struct network_listen *listen = &network->listen[i];

		for (size_t j = 0; j < i; j++) {
			const struct network_listen *other = &network->listen[j];
			bool is_same_host =
				listen->host_port && listen->host_port == other->host_port;

			if (listen->port == other->port || is_same_host)
				return error_set(
					err, ATOLL_FAULT_REQUEST, 0,
					"%s: %s %u is there already (%s); keep one of them",
					listen->origin, is_same_host ? "host port" : "port",
					is_same_host ? listen->host_port : listen->port,
					other->origin);
		}
	}
	return 0;
}

/* ---- all of it ---- */

int network_settle(struct network *network, struct atoll_error *err)
{
	int r = choose_mode(network, err);

	if (r == 0)
		r = merge_allow(network, err);
	merge_deny(network);
	for (size_t i = 0; r == 0 && i < network->n_allow; i++)
		r = settle_tls(&network->allow[i], err);
	if (r == 0)
		r = settle_secrets(network, err);
	if (r == 0)
		r = check_listen(network, err);
	return r;
}

/* Is it small enough for egress? Found out now and not at the first connection. */
static int check_size(const struct network *network, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT((size_t)1 << 20);

	return network_write(network, &text, err);
}

int network_finish(struct spec *spec, struct atoll_error *err)
{
	int r = network_settle(&spec->network, err);

	for (size_t i = 0; r == 0 && i < spec->network.n_allow; i++)
		r = check_broad(spec, &spec->network.allow[i], err);
	if (r == 0)
		r = settle_identity(spec, err);
	if (r == 0)
		r = check_variables(spec, err);
	if (r == 0 && network_is_on(&spec->network))
		r = check_size(&spec->network, err);
	return r;
}

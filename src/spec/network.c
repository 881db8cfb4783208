/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/network.h"

#include "spec/inner.h"

#include <stdlib.h>

static const struct network_limits no_limits = {
	SPEC_UNLIMITED,
	SPEC_UNLIMITED,
	SPEC_UNLIMITED,
	SPEC_UNLIMITED,
};

void network_init(struct network *network)
{
	*network = (struct network){.limits = no_limits, .has_proxy_variables = true};
}

static void free_texts(char **texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(texts[i]);
	free(texts);
}

static void rules_done(struct network_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(rules[i].host);
		free(rules[i].ports);
		free_texts(rules[i].methods, rules[i].n_methods);
		free_texts(rules[i].paths, rules[i].n_paths);
		free(rules[i].origin);
	}
	free(rules);
}

static void secrets_done(struct network_secret *secrets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(secrets[i].name);
		free(secrets[i].host);
		free(secrets[i].header);
		free(secrets[i].from);
		free(secrets[i].origin);
	}
	free(secrets);
}

void network_done(struct network *network)
{
	rules_done(network->allow, network->n_allow);
	rules_done(network->deny, network->n_deny);
	secrets_done(network->secrets, network->n_secrets);
	for (size_t i = 0; i < network->n_listen; i++)
		free(network->listen[i].origin);
	free(network->listen);
	free(network->mode_origin);
	free(network->asks_origin);
	free(network->upstream);
	free(network->upstream_origin);
	network_init(network);
}

bool network_is_on(const struct network *network)
{
	return network->mode != NETWORK_OFF || network->n_listen > 0;
}

bool network_inspects(const struct network *network)
{
	if (network->mode == NETWORK_OFF)
		return false;
	for (size_t i = 0; i < network->n_allow; i++)
		if (network->allow[i].tls == NETWORK_TLS_INSPECT)
			return true;
	return network->n_secrets > 0;
}

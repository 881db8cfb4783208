/* SPDX-License-Identifier: Apache-2.0 */
/* The network in the canonical form: complete, sorted, without origins. */
#include "base/buf.h"
#include "base/json.h"
#include "spec/network-inner.h"

static int compare_rules(const void *a, const void *b)
{
	const struct network_rule *x = *(const struct network_rule *const *)a;
	const struct network_rule *y = *(const struct network_rule *const *)b;
	int order = strcmp(x->host, y->host);

	/* Lines for one host differ in their ports. */
	for (size_t i = 0; order == 0; i++) {
		uint16_t p = network_rule_port(x, i), q = network_rule_port(y, i);

		order = (p > q) - (p < q);
		if (p == 0 || q == 0)
			break;
	}
	return order;
}

static int compare_secrets(const void *a, const void *b)
{
	const struct network_secret *x = *(const struct network_secret *const *)a;
	const struct network_secret *y = *(const struct network_secret *const *)b;

	return strcmp(x->name, y->name);
}

static int compare_listen(const void *a, const void *b)
{
	const struct network_listen *x = *(const struct network_listen *const *)a;
	const struct network_listen *y = *(const struct network_listen *const *)b;

	return (int)x->port - (int)y->port;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void write_limit(struct json *json, const struct network_limits *limits,
			enum network_limit id)
{
	uint64_t value = network_limit_value(limits, id);

	if (value == SPEC_UNLIMITED)
		json_str(json, network_limits[id].key, "unlimited");
	else
		json_uint(json, network_limits[id].key, value);
}

/* The words are few, so that a copy of the pointers can be on the stack. */
static void write_words(struct json *json, const char *key, char *const *words, size_t n)
{
	const char *order[NETWORK_WORDS_MAX];

	if (n == 0) {
		json_str(json, key, "all");
		return;
	}
	for (size_t i = 0; i < n; i++)
		order[i] = words[i];
	qsort(order, n, sizeof *order, compare_words);
	json_open(json, key, '[');
	for (size_t i = 0; i < n; i++)
		json_str(json, NULL, order[i]);
	json_close(json, ']');
}

static void write_ports(struct json *json, const struct network_rule *rule, bool is_deny)
{
	if (is_deny && rule->n_ports == 0) {
		json_str(json, "ports", "all");
		return;
	}
	json_open(json, "ports", '[');
	for (size_t i = 0; network_rule_port(rule, i); i++)
		json_uint(json, NULL, network_rule_port(rule, i));
	json_close(json, ']');
}

static void write_rule(struct json *json, const struct network_rule *rule, bool is_deny)
{
	json_open(json, NULL, '{');
	if (!is_deny) {
		write_limit(json, &rule->limits, NETWORK_BYTES);
		write_limit(json, &rule->limits, NETWORK_CONNECTIONS);
	}
	json_str(json, "host", rule->host);
	if (!is_deny) {
		write_words(json, "methods", rule->methods, rule->n_methods);
		write_words(json, "paths", rule->paths, rule->n_paths);
	}
	write_ports(json, rule, is_deny);
	if (!is_deny) {
		write_limit(json, &rule->limits, NETWORK_RATE);
		write_limit(json, &rule->limits, NETWORK_REQUESTS);
		json_str(json, "tls", network_tls_word(rule->tls));
	}
	json_close(json, '}');
}

static bool write_rules(struct json *json, const char *key, const struct network_rule *rules,
			size_t n, bool is_deny)
{
	cleanup_free const void **order = spec_sorted(rules, n, sizeof *rules, compare_rules);

	if (!order)
		return false;
	json_open(json, key, '[');
	for (size_t i = 0; i < n; i++)
		write_rule(json, order[i], is_deny);
	json_close(json, ']');
	return true;
}

static bool write_listen(struct json *json, const struct network *network)
{
	cleanup_free const void **order = spec_sorted(network->listen, network->n_listen,
						      sizeof *network->listen, compare_listen);

	if (!order)
		return false;
	json_open(json, "listen", '[');
	for (size_t i = 0; i < network->n_listen; i++) {
		const struct network_listen *listen = order[i];

		json_open(json, NULL, '{');
		if (listen->host_port)
			json_uint(json, "host", listen->host_port);
		else
			json_str(json, "host", "any");
		if (listen->n_names)
			write_words(json, "names", listen->names, listen->n_names);
		json_uint(json, "port", listen->port);
		json_close(json, '}');
	}
	json_close(json, ']');
	return true;
}

static bool write_secrets(struct json *json, const struct network *network)
{
	cleanup_free const void **order = spec_sorted(network->secrets, network->n_secrets,
						      sizeof *network->secrets, compare_secrets);

	if (!order)
		return false;
	json_open(json, "secrets", '[');
	for (size_t i = 0; i < network->n_secrets; i++) {
		const struct network_secret *secret = order[i];

		json_open(json, NULL, '{');
		json_str(json, "from", secret->from);
		json_str(json, "header", secret->header);
		json_str(json, "host", secret->host);
		json_str(json, "name", secret->name);
		if (secret->is_set)
			json_bool(json, "set", true);
		json_str(json, "source", network_source_word(secret->source));
		json_close(json, '}');
	}
	json_close(json, ']');
	return true;
}

bool network_canonical(const struct network *network, struct json *json)
{
	bool is_good;

	if (!network_is_on(network)) {
		json_str(json, "network", "off");
		return true;
	}
	json_open(json, "network", '{');
	is_good = write_rules(json, "allow", network->allow, network->n_allow, false);
	json_bool(json, "ask", network->asks);
	write_limit(json, &network->limits, NETWORK_BYTES);
	write_limit(json, &network->limits, NETWORK_CONNECTIONS);
	is_good = is_good && write_rules(json, "deny", network->deny, network->n_deny, true) &&
		  write_listen(json, network);
	json_str(json, "mode", network_mode_word(network->mode));
	if (network->has_near)
		is_good =
			is_good && write_rules(json, "near", network->near, network->n_near, true);
	json_bool(json, "proxy", network->has_proxy_variables);
	write_limit(json, &network->limits, NETWORK_RATE);
	write_limit(json, &network->limits, NETWORK_REQUESTS);
	is_good = is_good && write_secrets(json, network);
	json_str(json, "upstream", network->upstream ? network->upstream : "none");
	json_close(json, '}');
	return is_good;
}

bool spec_same_network(const struct network *a, const struct network *b)
{
	cleanup_buf struct buf one = BUF_INIT((size_t)4 << 20), other = BUF_INIT((size_t)4 << 20);
	struct json json_one = {&one}, json_other = {&other};

	return network_canonical(a, &json_one) && network_canonical(b, &json_other) &&
	       buf_error(&one) == 0 && buf_error(&other) == 0 && one.used == other.used &&
	       memcmp(one.data, other.data, one.used) == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What egress gets
 *
 * The `network` section of a job file once more, as JSON: settled, with the origin of each line for
 * its reports, and without the sources of secrets, which egress has no business to know.
 */
#include "base/buf.h"
#include "base/json.h"
#include "spec/document.h"
#include "spec/network-inner.h"
#include "spec/shape.h"

#include <errno.h>

#define WIRE_MAX ((size_t)1 << 20) /* tree_read() takes no more */

void network_write_limits(struct json *json, const struct network_limits *limits)
{
	for (enum network_limit id = 0; id < NETWORK_LIMIT_COUNT; id++) {
		uint64_t value = network_limit_value(limits, id);

		if (value != SPEC_UNLIMITED)
			json_uint(json, network_limits[id].key, value);
	}
}

void network_write_words(struct json *json, const char *key, char *const *words, size_t n)
{
	if (n == 0)
		return;
	json_open(json, key, '[');
	for (size_t i = 0; i < n; i++)
		json_str(json, NULL, words[i]);
	json_close(json, ']');
}

static void write_rule(struct json *json, const struct network_rule *rule, bool is_deny)
{
	json_open(json, NULL, '{');
	json_str(json, "host", rule->host);
	if (rule->n_ports) {
		json_open(json, "ports", '[');
		for (size_t i = 0; i < rule->n_ports; i++)
			json_uint(json, NULL, rule->ports[i]);
		json_close(json, ']');
	}
	if (!is_deny) {
		network_write_words(json, "methods", rule->methods, rule->n_methods);
		network_write_words(json, "paths", rule->paths, rule->n_paths);
		json_str(json, "tls", network_tls_word(rule->tls));
		network_write_limits(json, &rule->limits);
	}
	json_str(json, "origin", rule->origin);
	json_close(json, '}');
}

static void write_rules(struct json *json, const char *key, const struct network_rule *rules,
			size_t n, bool is_deny)
{
	json_open(json, key, '[');
	for (size_t i = 0; i < n; i++)
		write_rule(json, &rules[i], is_deny);
	json_close(json, ']');
}

static void write_secrets(struct json *json, const struct network *network)
{
	json_open(json, "secrets", '[');
	for (size_t i = 0; i < network->n_secrets; i++) {
		json_open(json, NULL, '{');
		json_str(json, "name", network->secrets[i].name);
		json_str(json, "host", network->secrets[i].host);
		json_str(json, "header", network->secrets[i].header);
		if (network->secrets[i].is_set)
			json_bool(json, "set", true);
		json_str(json, "origin", network->secrets[i].origin);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void write_listen(struct json *json, const struct network *network)
{
	json_open(json, "listen", '[');
	for (size_t i = 0; i < network->n_listen; i++) {
		json_open(json, NULL, '{');
		json_uint(json, "port", network->listen[i].port);
		if (network->listen[i].host_port)
			json_uint(json, "host", network->listen[i].host_port);
		network_write_words(json, "names", network->listen[i].names,
				    network->listen[i].n_names);
		json_str(json, "origin", network->listen[i].origin);
		json_close(json, '}');
	}
	json_close(json, ']');
}

int network_write(const struct network *network, struct buf *out, struct atoll_error *err)
{
	struct json json = {.out = out};
	size_t start = out->used;

	json_open(&json, NULL, '{');
	json_str(&json, "mode", network_mode_word(network->mode));
	write_rules(&json, "allow", network->allow, network->n_allow, false);
	write_rules(&json, "deny", network->deny, network->n_deny, true);
	if (network->has_near)
		write_rules(&json, "near", network->near, network->n_near, true);
	network_write_limits(&json, &network->limits);
	json_bool(&json, "ask", network->asks);
	write_secrets(&json, network);
	write_listen(&json, network);
	json_bool(&json, "proxy", network->has_proxy_variables);
	if (network->upstream)
		json_str(&json, "upstream", network->upstream);
	json_close(&json, '}');
	if (buf_error(out) == -E2BIG || out->used - start > WIRE_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "what is said about the network is larger than 1 MiB; patterns "
				 "(*.example.com) can stand for many lines");
	if (buf_error(out))
		return error_set(err, ATOLL_FAULT_HOST, -buf_error(out), "write the network rules");
	return 0;
}

int network_read(const char *text, size_t size, struct network *ret, struct atoll_error *err)
{
	struct network network;
	struct tree *tree;
	int r = tree_read("network", text, size, &tree, err);

	if (r < 0)
		return r;
	network_init(&network);
	r = shape_check_network("network", tree, err);
	if (r == 0)
		r = network_load_wire(&network, tree, err);
	if (r == 0)
		r = network_settle(&network, err);
	tree_free(tree);
	if (r < 0) {
		network_done(&network);
		return r;
	}
	*ret = network;
	return 0;
}

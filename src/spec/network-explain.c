/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network in words, for the command inside
 *
 * Whom it may talk to and how. Not whom it may not: such a name may be one that nobody inside needs
 * to know; and of a secret the name of its placeholder, never where the value comes from.
 */
#include "base/buf.h"
#include "base/json.h"
#include "spec/network-inner.h"

static void write_rule(struct json *json, const struct network_rule *rule)
{
	json_open(json, NULL, '{');
	json_str(json, "host", rule->host);
	json_open(json, "ports", '[');
	for (size_t i = 0; network_rule_port(rule, i); i++)
		json_uint(json, NULL, network_rule_port(rule, i));
	json_close(json, ']');
	network_write_words(json, "methods", rule->methods, rule->n_methods);
	network_write_words(json, "paths", rule->paths, rule->n_paths);
	json_str(json, "tls", network_tls_word(rule->tls));
	network_write_limits(json, &rule->limits);
	json_close(json, '}');
}

void network_explain_json(const struct network *network, struct json *json)
{
	if (!network_is_on(network)) {
		json_str(json, "network", "off");
		return;
	}
	json_open(json, "network", '{');
	json_str(json, "mode", network_mode_word(network->mode));
	json_open(json, "allow", '[');
	for (size_t i = 0; i < network->n_allow; i++)
		write_rule(json, &network->allow[i]);
	json_close(json, ']');
	json_bool(json, "ask", network->asks);
	json_bool(json, "proxy", network->has_proxy_variables);
	json_open(json, "limits", '{');
	network_write_limits(json, &network->limits);
	json_close(json, '}');
	json_open(json, "placeholders", '[');
	for (size_t i = 0; i < network->n_secrets; i++) {
		if (network->secrets[i].is_set)
			continue;
		json_open(json, NULL, '{');
		json_str(json, "variable", network->secrets[i].name);
		json_str(json, "host", network->secrets[i].host);
		json_str(json, "header", network->secrets[i].header);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_open(json, "published_ports", '[');
	for (size_t i = 0; i < network->n_listen; i++)
		json_uint(json, NULL, network->listen[i].port);
	json_close(json, ']');
	json_close(json, '}');
}

static void add_words(struct buf *out, const char *what, char *const *words, size_t n)
{
	if (n)
		buf_addf(out, "; only %s ", what);
	for (size_t i = 0; i < n; i++)
		buf_addf(out, "%s`%s`", i ? ", " : "", words[i]);
}

static void add_limits(struct buf *out, const struct network_limits *limits)
{
	static const char *const words[NETWORK_LIMIT_COUNT] = {
		[NETWORK_RATE] = " a second",
		[NETWORK_BYTES] = " in all",
		[NETWORK_CONNECTIONS] = " connections at once",
		[NETWORK_REQUESTS] = " requests a second",
	};

	for (enum network_limit id = 0; id < NETWORK_LIMIT_COUNT; id++) {
		uint64_t value = network_limit_value(limits, id);
		char text[64];

		if (value == SPEC_UNLIMITED)
			continue;
		values_format(&network_limits[id], value, text, sizeof text);
		buf_addf(out, "; at most %s%s", text, words[id]);
	}
}

static void add_rule(struct buf *out, const struct network_rule *rule)
{
	buf_addf(out, "- `%s`, port", rule->host);
	for (size_t i = 0; network_rule_port(rule, i); i++)
		buf_addf(out, "%s %u", i ? "," : "", network_rule_port(rule, i));
	add_words(out, "methods", rule->methods, rule->n_methods);
	add_words(out, "paths", rule->paths, rule->n_paths);
	add_limits(out, &rule->limits);
	if (rule->tls == NETWORK_TLS_INSPECT)
		buf_add_str(out,
			    "; TLS is opened on the way, by an authority that is trusted here");
	buf_add_char(out, '\n');
}

static void add_hosts(struct buf *out, const struct network *network)
{
	if (network->mode == NETWORK_OPEN)
		buf_add_str(out, "You may talk to public addresses over TCP, except to those that "
				 "were denied; private addresses are refused");
	else if (network->n_allow == 0)
		buf_add_str(out, "You may talk to nobody outside; names do not resolve");
	else
		buf_add_str(out, "You may talk over TCP to these, and to nobody else; other names "
				 "do not resolve");
	if (network->mode == NETWORK_OPEN && network->n_allow)
		buf_add_str(out, ". For these there are own terms:\n\n");
	else
		buf_add_str(out, network->n_allow ? ":\n\n" : ".\n");
	for (size_t i = 0; i < network->n_allow; i++)
		add_rule(out, &network->allow[i]);
	if (network->asks)
		buf_add_str(out, "\nFor other hosts a person is asked while your connection waits; "
				 "no answer means no.\n");
	buf_add_str(out, "\nThere is no UDP but for names, so no QUIC. A refused connection will "
			 "not work at a second try; say which host you need, and why.");
	if (network->has_proxy_variables)
		buf_add_str(out, " HTTP_PROXY and its like are set; programs that ignore them work "
				 "as well.");
	buf_add_char(out, '\n');
}

static void add_secrets(struct buf *out, const struct network *network, bool is_set)
{
	bool is_first = true;

	for (size_t i = 0; i < network->n_secrets; i++) {
		const struct network_secret *secret = &network->secrets[i];

		if (secret->is_set != is_set)
			continue;
		if (is_first)
			buf_add_str(out, is_set ? "\nThese headers are put into your requests on "
						  "the way, whatever you say in them:\n\n"
						: "\nThese variables hold placeholders. Use them "
						  "like the real values: they are replaced on the "
						  "way, and only there:\n\n");
		is_first = false;
		if (is_set)
			buf_addf(out, "- `%s`, to `%s` over TLS\n", secret->header, secret->host);
		else
			buf_addf(out, "- `%s`: in the header `%s`, to `%s` over TLS\n",
				 secret->name, secret->header, secret->host);
	}
}

void network_explain_text(const struct network *network, struct buf *out)
{
	if (!network_is_on(network)) {
		buf_add_str(out, "\n## Network\n\nNone: no name resolves and no connection leaves. "
				 "Downloads, package installs and `git push` or `fetch` cannot "
				 "work.\n");
		return;
	}
	buf_add_str(out, "\n## Network\n\n");
	add_hosts(out, network);
	add_secrets(out, network, false);
	add_secrets(out, network, true);
	if (network->n_listen)
		buf_add_str(out, "\nThe person can reach these ports of yours:\n\n");
	for (size_t i = 0; i < network->n_listen; i++)
		buf_addf(out, "- %u\n", network->listen[i].port);
	for (enum network_limit id = 0; id < NETWORK_LIMIT_COUNT; id++) {
		char text[64];

		if (network_limit_value(&network->limits, id) == SPEC_UNLIMITED)
			continue;
		values_format(&network_limits[id], network_limit_value(&network->limits, id), text,
			      sizeof text);
		buf_addf(out, "\nLimit of the whole run, %s: %s%s.\n", network_limits[id].key, text,
			 id == NETWORK_RATE || id == NETWORK_REQUESTS ? " a second" : "");
	}
}

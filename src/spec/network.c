/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/network.h"

#include "spec/network-inner.h"

#include <errno.h>
#include <stdio.h>

void network_init(struct network *network)
{
	*network = (struct network){
		.limits = {SPEC_UNLIMITED, SPEC_UNLIMITED, SPEC_UNLIMITED, SPEC_UNLIMITED},
		.has_proxy_variables = true,
	};
}

static void rules_done(struct network_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++)
		network_rule_done(&rules[i]);
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

void network_listen_done(struct network_listen *listen)
{
	for (size_t i = 0; i < listen->n_names; i++)
		free(listen->names[i]);
	free(listen->names);
	free(listen->origin);
}

void network_done(struct network *network)
{
	rules_done(network->allow, network->n_allow);
	rules_done(network->deny, network->n_deny);
	rules_done(network->near, network->n_near);
	secrets_done(network->secrets, network->n_secrets);
	for (size_t i = 0; i < network->n_listen; i++)
		network_listen_done(&network->listen[i]);
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

/* ---- words and numbers ---- */

static const char *const mode_words[] = {
	[NETWORK_OFF] = "off", [NETWORK_RULES] = "rules", [NETWORK_OPEN] = "open", NULL};

const char *network_mode_word(enum network_mode mode)
{
	return mode_words[mode];
}

const char *network_source_word(enum network_source source)
{
	static const char *const words[] = {[NETWORK_FROM_ENV] = "env",
					    [NETWORK_FROM_FILE] = "file",
					    [NETWORK_FROM_COMMAND] = "command",
					    [NETWORK_FROM_DAEMON] = "secret"};

	return words[source];
}

int network_set_mode(struct network *network, const char *word, const char *origin,
		     struct atoll_error *err)
{
	for (int i = 0; mode_words[i]; i++) {
		if (!streq(word, mode_words[i]))
			continue;
		network->mode = (enum network_mode)i;
		return spec_set_text(&network->mode_origin, origin, err);
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: the network cannot be '%s'; %s", origin,
			 shown(word), words_hint(word, mode_words, (char[192]){0}, 192));
}

const struct spec_limit_info network_limits[NETWORK_LIMIT_COUNT] = {
	[NETWORK_RATE] = {"rate", "--rate", "bytes", 1024, UINT64_C(1) << 50, SPEC_UNLIMITED,
			  "1K to 1P (a second)", "2M"},
	[NETWORK_BYTES] = {"bytes", "--net-bytes", "bytes", 1, UINT64_C(1) << 50, SPEC_UNLIMITED,
			   "1 to 1P", "500M"},
	[NETWORK_CONNECTIONS] = {"connections", "--connections", "count", 1, 1000000,
				 SPEC_UNLIMITED, "1 to 1000000", "50"},
	[NETWORK_REQUESTS] = {"requests", "--requests", "count", 1, 1000000, SPEC_UNLIMITED,
			      "1 to 1000000 (a second)", "10"},
};

uint64_t *network_limit(struct network_limits *limits, enum network_limit id)
{
	switch (id) {
	case NETWORK_RATE:
		return &limits->rate;
	case NETWORK_BYTES:
		return &limits->bytes;
	case NETWORK_CONNECTIONS:
		return &limits->connections;
	default:
		return &limits->requests;
	}
}

uint64_t network_limit_value(const struct network_limits *limits, enum network_limit id)
{
	struct network_limits copy = *limits;

	return *network_limit(&copy, id);
}

int network_set_limit(struct network_limits *limits, enum network_limit id, const char *text,
		      const char *origin, struct atoll_error *err)
{
	uint64_t value;
	int r = values_parse(&network_limits[id], true, text, &value, err);

	if (r < 0)
		return error_context(err, r, "%s", origin);
	*network_limit(limits, id) = value;
	return 0;
}

int network_set_ask(struct network *network, bool asks, const char *origin, struct atoll_error *err)
{
	network->asks = asks;
	return spec_set_text(&network->asks_origin, origin, err);
}

/* ---- lists ---- */

static int add_rule(struct network_rule **rules, size_t *n, struct network_rule *rule,
		    const char *origin, struct atoll_error *err)
{
	struct network_rule *grown;
	int r = 0;

	if (*n == NETWORK_LINES_MAX)
		r = error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"%s: more than %d lines; a pattern (*.example.com) can stand for many",
			origin, NETWORK_LINES_MAX);
	if (r == 0)
		r = spec_set_text(&rule->origin, origin, err);
	grown = r == 0 ? spec_grow(*rules, *n, sizeof *grown) : NULL;
	if (!grown) {
		network_rule_done(rule);
		return r < 0 ? r : error_oom(err);
	}
	*rules = grown;
	grown[(*n)++] = *rule;
	return 0;
}

int network_add_rule(struct network *network, bool is_deny, struct network_rule *rule,
		     const char *origin, struct atoll_error *err)
{
	if (is_deny)
		return add_rule(&network->deny, &network->n_deny, rule, origin, err);
	return add_rule(&network->allow, &network->n_allow, rule, origin, err);
}

int network_add_near(struct network *network, struct network_rule *rule, const char *origin,
		     struct atoll_error *err)
{
	int r;

	if (rule->kind == NETWORK_LITERAL)
		return add_rule(&network->near, &network->n_near, rule, origin, err);
	r = error_set(err, ATOLL_FAULT_REQUEST, 0,
		      "%s: '%s' in 'near' is no address; names lead where others say", origin,
		      shown(rule->host));
	network_rule_done(rule);
	return r;
}

void network_drop_rule(struct network_rule *rules, size_t *n, size_t i)
{
	network_rule_done(&rules[i]);
	memmove(&rules[i], &rules[i + 1], (--*n - i) * sizeof *rules);
}

/* Headers that say where a request goes or where it ends. */
static bool is_framing_header(const char *header)
{
	static const char *const framing[] = {
		"host",	   "connection", "content-length", "te", "trailer", "transfer-encoding",
		"upgrade", "keep-alive", "expect",	   NULL};

	for (size_t i = 0; framing[i]; i++)
		if (streq(header, framing[i]))
			return true;
	return starts_with(header, "proxy-") || starts_with(header, "sec-websocket-");
}

static int set_header(struct network_secret *secret, const char *header, const char *origin,
		      struct atoll_error *err)
{
	int r;

	if (!network_is_token(header) || strlen(header) > 64)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is no name of an HTTP header; 'authorization' is one",
				 origin, shown(header));
	r = spec_set_text(&secret->header, header, err);
	if (r < 0)
		return r;
	for (char *p = secret->header; *p; p++)
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
	if (is_framing_header(secret->header))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the header '%s' says where a request goes or ends, and "
				 "carries no secret; 'authorization' does",
				 origin, shown(header));
	return 0;
}

static int set_secret_host(struct network_secret *secret, const char *host, const char *origin,
			   struct atoll_error *err)
{
	struct network_rule rule = NETWORK_RULE_INIT;
	int r = network_rule_set_host(&rule, host, strlen(host), false, origin, err);

	if (r == 0 && rule.kind != NETWORK_EXACT)
		r = error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"%s: a secret belongs to one host by its name, and '%s' is %s; name it",
			origin, shown(host),
			rule.kind == NETWORK_LITERAL ? "an address" : "a pattern");
	if (r == 0)
		secret->host = take_ptr(rule.host);
	network_rule_done(&rule);
	return r;
}

int network_add_secret(struct network *network, const char *name, const char *host,
		       const char *header, enum network_source source, const char *from,
		       const char *origin, struct atoll_error *err)
{
	struct network_secret *grown, *secret;
	int r = words_check_variable(name, "", origin, err);

	if (r < 0)
		return r;
	if (network->n_secrets == NETWORK_WORDS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: more than %d secrets", origin,
				 NETWORK_WORDS_MAX);
	grown = spec_grow(network->secrets, network->n_secrets, sizeof *grown);
	if (!grown)
		return error_oom(err);
	network->secrets = grown;
	/* Counted at once, so that network_done() finds it even half-built. */
	secret = &grown[network->n_secrets++];
	*secret = (struct network_secret){.source = source};
	r = spec_set_text(&secret->name, name, err);
	if (r == 0)
		r = set_secret_host(secret, host, origin, err);
	if (r == 0)
		r = set_header(secret, header ? header : "authorization", origin, err);
	if (r == 0 && from)
		r = spec_set_text(&secret->from, from, err);
	if (r == 0)
		r = spec_set_text(&secret->origin, origin, err);
	return r;
}

static int no_port(const char *text, const char *origin, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "%s: '%s' is no port; a port is a whole number from 1 to 65535", origin,
			 shown(text));
}

/* Where egress's own listener is in the sandbox: EGRESS_PORT. */
#define OWN_PORT 1023

int network_add_listen(struct network *network, const char *port, const char *host_port,
		       const char *origin, struct atoll_error *err)
{
	struct network_listen *grown, listen = {.port = network_port(port, strlen(port))};

	if (host_port)
		listen.host_port = network_port(host_port, strlen(host_port));
	if (!listen.port || (host_port && !listen.host_port))
		return no_port(listen.port ? host_port : port, origin, err);
	if (listen.port == OWN_PORT)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: port %d in the sandbox is atoll's own; take another", origin,
				 OWN_PORT);
	if (network->n_listen == NETWORK_LISTEN_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: more than %d published ports",
				 origin, NETWORK_LISTEN_MAX);
	grown = spec_grow(network->listen, network->n_listen, sizeof *grown);
	if (!grown)
		return error_oom(err);
	network->listen = grown;
	if (spec_set_text(&listen.origin, origin, err) < 0)
		return -ENOMEM;
	grown[network->n_listen++] = listen;
	return 0;
}

int network_add_listen_name(struct network *network, const char *name, size_t size,
			    const char *origin, struct atoll_error *err)
{
	struct network_listen *listen = &network->listen[network->n_listen - 1];
	char spelled[NETWORK_NAME_MAX], text[NETWORK_NAME_MAX];
	char **grown;

	if (network_name(name, size, spelled) < 0) {
		snprintf(text, sizeof text, "%.*s", (int)size, name);
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is no host name; names of 'listen' are as in a URL, "
				 "without stars and ports",
				 origin, shown(text));
	}
	for (size_t i = 0; i < listen->n_names; i++)
		if (streq(listen->names[i], spelled))
			return 0;
	if (listen->n_names == NETWORK_WORDS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: more than %d names for one port",
				 origin, NETWORK_WORDS_MAX);
	grown = spec_grow(listen->names, listen->n_names, sizeof *grown);
	if (!grown)
		return error_oom(err);
	listen->names = grown;
	grown[listen->n_names] = NULL;
	if (spec_set_text(&grown[listen->n_names], spelled, err) < 0)
		return -ENOMEM;
	listen->n_names++;
	return 0;
}

/* ---- the way out ---- */

/* Is it "host:port", the host a name or an address? */
static bool is_authority(const char *text, struct atoll_error *err)
{
	struct network_rule rule = NETWORK_RULE_INIT;
	int r = network_rule_set_line(&rule, text, true, "upstream", err);
	bool is_good = r == 0 && rule.n_ports == 1 &&
		       (rule.kind == NETWORK_EXACT ||
			(rule.kind == NETWORK_LITERAL && rule.prefix == 128));

	network_rule_done(&rule);
	return is_good;
}

int network_set_upstream(struct network *network, const char *text, bool may_have_login,
			 const char *origin, struct atoll_error *err)
{
	const char *rest = starts_with(text, "http://") ? text + 7 : NULL;
	const char *at = rest ? strrchr(rest, '@') : NULL;
	cleanup_free char *host = NULL;
	struct atoll_error ignored;
	int r;

	/* Never quoted: there is a password in it. */
	if (at && !may_have_login)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: a password does not belong into a contract; write 'env', and "
				 "it is taken from HTTPS_PROXY",
				 origin);
	if (rest) {
		host = strdup(at ? at + 1 : rest);
		if (!host)
			return error_oom(err);
		if (host[0] && host[strlen(host) - 1] == '/')
			host[strlen(host) - 1] = '\0';
	}
	if (!streq(text, "env") && !(host && is_authority(host, &ignored)))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: upstream '%s' is no proxy; write http://HOST:PORT, or 'env' "
				 "for the one in HTTPS_PROXY",
				 origin, at ? "..." : shown(text));
	if (rest && !at) {
		free(network->upstream);
		network->upstream = NULL;
		if (asprintf(&network->upstream, "http://%s", host) < 0) {
			network->upstream = NULL;
			return error_oom(err);
		}
		return spec_set_text(&network->upstream_origin, origin, err);
	}
	r = spec_set_text(&network->upstream, text, err);
	return r < 0 ? r : spec_set_text(&network->upstream_origin, origin, err);
}

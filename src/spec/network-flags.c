/* SPDX-License-Identifier: Apache-2.0 */
/* The flags about the network. */
#include "spec/network-inner.h"

static int add_line(struct spec *spec, bool is_deny, const char *line, const char *origin,
		    struct atoll_error *err)
{
	struct network_rule rule = NETWORK_RULE_INIT;
	int r = network_rule_set_line(&rule, line, is_deny, origin, err);

	if (r < 0) {
		network_rule_done(&rule);
		return r;
	}
	return network_add_rule(&spec->network, is_deny, &rule, origin, err);
}

int spec_add_allow(struct spec *spec, const char *line, const char *origin, struct atoll_error *err)
{
	return add_line(spec, false, line, origin, err);
}

int spec_add_deny(struct spec *spec, const char *line, const char *origin, struct atoll_error *err)
{
	return add_line(spec, true, line, origin, err);
}

int spec_set_network_mode(struct spec *spec, const char *mode, const char *origin,
			  struct atoll_error *err)
{
	return network_set_mode(&spec->network, mode, origin, err);
}

int spec_add_secret(struct spec *spec, const char *text, const char *origin,
		    struct atoll_error *err)
{
	cleanup_free char *copy = strdup(text);
	char *host, *header;

	if (!copy)
		return error_oom(err);
	host = strchr(copy, '=');
	if (!host)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' names no host; write NAME=HOST, or NAME=HOST/HEADER. "
				 "The value is the caller's variable NAME",
				 origin, shown(text));
	*host++ = '\0';
	header = strchr(host, '/');
	if (header)
		*header++ = '\0';
	return network_add_secret(&spec->network, copy, host, header, NETWORK_FROM_ENV, copy,
				  origin, err);
}

int spec_add_listen(struct spec *spec, const char *text, const char *origin,
		    struct atoll_error *err)
{
	cleanup_free char *copy = strdup(text);
	char *host, *names;
	int r;

	if (!copy)
		return error_oom(err);
	names = strchr(copy, '/');
	if (names)
		*names++ = '\0';
	host = strchr(copy, '=');
	if (host)
		*host++ = '\0';
	r = network_add_listen(&spec->network, copy, host, origin, err);
	while (r == 0 && names) {
		size_t n = strcspn(names, ",");

		r = network_add_listen_name(&spec->network, names, n, origin, err);
		names = names[n] ? names + n + 1 : NULL;
	}
	return r;
}

int spec_set_rate(struct spec *spec, const char *text, const char *origin, struct atoll_error *err)
{
	return network_set_limit(&spec->network.limits, NETWORK_RATE, text, origin, err);
}

int spec_set_net_bytes(struct spec *spec, const char *text, const char *origin,
		       struct atoll_error *err)
{
	return network_set_limit(&spec->network.limits, NETWORK_BYTES, text, origin, err);
}

int spec_set_connections(struct spec *spec, const char *text, const char *origin,
			 struct atoll_error *err)
{
	return network_set_limit(&spec->network.limits, NETWORK_CONNECTIONS, text, origin, err);
}

int spec_set_requests(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err)
{
	return network_set_limit(&spec->network.limits, NETWORK_REQUESTS, text, origin, err);
}

/* A flag without a value says "on". */
static int read_switch(const char *text, const char *origin, bool *ret, struct atoll_error *err)
{
	if (streq(text, "on") || streq(text, "true"))
		*ret = true;
	else if (streq(text, "off") || streq(text, "false"))
		*ret = false;
	else
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: '%s' is neither on nor off",
				 origin, shown(text));
	return 0;
}

int spec_set_ask(struct spec *spec, const char *text, const char *origin, struct atoll_error *err)
{
	bool asks;
	int r = read_switch(text, origin, &asks, err);

	return r < 0 ? r : network_set_ask(&spec->network, asks, origin, err);
}

int spec_set_proxy(struct spec *spec, const char *text, const char *origin, struct atoll_error *err)
{
	return read_switch(text, origin, &spec->network.has_proxy_variables, err);
}

int spec_set_upstream(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err)
{
	return network_set_upstream(&spec->network, text, false, origin, err);
}

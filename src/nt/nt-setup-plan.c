/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans the elevated set-up. Called by `atoll setup` once per user, and by tests. Order: names of
 * the accounts, then rules and filters by the SIDs that Windows gave the accounts.
 */
#include "nt/nt-setup-plan.h"

#include "base/scope.h"
#include "nt/access-check.h"
#include "nt/port-ranges.h"
#include "nt/sddl.h"

#include <stdio.h>
#include <string.h>

#define HTTP_PORT  47821
#define SOCKS_PORT 47822

/* Everything but 127.0.0.0/8 and ::1. */
#define NOT_LOOPBACK                                                                               \
	"0.0.0.0-126.255.255.255,128.0.0.0-255.255.255.255,"                                       \
	"::,::2-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
#define LOOPBACK "127.0.0.0/8,::1"

void nt_accounts_name(const struct nt_sid *user, struct nt_accounts *ret)
{
	uint8_t packed[NT_SID_SIZE_MAX];
	size_t size = nt_sid_pack(user, packed);
	uint32_t hash = 2166136261U;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ packed[i]) * 16777619U;
	*ret = (struct nt_accounts){.ports = {HTTP_PORT, SOCKS_PORT}};
	snprintf(ret->offline, sizeof ret->offline, "atoll-off-%08x", hash);
	snprintf(ret->online, sizeof ret->online, "atoll-on-%08x", hash);
}

void nt_password(const uint8_t random[32], char ret[NT_PASSWORD_SIZE])
{
	static const char signs[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

	for (size_t i = 0; i < 28; i++)
		ret[i] = signs[random[i] & 63];
	ret[28] = (char)('A' + (random[28] & 15));
	ret[29] = (char)('a' + (random[29] & 15));
	ret[30] = (char)('0' + (random[30] & 7));
	ret[31] = "+-.,"[random[31] & 3];
	ret[32] = '\0';
}

/* ---- Windows Firewall ---- */

static void write_users(const struct nt_sid *sid, char *ret, size_t size)
{
	char text[NT_SID_TEXT_SIZE];

	nt_sid_text(sid, text);
	snprintf(ret, size, "D:(A;;CC;;;%s)", text);
}

static struct nt_firewall_rule *add_rule(struct nt_firewall_rule *rules, size_t *n,
					 const char *account, const char *what,
					 const struct nt_sid *sid)
{
	struct nt_firewall_rule *rule = &rules[(*n)++];

	*rule = (struct nt_firewall_rule){.protocol = NT_PROTOCOL_ANY};
	snprintf(rule->name, sizeof rule->name, "%s: %s", account, what);
	write_users(sid, rule->users, sizeof rule->users);
	return rule;
}

size_t nt_firewall_rules(const struct nt_accounts *accounts, const struct nt_sid *offline,
			 const struct nt_sid *online, struct nt_firewall_rule *ret)
{
	struct nt_firewall_rule *rule;
	size_t n = 0;

	rule = add_rule(ret, &n, accounts->offline, "nothing beyond this machine", offline);
	rule->remote_addresses = NOT_LOOPBACK;
	rule = add_rule(ret, &n, accounts->offline, "no UDP on this machine", offline);
	rule->protocol = NT_PROTOCOL_UDP;
	rule->remote_addresses = LOOPBACK;
	rule = add_rule(ret, &n, accounts->offline, "TCP on this machine to the proxy only",
			offline);
	rule->protocol = NT_PROTOCOL_TCP;
	rule->remote_addresses = LOOPBACK;
	nt_port_complement(accounts->ports, NT_PROXY_PORTS, rule->remote_ports,
			   sizeof rule->remote_ports);
	rule = add_rule(ret, &n, accounts->offline, "nothing comes in", offline);
	rule->is_inbound = true;
	rule = add_rule(ret, &n, accounts->online, "nothing comes in", online);
	rule->is_inbound = true;
	return n;
}

/* ---- filters ---- */

enum {
	WEIGHT_BLOCK = 1,
	WEIGHT_OTHERS = 8,
	WEIGHT_PROXY = 12,
};

size_t nt_filters(const struct nt_accounts *accounts, const struct nt_sid *offline,
		  struct nt_filter *ret)
{
	char sid[NT_SID_TEXT_SIZE], others[sizeof ret->users];
	size_t n = 0;

	nt_sid_text(offline, sid);
	/* S-1-15-2-1: packaged programs, whose tokens need an entry of their own. */
	snprintf(others, sizeof others, "D:(D;;CC;;;%s)(A;;CC;;;WD)(A;;CC;;;S-1-15-2-1)", sid);
	for (unsigned layer = 0; layer < NT_LAYERS; layer++) {
		struct nt_filter *filter = &ret[n++];

		*filter = (struct nt_filter){
			.layer = layer, .permits = true, .weight = WEIGHT_OTHERS};
		memcpy(filter->users, others, sizeof others);
		ret[n++] = (struct nt_filter){.layer = layer, .weight = WEIGHT_BLOCK};
	}
	for (unsigned layer = NT_LAYER_CONNECT_V4; layer <= NT_LAYER_CONNECT_V6; layer++)
		for (size_t i = 0; i < NT_PROXY_PORTS; i++) {
			struct nt_filter *filter = &ret[n++];

			*filter = (struct nt_filter){.layer = layer,
						     .permits = true,
						     .is_loopback = true,
						     .remote_port = accounts->ports[i],
						     .weight = WEIGHT_PROXY};
			write_users(offline, filter->users, sizeof filter->users);
		}
	return n;
}

/* The access check that WFP makes with a filter's descriptor: right CC, first entry decides. */
static bool users_match(const char *users, const struct nt_connection *connection)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;

	if (!*users)
		return true;
	if (nt_sddl_parse(users, &sd) < 0)
		return false;
	for (size_t i = 0; i < sd.dacl.n_aces; i++) {
		const struct nt_ace *ace = &sd.dacl.aces[i];

		for (size_t k = 0; k < connection->n_sids; k++)
			if (nt_sid_equal(&connection->sids[k], &ace->sid))
				return ace->type == NT_ACE_ALLOW;
		for (size_t k = 0; ace->type == NT_ACE_DENY && k < connection->n_deny_only; k++)
			if (nt_sid_equal(&connection->deny_only[k], &ace->sid))
				return false;
	}
	return false;
}

bool nt_filters_permit(const struct nt_filter *filters, size_t n,
		       const struct nt_connection *connection)
{
	const struct nt_filter *best = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct nt_filter *filter = &filters[i];

		if (filter->layer != connection->layer ||
		    (filter->is_loopback && !connection->is_loopback) ||
		    (filter->remote_port && filter->remote_port != connection->remote_port) ||
		    !users_match(filter->users, connection))
			continue;
		if (!best || filter->weight > best->weight)
			best = filter;
	}
	return !best || best->permits;
}

/* ---- steps ---- */

static void add_step(struct nt_setup_step *steps, size_t *n, const char *kind, const char *inverse,
		     const char *name, unsigned number)
{
	struct nt_setup_step *step = &steps[(*n)++];

	*step = (struct nt_setup_step){.kind = kind, .inverse = inverse};
	if (number)
		snprintf(step->name, sizeof step->name, "%s %u", name, number);
	else
		snprintf(step->name, sizeof step->name, "%s", name);
}

size_t nt_setup_steps(const struct nt_accounts *accounts, const struct nt_sid *offline,
		      const struct nt_sid *online, struct nt_setup_step *ret)
{
	struct nt_firewall_rule rules[NT_RULES_MAX];
	struct nt_filter filters[NT_FILTERS_MAX];
	const char *const names[] = {accounts->offline, accounts->online};
	size_t n = 0, n_rules = nt_firewall_rules(accounts, offline, online, rules);
	size_t n_filters = nt_filters(accounts, offline, filters);

	add_step(ret, &n, "account", "NetLocalGroupDel", NT_GROUP_NAME, 0);
	/* Filters and rules are there before a password that could be used is known. */
	for (size_t i = 0; i < 2; i++)
		add_step(ret, &n, "account", "NetUserDel", names[i], 0);
	for (size_t i = 0; i < n_filters; i++)
		add_step(ret, &n, "filter", "FwpmFilterDeleteByKey0", accounts->offline,
			 (unsigned)i + 1);
	for (size_t i = 0; i < n_rules; i++)
		add_step(ret, &n, "rule", "INetFwRules::Remove", rules[i].name, 0);
	for (size_t i = 0; i < 2; i++)
		add_step(ret, &n, "registry", "RegDeleteValueW", names[i], 0);
	for (size_t i = 0; i < 2; i++)
		add_step(ret, &n, "profile", "DeleteProfileW", names[i], 0);
	return n;
}

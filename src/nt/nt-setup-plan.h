/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/sid.h"

#include <atoll/error.h>

/*
 * The plan of the elevated set-up: accounts, firewall rules, filters
 *
 * Two local accounts per real user, so that one user's set-up never resets another's password. The
 * offline account reaches nothing but the proxy's fixed ports on this machine; the online account
 * is not limited. Neither may listen. Windows Firewall rules and filters of the Windows Filtering
 * Platform (WFP) say the same twice: a managed machine may ignore local firewall rules.
 *
 * A filter that names the account does not match a thread that impersonates the anonymous token, or
 * a copy of the token in which the account is "deny only". So the filters are turned round: the
 * permit matches everybody who is certainly another account (a denial of the offline account, which
 * deny-only SIDs do match, before a grant for Everyone, which the anonymous token does not have),
 * and the block matches the rest. Unproven: never run on Windows by us. The runner tries both at
 * every start, and refuses where one of them gets out.
 *
 * Steps are carried out in order and taken back in reverse; each is in the ledger before it is
 * made. The Win32 code for these steps does not exist yet.
 */

#define NT_ACCOUNT_NAME_SIZE 21 /* Windows allows 20 characters */
#define NT_PASSWORD_SIZE     33
#define NT_PROXY_PORTS	     2 /* HTTP and SOCKS, fixed: rules never change */

#define NT_GROUP_NAME "atoll-sandboxes"

struct nt_accounts {
	char offline[NT_ACCOUNT_NAME_SIZE], online[NT_ACCOUNT_NAME_SIZE];
	uint16_t ports[NT_PROXY_PORTS];
};

/* The names of a user's accounts: "atoll-off-" and a number made of the user's SID. */
void nt_accounts_name(const struct nt_sid *user, struct nt_accounts *ret);

/* A password from 32 random bytes: 6 bits of each byte choose one of 64 characters, so no character
 * is likelier than another; the last four are of four kinds, as password rules ask. */
void nt_password(const uint8_t random[32], char ret[NT_PASSWORD_SIZE]);

enum nt_protocol {
	NT_PROTOCOL_TCP = 6,
	NT_PROTOCOL_UDP = 17,
	NT_PROTOCOL_ANY = 256,
};

struct nt_firewall_rule {
	char name[64];
	bool is_inbound;
	enum nt_protocol protocol;
	const char *remote_addresses;	   /* NULL: any */
	char remote_ports[128];		   /* "": any */
	char users[NT_SID_TEXT_SIZE + 32]; /* SDDL with the accounts that the rule is about */
};

#define NT_RULES_MAX 8

/* All rules block. The ports of the TCP rule are all but the proxy's: nt_port_complement(). */
size_t nt_firewall_rules(const struct nt_accounts *accounts, const struct nt_sid *offline,
			 const struct nt_sid *online, struct nt_firewall_rule *ret);

enum nt_layer {
	NT_LAYER_CONNECT_V4,
	NT_LAYER_CONNECT_V6,
	NT_LAYER_ACCEPT_V4,
	NT_LAYER_ACCEPT_V6,
	NT_LAYER_LISTEN_V4,
	NT_LAYER_LISTEN_V6,
	NT_LAYERS,
};

struct nt_filter {
	enum nt_layer layer;
	bool permits;
	bool is_loopback;		       /* only to this machine */
	uint16_t remote_port;		       /* 0: any */
	uint8_t weight;			       /* the highest that matches decides */
	char users[2 * NT_SID_TEXT_SIZE + 64]; /* SDDL; "": everybody */
};

#define NT_FILTERS_MAX 32

size_t nt_filters(const struct nt_accounts *accounts, const struct nt_sid *offline,
		  struct nt_filter *ret);

/* Whether a connection gets out by the filters: the model for tests. `sids` are those of the
 * token, `deny_only` of them match denials alone. */
struct nt_connection {
	enum nt_layer layer;
	bool is_loopback;
	uint16_t remote_port;
	const struct nt_sid *sids;
	size_t n_sids;
	const struct nt_sid *deny_only;
	size_t n_deny_only;
};
bool nt_filters_permit(const struct nt_filter *filters, size_t n,
		       const struct nt_connection *connection);

/* One step of the set-up, with the one that takes it back, in words for plan and ledger. */
struct nt_setup_step {
	const char *kind; /* of the ledger: "account", "rule", "filter", "profile", "registry" */
	char name[128];
	const char *inverse;
};

#define NT_SETUP_STEPS_MAX 64

size_t nt_setup_steps(const struct nt_accounts *accounts, const struct nt_sid *offline,
		      const struct nt_sid *online, struct nt_setup_step *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct atoll_error;
struct nftnl_chain;
struct nftnl_rule;

/*
 * The table as libnftnl objects, in the order in which the kernel lists them
 */

#define FIREWALL_TABLE	   "atoll"
#define FIREWALL_RULES_MAX 96

struct firewall_rules {
	struct nftnl_rule *rules[FIREWALL_RULES_MAX];
	size_t count;
	bool has_failed;     /* memory */
	bool without_reject; /* a kernel without that expression: the packets vanish silently */
};

/* `ids` are those of the accounts. */
int firewall_make_rules(struct firewall_rules *rules, const uint32_t ids[2],
			struct atoll_error *err);
void firewall_free_rules(struct firewall_rules *rules);

#define cleanup_rules cleanup_with(firewall_free_rules)

#define FIREWALL_CHAINS 3

/* NULL if memory has run out. */
struct nftnl_chain *firewall_make_chain(size_t index);

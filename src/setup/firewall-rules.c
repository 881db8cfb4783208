/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "isolate/slots.h"
#include "setup/firewall.h"

#include <arpa/inet.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

/* IPv4 that is not the open internet. Metadata services: 169.254.169.254 lies in link-local,
 * 100.100.100.200 in shared, 192.0.0.192 in 192.0.0.0/24; 168.63.129.16 is public by number. */
static const struct {
	const char *address;
	uint32_t length;
} networks4[] = {
	{"0.0.0.0", 8},	       {"10.0.0.0", 8},	    {"100.64.0.0", 10}, {"127.0.0.0", 8},
	{"168.63.129.16", 32}, {"169.254.0.0", 16}, {"172.16.0.0", 12}, {"192.0.0.0", 24},
	{"192.168.0.0", 16},   {"198.18.0.0", 15},  {"224.0.0.0", 4},	{"240.0.0.0", 4},
};

/* IPv6: unspecified and loopback, IPv4 in other clothes (mapped, NAT64 of a site, Teredo, 6to4),
 * unique local (fd00:ec2::254 is a metadata service), link-local, site-local, multicast. */
static const struct {
	const char *address;
	uint32_t length;
} networks6[] = {
	{"::", 127},   {"::ffff:0:0", 96}, {"64:ff9b:1::", 48}, {"2001::", 32}, {"2002::", 16},
	{"fc00::", 7}, {"fe80::", 10},	   {"fec0::", 10},	{"ff00::", 8},
};

/* ---- rules as objects ---- */

static struct nftnl_expr *add_expr(struct firewall_rules *rules, const char *name)
{
	struct nftnl_expr *expr = nftnl_expr_alloc(name);

	if (expr)
		nftnl_rule_add_expr(rules->rules[rules->count - 1], expr);
	else
		rules->has_failed = true;
	return expr;
}

static void add_rule(struct firewall_rules *rules, const char *chain)
{
	struct nftnl_rule *rule = rules->count < FIREWALL_RULES_MAX ? nftnl_rule_alloc() : NULL;

	if (!rule) {
		rules->has_failed = true;
		return;
	}
	nftnl_rule_set_u32(rule, NFTNL_RULE_FAMILY, NFPROTO_INET);
	nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, FIREWALL_TABLE);
	nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
	rules->rules[rules->count++] = rule;
}

static void add_meta(struct firewall_rules *rules, uint32_t key)
{
	struct nftnl_expr *expr = add_expr(rules, "meta");

	if (!expr)
		return;
	nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, key);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_META_DREG, NFT_REG_1);
}

static void add_compare(struct firewall_rules *rules, uint32_t how, const void *data, uint32_t size)
{
	struct nftnl_expr *expr = add_expr(rules, "cmp");

	if (!expr)
		return;
	nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_OP, how);
	nftnl_expr_set(expr, NFTNL_EXPR_CMP_DATA, data, size);
}

static void add_equal(struct firewall_rules *rules, const void *data, uint32_t size)
{
	add_compare(rules, NFT_CMP_EQ, data, size);
}

static void add_payload(struct firewall_rules *rules, uint32_t base, uint32_t offset, uint32_t size)
{
	struct nftnl_expr *expr = add_expr(rules, "payload");

	if (!expr)
		return;
	nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_BASE, base);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_LEN, size);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
}

static void add_masked(struct firewall_rules *rules, const void *mask, const void *zero,
		       uint32_t size)
{
	struct nftnl_expr *expr = add_expr(rules, "bitwise");

	if (!expr)
		return;
	nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_LEN, size);
	nftnl_expr_set(expr, NFTNL_EXPR_BITWISE_MASK, mask, size);
	nftnl_expr_set(expr, NFTNL_EXPR_BITWISE_XOR, zero, size);
}

/* Ids stand in the register as numbers of this machine; "between" is of bytes, from the left. */
static void add_between(struct firewall_rules *rules, uint32_t first, uint32_t last)
{
	struct nftnl_expr *order = add_expr(rules, "byteorder"), *range = add_expr(rules, "range");

	if (!order || !range)
		return;
	nftnl_expr_set_u32(order, NFTNL_EXPR_BYTEORDER_SREG, NFT_REG_1);
	nftnl_expr_set_u32(order, NFTNL_EXPR_BYTEORDER_DREG, NFT_REG_1);
	nftnl_expr_set_u32(order, NFTNL_EXPR_BYTEORDER_OP, NFT_BYTEORDER_HTON);
	nftnl_expr_set_u32(order, NFTNL_EXPR_BYTEORDER_LEN, 4);
	nftnl_expr_set_u32(order, NFTNL_EXPR_BYTEORDER_SIZE, 4);
	first = htonl(first);
	last = htonl(last);
	nftnl_expr_set_u32(range, NFTNL_EXPR_RANGE_SREG, NFT_REG_1);
	nftnl_expr_set_u32(range, NFTNL_EXPR_RANGE_OP, NFT_RANGE_EQ);
	nftnl_expr_set(range, NFTNL_EXPR_RANGE_FROM_DATA, &first, sizeof first);
	nftnl_expr_set(range, NFTNL_EXPR_RANGE_TO_DATA, &last, sizeof last);
}

static void add_verdict(struct firewall_rules *rules, int verdict, const char *chain)
{
	struct nftnl_expr *expr = add_expr(rules, "immediate");

	if (!expr)
		return;
	nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict);
	if (chain)
		nftnl_expr_set_str(expr, NFTNL_EXPR_IMM_CHAIN, chain);
}

static void add_refusal(struct firewall_rules *rules)
{
	struct nftnl_expr *expr;

	if (rules->without_reject) {
		add_verdict(rules, NF_DROP, NULL);
		return;
	}
	expr = add_expr(rules, "reject");
	if (!expr)
		return;
	nftnl_expr_set_u32(expr, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	nftnl_expr_set_u8(expr, NFTNL_EXPR_REJECT_CODE, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
}

/* Sockets of an account and of its block go on in a chain. */
static void add_class(struct firewall_rules *rules, uint32_t account,
		      const struct slots_class *class, const char *chain)
{
	static const uint32_t keys[] = {NFT_META_SKUID, NFT_META_SKGID};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		add_rule(rules, "output");
		add_meta(rules, keys[i]);
		add_equal(rules, &account, sizeof account);
		add_verdict(rules, NFT_GOTO, chain);
		add_rule(rules, "output");
		add_meta(rules, keys[i]);
		add_between(rules, class->first, class->first + SLOTS_BLOCK - 1);
		add_verdict(rules, NFT_GOTO, chain);
	}
}

/* One of the ids in each slot. The account's own could look like one. */
static void add_slot_id(struct firewall_rules *rules, uint32_t number)
{
	static const uint32_t mask = SLOTS_IDS - 1, zero;
	const uint32_t first = slots_classes[1].first;

	add_rule(rules, "online");
	add_meta(rules, NFT_META_SKUID);
	add_between(rules, first, first + SLOTS_BLOCK - 1);
	add_meta(rules, NFT_META_SKUID);
	add_masked(rules, &mask, &zero, sizeof mask);
	add_equal(rules, &number, sizeof number);
}

static void add_protocol(struct firewall_rules *rules, uint8_t protocol)
{
	add_meta(rules, NFT_META_L4PROTO);
	add_equal(rules, &protocol, sizeof protocol);
}

/* The processes that connect for sandboxes, see SLOTS_EGRESS. */
static void add_egress(struct firewall_rules *rules)
{
	static const uint8_t protocols[] = {IPPROTO_UDP, IPPROTO_TCP};
	static const uint8_t syn_and_ack = 0x12, syn = 0x02, zero;
	const uint16_t dns = htons(53);

	add_slot_id(rules, SLOTS_EGRESS_NEAR);
	add_verdict(rules, NF_ACCEPT, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		add_slot_id(rules, SLOTS_EGRESS);
		add_protocol(rules, protocols[i]);
		add_payload(rules, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof dns);
		add_equal(rules, &dns, sizeof dns);
		add_verdict(rules, NF_ACCEPT, NULL);
	}
	/* What does not begin a connection: a published port is on the loopback. */
	add_slot_id(rules, SLOTS_EGRESS);
	add_protocol(rules, IPPROTO_TCP);
	add_payload(rules, NFT_PAYLOAD_TRANSPORT_HEADER, 13, sizeof syn);
	add_masked(rules, &syn_and_ack, &zero, sizeof syn);
	add_compare(rules, NFT_CMP_NEQ, &syn, sizeof syn);
	add_verdict(rules, NF_ACCEPT, NULL);
}

static void add_destination(struct firewall_rules *rules, uint8_t family, const uint8_t *address,
			    uint32_t length)
{
	uint32_t size = family == NFPROTO_IPV4 ? 4 : 16;
	static const uint8_t zero[16];
	uint8_t mask[16] = {0};

	for (uint32_t i = 0; i < length; i++)
		mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
	add_rule(rules, "online");
	add_meta(rules, NFT_META_NFPROTO);
	add_equal(rules, &family, sizeof family);
	add_payload(rules, NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? 16 : 24, size);
	if (length < size * 8)
		add_masked(rules, mask, zero, size);
	add_equal(rules, address, size);
	add_refusal(rules);
}

int firewall_make_rules(struct firewall_rules *rules, const uint32_t ids[2],
			struct atoll_error *err)
{
	uint8_t address[16];

	add_class(rules, ids[0], &slots_classes[0], "offline");
	add_class(rules, ids[1], &slots_classes[1], "online");
	add_rule(rules, "offline");
	add_refusal(rules);
	add_egress(rules);
	for (size_t i = 0; i < ARRAY_SIZE(networks4); i++) {
		inet_pton(AF_INET, networks4[i].address, address);
		add_destination(rules, NFPROTO_IPV4, address, networks4[i].length);
		/* The same behind a NAT64 gateway. */
		inet_pton(AF_INET6, "64:ff9b::", address);
		inet_pton(AF_INET, networks4[i].address, address + 12);
		add_destination(rules, NFPROTO_IPV6, address, 96 + networks4[i].length);
	}
	for (size_t i = 0; i < ARRAY_SIZE(networks6); i++) {
		inet_pton(AF_INET6, networks6[i].address, address);
		add_destination(rules, NFPROTO_IPV6, address, networks6[i].length);
	}
	return rules->has_failed ? error_oom(err) : 0;
}

void firewall_free_rules(struct firewall_rules *rules)
{
	while (rules->count)
		nftnl_rule_free(rules->rules[--rules->count]);
}

/* ---- chains ---- */

static const struct {
	const char *name;
	bool has_hook;
} chains[FIREWALL_CHAINS] = {{"output", true}, {"offline", false}, {"online", false}};

struct nftnl_chain *firewall_make_chain(size_t index)
{
	struct nftnl_chain *chain = nftnl_chain_alloc();

	if (!chain)
		return NULL;
	nftnl_chain_set_u32(chain, NFTNL_CHAIN_FAMILY, NFPROTO_INET);
	nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, FIREWALL_TABLE);
	nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, chains[index].name);
	if (chains[index].has_hook) {
		nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, "filter");
		nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, NF_INET_LOCAL_OUT);
		nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, 0);
		nftnl_chain_set_u32(chain, NFTNL_CHAIN_POLICY, NF_ACCEPT);
	}
	return chain;
}

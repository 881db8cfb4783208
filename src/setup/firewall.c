/* SPDX-License-Identifier: Apache-2.0 */
#include "setup/firewall.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "setup/setup.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

/*
 * A table of our own in the packet filter: "inet atoll"
 *
 *	chain output	hook output: by the owner of the socket, user or group, account or block
 *	  offline ids	→ chain offline
 *	  online ids	→ chain online
 *	chain offline	refuse everything, loopback included
 *	chain online	refuse loopback, private, link-local, shared, multicast and metadata
 *			addresses; the rest may go. Of each slot two ids are egress's, which
 *			have to reach resolvers, answer on the loopback, and one of them more
 *
 * Sandboxes have a network namespace of their own; this table is what remains if that wall were
 * gone, and what bounds the processes that will connect for them. It touches no other table, and
 * one transaction makes, replaces or removes it as a whole.
 *
 * The rules exist in one form, as libnftnl objects: they are sent from it, and what the kernel
 * lists is compared with it, rule by rule as text.
 */

#define BATCH_SIZE (256 << 10)

/* ---- talking to the kernel ---- */

static void close_socket(struct mnl_socket **socket)
{
	if (*socket)
		mnl_socket_close(*socket);
}

static struct mnl_socket *open_socket(struct atoll_error *err)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	const struct timeval patience = {.tv_sec = 10};

	if (socket && mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) == 0 &&
	    setsockopt(mnl_socket_get_fd(socket), SOL_SOCKET, SO_RCVTIMEO, &patience,
		       sizeof patience) == 0)
		return socket;
	error_set(err, ATOLL_FAULT_HOST, errno, "talk to the packet filter");
	if (socket)
		mnl_socket_close(socket);
	return NULL;
}

/* Receive until everything up to `last` is acknowledged; the first failure counts. */
static int receive(struct mnl_socket *socket, uint32_t last, mnl_cb_t callback, void *data)
{
	char buffer[32 << 10];
	int r = 0;

	for (;;) {
		ssize_t got = mnl_socket_recvfrom(socket, buffer, sizeof buffer);
		const struct nlmsghdr *header = (const struct nlmsghdr *)buffer;
		int length = (int)got;

		if (got < 0)
			return -errno;
		for (; mnl_nlmsg_ok(header, length); header = mnl_nlmsg_next(header, &length)) {
			const struct nlmsgerr *answer = mnl_nlmsg_get_payload(header);

			if (header->nlmsg_type == NLMSG_ERROR) {
				r = r == 0 ? answer->error : r;
				if (r < 0 || header->nlmsg_seq == last)
					return r;
			} else if (header->nlmsg_type == NLMSG_DONE) {
				return r;
			} else if (callback) {
				callback(header, data);
			}
		}
	}
}

/* Everything of one kind in our family, one by one. -ENOENT where the kernel has no nf_tables. */
static int list(uint16_t type, mnl_cb_t callback, void *data, struct atoll_error *err)
{
	cleanup_with(close_socket) struct mnl_socket *socket = open_socket(err);
	char buffer[512];
	struct nlmsghdr *header;
	int r;

	if (!socket)
		return -EPROTONOSUPPORT;
	header = nftnl_nlmsg_build_hdr(buffer, type, NFPROTO_INET, NLM_F_DUMP, 1);
	if (mnl_socket_sendto(socket, header, header->nlmsg_len) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "ask the packet filter");
	r = receive(socket, 1, callback, data);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "read the packet filter") : 0;
}

/* ---- one transaction ---- */

struct batch {
	struct mnl_nlmsg_batch *batch;
	uint32_t seq;
	char room[BATCH_SIZE];
};

static struct nlmsghdr *batch_message(struct batch *batch, uint16_t type, uint16_t flags)
{
	return nftnl_nlmsg_build_hdr(mnl_nlmsg_batch_current(batch->batch), type, NFPROTO_INET,
				     flags | NLM_F_ACK, ++batch->seq);
}

static void batch_table(struct batch *batch, uint16_t type, uint16_t flags)
{
	struct nftnl_table *table = nftnl_table_alloc();

	if (!table)
		return;
	nftnl_table_set_u32(table, NFTNL_TABLE_FAMILY, NFPROTO_INET);
	nftnl_table_set_str(table, NFTNL_TABLE_NAME, FIREWALL_TABLE);
	nftnl_table_nlmsg_build_payload(batch_message(batch, type, flags), table);
	mnl_nlmsg_batch_next(batch->batch);
	nftnl_table_free(table);
}

static void batch_content(struct batch *batch, const struct firewall_rules *rules)
{
	for (size_t i = 0; i < FIREWALL_CHAINS; i++) {
		struct nftnl_chain *chain = firewall_make_chain(i);

		if (!chain)
			return;
		nftnl_chain_nlmsg_build_payload(
			batch_message(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE), chain);
		mnl_nlmsg_batch_next(batch->batch);
		nftnl_chain_free(chain);
	}
	for (size_t i = 0; i < rules->count; i++) {
		nftnl_rule_nlmsg_build_payload(
			batch_message(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND),
			rules->rules[i]);
		mnl_nlmsg_batch_next(batch->batch);
	}
}

/* Remove the table if there is one, then make it anew if there are rules: all or nothing. */
static int commit(bool is_there, const struct firewall_rules *rules, struct atoll_error *err)
{
	cleanup_with(close_socket) struct mnl_socket *socket = open_socket(err);
	cleanup_free struct batch *batch = calloc(1, sizeof *batch);
	uint32_t last;
	int r;

	if (!socket)
		return -EPROTONOSUPPORT;
	if (!batch)
		return error_oom(err);
	batch->batch = mnl_nlmsg_batch_start(batch->room, sizeof batch->room);
	if (!batch->batch)
		return error_oom(err);
	nftnl_batch_begin(mnl_nlmsg_batch_current(batch->batch), ++batch->seq);
	mnl_nlmsg_batch_next(batch->batch);
	if (is_there)
		batch_table(batch, NFT_MSG_DELTABLE, 0);
	if (rules) {
		batch_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
		batch_content(batch, rules);
	}
	/* Every message in between is answered; the end of the transaction by old kernels is not.
	 */
	last = batch->seq;
	nftnl_batch_end(mnl_nlmsg_batch_current(batch->batch), last + 1);
	mnl_nlmsg_batch_next(batch->batch);
	r = mnl_socket_sendto(socket, mnl_nlmsg_batch_head(batch->batch),
			      mnl_nlmsg_batch_size(batch->batch)) < 0
		    ? -errno
		    : receive(socket, last, NULL, NULL);
	mnl_nlmsg_batch_stop(batch->batch);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "change the packet filter") : 0;
}

/* ---- comparing ---- */

struct seen {
	bool has_table, is_switched_off;
	struct buf text; /* chains and rules, a line each */
};

static bool is_ours(const char *table)
{
	return table && streq(table, FIREWALL_TABLE);
}

static int see_table(const struct nlmsghdr *header, void *data)
{
	struct nftnl_table *table = nftnl_table_alloc();
	struct seen *seen = data;

	if (table && nftnl_table_nlmsg_parse(header, table) == 0 &&
	    is_ours(nftnl_table_get_str(table, NFTNL_TABLE_NAME))) {
		seen->has_table = true;
		seen->is_switched_off =
			nftnl_table_get_u32(table, NFTNL_TABLE_FLAGS) & NFT_TABLE_F_DORMANT;
	}
	if (table)
		nftnl_table_free(table);
	return MNL_CB_OK;
}

static void write_chain(struct buf *out, struct nftnl_chain *chain)
{
	bool has_hook = nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM);

	buf_addf(out, "chain %s", nftnl_chain_get_str(chain, NFTNL_CHAIN_NAME));
	if (has_hook)
		buf_addf(out, " %s %u %d %u", nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE),
			 nftnl_chain_get_u32(chain, NFTNL_CHAIN_HOOKNUM),
			 nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO),
			 nftnl_chain_get_u32(chain, NFTNL_CHAIN_POLICY));
	buf_add_char(out, '\n');
}

static int see_chain(const struct nlmsghdr *header, void *data)
{
	struct nftnl_chain *chain = nftnl_chain_alloc();
	struct seen *seen = data;

	if (chain && nftnl_chain_nlmsg_parse(header, chain) == 0 &&
	    is_ours(nftnl_chain_get_str(chain, NFTNL_CHAIN_TABLE)))
		write_chain(&seen->text, chain);
	if (chain)
		nftnl_chain_free(chain);
	return MNL_CB_OK;
}

static void write_rule(struct buf *out, struct nftnl_rule *rule)
{
	char text[4096];

	nftnl_rule_unset(rule, NFTNL_RULE_HANDLE);
	nftnl_rule_unset(rule, NFTNL_RULE_POSITION);
	nftnl_rule_snprintf(text, sizeof text, rule, NFTNL_OUTPUT_DEFAULT, 0);
	buf_addf(out, "%s\n", text);
}

static int see_rule(const struct nlmsghdr *header, void *data)
{
	struct nftnl_rule *rule = nftnl_rule_alloc();
	struct seen *seen = data;

	if (rule && nftnl_rule_nlmsg_parse(header, rule) == 0 &&
	    is_ours(nftnl_rule_get_str(rule, NFTNL_RULE_TABLE)))
		write_rule(&seen->text, rule);
	if (rule)
		nftnl_rule_free(rule);
	return MNL_CB_OK;
}

static void see_done(struct seen *seen)
{
	buf_done(&seen->text);
}

/* Does the kernel list exactly what these rules say? */
static bool is_same(const struct firewall_rules *rules, const struct buf *seen)
{
	cleanup_buf struct buf wanted = BUF_INIT(1 << 20);

	for (size_t i = 0; i < FIREWALL_CHAINS; i++) {
		struct nftnl_chain *chain = firewall_make_chain(i);

		if (!chain)
			return false;
		write_chain(&wanted, chain);
		nftnl_chain_free(chain);
	}
	for (size_t i = 0; i < rules->count; i++)
		write_rule(&wanted, rules->rules[i]);
	return buf_error(&wanted) == 0 && seen->used == wanted.used &&
	       memcmp(seen->data, wanted.data, wanted.used) == 0;
}

/* ---- the change ---- */

static int read_ids(const json_t *change, uint32_t ret[2], struct atoll_error *err)
{
	if (sscanf(change_text(change, "text"), "offline %u, online %u", &ret[0], &ret[1]) != 2)
		return error_set(err, ATOLL_FAULT_HOST, 0, "the ledger's entry of the table");
	return 0;
}

static int check_table(const json_t *change, struct atoll_error *err)
{
	cleanup_with(see_done) struct seen seen = {.text = BUF_INIT(1 << 20)};
	uint32_t ids[2];
	int r = list(NFT_MSG_GETTABLE, see_table, &seen, err);

	if (r < 0 || !seen.has_table)
		return r < 0 ? r : CHANGE_ABSENT;
	r = read_ids(change, ids, err);
	if (r == 0)
		r = list(NFT_MSG_GETCHAIN, see_chain, &seen, err);
	if (r == 0)
		r = list(NFT_MSG_GETRULE, see_rule, &seen, err);
	for (int i = 0; r == 0 && !seen.is_switched_off && i < 2; i++) {
		cleanup_rules struct firewall_rules rules = {.without_reject = i};

		r = firewall_make_rules(&rules, ids, err);
		if (r == 0 && is_same(&rules, &seen.text))
			return CHANGE_PRESENT;
	}
	return r < 0 ? r : CHANGE_DIFFERENT;
}

static int apply_table(const json_t *change, struct atoll_error *err)
{
	uint32_t ids[2];
	int state = check_table(change, err), r;

	if (state < 0)
		return state;
	r = read_ids(change, ids, err);
	for (int i = 0; r == 0 && i < 2; i++) {
		cleanup_rules struct firewall_rules rules = {.without_reject = i};

		r = firewall_make_rules(&rules, ids, err);
		if (r < 0)
			return r;
		r = commit(state != CHANGE_ABSENT, &rules, err);
		/* -ENOENT: a kernel without "reject". Dropping refuses as well, only slower. */
		if (r != -ENOENT)
			return r;
		r = i == 0 ? 0 : r;
	}
	return r;
}

static int undo_table(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err)
{
	int state = check_table(change, err);

	if (state == CHANGE_DIFFERENT) {
		snprintf(ret_reason, size, "its rules were changed since");
		return 1;
	}
	return state == CHANGE_PRESENT ? commit(true, NULL, err) : state;
}

const struct change_kind kind_table = {
	.name = "table",
	.is_volatile = true,
	.check = check_table,
	.apply = apply_table,
	.undo = undo_table,
};

/* ---- the step ---- */

static int plan_firewall(struct setup *setup, struct atoll_error *err)
{
	cleanup_with(see_done) struct seen seen = {.text = BUF_INIT(1 << 20)};
	char text[64];

	/* Only to see whether there is a packet filter at all; needs privilege to look. */
	if (!setup->is_restricted && list(NFT_MSG_GETTABLE, see_table, &seen, NULL) < 0) {
		json_array_append_new(
			setup->notes,
			json_string("no firewall rules: this kernel has no nf_tables"));
		return 0;
	}
	snprintf(text, sizeof text, "offline %u, online %u", setup->ids[0], setup->ids[1]);
	if (json_array_append_new(setup->wanted, change_new("firewall", &kind_table,
							    "inet " FIREWALL_TABLE, text)) < 0)
		return error_oom(err);
	return 0;
}

const struct setup_step step_firewall = {
	.name = "firewall",
	.summary = "packets of sandboxes are refused by id, in a table of our own",
	.plan = plan_firewall,
};

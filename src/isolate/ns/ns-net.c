/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "egress/egress.h"
#include "isolate/ns/cell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/*
 * A network in which every way leads to egress
 *
 * Made in the sandbox's own network namespace, by its first capabilities:
 *
 *   the loopback   with a second address, 127.0.0.2: where there is only the usual one, the C
 *                  library takes the machine for offline and looks no name up (AI_ADDRCONFIG)
 *   routes         all of IPv4 and IPv6 is local, so no packet has anywhere to go but here
 *   a table        of nftables: TCP to others than the loopback goes to one listening socket,
 *                  whatever its address and port (tproxy: no address is rewritten, nothing is
 *                  tracked)
 *   two sockets    that one, and one for DNS queries over UDP to any address
 *
 * By raw netlink in two messages, because it is part of every start with a network: the kernel
 * does all of it within send(), and what went wrong lies ready afterwards. No allocation.
 *
 * The sockets' ports are below 1024 and not SO_REUSEPORT: nobody inside can take them or share
 * them.
 */

#define LOOPBACK_INDEX 1 /* the first interface of every namespace */
#define BACKLOG	       4096
#define DNS_PORT       53

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78 /* musl has no name for it */
#endif

/* ---- messages ---- */

struct message {
	union {
		char data[4096];
		struct nlmsghdr align;
	};
	size_t size;
};

static void *add(struct message *message, size_t size)
{
	void *at = message->data + message->size;

	message->size += NLMSG_ALIGN(size);
	if (message->size > sizeof message->data)
		__builtin_trap(); /* all that is built here is known */
	return at;
}

/* A header that is finished by end(). */
static size_t begin(struct message *message, uint16_t type, uint16_t flags, const void *family,
		    size_t size)
{
	size_t start = message->size;
	struct nlmsghdr *header = add(message, sizeof *header);

	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | flags;
	memcpy(add(message, size), family, size);
	return start;
}

static void end(struct message *message, size_t start)
{
	struct nlmsghdr *header = (struct nlmsghdr *)(message->data + start);

	header->nlmsg_len = (uint32_t)(message->size - start);
}

static void put(struct message *message, uint16_t type, const void *data, size_t size)
{
	struct nlattr *attribute = add(message, sizeof *attribute + size);

	attribute->nla_type = type;
	attribute->nla_len = (uint16_t)(sizeof *attribute + size);
	if (size > 0)
		memcpy(attribute + 1, data, size);
}

static void put_text(struct message *message, uint16_t type, const char *text)
{
	put(message, type, text, strlen(text) + 1);
}

static void put_number(struct message *message, uint16_t type, uint32_t value)
{
	value = htonl(value);
	put(message, type, &value, sizeof value);
}

static size_t open_nest(struct message *message, uint16_t type)
{
	size_t start = message->size;

	put(message, type | NLA_F_NESTED, NULL, 0);
	return start;
}

static void close_nest(struct message *message, size_t start)
{
	struct nlattr *attribute = (struct nlattr *)(message->data + start);

	attribute->nla_len = (uint16_t)(message->size - start);
}

/* 0, or the errno of the first request that failed: only those are answered. */
static int transact(int protocol, const struct message *message, struct nlmsgerr *ret)
{
	cleanup_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer = {0};

	*ret = answer.error;
	if (fd < 0 || send(fd, message->data, message->size, 0) < 0)
		return errno;
	if (recv(fd, &answer, sizeof answer, MSG_DONTWAIT) < 0)
		return errno == EAGAIN ? 0 : errno;
	if (answer.header.nlmsg_type != NLMSG_ERROR)
		return EPROTO;
	*ret = answer.error;
	return -answer.error.error;
}

/* ---- routes ---- */

static void add_second_address(struct message *message)
{
	const struct ifaddrmsg head = {.ifa_family = AF_INET,
				       .ifa_prefixlen = 32,
				       .ifa_scope = RT_SCOPE_HOST,
				       .ifa_index = LOOPBACK_INDEX};
	const uint32_t address = htonl(INADDR_LOOPBACK + 1);
	size_t start = begin(message, RTM_NEWADDR, NLM_F_CREATE, &head, sizeof head);

	put(message, IFA_LOCAL, &address, sizeof address);
	end(message, start);
}

/* Without a source of its own a connection would come from the address that it goes to, and now and
 * then from the same port. */
static void add_route(struct message *message, uint8_t family, const void *source, size_t size)
{
	const struct rtmsg head = {.rtm_family = family,
				   .rtm_table = RT_TABLE_LOCAL,
				   .rtm_protocol = RTPROT_STATIC,
				   .rtm_scope = RT_SCOPE_HOST,
				   .rtm_type = RTN_LOCAL};
	const uint32_t index = LOOPBACK_INDEX;
	size_t start = begin(message, RTM_NEWROUTE, NLM_F_CREATE, &head, sizeof head);

	put(message, RTA_OIF, &index, sizeof index);
	put(message, RTA_PREFSRC, source, size);
	end(message, start);
	/* By which a failure tells whose it is. */
	((struct nlmsghdr *)(message->data + start))->nlmsg_seq = family;
}

/* IPv6 may be there and switched off; its route comes last, so all else was done by then. */
static int make_routes(bool *has_v6)
{
	const struct ifinfomsg up = {
		.ifi_index = LOOPBACK_INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
	const uint32_t source = htonl(INADDR_LOOPBACK);
	struct message message = {.size = 0};
	struct nlmsgerr error;
	int errnum;

	end(&message, begin(&message, RTM_NEWLINK, 0, &up, sizeof up));
	add_second_address(&message);
	add_route(&message, AF_INET, &source, sizeof source);
	if (*has_v6)
		add_route(&message, AF_INET6, &in6addr_loopback, sizeof in6addr_loopback);
	errnum = transact(NETLINK_ROUTE, &message, &error);
	if (!errnum || !*has_v6 || error.msg.nlmsg_seq != AF_INET6)
		return errnum;
	*has_v6 = false;
	return 0;
}

/* ---- the table ---- */

#define TABLE "atoll"
#define CHAIN "out"

static size_t begin_table_part(struct message *message, uint16_t type, uint16_t flags)
{
	const struct nfgenmsg head = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};

	return begin(message, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head,
		     sizeof head);
}

/* Where a batch begins and where it ends: all of it happens, or nothing. */
static void add_border(struct message *message, uint16_t type)
{
	const struct nfgenmsg head = {.version = NFNETLINK_V0,
				      .res_id = htons(NFNL_SUBSYS_NFTABLES)};

	end(message, begin(message, type, 0, &head, sizeof head));
}

/* One step of a rule; the rest of a rule does not count once a comparison fails. */
struct step {
	size_t element, data;
};

static struct step begin_step(struct message *message, const char *name)
{
	struct step step = {.element = open_nest(message, NFTA_LIST_ELEM)};

	put_text(message, NFTA_EXPR_NAME, name);
	step.data = open_nest(message, NFTA_EXPR_DATA);
	return step;
}

static void end_step(struct message *message, struct step step)
{
	close_nest(message, step.data);
	close_nest(message, step.element);
}

static void load_meta(struct message *message, uint32_t key)
{
	struct step step = begin_step(message, "meta");

	put_number(message, NFTA_META_KEY, key);
	put_number(message, NFTA_META_DREG, NFT_REG_1);
	end_step(message, step);
}

static void load_payload(struct message *message, uint32_t base, uint32_t offset, uint32_t size)
{
	struct step step = begin_step(message, "payload");

	put_number(message, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_number(message, NFTA_PAYLOAD_BASE, base);
	put_number(message, NFTA_PAYLOAD_OFFSET, offset);
	put_number(message, NFTA_PAYLOAD_LEN, size);
	end_step(message, step);
}

static void compare(struct message *message, uint32_t how, const void *value, size_t size)
{
	struct step step = begin_step(message, "cmp");
	size_t data;

	put_number(message, NFTA_CMP_SREG, NFT_REG_1);
	put_number(message, NFTA_CMP_OP, how);
	data = open_nest(message, NFTA_CMP_DATA);
	put(message, NFTA_DATA_VALUE, value, size);
	close_nest(message, data);
	end_step(message, step);
}

static void accept_packet(struct message *message)
{
	struct step step = begin_step(message, "immediate");
	size_t data, verdict;

	put_number(message, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = open_nest(message, NFTA_IMMEDIATE_DATA);
	verdict = open_nest(message, NFTA_DATA_VERDICT);
	put_number(message, NFTA_VERDICT_CODE, NF_ACCEPT);
	close_nest(message, verdict);
	close_nest(message, data);
	end_step(message, step);
}

/* To the listener, or to the connection that it has accepted. For a packet that belongs to a socket
 * of the sandbox's own the rule ends here. */
static void hand_over(struct message *message)
{
	const uint16_t port = htons(EGRESS_PORT);
	struct step step = begin_step(message, "immediate");
	size_t data;

	put_number(message, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	data = open_nest(message, NFTA_IMMEDIATE_DATA);
	put(message, NFTA_DATA_VALUE, &port, sizeof port);
	close_nest(message, data);
	end_step(message, step);

	step = begin_step(message, "tproxy");
	put_number(message, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
	put_number(message, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	end_step(message, step);
}

struct rule {
	size_t start, steps;
};

static struct rule begin_rule(struct message *message)
{
	struct rule rule = {
		.start = begin_table_part(message, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND)};

	put_text(message, NFTA_RULE_TABLE, TABLE);
	put_text(message, NFTA_RULE_CHAIN, CHAIN);
	rule.steps = open_nest(message, NFTA_RULE_EXPRESSIONS);
	return rule;
}

static void end_rule(struct message *message, struct rule rule)
{
	close_nest(message, rule.steps);
	end(message, rule.start);
}

/* What is meant for the sandbox itself stays. */
static void add_own(struct message *message, uint8_t family, const void *address, size_t size)
{
	struct rule rule = begin_rule(message);

	load_meta(message, NFT_META_NFPROTO);
	compare(message, NFT_CMP_EQ, &family, sizeof family);
	load_payload(message, NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? 16 : 24,
		     (uint32_t)size);
	compare(message, NFT_CMP_EQ, address, size);
	accept_packet(message);
	end_rule(message, rule);
}

/* What is not TCP no rule changes: for UDP there is nothing that tproxy would find. */
static void add_rules(struct message *message, bool has_v6)
{
	const uint16_t dns = htons(DNS_PORT);
	const uint8_t loopback_v4 = 127;
	struct rule rule = begin_rule(message);

	/* Resolvers' addresses are often ones of the loopback. */
	load_payload(message, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof dns);
	compare(message, NFT_CMP_EQ, &dns, sizeof dns);
	hand_over(message);
	accept_packet(message);
	end_rule(message, rule);

	add_own(message, NFPROTO_IPV4, &loopback_v4, sizeof loopback_v4);
	if (has_v6)
		add_own(message, NFPROTO_IPV6, &in6addr_loopback, sizeof in6addr_loopback);

	rule = begin_rule(message);
	hand_over(message);
	end_rule(message, rule);
}

static int make_table(bool has_v6)
{
	struct message message = {.size = 0};
	struct nlmsgerr error;
	size_t start, hook;

	add_border(&message, NFNL_MSG_BATCH_BEGIN);
	start = begin_table_part(&message, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	put_text(&message, NFTA_TABLE_NAME, TABLE);
	end(&message, start);
	start = begin_table_part(&message, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	put_text(&message, NFTA_CHAIN_TABLE, TABLE);
	put_text(&message, NFTA_CHAIN_NAME, CHAIN);
	hook = open_nest(&message, NFTA_CHAIN_HOOK);
	put_number(&message, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	put_number(&message, NFTA_HOOK_PRIORITY, (uint32_t)-150); /* before addresses change */
	close_nest(&message, hook);
	put_text(&message, NFTA_CHAIN_TYPE, "filter");
	end(&message, start);
	add_rules(&message, has_v6);
	add_border(&message, NFNL_MSG_BATCH_END);
	return transact(NETLINK_NETFILTER, &message, &error);
}

/* ---- the sockets ---- */

static int bind_any(int fd, bool has_v6, uint16_t port)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	return has_v6 ? bind(fd, (const struct sockaddr *)&v6, sizeof v6)
		      : bind(fd, (const struct sockaddr *)&v4, sizeof v4);
}

static int make_listener(bool has_v6)
{
	cleanup_fd int fd =
		socket(has_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int on = 1, off = 0;

	if (fd < 0 || (has_v6 && setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0) ||
	    setsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, sizeof on) < 0 ||
	    bind_any(fd, has_v6, EGRESS_PORT) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Answers come from the address that a query was sent to. That all of IPv6 is local by its route
 * does not make an address one's own, so the socket is told not to care. */
static int make_dns(bool has_v6)
{
	cleanup_fd int fd =
		socket(has_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int on = 1, off = 0;

	if (fd < 0 || (has_v6 && setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0) ||
	    (has_v6 && setsockopt(fd, SOL_IPV6, IPV6_FREEBIND, &on, sizeof on) < 0) ||
	    (has_v6 ? setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof on)
		    : setsockopt(fd, SOL_IP, IP_PKTINFO, &on, sizeof on)) < 0 ||
	    bind_any(fd, has_v6, DNS_PORT) < 0)
		return -errno;
	return take_fd(&fd);
}

/* ---- all of it ---- */

static int fail(struct atoll_error *err, int errnum, const char *what)
{
	return error_set(err, ATOLL_FAULT_HOST, errnum, "%s", what);
}

int net_make(int ret_fds[2], bool *ret_has_v6, struct atoll_error *err)
{
	cleanup_fd int listener = make_listener(true), dns = -1;
	bool has_v6 = listener != -EAFNOSUPPORT;
	int errnum;

	if (!has_v6)
		listener = make_listener(false);
	dns = listener < 0 ? listener : make_dns(has_v6);
	if (dns < 0)
		return fail(err, -dns, "make the sockets of the sandbox's network");
	*ret_has_v6 = has_v6;
	errnum = make_routes(ret_has_v6);
	if (errnum)
		return fail(err, errnum, "set up the sandbox's network");
	errnum = make_table(has_v6);
	if (errnum)
		return fail(
			err, errnum,
			"this kernel offers no tproxy by nftables, which a network needs (" NET_FIX
			", or run with --net off)");
	ret_fds[0] = take_fd(&listener);
	ret_fds[1] = take_fd(&dns);
	return 0;
}

static int raise_loopback(struct atoll_error *err)
{
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return fail(err, errno, "raise the loopback interface");
	return 0;
}

/* The supervisor finds them before whatever the first process says, once that is ready. */
int net_set_up(const struct cell *cell, struct atoll_error *err)
{
	bool has_v6;
	int fds[2], r;

	if (!network_is_on(&cell->spec->network))
		return raise_loopback(err);
	r = net_make(fds, &has_v6, err);
	if (r < 0)
		return r;
	r = fd_send(cell->control_fd, "n", 1, fds, 2);
	close(fds[0]);
	close(fds[1]);
	return r < 0 ? fail(err, -r, "hand the sandbox's network over") : 0;
}

int net_take(int control_fd, struct cell_handle *handle, struct atoll_error *err)
{
	int fds[2] = {-1, -1};
	size_t n = 2;
	char byte;
	ssize_t got = fd_receive(control_fd, &byte, 1, MSG_DONTWAIT, fds, &n);

	if (got == 1 && n == 2) {
		handle->listener_fd = fds[0];
		handle->dns_fd = fds[1];
		return 0;
	}
	while (got >= 0 && n > 0)
		close(fds[--n]);
	return error_set(err, ATOLL_FAULT_BUG, got < 0 ? (int)-got : 0,
			 "the sandbox's network did not arrive");
}

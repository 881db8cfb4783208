/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/netctl-open.h"
#include "base/announce.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "egress/egress.h"
#include "isolate/slots.h"
#include "netctl/answers.h"
#include "netctl/netctl-config.h"
#include "netctl/netctl-process.h"
#include "netctl/netctl.h"
#include "spec/spec.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define READY_NS   (10 * INT64_C(1000000000))
#define BUNDLE_MAX (16 << 20)

/* ---- starting egress ---- */

static int make_channel(struct netctl *net, int *ret_theirs, struct atoll_error *err)
{
	int made[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket pair");
	net->channel_fd = fd_above_stdio(made[0]);
	*ret_theirs = fd_above_stdio(made[1]);
	r = net->channel_fd < 0 ? net->channel_fd : *ret_theirs;
	if (r >= 0 && fcntl(net->channel_fd, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "make a socket pair") : 0;
}

int netctl_send(struct netctl *net, const struct egress_message *message, const int *fds, size_t n)
{
	int r = fd_send(net->channel_fd, message, sizeof *message, fds, n);

	/* The socket is full: egress has stopped reading. Kill it instead of blocking. */
	if (r == -EAGAIN && net->pid_fd >= 0)
		syscall(SYS_pidfd_send_signal, net->pid_fd, SIGKILL, NULL, 0);
	return r;
}

/* Does the contract name a near address, or a block that may contain one? */
static bool reaches_near(const struct network *network)
{
	if (network->has_near && network->n_near == 0)
		return network->upstream;
	for (size_t i = 0; i < network->n_allow; i++) {
		const struct network_rule *rule = &network->allow[i];

		if (rule->kind == NETWORK_LITERAL &&
		    (rule->prefix < 128 || network_address_oddity(&rule->base)))
			return true;
	}
	return network->upstream;
}

static int send_config(struct netctl *net, struct atoll_error *err)
{
	const struct egress_message message = {.type = EGRESS_CONFIG};
	cleanup_fd int config = -1;
	uint32_t uid = 0;
	int r;

	if (slots_are_ours()) {
		net->slot_fd = slots_take(SLOTS_DIR, SPEC_ONLINE, &uid, err);
		if (net->slot_fd < 0)
			return net->slot_fd;
		uid += reaches_near(&net->spec->network) ? SLOTS_EGRESS_NEAR : SLOTS_EGRESS;
	}
	config = netctl_write_config(net, uid, err);
	if (config < 0)
		return config;
	r = netctl_send(net, &message, &config, 1);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "send the network's configuration") : 0;
}

int netctl_start(struct netctl *net, struct atoll_error *err)
{
	cleanup_fd int theirs = -1;
	int r = make_channel(net, &theirs, err);

	if (r == 0)
		r = send_config(net, err);
	if (r == 0)
		r = netctl_spawn(net, theirs, err);
	secrets_forget(&net->secrets);
	net->state = NETCTL_STARTING;
	net->ready_ns = clock_monotonic_ns() + READY_NS;
	return r;
}

/* ---- before the command starts ---- */

int netctl_init(struct netctl *net, const struct spec *spec,
		const struct atoll_run_options *options, struct atoll_result *result,
		struct atoll_error *err)
{
	int r;

	*net = (struct netctl){
		.spec = spec, .options = options, .result = result, .state = NETCTL_OFF};
	net->listener_fd = net->dns_fd = net->channel_fd = net->pid_fd = net->slot_fd = -1;
	net->saved_listener_fd = net->saved_dns_fd = net->authority_key_fd = net->announced_fd = -1;
	if (!network_is_on(&spec->network))
		return 0;
	r = program_find(NETCTL_PROGRAM, net->program, sizeof net->program);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find '" NETCTL_PROGRAM
				 "', which is installed beside atoll and makes "
				 "the network's connections");
	r = answers_read(spec, &net->answers, &net->n_answers, err);
	if (r == 0 && network_inspects(&spec->network))
		r = netctl_find_trust(net->trust, sizeof net->trust, err);
	if (r == 0)
		r = secrets_read(&spec->network, &net->secrets, err);
	if (r == 0)
		net->state = NETCTL_IDLE;
	return r;
}

/* Without namespaces the proxy listens on the host's loopback. Other users can connect, but do not
 * know the token. */
static int listen_outside(struct netctl *net, struct atoll_error *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unsigned char random[16];

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen on 127.0.0.1");
	net->announced_fd = announce_listener(fd, err);
	if (net->announced_fd < 0)
		return net->announced_fd;
	if (listen(fd, 1024) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen on 127.0.0.1");
	randombytes_buf(random, sizeof random);
	sodium_bin2hex(net->token, sizeof net->token, random, sizeof random);
	net->extra.proxy_port = ntohs(address.sin_port);
	net->listener_fd = take_fd(&fd);
	return 0;
}

static int make_bundle(struct netctl *net, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(BUNDLE_MAX);
	cleanup_fd int fd = -1;
	int r;

	if (!net->authority)
		return error_set(err, ATOLL_FAULT_BUG, 0,
				 "the network's process gave no certificate");
	fd = open(net->trust, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read '%s'", net->trust);
	if (text.used && text.data[text.used - 1] != '\n')
		buf_add_char(&text, '\n');
	buf_add_str(&text, net->authority);
	net->bundle = buf_take(&text);
	net->extra.authority = net->authority;
	net->extra.bundle = net->bundle;
	return net->bundle ? 0 : error_oom(err);
}

/* A key store is made only on a host with Java. */
static bool has_java(void)
{
	cleanup_free char *found = NULL;

	return isolate_find_keystores(&found, 1) > 0;
}

static int use_keystore(struct netctl *net, struct atoll_error *err)
{
	if (net->wants_keystore && !net->keystore)
		return error_set(err, ATOLL_FAULT_BUG, 0,
				 "the network's process gave no key store for Java");
	net->extra.keystore = net->keystore;
	return 0;
}

int netctl_await_ready(struct netctl *net, struct atoll_error *err)
{
	bool is_open = true;

	while (is_open && net->state == NETCTL_STARTING) {
		struct pollfd fd = {.fd = net->channel_fd, .events = POLLIN};
		int64_t left_ns = net->ready_ns - clock_monotonic_ns();

		if (left_ns <= 0)
			return error_set(err, ATOLL_FAULT_HOST, 0,
					 "the network's process was not ready within 10 s");
		if (poll(&fd, 1, (int)(left_ns / 1000000) + 1) > 0)
			is_open = netctl_read_messages(net);
	}
	if (net->state == NETCTL_READY || net->state == NETCTL_SERVING)
		return 0;
	if (net->failure.text[0]) {
		*err = net->failure;
		return error_context(err, err->errnum ? -err->errnum : -EIO, "start the network");
	}
	netctl_handle_death(net, NULL);
	return error_set(err, ATOLL_FAULT_HOST, 0, "%s", net->result->network_note);
}

bool netctl_starts_first(const struct netctl *net)
{
	return net->state == NETCTL_IDLE &&
	       (network_inspects(&net->spec->network) || net->spec->network.n_listen > 0);
}

int netctl_open(struct netctl *net, bool has_namespaces, struct atoll_error *err)
{
	const struct network *network = &net->spec->network;
	int r = 0;

	if (net->state == NETCTL_OFF)
		return 0;
	if (!has_namespaces && net->listener_fd < 0 && network->mode != NETWORK_OFF)
		r = listen_outside(net, err);
	if (r < 0 || !netctl_starts_first(net))
		return r;
	net->wants_keystore = has_namespaces && network_inspects(network) && has_java();
	r = netctl_start(net, err);
	if (r == 0)
		r = netctl_await_ready(net, err);
	if (r == 0 && network_inspects(network))
		r = make_bundle(net, err);
	if (r == 0)
		r = use_keystore(net, err);
	return r;
}

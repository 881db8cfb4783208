/* SPDX-License-Identifier: Apache-2.0 */
#include "job/network.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <string.h>

/*
 * Other rules, while a sandbox lives
 *
 * The process that has kept the old ones is ended, with every connection that they had allowed; the
 * next sign of use starts another one. Two things cannot be had that way. TLS is opened with a
 * certificate that lies inside since the start, and whose key went with the process; and what began
 * without a network has no sockets for one.
 */

int net_check_change(const struct net *net, const struct network *network, struct atoll_error *err)
{
	if (net->state == NET_OFF)
		return error_set(err, ATOLL_FAULT_REQUEST, EOPNOTSUPP,
				 "the sandbox began without a network; rules for one need another "
				 "sandbox");
	if (net->state == NET_ENDED)
		return error_set(err, ATOLL_FAULT_HOST, EPIPE, "the sandbox's network has ended");
	if (network_inspects(network) || network->n_listen > 0)
		return error_set(err, ATOLL_FAULT_REQUEST, EOPNOTSUPP,
				 "rules that look into TLS (headers, methods, paths) or publish "
				 "ports can be had only from a sandbox's start on");
	return 0;
}

void net_change(struct net *net)
{
	/* What it has told already counts. */
	net_take_messages(net);
	net_reap(net);
	net_forget(net);
	secrets_done(&net->secrets);
	net->secrets = (struct secrets){0};
	if (net->listener_fd < 0) {
		net->listener_fd = take_fd(&net->kept_fds[0]);
		net->dns_fd = take_fd(&net->kept_fds[1]);
	}
	net->failure = (struct atoll_error){0};
	net->limit[0] = '\0';
	net->state = NET_IDLE;
}

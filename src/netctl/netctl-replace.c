/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "netctl/answers.h"
#include "netctl/netctl.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Another egress for a sandbox that lives on
 *
 * Because its rules are others now, or because it has died. The sockets in the sandbox's network
 * are held here as well, so that who connects meanwhile waits in line; what was connected is cut.
 * The authority is handed on, for certificates inside cannot be exchanged.
 */

/* One that dies again and again is not started for ever. */
#define DEATHS_MAX 5
#define DEATHS_NS  (60 * INT64_C(1000000000))

bool netctl_restart(struct netctl *net)
{
	const int64_t now_ns = clock_monotonic_ns();
	struct atoll_error err;

	if (net->kept_listener_fd < 0 && net->listener_fd < 0)
		return false;
	if (now_ns - net->death_ns > DEATHS_NS)
		net->n_deaths = 0;
	net->death_ns = now_ns;
	if (++net->n_deaths > DEATHS_MAX || netctl_read_secrets(net, &net->spec->network, &err) < 0)
		return false;
	if (net->channel_fd >= 0)
		close(take_fd(&net->channel_fd));
	net->n_questions = 0;
	if (net->listener_fd < 0) {
		net->listener_fd = take_fd(&net->kept_listener_fd);
		net->dns_fd = take_fd(&net->kept_dns_fd);
	}
	net->failure = (struct atoll_error){0};
	net->state = NETCTL_IDLE;
	/* Ports of the host are taken at once, or nobody would ever come. */
	if (net->spec->network.n_listen > 0)
		netctl_start(net, &err);
	return true;
}

int netctl_read_secrets(struct netctl *net, const struct network *before, struct atoll_error *err)
{
	const struct network *now = &net->spec->network;
	struct secrets fresh = {0};
	int r = secrets_read(now, &fresh, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < fresh.n; i++) {
		for (size_t j = 0; j < net->secrets.n && j < before->n_secrets; j++) {
			char *same = NULL;

			/* One that is set is not known inside; and one that is must have its
			 * value's length, so that of a longer value is worth nothing there. */
			if (!now->secrets[i].is_set &&
			    streq(now->secrets[i].name, before->secrets[j].name) &&
			    strlen(net->secrets.list[j].placeholder) == fresh.list[i].size)
				same = strdup(net->secrets.list[j].placeholder);
			if (!same)
				continue;
			free(fresh.list[i].placeholder);
			fresh.list[i].placeholder = same;
		}
	}
	secrets_done(&net->secrets);
	net->secrets = fresh;
	return 0;
}

static void end_old(struct netctl *net)
{
	bool ends_itself = net->state == NETCTL_SERVING && netctl_read_last(net);

	if (netctl_reap(net) != 0 || !ends_itself)
		netctl_note_lost(net);
	if (net->channel_fd >= 0)
		close(take_fd(&net->channel_fd));
	net->n_questions = 0;
	net->limit[0] = '\0';
}

int netctl_replace(struct netctl *net, const struct network *before, struct atoll_error *err)
{
	const struct network *now = &net->spec->network;
	int r;

	if (net->state == NETCTL_OFF || (net->kept_listener_fd < 0 && net->listener_fd < 0))
		return error_set(err, ATOLL_FAULT_REQUEST, EOPNOTSUPP,
				 "the sandbox has no network that could get other rules while "
				 "something runs in it");
	if (network_inspects(now) && !net->extra.authority)
		return error_set(
			err, ATOLL_FAULT_REQUEST, EOPNOTSUPP,
			"these rules open TLS, and what runs in the sandbox trusts no certificate "
			"of ours: they can be set only while nothing runs in it");
	if (network_inspects(now) && !net->trust[0]) {
		r = netctl_find_trust(net->trust, sizeof net->trust, err);
		if (r < 0)
			return r;
	}
	r = netctl_read_secrets(net, before, err);
	if (r < 0)
		return r;
	end_old(net);
	answers_free(net->answers, net->n_answers);
	net->answers = NULL;
	net->n_answers = 0;
	net->n_deaths = 0;
	if (net->listener_fd < 0) {
		net->listener_fd = take_fd(&net->kept_listener_fd);
		net->dns_fd = take_fd(&net->kept_dns_fd);
	}
	net->state = NETCTL_IDLE;
	if (!netctl_starts_first(net))
		return 0;
	r = netctl_start(net, err);
	return r < 0 ? r : netctl_await_ready(net, err);
}

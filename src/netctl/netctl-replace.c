/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/netctl-replace.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "netctl/answers.h"
#include "netctl/netctl-config.h"
#include "netctl/netctl-open.h"
#include "netctl/netctl-process.h"
#include "netctl/netctl.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Another egress for a sandbox of a holder, because its rules have changed or egress has died
 *
 * The holder has copies of the sockets in the sandbox's network: new connections wait in the
 * backlog until the next egress accepts them, open ones are cut. The next egress gets the same
 * authority, because programs inside trust its certificate.
 */

/* After this many deaths within this time egress is not started again. */
#define DEATHS_MAX 5
#define DEATHS_NS  (60 * INT64_C(1000000000))

bool netctl_restart(struct netctl *net)
{
	const int64_t now_ns = clock_monotonic_ns();
	struct atoll_error err;

	if (net->saved_listener_fd < 0 && net->listener_fd < 0)
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
		net->listener_fd = take_fd(&net->saved_listener_fd);
		net->dns_fd = take_fd(&net->saved_dns_fd);
	}
	net->failure = (struct atoll_error){0};
	net->state = NETCTL_IDLE;
	/* Egress listens at published ports: start it now, no connection inside would. */
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

			/* A secret with `set` has no placeholder inside. A placeholder must have
			 * the length of the value, so a value of another length needs a new one. */
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

static void end_egress(struct netctl *net)
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

	if (net->state == NETCTL_OFF || (net->saved_listener_fd < 0 && net->listener_fd < 0))
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
	end_egress(net);
	answers_free(net->answers, net->n_answers);
	net->answers = NULL;
	net->n_answers = 0;
	net->n_deaths = 0;
	if (net->listener_fd < 0) {
		net->listener_fd = take_fd(&net->saved_listener_fd);
		net->dns_fd = take_fd(&net->saved_dns_fd);
	}
	net->state = NETCTL_IDLE;
	if (!netctl_starts_first(net))
		return 0;
	r = netctl_start(net, err);
	return r < 0 ? r : netctl_await_ready(net, err);
}

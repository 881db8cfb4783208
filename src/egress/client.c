/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/str.h"
#include "egress/core.h"
#include "egress/sniff.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * A connection until it is known what it is
 *
 *   judge     by name or address and port; where nobody speaks about it a person may be asked
 *   admit     within the limits of its rule and of the run
 *   sniff     what the client says first is read, and held, until it is clear what it is: TLS and
 *             HTTP have to be for the name that was looked up
 *   hand on   to egress-relay.c or exchange.c; from there on it is no longer ours. A first line
 * that is not complete and looks like no request is handed on, too, and egress-relay.c watches it
 *
 * No byte of the client's goes out before. Where the last connection to the same name and port was
 * one to be passed on, the next is dialled while it is sniffed, so that the one does not wait for
 * the other. A server that speaks first (SSH, SMTP, MySQL) is served: on ports other than 80 and
 * 443 a client that says nothing for a moment is connected, and once the server has spoken it can
 * be neither TLS nor HTTP.
 */

#define MOMENT_NS   (20 * MS_NS)
#define PAUSE_NS    (500 * MS_NS)
#define PATIENCE_NS (30 * SECOND_NS)
#define SILENCE_NS  (3600 * SECOND_NS)

enum stage {
	STAGE_ASKING,	/* a person */
	STAGE_WAITING,	/* for a rate */
	STAGE_SNIFFING, /* perhaps with a connection outside, or on the way there */
	STAGE_DIALLING, /* and what the client says is known, or does not matter */
};

struct client {
	struct flow *flow;
	enum stage stage;
	enum network_tls tls;
	client_reply_fn *reply; /* not yet called */
	struct ask_wait wait;
	struct loop_timer timer;
	struct dial *dial;
	bool is_kept_alive;
};

static void sniff_ready(struct loop_watch *watch, uint32_t events);
static void outside_ready(struct loop_watch *watch, uint32_t events);
static void dialled(struct flow *flow, int fd_or_error, const char *reason);

/* ---- what connections to a place were like ---- */

/* A few places, each by a number that stands for it. Two with the same number cost a connection
 * that is not used, or a moment. */
#define PLACES 64

static uint64_t passed_on[PLACES];

static uint64_t place_of(const struct flow *flow)
{
	const unsigned char *bytes = (const unsigned char *)&flow->address;
	uint64_t hash = 14695981039346656037U ^ flow->port;

	for (const char *c = flow->name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211U;
	for (size_t i = 0; !flow->name[0] && i < sizeof flow->address; i++)
		hash = (hash ^ bytes[i]) * 1099511628211U;
	return hash;
}

static void remember(const struct flow *flow, bool is_passed_on)
{
	uint64_t place = place_of(flow);

	if (is_passed_on)
		passed_on[place % PLACES] = place;
	else if (passed_on[place % PLACES] == place)
		passed_on[place % PLACES] = 0;
}

static bool is_likely_passed_on(const struct flow *flow)
{
	uint64_t place = place_of(flow);

	return passed_on[place % PLACES] == place;
}

/* ---- letting go ---- */

/* But for the two sockets. Whoever takes them over sets their watches anew: they stay. */
static void release(struct flow *flow)
{
	struct client *client = flow->owner;
	struct loop *loop = &flow->egress->loop;

	flow->owner = NULL;
	flow->abandon = NULL;
	ask_forget(&client->wait);
	loop_disarm(loop, &client->timer);
	dial_cancel(client->dial);
	free(client);
}

static void abandon(struct flow *flow)
{
	struct loop *loop = &flow->egress->loop;

	release(flow);
	loop_unwatch(loop, &flow->client.watch);
	if (flow->outside.fd < 0)
		return;
	loop_unwatch(loop, &flow->outside);
	close(take_fd(&flow->outside.fd));
}

/* Say it to a client of the proxy who waits for an answer, and end. */
static void refuse(struct flow *flow, enum atoll_verdict verdict, const char *reason)
{
	client_reply_fn *reply = ((struct client *)flow->owner)->reply;

	remember(flow, false);
	abandon(flow);
	if (reply && reply(flow, verdict, reason))
		stream_shut(&flow->client);
	flow_end(flow, verdict, reason);
}

static bool reply_yes(struct client *client)
{
	client_reply_fn *reply = client->reply;

	client->reply = NULL;
	return !reply || reply(client->flow, ATOLL_CONN_ALLOWED, NULL);
}

/* ---- handing on ---- */

static void to_exchange(struct flow *flow, bool is_tls)
{
	remember(flow, false);
	abandon(flow);
	exchange_take(flow, is_tls);
}

static void start_dial(struct client *client);

static void to_relay(struct client *client)
{
	struct flow *flow = client->flow;

	remember(flow, flow->n_early > 0);
	if (flow->outside.fd >= 0) {
		release(flow);
		relay_take(flow, flow->outside.fd);
		return;
	}
	client->stage = STAGE_DIALLING;
	if (!client->dial)
		start_dial(client);
}

/* ---- sniffing ---- */

/* Is the client the one who has to speak first? */
static bool needs_word(const struct client *client)
{
	return client->tls == NETWORK_TLS_INSPECT || client->flow->port == 80 ||
	       client->flow->port == 443;
}

/* Where the client has to speak first its time is running already. */
static void wait_for_more(struct client *client)
{
	struct flow *flow = client->flow;
	bool is_strange = sniff_is_strange(flow->early, flow->n_early);

	if (!needs_word(client))
		loop_arm(&flow->egress->loop, &client->timer,
			 clock_monotonic_ns() + (is_strange ? PAUSE_NS : PATIENCE_NS));
}

/* May a connection to an address be for this name? A line about the name that limits what is asked
 * there, or how much, would be evaded by the address. */
static const char *refuse_name(const struct flow *flow, const char *name)
{
	const struct network *network = &flow->egress->network;
	const struct network_limits none = {SPEC_UNLIMITED, SPEC_UNLIMITED, SPEC_UNLIMITED,
					    SPEC_UNLIMITED};
	const struct network_rule *rule;

	if (network_judge(network, name, NULL, flow->port, &rule) == NETWORK_DENIED)
		return "TLS for a name that is denied";
	if (!rule)
		return NULL;
	if (memcmp(&rule->limits, &none, sizeof none) != 0)
		return "TLS by an address for a name with limits of its own";
	return rule->tls == NETWORK_TLS_INSPECT
		       ? "TLS by an address for a name whose line looks into it"
		       : NULL;
}

static void check_hello(struct client *client)
{
	struct flow *flow = client->flow;
	const char *refusal = NULL;
	struct hello hello;
	char reason[128];

	switch (hello_read(flow->early, flow->n_early, &hello)) {
	case HELLO_MORE:
		wait_for_more(client);
		return;
	case HELLO_OK:
		break;
	default:
		refuse(flow, ATOLL_CONN_REFUSED, "what begins like TLS is none");
		return;
	}
	if (!flow->name[0] && hello.name[0])
		refusal = refuse_name(flow, hello.name);
	if (flow->port == 80) {
		refuse(flow, ATOLL_CONN_REFUSED, "TLS on the port of plain HTTP");
	} else if (hello.has_ech && client->tls == NETWORK_TLS_PASS) {
		refuse(flow, ATOLL_CONN_REFUSED, "TLS that hides its name (ECH)");
	} else if (hello.has_bad_name) {
		refuse(flow, ATOLL_CONN_REFUSED, "TLS for what is no host name");
	} else if (flow->name[0] && hello.name[0] && !streq(hello.name, flow->name)) {
		snprintf(reason, sizeof reason, "TLS for another name: %s", hello.name);
		refuse(flow, ATOLL_CONN_REFUSED, reason);
	} else if (flow->name[0] && !hello.name[0] && flow->port == 443) {
		refuse(flow, ATOLL_CONN_REFUSED, "TLS without a server name (SNI)");
	} else if (refusal) {
		snprintf(reason, sizeof reason, "%s: %.60s", refusal, hello.name);
		refuse(flow, ATOLL_CONN_REFUSED, reason);
	} else if (client->tls == NETWORK_TLS_INSPECT) {
		to_exchange(flow, true);
	} else {
		to_relay(client);
	}
}

static void look(struct client *client)
{
	struct flow *flow = client->flow;
	enum sniff sniff = sniff_read(flow->early, flow->n_early);

	flow->has_line = sniff == SNIFF_LINE;
	switch (sniff) {
	case SNIFF_MORE:
		wait_for_more(client);
		return;
	case SNIFF_TLS:
		check_hello(client);
		return;
	case SNIFF_HTTP:
		if (flow->port == 443 && client->tls == NETWORK_TLS_PASS)
			refuse(flow, ATOLL_CONN_REFUSED, "plain HTTP on the port of TLS");
		else
			to_exchange(flow, false);
		return;
	case SNIFF_LINE:
	case SNIFF_OTHER:
		if (flow->port == 443 || client->tls == NETWORK_TLS_INSPECT)
			refuse(flow, ATOLL_CONN_REFUSED,
			       flow->port == 443 ? "no TLS on port 443"
						 : "neither TLS nor HTTP, and the "
						   "rule looks into it");
		else if (flow->port == 80)
			refuse(flow, ATOLL_CONN_REFUSED, "no HTTP on port 80");
		else
			to_relay(client);
		return;
	}
}

/* More of what the client says, into `early`: how much, or a negative errno. */
static ssize_t read_more(struct flow *flow)
{
	static uint8_t piece[SNIFF_MAX];
	ssize_t n = recv(flow->client.watch.fd, piece, SNIFF_MAX - flow->n_early, 0);
	uint8_t *early;

	if (n <= 0)
		return n < 0 ? -errno : 0;
	early = realloc(flow->early, flow->n_early + (size_t)n);
	if (!early)
		return -ENOMEM;
	memcpy(early + flow->n_early, piece, (size_t)n);
	flow->early = early;
	flow->n_early += (size_t)n;
	return n;
}

static void sniff_ready(struct loop_watch *watch, uint32_t events)
{
	struct flow *flow = container_of(watch, struct flow, client.watch);
	struct client *client = flow->owner;
	ssize_t n;

	if (client->stage != STAGE_SNIFFING) {
		if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))
			refuse(flow,
			       client->stage == STAGE_ASKING ? ATOLL_CONN_REFUSED
							     : ATOLL_CONN_FAILED,
			       "the client went away");
		else /* Not read any more, and told no more; most connections are there before. */
			loop_watch(&flow->egress->loop, watch, 0);
		return;
	}
	n = read_more(flow);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n == 0 && flow->n_early == 0 && !needs_word(client))
		to_relay(client); /* it wants to listen only */
	else if (n == -ENOMEM)
		refuse(flow, ATOLL_CONN_FAILED, "out of memory");
	else if (n <= 0)
		refuse(flow, ATOLL_CONN_FAILED,
		       flow->n_early ? "the client went away before it was clear what it wants"
				     : "the client went away without a word");
	else
		look(client);
}

/* The server has spoken first, or has closed. */
static void outside_ready(struct loop_watch *watch, uint32_t events)
{
	struct flow *flow = container_of(watch, struct flow, outside);

	(void)events;
	/* What the client has begun to say must be clear first. */
	if (flow->n_early > 0)
		loop_unwatch(&flow->egress->loop, watch);
	else
		to_relay(flow->owner);
}

static void begin_sniffing(struct client *client, int64_t patience_ns)
{
	struct flow *flow = client->flow;
	struct loop *loop = &flow->egress->loop;
	ssize_t n = 0;

	client->stage = STAGE_SNIFFING;
	flow->client.watch.ready = sniff_ready;
	/* Often it has spoken before we come to it. */
	if (flow->n_early == 0)
		n = read_more(flow);
	if (flow->n_early > 0)
		patience_ns = PATIENCE_NS;
	if (n < 0 && n != -EAGAIN && n != -EINTR && n != -ENOMEM)
		refuse(flow, ATOLL_CONN_FAILED, "the client went away without a word");
	else if (n == -ENOMEM || loop_watch(loop, &flow->client.watch, EPOLLIN) < 0 ||
		 loop_arm(loop, &client->timer, clock_monotonic_ns() + patience_ns) < 0)
		refuse(flow, ATOLL_CONN_FAILED, "out of memory");
	else if (flow->n_early > 0)
		look(client);
	else if (!needs_word(client) && flow->outside.fd < 0 && is_likely_passed_on(flow))
		start_dial(client);
}

/* ---- dialling ---- */

static void start_dial(struct client *client)
{
	struct flow *flow = client->flow;
	struct loop *loop = &flow->egress->loop;
	int64_t again;

	if (!flow_may_ask(flow, &again)) {
		client->stage = STAGE_WAITING;
		loop_watch(loop, &flow->client.watch, 0);
		if (loop_arm(loop, &client->timer, again) < 0)
			refuse(flow, ATOLL_CONN_FAILED, "out of memory");
		return;
	}
	loop_disarm(loop, &client->timer);
	client->dial = dial_start(flow, dialled);
	if (!client->dial)
		refuse(flow, ATOLL_CONN_FAILED, "out of memory");
}

static void dialled(struct flow *flow, int fd_or_error, const char *reason)
{
	struct client *client = flow->owner;

	client->dial = NULL;
	if (fd_or_error < 0) {
		refuse(flow, fd_or_error == -EACCES ? ATOLL_CONN_REFUSED : ATOLL_CONN_FAILED,
		       reason);
		return;
	}
	flow->outside = (struct loop_watch){.fd = fd_or_error, .ready = outside_ready};
	if (client->reply) {
		if (!reply_yes(client)) {
			refuse(flow, ATOLL_CONN_FAILED, "the client went away");
			return;
		}
		if (client->tls != NETWORK_TLS_OFF) {
			if (flow->port != 443 &&
			    loop_watch(&flow->egress->loop, &flow->outside, EPOLLIN) < 0)
				refuse(flow, ATOLL_CONN_FAILED, "out of memory");
			else
				begin_sniffing(client,
					       flow->port == 443 ? PATIENCE_NS : DIAL_LASTS_NS);
			return;
		}
	}
	if (client->stage != STAGE_SNIFFING) {
		to_relay(client);
	} else if (loop_watch(&flow->egress->loop, &flow->outside, EPOLLIN) < 0 ||
		   loop_arm(&flow->egress->loop, &client->timer,
			    clock_monotonic_ns() + DIAL_LASTS_NS) < 0) {
		refuse(flow, ATOLL_CONN_FAILED, "out of memory");
	}
}

/* ---- judging ---- */

static void admit(struct client *client)
{
	struct flow *flow = client->flow;
	const char *reason = NULL;
	bool is_seen;

	if (!pace_open(flow, &reason)) {
		refuse(flow, ATOLL_CONN_REFUSED, reason);
		return;
	}
	client->tls = flow->rule ? flow->rule->tls : NETWORK_TLS_PASS;
	if (flow->kind == FLOW_FORWARD) {
		to_exchange(flow, false);
		return;
	}
	is_seen = client->tls == NETWORK_TLS_INSPECT ||
		  (client->tls == NETWORK_TLS_PASS && flow->port == 80);
	if (client->tls == NETWORK_TLS_OFF || (client->reply && !is_seen)) {
		client->stage = STAGE_DIALLING;
		flow->client.watch.ready = sniff_ready;
		loop_watch(&flow->egress->loop, &flow->client.watch, 0);
		start_dial(client);
		return;
	}
	/* Who looks into it connects by itself, and tells by itself if that fails. */
	if (!reply_yes(client))
		refuse(flow, ATOLL_CONN_FAILED, "the client went away");
	else
		begin_sniffing(client, is_seen || flow->port == 443 ? PATIENCE_NS : MOMENT_NS);
}

static void fired(struct loop_timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
	struct flow *flow = client->flow;

	if (client->stage == STAGE_WAITING) {
		client->stage = STAGE_DIALLING;
		if (flow->n_early == 0 && client->tls == NETWORK_TLS_PASS && !client->reply) {
			client->stage = STAGE_SNIFFING;
			loop_watch(&flow->egress->loop, &flow->client.watch, EPOLLIN);
		}
		start_dial(client);
	} else if (flow->outside.fd >= 0 && !needs_word(client) && flow->n_early == 0) {
		if (client->is_kept_alive ||
		    loop_arm(&flow->egress->loop, timer, clock_monotonic_ns() + SILENCE_NS) < 0) {
			refuse(flow, ATOLL_CONN_ALLOWED, "idle for too long");
			return;
		}
		client->is_kept_alive = true;
		dial_keep_alive(flow->outside.fd);
	} else if (!needs_word(client) && sniff_is_strange(flow->early, flow->n_early)) {
		flow->has_line = true;
		to_relay(client);
	} else if (needs_word(client) || flow->n_early > 0) {
		refuse(flow, ATOLL_CONN_FAILED, "the client did not say what it wants");
	} else if (!client->dial) {
		start_dial(client); /* it waits for the server to speak */
	}
}

static void told(struct ask_wait *wait, bool is_allowed, const char *reason)
{
	struct client *client = container_of(wait, struct client, wait);

	if (!is_allowed) {
		refuse(client->flow, ATOLL_CONN_REFUSED, reason);
		return;
	}
	snprintf(client->flow->event.rule, sizeof client->flow->event.rule, "a person's answer");
	admit(client);
}

static void ask(struct client *client)
{
	struct flow *flow = client->flow;
	char address[46];
	const char *who = flow->name;

	if (!who[0]) {
		network_address_text(&flow->address, address);
		who = address;
	}
	client->wait.told = told;
	switch (ask_person(flow->egress, who, flow->port, flow->event.local_port, &client->wait)) {
	case ASK_YES:
		told(&client->wait, true, NULL);
		break;
	case ASK_NO:
		told(&client->wait, false, "a person said no");
		break;
	case ASK_FLOOD:
		told(&client->wait, false, "too many questions are open");
		break;
	case ASK_WAIT:
		client->stage = STAGE_ASKING;
		flow->client.watch.ready = sniff_ready;
		loop_watch(&flow->egress->loop, &flow->client.watch, EPOLLRDHUP);
		break;
	}
}

static void judge(struct client *client)
{
	struct flow *flow = client->flow;
	const struct network *network = &flow->egress->network;
	bool is_name = flow->name[0];
	enum network_verdict verdict =
		network_judge(network, is_name ? flow->name : NULL, is_name ? NULL : &flow->address,
			      flow->port, &flow->rule);

	if (verdict == NETWORK_ALLOWED || verdict == NETWORK_DENIED) {
		if (flow->rule)
			network_rule_text(flow->rule, verdict == NETWORK_DENIED, flow->event.rule,
					  sizeof flow->event.rule);
		else
			snprintf(flow->event.rule, sizeof flow->event.rule, "open");
	}
	if (verdict != NETWORK_ALLOWED)
		flow->rule = NULL;
	if (flow->egress->is_spent)
		refuse(flow, ATOLL_CONN_REFUSED, "a limit of the run is used up");
	else if (verdict == NETWORK_ALLOWED)
		admit(client);
	else if (verdict == NETWORK_ASK)
		ask(client);
	else if (verdict == NETWORK_DENIED)
		refuse(flow, ATOLL_CONN_REFUSED, "denied by the contract");
	else if (is_name && network_knows(network, flow->name))
		refuse(flow, ATOLL_CONN_REFUSED, "port is not allowed");
	else
		refuse(flow, ATOLL_CONN_REFUSED,
		       is_name ? "name is not allowed" : "address is not allowed");
}

/* An address that stands for a name, also where a client of the proxy has looked it up itself. */
static bool find_name(struct flow *flow)
{
	struct names *names = flow->egress->names;
	const char *name;

	if (flow->name[0] || !network_is_synthetic(&flow->address))
		return true;
	name = names_of(names, &flow->address);
	if (!name)
		return false;
	snprintf(flow->name, sizeof flow->name, "%s", name);
	names_hold(names, flow->name);
	flow->holds_name = true;
	return true;
}

void client_take(struct flow *flow, client_reply_fn *reply)
{
	struct client *client = calloc(1, sizeof *client);

	if (!client) {
		flow_end(flow, ATOLL_CONN_FAILED, "out of memory");
		return;
	}
	client->flow = flow;
	client->reply = reply;
	client->timer.fire = fired;
	flow->owner = client;
	flow->abandon = abandon;
	if (find_name(flow))
		judge(client);
	else
		refuse(flow, ATOLL_CONN_REFUSED, "no name was looked up for the address");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "egress/core.h"
#include "spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * How much, how often, how many
 *
 * Each allow line and the run as a whole has a share: what it may use, and what is used. A flow
 * counts in its line's and in the run's. Rates are buckets that fill up by the clock; whoever moves
 * bytes asks how many he may before he reads them, so that no sum of connections is faster. Totals
 * are exact for the same reason: nobody may move more than is left of them.
 */

/* Rates come in pieces: an eighth of a second's worth, but no less than a small packet. */
#define BURST_PART  8
#define BURST_LEAST 4096
#define PIECE_MOST  (1024 * 1024)

struct pace_share {
	struct network_limits limits;
	struct bucket rate, requests;
	uint64_t bytes;	      /* moved */
	uint64_t connections; /* now */
	bool is_spent;
};

struct pace {
	struct egress *egress;
	struct loop_timer cut; /* a total is used up: from the loop, as its flows may be in use */
	struct pace_share run;
	struct pace_share lines[]; /* of network.allow */
};

/* ---- buckets ---- */

void bucket_init(struct bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns)
{
	*bucket = (struct bucket){rate, burst, burst, now_ns};
}

/* Time is taken only for whole units, so that nothing is lost by looking often. */
static void refresh(struct bucket *bucket, int64_t now_ns)
{
	unsigned __int128 more;
	uint64_t units;

	if (now_ns <= bucket->fresh_ns || bucket->rate == 0)
		return;
	more = (unsigned __int128)(uint64_t)(now_ns - bucket->fresh_ns) * bucket->rate / SECOND_NS;
	if (more >= bucket->burst - bucket->level) {
		bucket->level = bucket->burst;
		bucket->fresh_ns = now_ns;
		return;
	}
	units = (uint64_t)more;
	bucket->level += units;
	/* Rounded so that less is given, not more. */
	bucket->fresh_ns +=
		(int64_t)(((unsigned __int128)units * SECOND_NS + bucket->rate - 1) / bucket->rate);
}

uint64_t bucket_look(struct bucket *bucket, uint64_t least, int64_t now_ns, int64_t *ret_again_ns)
{
	if (bucket->rate == SPEC_UNLIMITED)
		return UINT64_MAX;
	refresh(bucket, now_ns);
	if (least > bucket->burst)
		least = bucket->burst;
	if (bucket->level < least) {
		uint64_t lacks = least - bucket->level;
		int64_t wait = 3600 * SECOND_NS;

		if (bucket->rate > 0 && lacks / bucket->rate < 3600)
			wait = (int64_t)((unsigned __int128)lacks * SECOND_NS / bucket->rate) + 1;
		*ret_again_ns = bucket->fresh_ns + wait;
	}
	return bucket->level;
}

void bucket_take(struct bucket *bucket, uint64_t amount)
{
	if (bucket->rate != SPEC_UNLIMITED)
		bucket->level -= amount < bucket->level ? amount : bucket->level;
}

/* ---- shares ---- */

static void share_init(struct pace_share *share, const struct network_limits *limits)
{
	int64_t now = clock_monotonic_ns();
	uint64_t burst = limits->rate / BURST_PART;

	share->limits = *limits;
	bucket_init(&share->rate, limits->rate, burst > BURST_LEAST ? burst : BURST_LEAST, now);
	bucket_init(&share->requests, limits->requests, limits->requests ? limits->requests : 1,
		    now);
	if (limits->requests == 0)
		share->requests.level = 0;
}

static void cut_spent(struct loop_timer *timer)
{
	struct pace *pace = container_of(timer, struct pace, cut);
	struct egress *egress = pace->egress;
	static const char reason[] = "the limit of bytes is used up";

	if (pace->run.is_spent && !egress->is_spent) {
		struct egress_message message = {.type = EGRESS_LIMIT, .limit = "bytes"};

		egress->is_spent = true;
		flow_cut(egress, NULL, ATOLL_CONN_ALLOWED, reason);
		channel_send(egress->channel, &message);
		return;
	}
	for (size_t i = 0; i < egress->network.n_allow; i++)
		if (pace->lines[i].is_spent)
			flow_cut(egress, &pace->lines[i], ATOLL_CONN_ALLOWED, reason);
}

struct pace *pace_new(struct egress *egress)
{
	const struct network *network = &egress->network;
	struct pace *pace = calloc(1, sizeof *pace + network->n_allow * sizeof pace->lines[0]);

	if (!pace)
		return NULL;
	pace->egress = egress;
	pace->cut.fire = cut_spent;
	share_init(&pace->run, &network->limits);
	for (size_t i = 0; i < network->n_allow; i++)
		share_init(&pace->lines[i], &network->allow[i].limits);
	return pace;
}

void pace_free(struct pace *pace)
{
	if (pace)
		loop_disarm(&pace->egress->loop, &pace->cut);
	free(pace);
}

static const char *refuses(const struct pace_share *share)
{
	if (share->bytes >= share->limits.bytes)
		return "the limit of bytes is used up";
	if (share->connections >= share->limits.connections)
		return "the limit of connections at the same time is reached";
	return NULL;
}

bool pace_open(struct flow *flow, const char **ret_reason)
{
	struct pace *pace = flow->egress->pace;
	const struct network *network = &flow->egress->network;
	struct pace_share *line = NULL;
	const char *reason;

	if (flow->rule && flow->rule >= network->allow &&
	    flow->rule < network->allow + network->n_allow)
		line = &pace->lines[flow->rule - network->allow];
	reason = refuses(&pace->run);
	if (!reason && line)
		reason = refuses(line);
	if (reason) {
		*ret_reason = reason;
		return false;
	}
	/* Without a line of its own a flow counts in the run's share only. */
	flow->share = line ? line : &pace->run;
	pace->run.connections++;
	if (line)
		line->connections++;
	return true;
}

void pace_close(struct flow *flow)
{
	struct pace *pace = flow->egress->pace;

	if (!flow->share)
		return;
	pace->run.connections--;
	if (flow->share != &pace->run)
		flow->share->connections--;
	flow->share = NULL;
}

static bool count(struct pace *pace, struct pace_share *share, uint64_t bytes)
{
	share->bytes += bytes;
	bucket_take(&share->rate, bytes);
	if (share->bytes < share->limits.bytes)
		return true;
	if (!share->is_spent) {
		share->is_spent = true;
		loop_arm(&pace->egress->loop, &pace->cut, clock_monotonic_ns());
	}
	return false;
}

bool flow_count(struct flow *flow, uint64_t sent, uint64_t received, const char **ret_reason)
{
	struct pace *pace = flow->egress->pace;
	bool goes_on;

	flow->event.sent += sent;
	flow->event.received += received;
	if (!flow->share)
		return true;
	goes_on = count(pace, &pace->run, sent + received);
	if (flow->share != &pace->run)
		goes_on = count(pace, flow->share, sent + received) && goes_on;
	if (!goes_on)
		*ret_reason = "the limit of bytes is used up";
	return goes_on;
}

static uint64_t may_move(struct pace_share *share, int64_t now, int64_t *again)
{
	int64_t at = 0;
	uint64_t least = share->rate.burst / 16 + 1, most;

	if (share->bytes >= share->limits.bytes) {
		*again = now + SECOND_NS; /* it is about to be cut */
		return 0;
	}
	most = bucket_look(&share->rate, least, now, &at);
	if (most < least && share->rate.rate != SPEC_UNLIMITED) {
		if (at > *again)
			*again = at;
		return 0;
	}
	/* Nobody takes all of it while others wait. */
	if (share->rate.rate != SPEC_UNLIMITED && share->connections > 4 && most > least)
		most = most / 4 > least ? most / 4 : least;
	if (share->limits.bytes != SPEC_UNLIMITED && most > share->limits.bytes - share->bytes)
		most = share->limits.bytes - share->bytes;
	return most;
}

size_t flow_may_move(struct flow *flow, int64_t *ret_again_ns)
{
	struct pace *pace = flow->egress->pace;
	int64_t now, again = 0;
	uint64_t most = PIECE_MOST, line = PIECE_MOST;

	if (!flow->share)
		return PIECE_MOST;
	now = clock_monotonic_ns();
	most = may_move(&pace->run, now, &again);
	if (flow->share != &pace->run)
		line = may_move(flow->share, now, &again);
	if (line < most)
		most = line;
	if (most == 0)
		*ret_again_ns = again > now ? again : now + MS_NS;
	return most < PIECE_MOST ? (size_t)most : PIECE_MOST;
}

bool flow_may_ask(struct flow *flow, int64_t *ret_again_ns)
{
	struct pace *pace = flow->egress->pace;
	int64_t now = clock_monotonic_ns(), again = 0;
	bool may = true;

	if (!flow->share)
		return true;
	if (bucket_look(&pace->run.requests, 1, now, &again) < 1)
		may = false;
	if (flow->share != &pace->run) {
		int64_t other = 0;

		if (bucket_look(&flow->share->requests, 1, now, &other) < 1)
			may = false;
		if (other > again)
			again = other;
	}
	if (!may) {
		*ret_again_ns = again > now ? again : now + MS_NS;
		return false;
	}
	bucket_take(&pace->run.requests, 1);
	if (flow->share != &pace->run)
		bucket_take(&flow->share->requests, 1);
	return true;
}

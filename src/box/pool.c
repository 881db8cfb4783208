/* SPDX-License-Identifier: Apache-2.0 */
#include "box/pool.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-network-values.h"
#include "box/box-remove.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/make.h"
#include "box/quota.h"
#include "box/template.h"
#include "box/work.h"

#include <atoll/step.h>
#include <stdlib.h>
#include <string.h>

/*
 * Parked boxes
 *
 * For each kind that is asked for some sandboxes stand ready, started and empty, and a creation is
 * handed one of them. How many follows the demand: as many as were asked for in the busiest of the
 * last seconds, between the two bounds that the configuration states; a kind that nobody has asked
 * for in ten minutes has none, but for `base`, which keeps the least. They are made on a thread of
 * the second rank, so creations that somebody waits for come first.
 *
 * The place of one that was handed out is filled a moment later: its first command mostly follows
 * at once, and would share the CPUs with the building of another sandbox, and wait for it where the
 * kernel lets nobody fork while it goes through all processes (pivot_root). Who finds none parked
 * waits for no moment.
 */

#define SECONDS	     16 /* that the demand is remembered for */
#define FORGOTTEN_NS (600 * INT64_C(1000000000))
#define MAKERS_MAX   2
#define REFILL_NS    (20 * INT64_C(1000000))
#define RESTING_NS   (9 * INT64_C(1000000000)) /* holders let theirs rest a little later */

struct parked {
	char sandbox[ATOLL_ID_SIZE];
	int64_t since_ns;
	struct parked *next;
};

struct pool {
	struct daemon *daemon;
	struct kind *kind; /* NULL: it is gone, and so is this when its makers are */
	struct parked *parked;
	size_t n_parked, n_making;
	uint32_t asked[SECONDS];
	int64_t second;	  /* that asked[second % SECONDS] is of */
	int64_t asked_ns; /* last */
	int64_t failed_ns;
	struct loop_timer refill;
	struct pool *next;
};

struct maker {
	struct work_item item;
	struct pool *pool;
	struct make make;
	char *contract;
	char name[160], from[ATOLL_ID_SIZE], workspace[PATH_MAX];
	int code;
};

static void on_refill(struct loop_timer *timer);

/* ---- the demand ---- */

static void turn(struct pool *pool)
{
	const int64_t now = clock_monotonic_ns() / 1000000000;

	if (now - pool->second > SECONDS)
		pool->second = now - SECONDS;
	while (pool->second < now)
		pool->asked[++pool->second % SECONDS] = 0;
}

static size_t wanted(struct pool *pool)
{
	const struct daemon_config *config = pool->daemon->config;
	uint32_t most = 0;

	turn(pool);
	for (size_t i = 0; i < SECONDS; i++)
		most = pool->asked[i] > most ? pool->asked[i] : most;
	if (most < config->pool_least &&
	    (streq(pool->kind->id, "base") ||
	     (pool->asked_ns && clock_monotonic_ns() - pool->asked_ns < FORGOTTEN_NS)))
		most = config->pool_least;
	return most < config->pool_most ? most : config->pool_most;
}

static struct pool *pool_of(struct daemon *daemon, struct kind *kind)
{
	struct pool *pool = daemon->pools;

	while (pool && pool->kind != kind)
		pool = pool->next;
	if (pool)
		return pool;
	pool = calloc(1, sizeof *pool);
	if (!pool)
		return NULL;
	pool->daemon = daemon;
	pool->kind = kind;
	pool->refill.fire = on_refill;
	pool->second = clock_monotonic_ns() / 1000000000;
	pool->next = daemon->pools;
	daemon->pools = pool;
	return pool;
}

/* ---- filling ---- */

static void fill(struct pool *pool);

static void drop_if_over(struct pool *pool)
{
	struct pool **at = &pool->daemon->pools;

	if (pool->kind || pool->n_making)
		return;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	loop_disarm(pool->daemon->loop, &pool->refill);
	free(pool);
}

static void run_make(struct work_item *item)
{
	struct maker *maker = (struct maker *)item;

	maker->code = make_sandbox(&maker->make, NULL);
}

static void made(struct work_item *item)
{
	struct maker *maker = (struct maker *)item;
	struct pool *pool = maker->pool;
	struct parked *parked = maker->code == 0 ? calloc(1, sizeof *parked) : NULL;

	pool->n_making--;
	if (maker->code < 0)
		pool->failed_ns = clock_monotonic_ns();
	if (parked && pool->kind) {
		memcpy(parked->sandbox, maker->make.sandbox, sizeof parked->sandbox);
		parked->since_ns = clock_monotonic_ns();
		parked->next = pool->parked;
		pool->parked = parked;
		pool->n_parked++;
	} else if (maker->code == 0) {
		remove_sandbox(pool->daemon, maker->make.sandbox, NULL, NULL);
		free(parked);
	}
	free(maker->contract);
	free(maker);
	if (pool->kind)
		fill(pool);
	else
		drop_if_over(pool);
}

static bool prepare(struct maker *maker, struct kind *kind)
{
	cleanup_free char *rules = NULL;
	struct daemon *daemon = maker->pool->daemon;
	struct daemon_box nobody = {.box.daemon = daemon};
	struct make *make = &maker->make;

	if (kind->sandbox[0]) {
		memcpy(maker->from, kind->sandbox, sizeof maker->from);
		make->from = maker->from;
		make->checkpoint = KIND_CHECKPOINT;
		return true;
	}
	if (network_rules(&nobody, NULL, true, &rules, NULL) < 0 ||
	    kind_contract(kind, rules, &maker->contract, NULL) < 0)
		return false;
	make->config = daemon->config;
	memcpy(maker->name, kind->id, sizeof maker->name);
	snprintf(maker->workspace, sizeof maker->workspace, "%s",
		 kind->home ? kind->home : daemon->homes);
	make->contract = maker->contract;
	make->name = maker->name;
	make->workspace = maker->workspace;
	return true;
}

static void make_one(struct pool *pool)
{
	struct maker *maker = calloc(1, sizeof *maker);

	if (!maker)
		return;
	maker->pool = pool;
	maker->code = -1;
	if (!prepare(maker, pool->kind)) {
		free(maker->contract);
		free(maker);
		return;
	}
	maker->item = (struct work_item){.run = run_make, .done = made};
	pool->n_making++;
	work_submit(pool->daemon->work, &maker->item, WORK_LATER);
}

static void fill(struct pool *pool)
{
	const struct daemon *daemon = pool->daemon;
	size_t want = wanted(pool);

	if (daemon->is_closing || daemon->is_taking_over || work_is_closing(daemon->work))
		return;
	/* What fails is tried again every few seconds, and not as fast as it fails. */
	if (pool->failed_ns && clock_monotonic_ns() - pool->failed_ns < 5000000000)
		return;
	while (pool->n_making < MAKERS_MAX && pool->n_parked + pool->n_making < want &&
	       quota_has_room(pool->daemon))
		make_one(pool);
}

static void on_refill(struct loop_timer *timer)
{
	struct pool *pool = container_of(timer, struct pool, refill);

	if (pool->kind)
		fill(pool);
}

/* From the first of several on: whoever comes again and again does not put it off. */
static void fill_soon(struct pool *pool)
{
	if (!pool->refill.place &&
	    loop_arm(pool->daemon->loop, &pool->refill, clock_monotonic_ns() + REFILL_NS) < 0)
		fill(pool);
}

static void drop_one(struct pool *pool)
{
	struct parked *parked = pool->parked;

	pool->parked = parked->next;
	pool->n_parked--;
	remove_sandbox(pool->daemon, parked->sandbox, NULL, NULL);
	free(parked);
}

/* ---- waking ---- */

/* It is ready for its first command by the time that it comes. */
static void wake(struct daemon *daemon, const struct parked *parked)
{
	/* Without memory for it, it is the command that waits. */
	if (clock_monotonic_ns() - parked->since_ns >= RESTING_NS)
		start_holder_behind(daemon, NULL, parked->sandbox);
}

/* ---- for others ---- */

bool pool_get(struct daemon *daemon, struct kind *kind, char ret[ATOLL_ID_SIZE])
{
	struct pool *pool = pool_of(daemon, kind);
	struct parked *parked = pool ? pool->parked : NULL;

	/* Those of a kind with rules of its own would need to be given the usual ones. */
	if (!pool || kind->has_rules)
		return false;
	turn(pool);
	pool->asked[pool->second % SECONDS]++;
	pool->asked_ns = clock_monotonic_ns();
	if (!parked) {
		fill(pool);
		return false;
	}
	memcpy(ret, parked->sandbox, ATOLL_ID_SIZE);
	wake(daemon, parked);
	pool->parked = parked->next;
	pool->n_parked--;
	free(parked);
	fill_soon(pool);
	return true;
}

/* Every second. What is too much goes one at a time. */
void pool_tick(struct daemon *daemon)
{
	if (daemon->kinds)
		pool_of(daemon, daemon->kinds); /* base */
	for (struct pool *pool = daemon->pools; pool; pool = pool->next) {
		if (!pool->kind)
			continue;
		fill(pool);
		if (pool->n_parked > wanted(pool))
			drop_one(pool);
	}
}

void pool_forget(struct daemon *daemon, const struct kind *kind)
{
	struct pool *pool = daemon->pools;

	while (pool && pool->kind != kind)
		pool = pool->next;
	if (!pool)
		return;
	while (pool->parked)
		drop_one(pool);
	pool->kind = NULL;
	drop_if_over(pool);
}

size_t pool_parked(const struct daemon *daemon)
{
	size_t n = 0;

	for (const struct pool *pool = daemon->pools; pool; pool = pool->next)
		n += pool->n_parked;
	return n;
}

void pools_free(struct daemon *daemon)
{
	while (daemon->pools) {
		struct pool *pool = daemon->pools;

		while (pool->parked) {
			struct parked *parked = pool->parked;

			pool->parked = parked->next;
			atoll_sandbox_remove(parked->sandbox, true, NULL);
			free(parked);
		}
		daemon->pools = pool->next;
		loop_disarm(daemon->loop, &pool->refill);
		free(pool);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "box/create.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-network-values.h"
#include "box/box-remove.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config-grants.h"
#include "box/config.h"
#include "box/contract.h"
#include "box/daemon-state.h"
#include "box/db-file.h"
#include "box/event.h"
#include "box/life.h"
#include "box/make.h"
#include "box/meter.h"
#include "box/op.h"
#include "box/pool.h"
#include "box/process-start.h"
#include "box/quota.h"
#include "box/row.h"
#include "box/secret-place.h"
#include "box/table.h"
#include "box/template-build.h"
#include "box/template-start.h"
#include "box/template-tags.h"
#include "box/template.h"
#include "box/volume-mounts.h"
#include "box/volume.h"
#include "box/work.h"

#include <atoll/step.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A new box
 *
 *	begin()		is there such a template, may this tenant have one more?
 *	use_pool_box()	one that is ready; or run_make(), on a thread
 *	settle()	its row is written: from here on it survives the daemon
 *	finish()	it can be found, and who asked is told
 *
 * The row of one that is being made is written as soon as there is a record, while it starts: if
 * the daemon is killed then, the box is there, and is started when somebody comes. If it does not
 * start the row goes again.
 */

struct creation {
	struct work_item item;
	struct later later;
	struct daemon *daemon;
	struct daemon_box *box;
	box_done *done;
	void *data;
	struct make make;
	struct daemon_config config; /* what it points to stays the daemon's */
	struct box_sizes sizes;
	char *contract, *rules;
	struct volume_claim claim;
	char from[ATOLL_ID_SIZE], workspace[PATH_MAX];
	bool is_from_pool;
	bool is_making; /* on a thread */
	bool has_row;	/* it was asked for; the thread's, while there is one */
	bool is_row_written;
	int row_code, code;
	struct atoll_error error;
};

/* ---- its secrets ---- */

/* The values that a tenant's contract names. */
static int place_secrets(struct creation *creation)
{
	struct daemon_box *mine = creation->box;
	char dir[PATH_MAX], path[PATH_MAX];
	int r = 0;

	if (strstr(creation->contract, "\"secrets\""))
		r = daemon_subdir(mine->box.daemon, "secrets", dir, &creation->error);
	secrets_path(mine, path);
	/* Also what is half there goes with it. */
	mine->has_secrets = true;
	if (r == 0)
		r = contract_place_secrets(mine->box.tenant, path, &creation->contract,
					   &creation->error);
	if (r == 0)
		mine->has_secrets = access(path, F_OK) == 0;
	return r;
}

/* ---- its fields ---- */

static int copy_or_null(const char *text, char **ret)
{
	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

int box_fill(struct box *box, const struct box_request *request, const struct box_sizes *sizes)
{
	snprintf(box->alias, sizeof box->alias, "%s", request->template_ref);
	box->timeout_s = request->timeout_s;
	box->pauses_at_end = request->pauses_at_end;
	box->pauses_memory = request->pauses_memory;
	box->wakes = request->wakes;
	box->has_internet = request->has_internet;
	box->cpus = sizes->cpus;
	box->memory_mib = sizes->memory_mib;
	box->disk_mib = sizes->disk_mib;
	if (!request->is_public)
		daemon_random_hex(box->traffic_token, BOX_TOKEN_SIZE - 1);
	if (copy_or_null(request->network, &box->network) < 0 ||
	    copy_or_null(request->mounts, &box->mounts) < 0 ||
	    pairs_copy(&request->metadata, &box->metadata) < 0 ||
	    pairs_copy(&request->labels, &box->labels) < 0)
		return -ENOMEM;
	return 0;
}

/* What its template says is part of it. */
static int fill_box(struct box *box, const struct kind *kind, const struct box_request *request,
		    const struct box_sizes *sizes)
{
	snprintf(box->template_id, sizeof box->template_id, "%s", kind->id);
	return kind_environment(kind, &request->environment, &box->environment) < 0
		       ? -ENOMEM
		       : box_fill(box, request, sizes);
}

/* ---- the end of a creation ---- */

static void free_creation(struct creation *creation, struct daemon *daemon)
{
	volume_unclaim(daemon, &creation->claim);
	volume_grants_free(creation->make.grants, creation->make.n_grants);
	free(creation->contract);
	free(creation->rules);
	free(creation);
}

static void finish(struct creation *creation)
{
	struct daemon_box *mine = creation->box;
	box_done *done = creation->done;
	void *data = creation->data;

	mine->box.daemon->counts.n_created++;
	mine->box.daemon->counts.n_from_pool += creation->is_from_pool;
	free_creation(creation, mine->box.daemon);
	box_report(&mine->box, BOX_CREATED, NULL);
	template_start(&mine->box, done, data);
}

static void fail(struct creation *creation)
{
	struct daemon_box *mine = creation->box;
	struct daemon *daemon = creation->daemon;

	/* It points into the box. */
	volume_unclaim(daemon, &creation->claim);
	if (mine) {
		mine->box.daemon->counts.n_failed++;
		if (mine->box.sandbox[0])
			remove_sandbox(mine->box.daemon, mine->box.sandbox, NULL, NULL);
		network_forget(mine);
		tenant_uncharge(mine);
		box_free(mine);
	}
	creation->done(NULL, &creation->error, creation->data);
	free_creation(creation, daemon);
}

static void fail_later(struct later *later)
{
	fail((struct creation *)((char *)later - offsetof(struct creation, later)));
}

/* Both are over: the sandbox is made, and its row is written. */
static void conclude(struct creation *creation)
{
	struct daemon_box *mine = creation->box;
	int code = creation->row_code;

	if (creation->is_making || (creation->has_row && !creation->is_row_written))
		return;
	if (creation->code == 0 && code == 0)
		code = table_put(mine->box.daemon, mine);
	if (creation->code == 0 && code < 0)
		error_set(&creation->error, ATOLL_FAULT_HOST, -code, "write the daemon's database");
	if (creation->code < 0 || code < 0) {
		if (creation->has_row)
			row_remove(mine); /* it may have been written */
		fail(creation);
		return;
	}
	box_arm_end(mine);
	meter_start(mine);
	finish(creation);
}

static void row_written(int code, void *data)
{
	struct creation *creation = data;

	creation->is_row_written = true;
	creation->row_code = code;
	conclude(creation);
}

static void set_times(struct box *box)
{
	box->start_ms = daemon_now_ms();
	box->end_ms = box_end_after(box->timeout_s);
}

static void settle(struct creation *creation)
{
	set_times(&creation->box->box);
	creation->box->box.state = BOX_RUNNING;
	creation->has_row = true;
	row_insert(creation->box, row_written, creation);
}

/* ---- on a thread ---- */

/* Nobody else has the box yet. */
static void recorded(struct make *make)
{
	struct creation *creation = container_of(make, struct creation, make);

	memcpy(creation->box->box.sandbox, make->sandbox, ATOLL_ID_SIZE);
	settle(creation);
}

static void run_make(struct work_item *item)
{
	struct creation *creation = (struct creation *)item;

	creation->error = (struct atoll_error){0};
	creation->code = make_sandbox(&creation->make, &creation->error);
}

/* What it has taken to start is not taken from its time. */
#define SLOW_MS 1000

static void made(struct work_item *item)
{
	struct creation *creation = (struct creation *)item;
	struct daemon_box *mine = creation->box;

	creation->is_making = false;
	memcpy(mine->box.sandbox, creation->make.sandbox, ATOLL_ID_SIZE);
	if (creation->code == 0 && daemon_now_ms() - mine->box.start_ms >= SLOW_MS) {
		set_times(&mine->box);
		row_insert(mine, NULL, NULL);
	}
	conclude(creation);
}

static int prepare(struct creation *creation, const struct kind *kind,
		   const struct box_request *request)
{
	struct daemon_box *mine = creation->box;
	struct make *make = &creation->make;
	int r;

	r = request->contract ? 0
			      : network_rules(mine, request->network, request->has_internet,
					      &creation->rules, &creation->error);
	if (r < 0)
		return r;
	if (kind->sandbox[0]) {
		memcpy(creation->from, kind->sandbox, ATOLL_ID_SIZE);
		make->from = creation->from;
		make->checkpoint = KIND_CHECKPOINT;
		if (kind->has_rules || request->network || !request->has_internet)
			make->rules = creation->rules;
		return 0;
	}
	r = request->contract
		    ? place_secrets(creation)
		    : kind_contract(kind, creation->rules, &creation->contract, &creation->error);
	make->contract = creation->contract;
	creation->config = *mine->box.daemon->config;
	creation->config.base_cpus = mine->box.cpus;
	creation->config.base_memory_mib = mine->box.memory_mib;
	make->config = request->contract ? NULL : &creation->config;
	make->name = request->contract ? "contract" : kind->id;
	snprintf(creation->workspace, sizeof creation->workspace, "%s",
		 kind->home ? kind->home : mine->box.daemon->homes);
	if (r == 0 && request->contract)
		r = contract_workspace(creation->contract, creation->workspace, &creation->error);
	make->workspace = creation->workspace;
	return r;
}

/* They cannot be removed from here on. */
static int claim_volumes(struct creation *creation, const struct box_request *request)
{
	struct box *box = &creation->box->box;

	if (!request->mounts)
		return 0;
	creation->claim = (struct volume_claim){.tenant = box->tenant, .mounts = box->mounts};
	volume_claim(box->daemon, &creation->claim);
	return volume_grants(box->tenant, request->mounts, &creation->make.grants,
			     &creation->make.n_grants, &creation->error);
}

/* What a parked one has is what nobody asked otherwise. */
static bool use_pool_box(struct creation *creation, struct kind *kind,
			 const struct box_request *request)
{
	if (request->contract || request->cpus || request->memory_mib || request->network ||
	    request->mounts || !request->has_internet)
		return false;
	creation->is_from_pool =
		pool_get(creation->box->box.daemon, kind, creation->box->box.sandbox);
	return creation->is_from_pool;
}

/* ---- how large it is ---- */

/* What would be dropped without a word if it were taken. */
static int check_contract(const struct kind *kind, const struct box_request *request,
			  struct atoll_error *err)
{
	if (kind->sandbox[0])
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "contract: a sandbox from '%s' has the contract that this was "
				 "made with; leave it out, or make one from 'base'",
				 kind->id);
	if (!request->has_internet)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "internet: false cannot stand beside a contract; say 'network: "
				 "{mode: off}' in it instead");
	return 0;
}

/* What all boxes of a machine share, and nobody counts: a few that may have any number of them
 * would stop everybody else. */
#define PIDS_MOST  4096
#define FILES_MOST 2000000

/* They are kept in memory, and in a row of the database that is written again and again. */
#define WORDS_MOST (256U << 10)

static size_t size_of(const struct box_pairs *pairs)
{
	size_t size = 0;

	for (size_t i = 0; i < pairs->n; i++)
		size += strlen(pairs->items[i].name) + strlen(pairs->items[i].value);
	return size;
}

static int check_words(const struct box_request *request, struct atoll_error *err)
{
	if (size_of(&request->metadata) + size_of(&request->labels) +
		    size_of(&request->environment) <=
	    WORDS_MOST)
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "metadata, labels and environment of a sandbox have at most %u KiB in all",
			 WORDS_MOST >> 10);
}

static int check_counts(const struct box_sizes *sizes, uint32_t base_pids, struct atoll_error *err)
{
	const uint32_t pids = base_pids > PIDS_MOST ? base_pids : PIDS_MOST;

	if (sizes->pids > pids)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "contract: limits.pids: a sandbox here has at most %u", pids);
	if (sizes->files > FILES_MOST)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "contract: limits.files: a sandbox here has at most %d",
				 FILES_MOST);
	return 0;
}

static void write_ours(const struct box_sizes *sizes, uint32_t pids,
		       const struct config_tenant *grants, struct buf *out)
{
	buf_addf(out,
		 "{\"limits\":{\"memory\":\"%uM\",\"disk\":\"%uM\",\"cpus\":%u,\"pids\":%u},"
		 "\"network\":{\"near\":[",
		 sizes->memory_mib, sizes->disk_mib, sizes->cpus, pids);
	for (size_t i = 0; i < grants->n_near; i++) {
		buf_add_str(out, i ? "," : "");
		json_quote(out, grants->near[i], strlen(grants->near[i]));
	}
	buf_add_str(out, "]}}");
}

/* What the contract does not say is as in every box of the template. */
static int lay_contract(struct creation *creation, const struct kind *kind,
			const struct box_request *request, uint32_t pids,
			const struct config_tenant *grants)
{
	struct box_sizes *sizes = &creation->sizes;
	struct atoll_error *err = &creation->error;
	cleanup_free char *base = NULL;
	cleanup_buf struct buf ours = BUF_INIT(64 << 10);
	int r = check_contract(kind, request, err);

	write_ours(sizes, pids, grants, &ours);
	if (r == 0 && buf_error(&ours) < 0)
		r = error_oom(err);
	if (r == 0)
		r = contract_merge(ours.data, kind->contract, NULL, &base, err);
	if (r == 0)
		r = contract_merge(request->contract, base, grants, &creation->contract, err);
	if (r == 0)
		r = contract_sizes(creation->contract, sizes, err);
	return r < 0 ? r : check_counts(sizes, pids, err);
}

static int find_sizes(struct creation *creation, const struct kind *kind,
		      const struct box_request *request, const struct daemon_config *config,
		      const char *tenant)
{
	creation->sizes = (struct box_sizes){
		.cpus = request->cpus ? request->cpus : kind->cpus,
		.memory_mib = request->memory_mib ? request->memory_mib : kind->memory_mib,
		.disk_mib = kind->disk_mib,
	};
	return request->contract ? lay_contract(creation, kind, request, config->base_pids,
						config_find_tenant(config, tenant))
				 : 0;
}

static int begin(struct creation *creation, struct daemon_tenant *tenant,
		 const struct box_request *request)
{
	struct kind *kind = kind_find(tenant, request->template_ref);
	struct daemon *daemon = tenant->tenant.daemon;
	const char *why;
	int r;

	if (!daemon_is_ready(daemon, &why))
		return error_set(&creation->error, ATOLL_FAULT_HOST, EAGAIN, "%s", why);
	if (!kind)
		return error_set(&creation->error, ATOLL_FAULT_REQUEST, ENOENT,
				 "template '%s' not found", request->template_ref);
	/* Before anything is looked at that takes long. */
	r = tenant_check(tenant, 0, 0, 0, &creation->error);
	if (r == 0)
		r = check_words(request, &creation->error);
	if (r == 0)
		r = find_sizes(creation, kind, request, daemon->config, tenant->tenant.name);
	if (r == 0)
		r = tenant_check(tenant, creation->sizes.memory_mib, creation->sizes.disk_mib,
				 creation->sizes.cpus, &creation->error);
	if (r < 0)
		return r;
	creation->box = box_new(tenant);
	if (!creation->box || fill_box(&creation->box->box, kind, request, &creation->sizes) < 0)
		return error_oom(&creation->error);
	tenant_charge(creation->box);
	r = claim_volumes(creation, request);
	if (r < 0)
		return r;
	if (use_pool_box(creation, kind, request)) {
		settle(creation);
		return 0;
	}
	r = prepare(creation, kind, request);
	if (r < 0)
		return r;
	creation->item =
		(struct work_item){.run = run_make, .done = made, .owner = &tenant->tenant};
	creation->is_making = true;
	creation->make.recorded = recorded;
	creation->code =
		error_set(&creation->error, ATOLL_FAULT_HOST, ECANCELED, "the daemon is stopping");
	work_submit(daemon->work, &creation->item, WORK_NOW);
	return 0;
}

void box_create(struct tenant *tenant, const struct box_request *request, box_done *done,
		void *data)
{
	struct creation *creation = calloc(1, sizeof *creation);

	if (!creation)
		abort();
	creation->daemon = tenant->daemon;
	creation->done = done;
	creation->data = data;
	if (begin(creation, inner_tenant(tenant), request) < 0)
		daemon_call_later(tenant->daemon, &creation->later, fail_later);
}

/* ---- those that are there already ---- */

#define SETTLE_NS (20LL * 1000000000)

static void adopted(void *data)
{
	struct daemon *daemon = data;

	if (--daemon->n_adopting == 0 && daemon->is_settling)
		loop_stop(daemon->loop);
}

struct late {
	struct loop_timer timer;
	struct loop *loop;
};

static void settled_late(struct loop_timer *timer)
{
	loop_stop(((struct late *)timer)->loop);
}

void daemon_wait_for_adoption(struct daemon *daemon)
{
	struct late late = {{.fire = settled_late}, daemon->loop};

	if (daemon->n_adopting > 0) {
		daemon->is_settling = true;
		loop_arm(daemon->loop, &late.timer, clock_monotonic_ns() + SETTLE_NS);
		loop_run(daemon->loop);
		loop_disarm(daemon->loop, &late.timer);
		daemon->is_settling = false;
	}
	builds_forget_lost(daemon);
}

/* A kill while the disk was full, or a loss of power, can leave a row without a sandbox. */
static bool is_ghost(const struct daemon_box *mine)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%.*s/atoll/records/%s", PATH_MAX - 64, mine->box.daemon->dir,
		 mine->box.sandbox);
	return access(path, F_OK) < 0 && errno == ENOENT;
}

int boxes_load(struct daemon *daemon, struct atoll_error *err)
{
	sqlite3_stmt *row = db_prepare(daemon->db, row_select, err);
	int r = row ? 0 : -EIO;

	while (r == 0 && (r = db_step(daemon->db, &row, err)) == 1) {
		struct daemon_box *mine = row_read(daemon, row);

		if (mine && is_ghost(mine)) {
			row_remove(mine);
			box_free(mine);
			mine = NULL;
		}
		r = mine ? table_put(daemon, mine) : 0;
		if (r < 0)
			error_oom(err);
		if (mine && r == 0) {
			tenant_charge(mine);
			box_arm_end(mine);
			meter_start(mine);
			if (mine->box.state == BOX_PAUSED && mine->box.keeps_memory)
				box_freeze_again(mine);
			daemon->n_adopting++;
			process_adopt(&mine->box, adopted, daemon);
		}
	}
	sqlite3_finalize(row);
	return r;
}

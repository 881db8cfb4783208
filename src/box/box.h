/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box-network.h"
#include "box/box-types.h"
#include "box/config-grants.h"
#include "box/config.h"
#include "box/control.h"
#include "box/db-file.h"
#include "box/db.h"
#include "box/event.h"
#include "box/guest-watch.h"
#include "box/guest.h"
#include "box/held.h"
#include "box/process-input.h"
#include "box/process-io.h"
#include "box/process-start.h"
#include "box/process.h"
#include "box/results.h"
#include "box/secret.h"
#include "box/template-build.h"
#include "box/template-builds.h"
#include "box/template-copy.h"
#include "box/template-tags.h"
#include "box/template.h"
#include "box/volume-content.h"
#include "box/volume-mounts.h"
#include "box/volume.h"
#include "box/work.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Boxes: the sandboxes that the daemon keeps for tenants
 *
 * A box is a sandbox of the store (atoll/layer.h) with a tenant and an end time. All state that has
 * to survive the daemon is in its database (db.c) or in the holder of the sandbox. A new daemon
 * builds its memory from these two.
 *
 *	daemon-state.c	opens and closes a daemon; control.c: commands of its owner reach it
 *	config.c	the configuration file; config-grants.c: what it grants to tenants
 *	db.c		the database: one writer thread, WAL; row.c: a box as a row of it
 *	tenant.c	tenants and their keys; quota.c, budget.c, tenant-disk.c: their limits
 *	secret.c	values that a tenant stores; workspace.c: its directories on the host
 *	template.c	templates that boxes start from; snapshot.c; contract.c: checks them
 *	create.c	creates a box; make.c: its sandbox; pool.c: boxes that are built ahead
 *	life.c		the end of a box, its time-outs; table.c: finds boxes; box-remove.c
 *	op.c		pause, resume, snapshot, fork, network rules: one at a time in each box
 *	meter.c		measures what boxes use
 *	process.c	processes in a box, over the steps of atoll/step.h
 *	guest.c		files, watches and ports in a box, through the guest (src/guest)
 *	work.c		runs blocking calls on threads
 *
 * All functions are called on the loop's thread, except where a comment says otherwise. A function
 * with a `done` parameter calls it later, on the same thread, exactly once, and never before the
 * function returns. On success the fault of its error is ATOLL_FAULT_NONE. On failure errnum is
 * the cause.
 */

/* ---- cause.c ---- */

/* The cause as the API spells it: "time-out", "memory", ... */
const char *box_cause_name(enum box_cause cause);

/* ---- daemon-state.c ---- */

/* Opens the daemon's directory and database, and loads tenants, templates and boxes. Sandboxes that
 * no row of the database names are removed. */
int daemon_open(const struct daemon_options *options, struct daemon **ret, struct atoll_error *err);
/* The first step of closing: each user of a box gets the call that the box is gone, and may still
 * use the daemon to release what it has of the box. No new requests after that. NULL is fine. */
void daemon_disconnect(struct daemon *daemon);
/* Sandboxes live on. `is_final`: removes all of them. NULL is fine. */
void daemon_close(struct daemon *daemon, bool is_final);
struct loop *daemon_loop(struct daemon *daemon);
/* The threads for blocking calls: work.h. */
struct work *daemon_work(struct daemon *daemon);
/* Runs the loop until process_adopt() has found the processes of all boxes, for some seconds at
 * most. A request that came earlier would get ENOENT for a process that runs. */
void daemon_wait_for_adoption(struct daemon *daemon);
/* The default directory of the daemon: STATE/daemon (base/state.h). Its sandboxes are in a store of
 * its own, DIR/atoll: `atoll ls` does not list them, and `atoll gc` does not remove them. */
int daemon_find_dir(char ret[PATH_MAX], struct atoll_error *err);
/* Creates the directory `path` with its parents (0700), and checks that it belongs to the caller
 * and is open to nobody else. */
int daemon_make_dir(const char *path, struct atoll_error *err);
/* DIR/NAME ("volumes", "templates"), created if it is missing. */
int daemon_subdir(struct daemon *daemon, const char *name, char ret[PATH_MAX],
		  struct atoll_error *err);
/* False while the daemon starts or stops: new boxes are refused, and `*ret_why` is the reason. */
bool daemon_is_ready(const struct daemon *daemon, const char **ret_why);
/* The numbers for metrics. */
void daemon_count(const struct daemon *daemon, struct daemon_counts *ret);

/* ---- tenant.c ---- */

/* The tenant of this key, or NULL. The time does not depend on where a wrong key differs. */
struct tenant *tenant_find_key(struct daemon *daemon, const char *key, size_t size);
/* A new key: "e2b_" and 40 hexadecimal digits. The database gets only its hash. */
int tenant_new_key(struct tenant *tenant, const char *label, char ret[48], struct atoll_error *err);
/* The next tenant in the list; `after` NULL: the first. NULL: no more. */
struct tenant *tenant_next(struct daemon *daemon, const struct tenant *after);
/* Does any tenant have a key? */
bool tenant_has_keys(const struct daemon *daemon);
struct tenant *tenant_find(struct daemon *daemon, const char *name_or_id);
/* Insert or replace a tenant; insert a key. Commands call these without a daemon, on a database
 * that they have opened. */
int tenant_put(struct db *db, const struct config_tenant *tenant, struct atoll_error *err);
int key_put(struct db *db, const char *tenant_name, const char *label, char ret[48],
	    struct atoll_error *err);

/* ---- budget.c ---- */

/* The budget is used up: steps and boxes of this tenant are refused, for the reason in `ret_why`.
 */
bool tenant_is_spent(const struct tenant *tenant, char *ret_why, size_t size);
/* Steps that have run and steps that are being started use up the budget's steps. */
bool tenant_has_no_step_left(const struct tenant *tenant, char *ret_why, size_t size);

/* ---- tenant-disk.c ---- */

/* Reserve disk of the tenant for `bytes` more of an upload that arrives. -EDQUOT. */
int tenant_reserve_bytes(struct tenant *tenant, uint64_t bytes, struct atoll_error *err);
/* The upload has ended after `bytes` bytes: frees the reservation. `are_stored`: the file stays,
 * and its bytes count as used. */
void tenant_release_bytes(struct tenant *tenant, uint64_t bytes, bool are_stored);
/* Reserve TENANT_SCRATCH_MAX's share for a temporary file. False: the tenant has too much already.
 * The caller subtracts the bytes from tenant->scratch when the file is gone. */
bool tenant_reserve_scratch(struct tenant *tenant, uint64_t bytes);
/* A temporary file without a name on the daemon's file system: a descriptor, or a negative errno.
 * For any thread. */
int daemon_scratch(struct daemon *daemon, struct atoll_error *err);
/* Free bytes of disk above the configured minimum of the machine. */
uint64_t daemon_disk_left(struct daemon *daemon);

/* ---- workspace.c ---- */

/* What the configuration grants to this tenant. Valid as long as the daemon; for any thread. */
const struct config_tenant *tenant_grants(const struct tenant *tenant);
/* The base directory of a sandbox's workspace. ATOLL_FAULT_POLICY if `grants` does not contain it.
 * For any thread. */
int box_granted_workspace(const struct config_tenant *grants, const char *sandbox,
			  char ret[PATH_MAX], struct atoll_error *err);

/* ---- create.c ---- */

/* `box` is NULL on failure. ENOENT: no such template; EDQUOT: over the tenant's quota, which
 * error.text names; EAGAIN: the machine is full, the client may try again. */
void box_create(struct tenant *tenant, const struct box_request *request, box_done *done,
		void *data);

/* ---- table.c ---- */

/* A running or paused box of this tenant, or NULL. Accepts "ID-SUFFIX", too. */
struct box *box_find(struct tenant *tenant, const char *id);
/* A box of any tenant: for the data plane, whose requests have tokens of their own. */
struct box *box_find_any(struct daemon *daemon, const char *id);
/* All boxes of all tenants, in any order; `after` NULL: the first. */
struct box *box_next_any(struct daemon *daemon, const struct box *after);
size_t daemon_n_boxes(const struct daemon *daemon);
/* Boxes of a tenant by start time, then by id; `after` NULL: the first. For pages. */
struct box *box_next(struct tenant *tenant, const struct box *after, bool is_newest_first);
/* The first box behind this start time and id in the same order. The box itself may be gone. */
struct box *box_next_from(struct tenant *tenant, int64_t start_ms, const char *id,
			  bool is_newest_first);

/* ---- life.c, op.c, fork.c ---- */

/* The box has values of secrets in files of its own. Such a box is not forked and not snapshotted,
 * since the files are removed with it. */
bool box_has_secrets(const struct box *box);
/* A request uses the box: starts its idle time again. */
void box_touch(struct box *box);
/* The box cannot be found any more when this returns, and its streams are closed. `done` is called
 * when the sandbox is removed. */
void box_kill(struct box *box, enum box_cause cause, box_done *done, void *data);
/* EALREADY: the box is paused. */
void box_pause(struct box *box, bool keeps_memory, box_done *done, void *data);
/* A paused box runs again. Of a running box only the end time moves. `timeout_s` 0: the time-out of
 * its creation. */
void box_resume(struct box *box, uint64_t timeout_s, box_done *done, void *data);
/* The box ends `timeout_s` from now. `only_later`: never earlier than before. */
void box_set_timeout(struct box *box, uint64_t timeout_s, bool only_later);
/* Replaces the network rules. */
void box_set_network(struct box *box, const char *network, bool has_internet, box_done *done,
		     void *data);
/* `count` new boxes with the files of this one. */
void box_fork(struct box *box, size_t count, uint64_t timeout_s, box_forked *done, void *data);
/* `gone` is called once, when the box ends or is paused: the caller closes its streams then.
 * Returns a number for box_forget_gone(). */
uint64_t box_on_gone(struct box *box, void (*gone)(struct box *box, void *data), void *data);
void box_forget_gone(struct box *box, uint64_t number);

/* ---- snapshot.c, template.c ---- */

void box_snapshot(struct box *box, const char *name, snapshot_done *done, void *data);
/* The snapshots that match, newest first: at most `room`, behind the one with the id `after`.
 * `box_id`, `name` and `after` may be NULL. Returns their number. */
size_t snapshot_list(struct tenant *tenant, const char *box_id, const char *name, const char *after,
		     struct snapshot *ret, size_t room);
/* 0, or -ENOENT. */
int template_remove(struct tenant *tenant, const char *ref);
/* Find a template by name or id. */
bool template_find(struct tenant *tenant, const char *ref, char ret_id[128]);

/* ---- meter.c ---- */

/* Count traffic that does not pass the sandbox's network: uploads, downloads, ports. */
void box_count_bytes(struct box *box, uint64_t in, uint64_t out);
void box_count_step(struct box *box);
/* The samples between two times, oldest first, at most `room`. Returns their number. */
size_t box_samples(const struct box *box, int64_t from_ms, int64_t to_ms, struct box_sample *ret,
		   size_t room);
void box_usage(const struct box *box, struct box_usage *ret);
void tenant_usage(const struct tenant *tenant, struct box_usage *ret);

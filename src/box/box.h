/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

#include <atoll/error.h>
#include <atoll/layer.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whose sandboxes live here
 *
 * The daemon keeps sandboxes for tenants. A box is one of them: a sandbox of the store
 * (atoll/layer.h) with an owner, a time at which it ends, and what the daemon knows of it.
 * Everything that has to survive the daemon is in its database (db.c) or with the sandbox's
 * holder; what is in memory is built anew from these two when it starts again.
 *
 *   daemon-state.c     all of it: opening, taking over what lives already, closing
 *   config.c    what its owner says
 *   db.c     the database: one writer thread, WAL; row.c  a box as a row
 *   tenant.c    who may ask: keys (hashed); quota.c, budget.c  how much
 *   secret.c    values that a tenant has stored; workspace.c  directories that are his
 *   template.c  what boxes are made from; snapshot.c; contract.c  what a tenant may say
 *   create.c    a new box; make.c  its sandbox
 *   life.c      its end and its time-outs; table.c  how it is found; box-remove.c  what is left of
 * it op.c        pause, resume, other rules; fork.c pool.c      parked boxes, ready to be handed
 * out meter.c     what each has used; samples for graphs control.c   how commands of its owner
 * reach it process.c   processes in a box: struct process over atoll/step.h guest.c     files,
 * watches and ports in a box, by way of the program guest/ that runs in it work.c      what blocks,
 * on threads
 *
 * All functions are called on the loop's thread. What takes longer than a few system calls calls
 * back later, on the same thread, exactly once; never before the function returns. A callback gets
 * an error whose fault is ATOLL_FAULT_NONE if all went well; errnum tells the cause (enum below for
 * those that have no errno).
 */

#define BOX_ID_SIZE    24 /* "i" and 20 of a-z0-9, and its end */
#define BOX_TOKEN_SIZE 41

/* Why something was refused or ended, for programs: error.errnum for the former, box->cause for the
 * latter; box_cause_name() spells it as the API does ("time-out", "memory", ...). */
enum box_cause {
	BOX_CAUSE_NONE,
	BOX_CAUSE_KILLED,   /* somebody asked for it */
	BOX_CAUSE_TIME_OUT, /* its end came, or it was idle for too long */
	BOX_CAUSE_MEMORY,
	BOX_CAUSE_DISK,
	BOX_CAUSE_POLICY,
	BOX_CAUSE_BUDGET,
	BOX_CAUSE_EVICTED, /* the machine needed the room */
	BOX_CAUSE_HOST,	   /* this machine could not */
	BOX_CAUSE_INTERNAL,
	BOX_CAUSES,
};
const char *box_cause_name(enum box_cause cause);

enum box_state {
	BOX_STARTING, /* somebody waits for it */
	BOX_RUNNING,
	BOX_PAUSED, /* with its processes, frozen, or without: `keeps_memory` */
	BOX_ENDING, /* not to be found any more */
};

struct box_pair {
	char *name, *value;
};

struct box_pairs {
	struct box_pair *items;
	size_t n;
};

struct daemon;
struct tenant;
struct box_template;
struct process;
struct guest;

struct box {
	char id[BOX_ID_SIZE];
	char sandbox[ATOLL_ID_SIZE]; /* the record's */
	struct daemon *daemon;
	struct tenant *tenant;
	enum box_state state;
	enum box_cause cause;
	bool keeps_memory; /* of a pause */
	char template_id[128], alias[128];
	char access_token[BOX_TOKEN_SIZE];
	char traffic_token[BOX_TOKEN_SIZE]; /* "": none is asked for */
	struct box_pairs metadata, environment, labels;
	int64_t start_ms,
		end_ms; /* since 1970; end_ms of a paused one: since when; INT64_MAX: none */
	bool pauses_at_end, pauses_memory, wakes; /* autoPause, autoPauseMemory, autoResume */
	uint64_t timeout_s;			  /* as asked for at creation */
	uint32_t cpus, memory_mib, disk_mib;
	char *network; /* JSON as it was asked for, E2B's form; NULL: none. What the contract says
			* of it is box_network_section()'s, in box/box-network.h */
	bool has_internet;
	char *mounts; /* JSON list of {name, path}; NULL */

	struct process *processes; /* list, the latest first */
	uint64_t latest_process;   /* the highest number that one has had */
	struct guest *guests[2];   /* for `user` and `root`; NULL until needed */
	size_t guest_bytes;	   /* held of lists that are not complete */
	struct loop_timer end_timer;
};

/* ---- daemon-state.c ---- */

struct daemon_config; /* config.h */

struct daemon_options {
	const char *dir;		    /* its state; see daemon_find_dir() */
	const struct daemon_config *config; /* stays the caller's, and there */
	struct loop *loop;
};
int daemon_open(const struct daemon_options *options, struct daemon **ret, struct atoll_error *err);
/* It will be closed: whoever uses a box is told that it is gone, and may still use the daemon to
 * let go of what he has of it. Nothing new may be asked for after that. */
void daemon_disconnect(struct daemon *daemon);
/* Sandboxes live on; `is_final` ends them all. */
void daemon_close(struct daemon *daemon, bool is_final);
struct loop *daemon_loop(struct daemon *daemon);
/* Runs the loop until the processes of all boxes are found again, for some seconds at most: before
 * that nobody should be served, since a process that is there would not be found. */
void daemon_wait_for_adoption(struct daemon *daemon);
/* Where the daemon keeps things if nobody says: STATE/daemon (base/state.h). The sandboxes are in a
 * store of its own beneath, DIR/atoll, so that `atoll ls` does not show them, and `atoll gc` does
 * not touch them. */
int daemon_find_dir(char ret[PATH_MAX], struct atoll_error *err);
/* A directory of this daemon's for `what` ("volumes", "templates"), made if need be; DIR/WHAT. */
int daemon_subdir(struct daemon *daemon, const char *what, char ret[PATH_MAX],
		  struct atoll_error *err);
/* May new boxes be made now? False while it is being taken over or closed; `*ret_why`. */
bool daemon_is_ready(const struct daemon *daemon, const char **ret_why);

/* What is counted, for those who watch it. */
struct daemon_counts {
	uint64_t n_boxes, n_running, n_paused, n_parked, n_removing;
	uint64_t n_created, n_from_pool, n_failed; /* so far, of creations */
	uint64_t ends[BOX_CAUSES];
	uint64_t n_database_failures, n_database_waiting;
	uint64_t n_waiting[4]; /* for threads, by enum work_rank: now, later, writing, comparing */
};
void daemon_count(const struct daemon *daemon, struct daemon_counts *ret);

/* ---- tenant.c ---- */

struct tenant {
	char id[40];
	char name[64];
	struct daemon *daemon;
	/* Quotas, UINT64_MAX: none; and how much of it is used. */
	uint64_t max_boxes, max_memory_mib, max_disk_mib, max_cpus;
	uint64_t n_boxes, memory_mib, disk_mib, cpus;
	uint64_t kept_mib; /* of disk, besides boxes: snapshots, templates, volumes, logs; see
			    * tenant-disk.c */
	/* What its streams do has its turn here (base/loop.h); how many streams are open, and how
	 * many bytes of answers wait in this process because nobody reads them: httpd/stream.h. */
	struct loop_lane lane;
	size_t n_streams, n_watchers, n_relays, waiting;
	size_t n_calls;			/* requests that have not been answered to their end */
	size_t held;			/* bytes of its clients that are kept in memory: held.h */
	struct box_listener *listeners; /* see event.h */
	uint64_t uploading;  /* bytes of files, for templates and volumes, that are on their way */
	uint64_t scratch;    /* bytes of files that are there for a while: see tenant-disk.c */
	uint64_t n_starting; /* steps that are being started, and do not count yet */
};
/* Who has this key; NULL: nobody. Takes the same time for all wrong ones. */
struct tenant *tenant_find_key(struct daemon *daemon, const char *key, size_t size);
/* A new key ("e2b_" and 40 hexadecimal digits), of which only a hash is kept. */
int tenant_new_key(struct tenant *tenant, const char *label, char ret[48], struct atoll_error *err);
struct tenant *tenant_next(struct daemon *daemon, const struct tenant *after);
/* Has anybody one? */
bool tenant_has_keys(const struct daemon *daemon);
struct tenant *tenant_find(struct daemon *daemon, const char *name_or_id);
/* Is this tenant's work stopped because its budget is used up? */
bool tenant_is_spent(const struct tenant *tenant, char *ret_why, size_t size);
/* Are all steps of the budget used, or being started? */
bool tenant_has_no_step_left(const struct tenant *tenant, char *ret_why, size_t size);

/* ---- tenant-disk.c ---- */

/* So many bytes more of a file arrive, that is to be kept. They are a part of the tenant's disk:
 * -EDQUOT. */
int tenant_take_bytes(struct tenant *tenant, uint64_t bytes, struct atoll_error *err);
/* No more comes, after so many bytes. */
void tenant_took_bytes(struct tenant *tenant, uint64_t bytes, bool are_kept);

/* Files that are there for a while take disk that no quota counts: answers in files, which wait to
 * be read, and archives that are unpacked to be looked at. A tenant has TENANT_SCRATCH_MAX of them,
 * or one. False: it has too much already. Whoever has reserved some subtracts it from
 * tenant->scratch. */
#define TENANT_SCRATCH_MAX (UINT64_C(16) << 30)
bool tenant_reserve_scratch(struct tenant *tenant, uint64_t bytes);
/* Such a file, without a name, beside the daemon's other files: a descriptor or a negative errno.
 * On any thread. */
int daemon_scratch(struct daemon *daemon, struct atoll_error *err);
/* How many bytes of disk there are above what the machine keeps free. */
uint64_t daemon_disk_left(struct daemon *daemon);

/* ---- workspace.c ---- */

struct config_tenant;
/* What the configuration lets this tenant name; there as long as the daemon is, for any thread. */
const struct config_tenant *tenant_grants(const struct tenant *tenant);
/* The directory of the tenant's that a sandbox is a layer over; a policy's no if it is not his. For
 * any thread. */
int box_granted_workspace(const struct config_tenant *grants, const char *sandbox,
			  char ret[PATH_MAX], struct atoll_error *err);

/* ---- life.c ---- */

struct box_request {
	const char *template_ref;
	uint64_t timeout_s; /* UINT64_MAX: never */
	struct box_pairs metadata, environment, labels;
	bool pauses_at_end, pauses_memory, wakes, is_public;
	bool has_internet;
	const char *network;	   /* JSON, checked by whoever asks; NULL */
	const char *mounts;	   /* likewise */
	const char *contract;	   /* a whole job file instead of the template's; NULL */
	uint32_t cpus, memory_mib; /* other than the template's, of one that is a contract; 0 */
};

typedef void box_done(struct box *box, const struct atoll_error *err, void *data);

/* `box` is NULL on failure. ENOENT: no such template; EDQUOT: over the tenant's quota (error.text
 * says which); EAGAIN: the machine is full: come again. */
void box_create(struct tenant *tenant, const struct box_request *request, box_done *done,
		void *data);
/* Of this tenant, running or paused; NULL. Takes "ID-SUFFIX", too. */
struct box *box_find(struct tenant *tenant, const char *id);
/* Of anybody: for the data plane, which has tokens of its own. */
struct box *box_find_any(struct daemon *daemon, const char *id);
/* All of everybody, in any order; `after` NULL: the first. For signatures, which name no box. */
struct box *box_next_any(struct daemon *daemon, const struct box *after);
size_t daemon_n_boxes(const struct daemon *daemon);
/* In order of their start, then of their id. `after` NULL: the first; for pages. */
struct box *box_next(struct tenant *tenant, const struct box *after, bool is_newest_first);
/* For pages: the first behind this place in that order, whether there is one at it or not. */
struct box *box_next_from(struct tenant *tenant, int64_t start_ms, const char *id,
			  bool is_newest_first);
/* Has its contract values in files of its own? Then it is not copied: they go with it. */
bool box_has_secrets(const struct box *box);
/* Somebody uses it: its idle time begins anew. */
void box_touch(struct box *box);
/* Traffic that does not pass the sandbox's own network: uploads, downloads, ports. */
void box_count_bytes(struct box *box, uint64_t in, uint64_t out);
void box_count_step(struct box *box);
/* It cannot be found any more when this returns, and its streams are cut; calls back when nothing
 * of it is left. */
void box_kill(struct box *box, enum box_cause cause, box_done *done, void *data);
/* EALREADY: it is paused. */
void box_pause(struct box *box, bool keeps_memory, box_done *done, void *data);
/* A paused one runs again (*err 0, and box->state tells); of a running one its end is only moved
 * back. `timeout_s` 0: as it was made. */
void box_resume(struct box *box, uint64_t timeout_s, box_done *done, void *data);
/* New end from now; may be earlier. */
void box_set_timeout(struct box *box, uint64_t timeout_s, bool only_later);
/* Replaces its network rules. */
void box_set_network(struct box *box, const char *network, bool has_internet, box_done *done,
		     void *data);

struct box_fork {
	struct box *box; /* NULL: `error` */
	struct atoll_error error;
};
typedef void box_forked(struct box_fork *forks, size_t n, const struct atoll_error *err,
			void *data);
void box_fork(struct box *box, size_t count, uint64_t timeout_s, box_forked *done, void *data);

/* Called once when it ends or is paused: cut what is open to it. Returns a number for
 * box_forget_gone(). */
uint64_t box_on_gone(struct box *box, void (*gone)(struct box *box, void *data), void *data);
void box_forget_gone(struct box *box, uint64_t number);

/* ---- template.c: snapshots and templates ---- */

struct snapshot {
	char id[160];	/* "local/NAME:default" or an id */
	char name[128]; /* "local/NAME", or "" */
	char box[BOX_ID_SIZE];
	int64_t made_ms;
};
typedef void snapshot_done(const struct snapshot *snapshot, const struct atoll_error *err,
			   void *data);
void box_snapshot(struct box *box, const char *name, snapshot_done *done, void *data);
/* Those that match, newest first: at most `room` of them, behind the one whose id is `after`.
 * `box_id`, `name` and `after` may be NULL. Returns how many. */
size_t snapshot_list(struct tenant *tenant, const char *box_id, const char *name, const char *after,
		     struct snapshot *ret, size_t room);
/* 0, or -ENOENT. */
int template_remove(struct tenant *tenant, const char *ref);
/* Is there one by this name or id? `*ret_id` is its id. */
bool template_find(struct tenant *tenant, const char *ref, char ret_id[128]);

/* ---- meter.c ---- */

struct box_sample {
	int64_t time_ms;
	double cpu_percent; /* of one CPU */
	uint64_t memory_used, memory_total, memory_cache, disk_used, disk_total;
	uint64_t processes; /* that live in it, threads not counted; 0: not known */
};
/* Those between two times, oldest first, at most `room`; the number. */
size_t box_samples(const struct box *box, int64_t from_ms, int64_t to_ms, struct box_sample *ret,
		   size_t room);

struct box_usage {
	double cpu_s, gib_s;
	uint64_t bytes_in, bytes_out, n_steps;
};
void box_usage(const struct box *box, struct box_usage *ret);
void tenant_usage(const struct tenant *tenant, struct box_usage *ret);

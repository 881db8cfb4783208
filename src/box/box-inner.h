/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "box/box.h"
#include "box/config.h"
#include "box/db.h"
#include "box/event.h"
#include "box/volume.h"
#include "box/work.h"

#include <atoll/step.h>
#include <jansson.h>

/*
 * What the files of this room share
 */

#define DEFAULT_TENANT "default"

/* A call back that has to come later, and has nothing to wait for. */
struct later {
	struct loop_timer timer;
	void (*call)(struct later *later);
};

struct key {
	unsigned char hash[32];
	struct daemon_tenant *tenant;
};

#define VOLUME_BUCKETS 1024

struct daemon_tenant {
	struct tenant tenant;
	struct config_budget budget;
	struct box_usage usage; /* of boxes that have ended, and what of living ones is counted */
	bool is_spent, is_dirty;
	struct daemon_box *oldest, *newest; /* by start, then id */
	struct volume_row *volumes;	    /* volume.c's */
	struct daemon_tenant *next;
};

struct gone {
	uint64_t number;
	void (*call)(struct box *box, void *data);
	void *data;
	struct gone *next;
};

/* What is to be done with a box on a thread; one at a time. */
enum op_kind {
	OP_PAUSE,
	OP_RESUME,
	OP_SNAPSHOT,
	OP_FORK,
	OP_NETWORK,
	OP_FREEZE_AGAIN,
};

/* Read a sandbox's usage before its holder ends: the counters end with the holder. */
struct box_last_look {
	struct atoll_sandbox_usage usage;
	bool is_good;
};

struct daemon_box {
	struct box box;
	struct daemon_box *next_same_hash;
	struct daemon_box *older, *newer; /* of the same tenant */
	struct gone *gone;
	struct box_op *ops, **ops_last; /* the first of them is at work */
	uint64_t n_ops;			/* so far */
	bool is_listed, is_counted;
	bool has_secrets;
	box_done *killed;
	void *killed_data;
	int64_t touched_ns;

	/* meter.c */
	struct loop_timer meter_timer;
	struct work_item meter_item;
	bool is_measured; /* a thread is at it */
	bool is_freed;	  /* free it when that is done */
	struct box_usage usage;
	struct box_sample *samples; /* a ring */
	size_t n_samples, first_sample, room_samples;
	struct box_last_look *last_look; /* while it is removed */
	bool is_from_row;		 /* and was not looked at since the daemon started */
	uint64_t last_cpu_ms, last_bytes_in, last_bytes_out;
	int64_t last_ns;
	unsigned idle_rounds;
	double written_cpu_s;
	uint64_t written_steps;
};

struct box_op {
	struct work_item item;
	enum op_kind kind;
	struct daemon_box *box;
	char sandbox[ATOLL_ID_SIZE];
	int code;
	struct atoll_error error;
	box_done *done;
	void *data;

	/* by kind */
	struct box_last_look look;
	struct later later;
	bool keeps_memory, has_internet;
	uint64_t timeout_s;
	char *network; /* JSON, E2B's */
	char *rules;   /* as a contract says it */
	size_t count;
	char (*ids)[ATOLL_ID_SIZE];
	struct daemon_box **branches; /* those that have not become boxes */
	char **branch_rules;
	struct box_fork *forks;
	box_forked *forked;
	struct volume_claim claim; /* of the forks */
	size_t n_pending;
	char name[160], made[ATOLL_ID_SIZE];
	bool has_name;
	int64_t made_ms;
	uint64_t kept; /* of what was made */
	snapshot_done *snapped;

	struct box_op *next;
};

struct daemon {
	struct loop *loop;
	struct work *work;
	struct db *db;
	const struct daemon_config *config;
	char dir[PATH_MAX];
	int lock_fd;
	struct loop_watch control;
	bool is_taking_over, is_closing;
	unsigned n_ticks;

	struct daemon_tenant *tenants;
	struct key *keys; /* sorted by hash */
	size_t n_keys;

	struct daemon_box **table; /* by id */
	size_t table_size, n_boxes;
	uint64_t n_taken, memory_mib, disk_mib,
		cpus; /* of all, also of those that are being made */
	int64_t looked_ms;
	uint64_t free_memory_mib, free_disk_mib;
	uint64_t next_gone;

	size_t n_adopting; /* boxes whose processes are being found again */
	bool is_settling;

	struct volume_claim *claims; /* of boxes that are being made */
	struct volume_row *volumes[VOLUME_BUCKETS];

	struct kind *kinds;		      /* template.c */
	bool is_kept_dirty, is_kept_measured; /* tenant-disk.c */
	int64_t kept_next_ms;
	struct daemon_secret *secrets;
	struct pool *pools;

	struct row_change *removals; /* rows that could not be removed yet */
	struct removal *to_remove;
	size_t n_removing, n_removers;
	char homes[PATH_MAX]; /* what homes of boxes are layers over */
	struct loop_timer tick;
	struct box_listener listener; /* for what is counted */
	struct daemon_counts counts;
};

static inline struct daemon_box *inner(const struct box *box)
{
	return (struct daemon_box *)box;
}

static inline struct daemon_tenant *inner_tenant(const struct tenant *tenant)
{
	return (struct daemon_tenant *)tenant;
}

/* ---- daemon-state.c ---- */

int64_t daemon_now_ms(void);
/* Of mine alone, with those above it. */
int daemon_make_dir(const char *path, struct atoll_error *err);
/* In the next round of the loop. */
void daemon_call_later(struct daemon *daemon, struct later *later,
		       void (*call)(struct later *later));
/* `n` random characters of a-z0-9, or hexadecimal digits, and a NUL. */
void daemon_random_bytes(void *ret, size_t size);
void daemon_random_name(char *ret, size_t n);
void daemon_random_hex(char *ret, size_t n);
/* With the files in it, and only files; what is not there is fine. */
void daemon_remove_dir(const char *path);

/* ---- tenant.c ---- */

int tenants_load(struct daemon *daemon, struct atoll_error *err);
/* Names, quotas and keys once more, after somebody else has changed them. */
int tenants_reload(struct daemon *daemon, struct atoll_error *err);
void tenants_free(struct daemon *daemon);
/* For commands, too, that have only opened the database. */
int tenant_put(struct db *db, const struct config_tenant *tenant, struct atoll_error *err);
int key_put(struct db *db, const char *tenant_name, const char *label, char ret[48],
	    struct atoll_error *err);

/* ---- quota.c ---- */

/* 0, -EDQUOT or -EAGAIN with the story: may it have one more of this size? */
int tenant_check(const struct daemon_tenant *tenant, uint32_t memory_mib, uint32_t disk_mib,
		 uint32_t cpus, struct atoll_error *err);
/* Is the machine far enough from its limits to make what nobody has asked for yet? */
bool quota_has_room(struct daemon *daemon);
/* Set `err` and return -errnum. The words are the format's alone: those of the number (EDQUOT,
 * EAGAIN), which is for the status, would speak of a disk. */
int quota_refuse(struct atoll_error *err, enum atoll_fault fault, int errnum, const char *format,
		 ...) __attribute__((format(printf, 4, 5)));
void tenant_take(struct daemon_box *box);
void tenant_give_back(struct daemon_box *box);

/* ---- table.c: finding boxes ---- */

int table_put(struct daemon *daemon, struct daemon_box *box);
void table_remove(struct daemon *daemon, struct daemon_box *box);
struct daemon_box *table_find(const struct daemon *daemon, const char *id);
void table_free(struct daemon *daemon);

/* ---- life.c ---- */

int boxes_load(struct daemon *daemon, struct atoll_error *err);
/* Memory alone: nothing happens to the sandbox. */
void box_free(struct daemon_box *box);
void box_arm_end(struct daemon_box *box);
void box_call_gone(struct daemon_box *box);
struct daemon_box *box_new(struct daemon_tenant *tenant);
int pairs_copy(const struct box_pairs *from, struct box_pairs *to);
void pairs_done(struct box_pairs *pairs);
/* The sandbox is there, or was: its row, then it can be found. */
void box_settle(struct daemon_box *box, db_done *done, void *data);
/* When a box that gets so long from now ends. */
int64_t box_end_after(uint64_t timeout_s);
void box_begin_removal(struct daemon_box *box);

/* ---- op.c ---- */

struct box_op *op_new(enum op_kind kind, box_done *done, void *data);
void box_queue(struct daemon_box *box, struct box_op *op);
/* The one at work is at its end, and was answered: the next. */
void box_next_op(struct daemon_box *box);
/* Those that have not begun. */
void ops_fail(struct daemon_box *box);
/* One that an earlier daemon has paused, and perhaps begun to resume. */
void box_freeze_again(struct daemon_box *box);

/* ---- create.c ---- */

struct box_sizes;
/* From what was asked for: all but the template, and the environment, which is part of that. */
int box_fill(struct box *box, const struct box_request *request, const struct box_sizes *sizes);

/* ---- box-network-values.c ---- */

/* Where values of headers and secrets of a box lie, if it has some. */
void secrets_path(const struct daemon_box *box, char ret[PATH_MAX]);
/* What the contract says of a box's network. */
int network_rules(struct daemon_box *box, const char *network, bool has_internet, char **ret,
		  struct atoll_error *err);
/* Files with values of headers. */
void network_forget(struct daemon_box *box);
/* Of those of rules, whose names begin so, all but those that `rules` name; or only those. Those of
 * the contract stay. NULL: nothing. */
#define NETWORK_STAMP 'R'
void network_sweep(const struct daemon_box *box, const char *rules, bool keeps);
/* Those of boxes that are not there: at the start. */
void networks_tidy(struct daemon *daemon);

/* ---- fork.c, snapshot.c: on a thread, and afterwards ---- */

int fork_run(struct box_op *op);
void fork_after(struct box_op *op);
void fork_done(struct box_op *op);
int snapshot_run(struct box_op *op);
void snapshot_after(struct box_op *op);

/* ---- meter.c ---- */

void meter_start(struct daemon_box *box);
void meter_stop(struct daemon_box *box);
/* On a thread, before the holder ends. */
void look_last(const char *sandbox, struct box_last_look *ret);
/* Counts that, and the next holder's counters from 0 on. */
void meter_end(struct daemon_box *box, const struct box_last_look *look);

/* Steps are counted as they start. */
void meter_listen(struct daemon *daemon);

/* ---- budget.c ---- */

void budget_tick(struct daemon *daemon, bool writes);

/* ---- row.c: a box in the database ---- */

void row_insert(struct daemon_box *box, db_done *done, void *data);
void row_update(struct daemon_box *box);
void row_remove(struct daemon_box *box);
/* Every second: removals that could not be written. */
void rows_tick(struct daemon *daemon);
void rows_free(struct daemon *daemon);
struct daemon_box *row_read(struct daemon *daemon, sqlite3_stmt *statement);
extern const char row_select[];

/* ---- box-remove.c: what is nobody's any more ---- */

/* On a thread, some at a time; `done` may be NULL. */
void remove_sandbox(struct daemon *daemon, const char *sandbox, void (*done)(void *data),
		    void *data);
/* The same for one that was a box: what it has used is looked at first, on the same thread. `look`
 * has to be there until `done`. */
void remove_measured(struct daemon *daemon, const char *sandbox, struct box_last_look *look,
		     void (*done)(void *data), void *data);
/* All in the store that no row names. At the start, before anything is made. */
int remove_strangers(struct daemon *daemon, struct atoll_error *err);
/* Of the store: what a kill has left half made or half removed, if it is old enough. */
void remove_tidy(struct daemon *daemon);

/* ---- template.c ---- */

/* What a box is made from. */
/* ---- tenant-disk.c ---- */

/* A sandbox of a tenant's is removed: its log stays, and is still the tenant's. */
void kept_note_gone(struct daemon *daemon, const char *sandbox, const struct tenant *tenant);
/* Add up what tenants keep, on a thread; and when something has changed, or it is time. */
void kept_measure(struct daemon *daemon);
void kept_tick(struct daemon *daemon, bool is_due);
/* So much more is kept; and may it? -EDQUOT. */
void kept_add(struct tenant *tenant, uint64_t bytes);
int kept_check(const struct tenant *tenant, uint64_t bytes, struct atoll_error *err);

/* Snapshots, templates and their tags that a tenant may have. */
#define KINDS_MAX 10000

struct kind {
	char id[160];		      /* plain: "base", "NAME", "NAME:TAG" */
	char name[128];		      /* of a snapshot that has one, without its tag */
	char box[BOX_ID_SIZE];	      /* whose snapshot it is; "" */
	struct daemon_tenant *tenant; /* NULL: everybody's */
	char sandbox[ATOLL_ID_SIZE];  /* branches off this one; "": from the contract */
	char *contract;		      /* YAML */
	char *home;		      /* what it is a layer over; NULL: nothing is in it */
	uint32_t cpus, memory_mib, disk_mib;
	bool has_rules; /* about the network, other than the usual */
	int64_t made_ms;
	json_t *settings; /* what its boxes begin with (template.h); NULL */
	struct kind *next;
};

struct kind_shape {
	uint32_t cpus, memory_mib, disk_mib;
	bool has_rules; /* of its own, about the network */
};

/* What boxes branch off in a kind's sandbox. */
#define KIND_CHECKPOINT "kept"

int kinds_load(struct daemon *daemon, struct atoll_error *err);
void kinds_free(struct daemon *daemon);
/* NULL: there is none that this tenant may have. */
size_t kinds_count(const struct daemon_tenant *tenant);
struct kind *kind_find(struct daemon_tenant *tenant, const char *ref);
bool kind_has(const struct daemon *daemon, const char *sandbox);
void kind_plain(const char *ref, char ret[160]);
struct kind *kind_add(struct daemon_tenant *tenant, const char *id, const char *name,
		      const char *sandbox, const struct kind_shape *shape);
void kind_drop(struct daemon *daemon, struct kind *kind);
/* The contract of a new box; the caller's to free. `rules`: of its network. */
int kind_contract(const struct kind *kind, const char *rules, char **ret, struct atoll_error *err);
int snapshots_load(struct daemon *daemon, struct atoll_error *err);

/* ---- template-tags.c ---- */

/* As it stands in the database; the caller's to free, NULL: no memory. */
char *kind_shape_text(const struct kind_shape *shape, json_t *settings);
/* The kind's, and over it the request's. */
int kind_environment(const struct kind *kind, const struct box_pairs *request,
		     struct box_pairs *ret);

/* ---- contract.c ---- */

/* A tenant's contract, if it keeps to what a tenant may say, over ours: what it says counts, and
 * what it does not say is as in `base`. JSON, the caller's to free. `grants` is what the
 * configuration lets him name; NULL: it is no tenant's, and nothing is checked. Secrets are
 * still named: contract_place_secrets() in box/secret.h. */
int contract_merge(const char *own, const char *base, const struct config_tenant *grants,
		   char **ret, struct atoll_error *err);
/* The directory that it names as its workspace; `ret` is left as it is if there is none. */
int contract_workspace(const char *contract, char ret[PATH_MAX], struct atoll_error *err);

/* What a box may use at most, as quotas count it: rounded up; UINT32_MAX is what has no limit. */
struct box_sizes {
	uint32_t cpus, memory_mib, disk_mib;
	uint32_t pids, files; /* which no quota counts */
};
int contract_sizes(const char *contract, struct box_sizes *ret, struct atoll_error *err);

/* ---- make.c: the sandbox itself; on threads ---- */

struct make {
	const struct daemon_config *config; /* limits of a contract of ours; NULL: its own count */
	const char *contract;		    /* a job file's text */
	const char *name;		    /* what errors call it */
	const char *workspace;		    /* which the contract does not say */
	const char *from;		    /* branch off this one instead; NULL or "" */
	const char *checkpoint;
	const char *rules; /* of its network, instead of what it has; NULL */
	char **grants;	   /* volumes, each "PATH=DIRECTORY"; the caller's */
	size_t n_grants;
	/* On the thread, once there is a record of that id and before it is started; NULL. */
	void (*recorded)(struct make *make);
	char sandbox[ATOLL_ID_SIZE];
};
/* It runs then, or nothing is left of it. */
int make_sandbox(struct make *make, struct atoll_error *err);
/* On a thread, nobody being told: `owner` may be NULL. False: out of memory. */
bool start_holder_behind(struct daemon *daemon, const struct tenant *owner, const char *sandbox);
/* All of them, or none. */
int make_forks(const char *from, const char *checkpoint, size_t count, char (*ids)[ATOLL_ID_SIZE],
	       struct atoll_error *err);

/* ---- pool.c ---- */

/* One that is parked: true, and it is the caller's. Counts the demand. */
bool pool_take(struct daemon *daemon, struct kind *kind, char ret[ATOLL_ID_SIZE]);
void pool_tick(struct daemon *daemon);
/* Its parked ones are removed. */
void pool_forget(struct daemon *daemon, const struct kind *kind);
size_t pool_parked(const struct daemon *daemon);
/* At the end: all that are parked are removed, at once. */
void pools_free(struct daemon *daemon);

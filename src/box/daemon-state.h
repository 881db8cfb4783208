/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "box/box-types.h"
#include "box/config.h"
#include "box/event.h"
#include "box/volume.h"
#include "box/work.h"

#include <atoll/error.h>
#include <atoll/layer.h>
#include <atoll/step.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the files of this room share
 */

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

	struct kind *kinds;			  /* template.c */
	bool is_stored_dirty, is_stored_measured; /* tenant-disk.c */
	int64_t stored_next_ms;
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

int64_t daemon_now_ms(void);
/* In the next round of the loop. */
void daemon_call_later(struct daemon *daemon, struct later *later,
		       void (*call)(struct later *later));
/* `n` random characters of a-z0-9, or hexadecimal digits, and a NUL. */
void daemon_random_bytes(void *ret, size_t size);
void daemon_random_name(char *ret, size_t n);
void daemon_random_hex(char *ret, size_t n);
/* With the files in it, and only files; what is not there is fine. */
void daemon_remove_dir(const char *path);

struct box_sizes;
/* Of those of rules, whose names begin so, all but those that `rules` name; or only those. Those of
 * the contract stay. NULL: nothing. */
#define NETWORK_STAMP 'R'
/* What a box is made from. */
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

/* What a box may use at most, as quotas count it: rounded up; UINT32_MAX is what has no limit. */
struct box_sizes {
	uint32_t cpus, memory_mib, disk_mib;
	uint32_t pids, files; /* which no quota counts */
};

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

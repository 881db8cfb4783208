/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

#include <atoll/error.h>
#include <atoll/layer.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct box_listener;

#define DEFAULT_TENANT "default"

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

struct daemon_config; /* config.h */

struct daemon_options {
	const char *dir;		    /* its state; see daemon_find_dir() */
	const struct daemon_config *config; /* stays the caller's, and there */
	struct loop *loop;
};

/* What is counted, for those who watch it. */
struct daemon_counts {
	uint64_t n_boxes, n_running, n_paused, n_parked, n_removing;
	uint64_t n_created, n_from_pool, n_failed; /* so far, of creations */
	uint64_t ends[BOX_CAUSES];
	uint64_t n_database_failures, n_database_waiting;
	uint64_t n_waiting[4]; /* for threads, by enum work_rank: now, later, writing, comparing */
};

/* Open requests, and the resources of the daemon that they use: httpd/stream.h. */
struct load {
	struct loop_lane lane; /* their turns (base/loop.h) */
	size_t n_calls;	       /* requests that are not answered to their end */
	size_t n_streams, n_relays;
	size_t waiting; /* bytes in this process that nobody reads */
};

struct tenant {
	char id[40];
	char name[64];
	struct daemon *daemon;
	/* Quotas, UINT64_MAX: none; and how much of it is used. */
	uint64_t max_boxes, max_memory_mib, max_disk_mib, max_cpus;
	uint64_t n_boxes, memory_mib, disk_mib, cpus;
	uint64_t stored_mib; /* of disk, besides boxes: snapshots, templates, volumes, logs; see
			      * tenant-disk.c */
	/* Clients that have sent a key or a token; and visitors, who have sent none: clients of
	 * public ports inside and of signed URLs. */
	struct load own, visitors;
	size_t n_watchers;
	size_t held;			/* bytes of its clients that are kept in memory: held.h */
	struct box_listener *listeners; /* see event.h */
	uint64_t uploading;  /* bytes of files, for templates and volumes, that are on their way */
	uint64_t scratch;    /* bytes of files that are there for a while: see tenant-disk.c */
	uint64_t n_starting; /* steps that are being started, and do not count yet */
};

/* Files that are there for a while take disk that no quota counts: answers in files, which wait to
 * be read, and archives that are unpacked to be looked at. A tenant has TENANT_SCRATCH_MAX of them,
 * or one. False: it has too much already. Whoever has reserved some subtracts it from
 * tenant->scratch. */
#define TENANT_SCRATCH_MAX (UINT64_C(16) << 30)
struct config_tenant;

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

struct box_fork {
	struct box *box; /* NULL: `error` */
	struct atoll_error error;
};

typedef void box_forked(struct box_fork *forks, size_t n, const struct atoll_error *err,
			void *data);

struct snapshot {
	char id[160];	/* "local/NAME:default" or an id */
	char name[128]; /* "local/NAME", or "" */
	char box[BOX_ID_SIZE];
	int64_t made_ms;
};

typedef void snapshot_done(const struct snapshot *snapshot, const struct atoll_error *err,
			   void *data);

struct box_sample {
	int64_t time_ms;
	double cpu_percent; /* of one CPU */
	uint64_t memory_used, memory_total, memory_cache, disk_used, disk_total;
	uint64_t processes; /* that live in it, threads not counted; 0: not known */
};

struct box_usage {
	double cpu_s, gib_s;
	uint64_t bytes_in, bytes_out, n_steps;
};

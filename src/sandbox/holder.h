/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"
#include "eventlog/eventlog.h"
#include "init/init.h"
#include "isolate/isolate.h"
#include "layer/layer.h"
#include "netctl/netctl.h"
#include "sandbox/holder-client.h"

#include <atoll/step.h>
#include <time.h>
#include <unistd.h>

/*
 * The holder of a sandbox
 *
 * One process, one thread, one loop with poll() (holder.c). sandbox.h describes the processes
 * around it, holder-protocol.h the messages. The files:
 *
 *   holder.c               start, loop, end of the process
 *   holder-client.c        connections and requests
 *   holder-cell.c          the cell: build, end, orders to pid 1, its messages
 *   holder-steps.c         start, messages and end of every step
 *   holder-attached.c      steps of `atoll exec`
 *   holder-detached.c      steps that go on without their client: start, attach, list
 *   holder-detached-end.c  their messages from pid 1, and their end
 *   holder-output.c, holder-input.c, holder-watchers.c  their streams and their reports
 *   holder-retention.c     their numbers and keys, and how long they are kept after their end
 *   holder-invocation.c    argv, environment and directory of a step
 *   holder-checkpoint.c, holder-root.c  checkpoint, rollback, copies of a private root
 *   holder-network.c       replaced network rules
 *   holder-eventlog.c, holder-rules.c   the event log; event rules and the monitor
 *   holder-life.c          freeze, stay, usage, questions about the network
 */

#define HOLDER_CLIENTS_MAX  192
#define HOLDER_DETACHED_MAX 160 /* fewer than the places: other requests need some */
#define HOLDER_DRAINS_MAX   256
#define HOLDER_WATCHERS_MAX 512

/* A time of the file system's clock, to compare with a file's ctime. */
struct root_moment {
	struct timespec time; /* CLOCK_REALTIME_COARSE */
	int64_t offset_ns;    /* how far that clock was ahead of CLOCK_MONOTONIC */
};

struct holder {
	struct layer_record *record;
	struct atoll_job *job;
	const struct spec *spec;
	int held_fd; /* the lock on records/ID/held */
	int listen_fd, signal_fd;
	bool is_ending;
	bool is_removed; /* a client removes the record after the holder's end */
	bool stays;	 /* do not end for lack of steps (HOLDER_STAY) */
	int64_t born_ns;
	/* A sandbox without steps becomes idle after `idle_after_ns`: pid 1 ends the template
	 * process. After `unused_max_ns` the holder ends. */
	int64_t unused_since_ns, unused_max_ns;
	int64_t last_step_ns; /* when a step was seen running last */
	int64_t idle_after_ns;
	bool is_idle;

	/* The cell, while there is one. */
	bool is_live;
	struct init_message limit; /* the limit that ends the cell, if its type is INIT_LIMIT */
	const struct backend *backend;
	struct cell *cell;
	struct cell_handle handle;
	struct notices notices;
	struct cell_layer layer;
	char **env; /* of pid 1; steps get a copy */
	struct netctl net;
	struct atoll_run_options net_options;
	struct atoll_result *net_result;
	int64_t counted_ns; /* when the counters were read last */
	int32_t done_code;  /* of the latest INIT_DONE */
	bool is_done;
	bool is_frozen;	 /* by HOLDER_FREEZE */
	bool is_stopped; /* pid 1 was ordered to stop all processes, for any reason */
	int64_t frozen_ns;

	/* The private root: the layers that the cell was built on, the layers that had the same
	 * content at `root_since`, and whether the end of the cell copies nothing. */
	struct layer_roots root_below, root_known;
	struct root_moment root_since;
	bool drops_root;

	/* The event log. */
	struct eventlog *eventlog; /* NULL until the first step, or always */
	struct watching *watch;	   /* the same */
	bool is_stuck;		   /* the log cannot be written: all processes inside are stopped */
	int64_t stuck_ns;	   /* since when */
	struct plan plan;	   /* the cell's mechanisms, if has_plan */
	bool has_plan;
	uint64_t *reported; /* sorted hashes of the changes that were logged */
	size_t n_reported;
	bool has_sealed_changes; /* `reported` contains all changes of the sealed layers */
	bool has_stale_changes;	 /* after a rollback: read the changes again without logging them */

	/* Steps. */
	uint32_t n_steps;		  /* started by this holder */
	uint32_t n_before, n_reserved;	  /* numbers of detached steps: holder-retention.c */
	char (*old_keys)[ATOLL_STEP_KEY]; /* keys that earlier holders wrote, if has_old_keys */
	size_t n_old_keys, next_key_slot;
	bool has_old_keys;
	struct detached_step *detached; /* that live or have watchers */
	struct detached_step *ended;	/* the others, in the order of their ends */
	struct detached_step **last_ended;
	size_t n_detached, n_ended, n_watchers;
	size_t n_files;	      /* streams in memory files */
	uint64_t ended_bytes; /* of the memory files in `ended` */
	int64_t note_ns;      /* when `noted` goes into the record; INT64_MAX: never */
	int32_t noted_status;
	char noted[512]; /* the command of the latest step */

	struct holder_client clients[HOLDER_CLIENTS_MAX];
	size_t n_places; /* places from here on are free */
	int drains[HOLDER_DRAINS_MAX];
	size_t n_drains;
};

/* Close *fd if it is open, and set it to -1. */
static inline void holder_close_fd(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

/* Start a holder for sandbox `id`, and wait until it listens; with `stays` (HOLDER_STAY) until it
 * has built the cell. -EBUSY: another process has locked `held`. */
int holder_start(const char *id, bool stays, struct atoll_error *err);
/* The holder process itself. Writes a struct holder_reply to `status_fd` when it listens, or with
 * `stays` when its cell is built. This process or its parent has called
 * holder_detach_from_caller() and keyring_share(). */
_Noreturn void holder_main(const char *id, bool stays, int status_fd);
/* Replace the standard streams by /dev/null, reset signals, change to "/". */
void holder_detach_from_caller(void);

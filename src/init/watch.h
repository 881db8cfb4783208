/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"
#include "spec/spec.h"

/*
 * What all processes of the sandbox use together
 *
 * Where no control group counts for us the first process does, by looking at /proc again and again:
 * ten times a second, once while everybody waits, and up to a hundred times when little is left. A
 * look is a sample: what is used between two of them shows at the second, so a limit can be
 * exceeded for a moment. It never costs more than a fifth of a CPU, however many processes there
 * are.
 *
 *   memory    What processes have written (RssAnon) and share without a file (RssShmem), swap, and
 *             what lies in private storage, SysV segments and memfds. Pages that were shared by
 *             fork() count for each process there, which is cheap and too much. So beyond the limit
 *             the kernel is asked for shares (smaps_rollup), and only their sum ends a run.
 *   CPU time  of what lives, of what was waited for, and of what was seen to vanish.
 *   written   The bytes by which processes made pages of files dirty (write_bytes in /proc/PID/io),
 *             also by mmap and past the cache, and those reserved with fallocate(), which the guard
 *             tells. What is written twice counts twice, unless the disk never saw the first.
 *   files     Those in a writable layer, whose changes nobody else sees: once so many have been
 *             made on its file system that they could be too many, they are counted.
 *   floor     A part of each file system that is written to stays free, whoever fills it.
 *
 * A process whose parent ignores SIGCHLD takes its counts with it: it is counted up to the last
 * look in which it lived. Without namespaces, and where its file cannot be read, a process that is
 * undumpable shows no write_bytes. Once the one was seen, and as long as there are any of the
 * other, what the file systems have lost of free space since the last look that had all counts is
 * added, if it is more. Others' writes count for that time. Undumpable processes of atoll's own
 * write nothing and do not matter (is_own). What a tmpfs of the host's has lost of free space is
 * added: no write_bytes show it.
 */

#define WATCH_ROOTS_MAX	    32
#define WATCH_MEMFDS_MAX    512
#define WATCH_PROCESSES_MAX 512

/* A count that only grows, made of sums that may miss what has vanished. */
struct watch_count {
	uint64_t total;
	uint64_t lost; /* of processes that took it with them */
	uint64_t best; /* the highest of the sums since, of which each was too low */
	unsigned low;  /* how much these weigh; 0: the last sum was not too low */
};

/* A file system that the run may write to. */
struct watch_root {
	int fd;
	const char *path;
	uint64_t dev;
	uint64_t floor;
	uint64_t free_at_start;
	uint64_t free_when_all; /* at the last look that had all counts */
	uint64_t free_last;	/* at the last look */
	bool is_uncounted;	/* a tmpfs of the host's: only its free space tells */
};

/* What one look has found. */
struct watch_sum {
	uint64_t anon, shmem; /* bytes */
	uint64_t stored;      /* in private storage and other memory that is a file's */
	uint64_t cpu_ms;
	uint64_t threads;
	uint64_t written;
	bool hides_written;	 /* somebody's count could not be read */
	bool loses_children;	 /* somebody ignores SIGCHLD */
	bool has_unread;	 /* the count of a process that has ended could not be read */
	bool has_vanished;	 /* a process ended before it was read */
	bool has_younger_parent; /* a process was read after its parent, or may have been */
};

/* One process in a look, with what it has taken over from children that it has waited for. */
struct watch_process {
	pid_t pid, parent;
	uint64_t start; /* with the number it is nobody else's */
	uint64_t cpu_ms, threads, written;
	bool has_ended, is_gone;
	bool is_new;	  /* it was first seen so in this look: */
	int64_t ended_ns; /* that it has ended, and its count cannot be read; 0: it can be */
	uint64_t guess;	  /* what it wrote before its end, besides */
};

struct watch_processes {
	struct watch_process list[WATCH_PROCESSES_MAX];
	size_t n;
};

struct watch {
	const struct init_limits *limits;
	struct init_usage *usage;
	int proc_fd, storage_fd;
	int own_io_fd; /* our own count, with that of orphans; -1 where the kernel keeps none */
	struct watch_root roots[WATCH_ROOTS_MAX];
	size_t n_roots;
	struct watch_count cpu, written;
	struct watch_processes last; /* of the look before */
	uint64_t reserved;	     /* by fallocate(), and what a sandbox had at its start */
	uint64_t used_when_all;	     /* of the disk, at the last look that had all counts */
	uint64_t used_last;	     /* of the disk, at the last look */
	int layer_fd;		     /* a writable layer, with upper/ in it; -1: none */
	uint64_t n_files;	     /* in it, when they were counted last */
	uint64_t files_due;	     /* to be counted again when the file system has so many */
	uint64_t files_at_start;
	int64_t count_ns;   /* or, where it does not say, at this time */
	bool is_bare;	    /* there is no pid namespace: /proc shows the host's processes, too */
	bool uses_memfd;    /* somebody has made one */
	bool is_losing;	    /* what was written vanishes with processes, or may */
	bool is_losing_cpu; /* so does CPU time */
	bool was_hidden;    /* somebody's count of what was written, in the look before */
	bool is_idle;	    /* no CPU time was used since the look before */
	uint64_t headroom;  /* bytes until the nearest limit, as of the last look */
	int64_t next_ns;    /* when to look again */
	int64_t woken_ns;   /* since when there has been somebody whom no look has seen; 0: none */
	unsigned n_looks;
	pid_t keeper; /* of hidden names; 0: none */
	const pid_t
		*steps; /* which process of ours steps begin in, 0 while there is none; or NULL */
	bool has_steps; /* a step is under way, though its process may not have been forked yet */
	/* Is this process, which has not executed anything, one of atoll's own? May be NULL. */
	bool (*is_own)(const void *data, pid_t pid, pid_t session);
	const void *own_data;
	unsigned n_own;	    /* processes of ours among those that are seen; 0: it does not matter */
	unsigned n_helpers; /* forked by the guard to wait, as of the next look */
};

/* What a look found to be beyond its limit. */
struct watch_verdict {
	enum spec_limit_id limit; /* SPEC_LIMIT_COUNT if nothing is */
	uint64_t value, used;
	char note[96];
};

/* While the first process is dumpable: its own count is hidden otherwise. */
void watch_open(struct watch *watch);
void watch_init(struct watch *watch, const struct init_config *config);

/* Look once, and say when to look again (watch->next_ns). 0 or a negative errno. */
int watch_look(struct watch *watch, struct watch_verdict *ret);

/* The command has ended and was waited for: take what that tells, without a look. */
void watch_end(struct watch *watch);

/* Nobody is there but us, and nothing has begun: the first look is when somebody comes. */
void watch_rest(struct watch *watch);
/* Somebody comes, after a time in which there was nobody. */
void watch_wake(struct watch *watch);
/* And has gone again, with all that it had started. What it left in files waits for its look as
 * long as looks are apart at most, counted from when it came: so however many come and go one after
 * the other, one is looked at. */
void watch_leave(struct watch *watch);

/* Somebody reserves space. False if it is more than the limit leaves. */
bool watch_reserve(struct watch *watch, uint64_t bytes);

/* Another writable layer takes the place of the one before; the descriptor is the watch's. */
void watch_take_layer(struct watch *watch, int layer_fd);

/* For watch_look(), and its tests. */
/* watch-names.c. The names in a directory and beneath it, up to `most`; more if a part of it cannot
 * be seen. */
uint64_t watch_count_names(int dir_fd, const char *name, uint64_t most, bool *ret_is_partial);
/* `is_settled`: no process ended while it was added up. */
uint64_t watch_count_add(struct watch_count *count, uint64_t sum, bool is_settled, bool *is_losing);

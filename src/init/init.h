/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct spec;
struct notice_packet;

/*
 * Who is first inside
 *
 * The first process of a sandbox starts the command, reaps what is orphaned, watches the limits
 * that no cgroup watches, tells the supervisor how it ended, and guards what may be written:
 *
 *   init.c     start, reap, report; the loop
 *   guard.c    takes one system call that would change a file or reach a socket, and reports a no
 *   call-*.c   these calls: which object is meant, what says no, and the call made in the caller's
 *              stead
 *   resolve.c  from a path in another process's memory to an object, by descriptor
 *   trusted.c  what says no: the contract, the names that the host trusts, git directories
 *   links.c    symbolic links that would lead out of a writable root, or into a git directory
 *   moved.c    what lies in a directory that moves
 *   install.c  files of git's that are read before they count
 *   guard-answer.c   how a waiting caller gets its result
 *   watch.c    memory, CPU time and what is written, summed up over all processes
 *   service.c  instead of one command: steps, by order, as long as the sandbox lives
 *   template-process.c the process that has given its rights up already and forks the steps
 *   enter.c    how a step gets to its working directory
 *   processes-inside.c   all processes of the sandbox: counting, stopping, ending them
 *   sense*.c   for the record: what the guard sees (sense.h); tell.c: how the supervisor hears of
 * it
 *
 * The guard rests on two walls that the kernel holds. Landlock leaves the command's processes no
 * right to write anywhere that comes from the host; and a seccomp filter stops every call that
 * changes files and hands it over. The guard looks up the object with descriptors of its own,
 * decides, and makes the call itself; the caller gets the result, for open() the descriptor. So
 * there is no moment between check and use, a path that another thread changes meanwhile gains
 * nothing, and if the guard dies nothing can be written at all. It works one call at a time, which
 * makes checks over several files (is this becoming a git directory?) hold.
 *
 * Everything here runs in a clone of the supervisor, perhaps of a program with threads: no
 * allocation, no stdio.
 */

/* How writing works at a place. The deepest zone that a path lies in counts. */
enum init_zone_kind {
	INIT_ZONE_FREE,	   /* the kernel decides alone: private, or read-only */
	INIT_ZONE_PRIVATE, /* private storage with a guarded root or a directory to be read
			    * somewhere beneath, which Landlock would include in any right: the
			    * guard acts, and refuses nothing but to move a directory on the way
			    * there */
	INIT_ZONE_GUARDED, /* a writable root of the host: names are checked */
	INIT_ZONE_OWN,	   /* private, on a file system of the host's, or a layer on one: the
			    * kernel decides alone, and what Landlock does not know the guard does
			    * there */
};

struct init_zone {
	const char *path; /* plain, absolute */
	enum init_zone_kind kind;
	uint64_t dev, ino;   /* without mounts: what the path must lead to, or nothing is allowed;
			      * 0 with them */
	bool is_writable;    /* in whatever way; for the record, nothing rests on it */
	bool is_hidden;	     /* nothing there can be read */
	bool guards_reading; /* Landlock gives no right to read here: the guard opens */
};

struct init_limits {
	uint64_t memory;	/* bytes to watch for, or SPEC_UNLIMITED if a cgroup does */
	bool is_memory_counted; /* by a cgroup, which knows the peak better */
	uint64_t cpu_time_ms;
	uint64_t pids;	    /* of all ids together, or SPEC_UNLIMITED if the kernel counts so */
	uint64_t disk;	    /* bytes written to guarded roots */
	uint64_t disk_kept; /* of these, what was there at the start */
	uint64_t files;	    /* created in guarded roots */
};

/* What the run has used so far, as the first process has seen it: in memory that it shares with the
 * supervisor, which reads it when all is over, however it ended. */
struct init_usage {
	uint64_t memory_peak;	    /* the highest that was seen */
	uint64_t memory, processes; /* at the latest look; the second without our own */
	uint64_t cpu_ms;
	uint64_t processes_peak;
	uint64_t written;
	uint64_t files;
};

/* Who has connected from a port inside, in memory that is shared likewise: by number of the port,
 * so that a connection costs the first process a few bytes and nobody a message. There is no port
 * 0: its pid tells that one is about to be noted. */
struct init_peer {
	int32_t pid; /* inside; 0: nobody */
	char program[16];
};

#define INIT_PEERS 65536

/* How much of a file system of this size a run leaves free: 5 % of it, at most 1 GiB. */
static inline uint64_t init_space_floor(uint64_t size)
{
	const uint64_t most = UINT64_C(1) << 30;

	return size / 20 < most ? size / 20 : most;
}

/* What one step executes. */
struct init_step {
	const char *cwd;
	char **argv, **env; /* NULL-terminated */
	int stdio[3];	    /* -1: in place already */
	bool has_ids;
	uid_t uid;
	gid_t gid;
};

/* How it comes: a descriptor with this at its beginning, then so many texts, each with its NUL: the
 * directory, the arguments, the environment. */
struct init_step_head {
	uint32_t n_argv, n_env;
	uint32_t has_ids; /* it runs under these; else as the template does */
	uint32_t uid, gid;
};

#define INIT_STEP_MAX  (4U << 20) /* bytes of all that */
#define INIT_STEPS_MAX 128	  /* at the same time */

/* Filters with somebody under them at the same time, each with its listener: of templates that were
 * killed from inside while others of their kind lived on. */
#define INIT_LISTENERS_MAX 16

struct init_config {
	const struct spec *spec;
	const struct init_zone *zones;
	size_t n_zones;
	struct init_limits limits;
	struct init_usage *usage;
	struct init_peer *peers;       /* INIT_PEERS of them; NULL without a network */
	uint16_t proxy_port;	       /* without namespaces: what may be connected to, or 0 */
	int control_fd;		       /* SOCK_SEQPACKET to the supervisor; its end is ours */
	int notice_fd;		       /* SOCK_SEQPACKET likewise, for what is seen; -1: none */
	struct notice_packet *notices; /* with that: shared with the supervisor */
	bool guards_files; /* the guard makes the calls that change files; else it is only
			    * told of them, if that */
	bool has_many_ids; /* there are several inside, and we are root of them: what the guard does
			    * it does as its caller */
	uid_t owner_uid;   /* with that: who owns what is made in guarded roots; root is that one
			    * there */
	gid_t owner_gid;
	bool maps_ids; /* the host's trees come with their ids mapped: what belongs to somebody that
			* has none here cannot even be removed */
	int layer_fd;  /* a writable layer on a disk, with upper/ in it; -1: none */

	/* In the command's own process, first of all: closes everything but what the command gets
	 * and the `n` of `also`. Steps and their template then hold nothing of the first process's.
	 */
	int (*close_others)(void *data, const int *also, size_t n, struct atoll_error *err);

	/* In the first process, once the only command has its process: what only that needs. */
	void (*let_go)(void *data);

	/* In the first process, before it reads anything of the command's: its own filter of system
	 * calls, which whatever it forks from then on inherits. */
	int (*lock)(void *data, struct atoll_error *err);

	/* In the command's own process, as soon as it is forked and beside whatever the first
	 * process still does: everything that does not need the root. Returns the filter's
	 * listener. */
	int (*begin)(void *data, struct atoll_error *err);

	/* In the same process, once the root is there: take the last rights away. */
	int (*seal)(void *data, struct atoll_error *err);

	/* And then, once the first process is done: execute. Returns only on failure, with the exit
	 * status that stands for it (126, 127). */
	int (*execute)(void *data, struct atoll_error *err);
	void *data;

	/*
	 * There are no namespaces: the guard stands among the host's files with all the rights of
	 * the caller, and is not the last one. When `warden_fd` (-1 with namespaces) becomes
	 * readable the process that would end everything is gone, and alone() ends it instead.
	 */
	bool is_bare;
	int warden_fd;
	void (*alone)(void *data);

	/* A process that must live as long as the sandbox (the keeper of hidden names), or 0. */
	pid_t keeper;

	/* There is no command at the start: steps come as INIT_EXEC. `begin` and `seal` are for the
	 * template, and take_step() tells a step's own process what is to be executed, which it
	 * enters by itself. Never without namespaces. */
	bool is_service;
	void (*take_step)(void *data, const struct init_step *step);

	/* The command's 0, 1 and 2; -1 where it is to have a terminal of the sandbox's own, which
	 * the first process makes and hands to the supervisor. NULL: none is. `become` leaves
	 * those alone. */
	const int *stdio;
};

enum init_message_type {
	INIT_STARTED, /* the command was executed; of a service: `code` is its number inside */
	INIT_FAILED,  /* it was not: `error`, and `code` 126, 127 or -1 */
	INIT_ENDED,   /* `wait_status`; of a service also `cpu_us` and `peak_kib` */
	INIT_LIMIT,   /* `limit`, with its value, what was used, and why if that does not tell */
	INIT_DENIAL,
	INIT_HELD,     /* by a sandbox's holder: the record cannot be written, as `error` says, and
			* everything stands still; "": it goes on */
	INIT_TERMINAL, /* with the master's descriptor; INIT_GO is awaited */
	INIT_STOPPED,  /* the command has been stopped from inside; only if it has a terminal */
	INIT_SOCKETS,  /* by order, with `code` descriptors; fewer than asked for where no more
			* could be made */
	INIT_DONE,     /* INIT_FREEZE, INIT_REST or INIT_CLEAR: `code` processes */
	INIT_LISTENER, /* with that of a filter that was set after the start, for the supervisor to
			* keep until the end (isolate/ns/listeners.c) */
};

struct init_message {
	uint32_t type;
	uint32_t step; /* of a service: which one this is about; 0: none */
	int32_t code;
	int32_t wait_status;
	uint64_t cpu_us;   /* of the command and of what it has waited for */
	uint64_t peak_kib; /* of the largest of these processes */
	uint32_t is_alone; /* with INIT_ENDED of a run: nobody else lives, and the two above are
			    * about everybody who did */
	char limit[16];
	uint64_t limit_value;
	uint64_t limit_used;
	char limit_note[96];
	union {
		struct atoll_error error;
		struct atoll_denial denial;
	};
};

/* What the supervisor asks the first process to do. */
enum init_order_type {
	INIT_GO,	     /* the terminal is prepared: start the command */
	INIT_SIGNAL_COMMAND, /* send `signal` to the command alone */
	INIT_SIGNAL_GROUP,   /* ... to its process group, as a terminal does */
	INIT_SIGNAL_ALL,     /* ... to every process inside */
	INIT_MAKE_SOCKETS,   /* make `count` TCP sockets of `family` in the sandbox's network, not
			      * connected, non-blocking; answered by one INIT_SOCKETS */

	/* To a service, where the signals above are for `step`, INIT_SIGNAL_ALL for every process
	 * of its session. INIT_FREEZE, INIT_REST and INIT_CLEAR are
	 * answered by INIT_DONE. */
	INIT_EXEC,   /* with a descriptor as of struct init_step_head, and one for each of 0, 1 and
		      * 2 that `stdio` has a bit for; the others are a terminal */
	INIT_FREEZE, /* stop everything; `code` tells how many there are. Told when all stand still,
		      * or -1 if they do not within a few seconds */
	INIT_THAW,   /* let it go on */
	INIT_REST,   /* nobody but the first process may have a hold of the workspace: `code` others
		      * live; if that is 0 it may be replaced until the next INIT_EXEC */
	INIT_LAYER,  /* it was replaced: with a descriptor, as init_config's layer_fd */
	INIT_READY,  /* and now be ready for the next step */
	INIT_CLEAR,  /* the same, and all that lives is killed: `code` tells how many that were */
};

#define INIT_SOCKETS_MAX 64

struct init_order {
	uint32_t type;
	int32_t signal;
	int32_t family; /* AF_INET, AF_INET6 */
	uint32_t count; /* at most INIT_SOCKETS_MAX */
	uint32_t step;	/* from 1 */
	uint32_t stdio; /* bit N: descriptor N comes along */
};

/* Enter a directory by its name in the root of the caller, through no magic link (as those in
 * /proc/PID/fd are); 0 or a negative errno, -ELOOP for a magic link, -EXDEV for what no name leads
 * to. */
int init_enter(const char *path);

/* The command's process, forked and waiting. */
struct init_command {
	pid_t pid; /* 0: there is none yet */
	int start_fd;
	int listener_fd;
};

/* Does it get a terminal? Then its process cannot be forked before init_main(). */
bool init_wants_terminal(const struct init_config *config);

/* Fork the command's process, which goes through `begin`; of a service its first template. */
int init_fork(const struct init_config *config, struct init_command *ret, struct atoll_error *err);

/* The same while the caller goes on with something that takes as long. */
int init_fork_apart(const struct init_config *config, struct init_command *ret,
		    struct atoll_error *err);

/* Wait until it is through. */
int init_await(struct init_command *command, struct atoll_error *err);
/* Then let it go through `seal`; a template is closed to everybody after that. */
int init_let_seal(struct init_command *command, struct atoll_error *err);

/* Be the first process, and let the command be executed; forked and sealed before, unless it gets a
 * terminal, which a service's template does not. Never returns. */
_Noreturn void init_main(const struct init_config *config, struct init_command *command);

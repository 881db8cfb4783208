/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libatoll: run a command inside a boundary
 *
 *	struct atoll_error err;
 *	struct atoll_result result;
 *	struct atoll_job *job = atoll_job_new(&err);
 *	char *argv[] = {"make", "test", NULL};
 *
 *	atoll_job_command(job, argv, &err);          // what to run, in the current directory
 *	atoll_job_set(job, "read", "/srv/data", &err); // widen or narrow the default contract
 *	if (atoll_job_run(job, NULL, &result, &err) < 0)
 *		fprintf(stderr, "%s\n", err.text);
 *	atoll_job_free(job);
 *
 * A job states its contract once, and nothing that the command or its descendants do reaches past
 * it. A clause that this host cannot enforce makes the run fail, with the reason and the fix,
 * before the command has started.
 *
 * The library keeps no global state and starts no threads. A job is used by one thread at a time;
 * different jobs are independent. atoll_job_run() clones the calling process: keep callers small, a
 * fork from a process of many gigabytes takes tens of milliseconds.
 */

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATOLL_PUBLIC __attribute__((visibility("default")))
#else
#define ATOLL_PUBLIC
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct atoll_job;

/* A job with the default contract: the current directory as workspace, no network, system
 * directories readable. NULL on failure. */
ATOLL_PUBLIC struct atoll_job *atoll_job_new(struct atoll_error *err);
ATOLL_PUBLIC void atoll_job_free(struct atoll_job *job);

/*
 * Take in a job file ("-" reads standard input). A file that a run or another user could have
 * written (it, or a directory or link on the way to it, lies in a git tree, in a writable root of
 * this or an earlier run, or belongs to others or is writable by them) may only narrow the default
 * contract, unless its exact content was approved with atoll_trust() at this path.
 */
ATOLL_PUBLIC int atoll_job_load(struct atoll_job *job, const char *path, struct atoll_error *err);

/* The command, as for execvp(3); overrides the file's. */
ATOLL_PUBLIC int atoll_job_command(struct atoll_job *job, char *const argv[],
				   struct atoll_error *err);

/*
 * One clause, named like the flag of `atoll run` without its dashes: "read", "write", "hide",
 * "protect", "socket", "accept-broad", "workspace", "mode", "root", "checkpoints", "chdir", "env",
 * "fd", "memory", "pids", "cpus", "cpu-time", "timeout", "disk", "files", "open-files", "output",
 * "grace", "identity", "accept-weaker", "net", "allow", "deny", "secret", "listen", "rate",
 * "net-bytes", "connections", "requests", "ask" ("on", "off"), "proxy" ("on", "off"), "upstream",
 * "record", "kept-output" ("hash", "keep").
 * Relative paths count from the current directory.
 */
ATOLL_PUBLIC int atoll_job_set(struct atoll_job *job, const char *key, const char *value,
			       struct atoll_error *err);

enum atoll_format {
	ATOLL_TEXT,
	ATOLL_JSON,
};

/* What would be enforced on this host, clause by clause, by which mechanism. Runs nothing. The text
 * is the caller's to free(). */
ATOLL_PUBLIC int atoll_job_plan(struct atoll_job *job, enum atoll_format format, char **ret_text,
				struct atoll_error *err);

/* SHA-256 of the contract's canonical form, 64 hexadecimal digits. */
ATOLL_PUBLIC int atoll_job_digest(struct atoll_job *job, char ret_hex[65], struct atoll_error *err);

/* How a run ended. */
enum atoll_end {
	ATOLL_EXITED,	     /* by itself: `code` is its exit status */
	ATOLL_SIGNALED,	     /* by a signal: `code` is its number */
	ATOLL_TIMED_OUT,     /* the wall limit */
	ATOLL_OUT_OF_MEMORY, /* the memory limit */
	ATOLL_OVER_LIMIT,    /* another limit: `limit` names it */
	ATOLL_NOT_STARTED,   /* the command could not be executed: `code` is 126 or 127 */
	ATOLL_STOPPED,	     /* by a rule or a monitor: `stopped_by` names it */
	ATOLL_UNRECORDED,    /* the record could not be written for 30 s: `record_note` says why */
};

/* Something that the contract refused, as the guard saw it. */
struct atoll_denial {
	int32_t pid;	  /* inside the sandbox */
	int32_t count;	  /* how often, in a row */
	char action[16];  /* "create", "write", "remove", "connect", ... */
	char rule[64];	  /* what says no: "git hooks", "protect ./x", "sockets" */
	char path[256];	  /* the object; cut at the front with "..." if longer */
	char program[16]; /* the process's name */
	char allow[192];  /* what to write to have it allowed: "--write /x"; "" if nothing does */
};

#define ATOLL_DENIALS_MAX 64

/* An attempt to talk to somebody, or several alike. */
enum atoll_verdict {
	ATOLL_CONN_ALLOWED, /* and it took place */
	ATOLL_CONN_REFUSED, /* by the contract: `reason` */
	ATOLL_CONN_FAILED,  /* allowed, and the other side could not be reached: `reason` */
};

struct atoll_connection {
	uint64_t start_ns;    /* since 1970 */
	uint64_t duration_ns; /* until both ways were closed */
	uint64_t sent;	      /* bytes to the outside */
	uint64_t received;
	int32_t pid;	 /* inside the sandbox; 0 if it is not known */
	int32_t verdict; /* enum atoll_verdict */
	uint32_t count;	 /* how many alike this stands for */
	uint16_t port;
	uint16_t local_port; /* of the client's socket inside; tells who it was */
	char program[16];    /* the process's name; "" if it is not known */
	char name[256];	     /* as looked up; "" for an address as such */
	char address[46];    /* that was connected to; "" if none was */
	char rule[96];	     /* "allow *.pypi.org (job.yaml:4)"; "" where none speaks */
	char reason[128];    /* of what was refused or failed, and what was cut */
	char request[128]; /* the last HTTP request where they are seen: "GET /simple/"; no query */
};

#define ATOLL_CONNECTIONS_MAX 64

/* May it? Somebody is asked about a name that the contract does not list, where it says `ask`; the
 * connection is held meanwhile. */
struct atoll_question {
	uint64_t id; /* for an answer that comes later */
	/* If not NULL it is not about a connection, and `name`, `program` and `port` say nothing: a
	 * rule or a monitor has stopped everything inside, and says why. ATOLL_ASK_ONCE lets it go
	 * on, ATOLL_ASK_NO ends it. */
	const char *why;
	const char *name;    /* or address; what a stranger wrote, but only printable ASCII */
	const char *program; /* who wants to; "" if it is not known, else likewise */
	const char *file;    /* the job file, or NULL */
	int32_t pid;	     /* inside the sandbox; 0 if it is not known */
	uint16_t port;
	int32_t timeout_ms; /* when it counts as no */
	int stop_fd; /* readable: an answer is not waited for any more, because a signal came, the
		      * network ended or the command did */
};

enum atoll_answer_type {
	ATOLL_ASK_NO,	  /* for the rest of the run */
	ATOLL_ASK_ONCE,	  /* what waits now; the next attempt asks again */
	ATOLL_ASK_RUN,	  /* this name and port, for the rest of the run */
	ATOLL_ASK_ALWAYS, /* and in every later run of exactly this contract: noted in
			   * ~/.config/atoll/answers */
	ATOLL_ASK_LATER,  /* it will come from `answer_fd` */
	ATOLL_ASK_NOBODY, /* there is nobody to ask, or no answer came: no, for what waits now */
};

/* What is read from `answer_fd`, whole. */
struct atoll_answer {
	uint64_t id;	/* of the question */
	int32_t answer; /* enum atoll_answer_type, not ATOLL_ASK_LATER */
	int32_t unused; /* 0 */
};

/* A port of the sandbox's that can be reached on the host's loopback. */
struct atoll_published {
	uint16_t port;	    /* inside */
	uint16_t host_port; /* of 127.0.0.1 */
};

#define ATOLL_PUBLISHED_MAX 16

/* What a run uses. */
enum atoll_resource {
	ATOLL_WALL,	 /* milliseconds, from start to end of the command */
	ATOLL_CPU,	 /* milliseconds, user and system time of all its processes */
	ATOLL_MEMORY,	 /* bytes, the peak of all processes together */
	ATOLL_PROCESSES, /* the most at the same time, threads counted */
	ATOLL_DISK,	 /* bytes written to or reserved in writable roots of the host */
	ATOLL_FILES,	 /* created in writable roots of the host */
	ATOLL_OUTPUT,	 /* bytes on stdout and stderr together */
	ATOLL_RESOURCE_COUNT,
};

#define ATOLL_UNLIMITED UINT64_MAX

/*
 * How much of a resource was used, and how much was allowed. Where a control group counts, memory
 * and processes are exact; else they are the highest that was seen by looking ten to a hundred
 * times a second, and for a command that ended sooner, what its largest process had resident.
 */
struct atoll_usage {
	uint64_t used;
	uint64_t limit; /* ATOLL_UNLIMITED if there is none */
};

/* What a rule or a monitor had to say. */
struct atoll_flag {
	uint64_t seq;	 /* of the event that it is about, in the log; UINT64_MAX: of none */
	char by[32];	 /* "rule:credentials", "monitor" */
	char verdict[8]; /* "flag", "ask", "pause", "kill"; "allow" where a monitor failed */
	char why[240];	 /* what strangers wrote in it has been made printable */
};

#define ATOLL_FLAGS_MAX 16

struct atoll_result {
	enum atoll_end end;
	int code;
	char limit[16];	       /* the limit that ended it, as in a job file */
	uint64_t limit_value;  /* that limit, in its unit */
	uint64_t limit_used;   /* what was used of it at the end; can be more for a moment */
	char limit_note[96];   /* why, where the numbers do not tell; "" mostly */
	uint64_t wall_ns;      /* from start to end of the command */
	uint64_t cpu_ns;       /* user and system time of all its processes */
	uint64_t peak_memory;  /* bytes, as in `usage` */
	uint64_t output_bytes; /* on stdout and stderr together */
	struct atoll_usage usage[ATOLL_RESOURCE_COUNT];
	int interrupted_by; /* the caller's signal (signal_fd) that asked for the end, or 0 */
	bool is_mid_line;   /* on a terminal, the output does not end with a line's end */
	/* What became of the network where it did not last: its process died, a limit of the whole
	 * run was reached. "" mostly. */
	char network_note[192];
	/* What was written down of it: log/ID.jsonl (see doc/record.md); "" with `record: off`. */
	char run[16];
	/* Why that is not complete, or that the run had to stand still meanwhile. "" mostly. */
	char record_note[192];
	/* With a workspace in mode `layer`: the record that keeps what was written (see
	 * <atoll/layer.h>), "" if nothing was, and how many names were. */
	char record[16];
	uint64_t n_added, n_changed, n_deleted;
	uint64_t n_marked;    /* of these: what the host would execute or trust */
	uint64_t n_conflicts; /* of these: what the host itself has changed meanwhile */
	char layer_note[192]; /* why it could not be kept as it should; "" mostly */
	uint32_t n_flags;     /* how many there were; the first ATOLL_FLAGS_MAX are kept */
	struct atoll_flag flags[ATOLL_FLAGS_MAX];
	char stopped_by[32];   /* ATOLL_STOPPED: who wanted it, as in `flags` */
	char events_note[192]; /* readers of `events` that went away or were slow; "" mostly */
	uint32_t n_published;
	struct atoll_published published[ATOLL_PUBLISHED_MAX];
	uint32_t n_denials;	/* how many there were; the first ATOLL_DENIALS_MAX are kept */
	uint32_t n_connections; /* likewise, ATOLL_CONNECTIONS_MAX; those alike are one */
	struct atoll_denial denials[ATOLL_DENIALS_MAX];
	/* Alike in name or address, port, verdict and rule: bytes, durations and counts are added
	 * up, the rest is the first one's, but for the latest reason and request. */
	struct atoll_connection connections[ATOLL_CONNECTIONS_MAX];
};

/* A private terminal for the command. While it runs the caller's is in raw mode. */
enum atoll_tty {
	ATOLL_TTY_NEVER,
	ATOLL_TTY_AUTO, /* if stdin_fd and stdout_fd are terminals */
	ATOLL_TTY_ALWAYS,
};

struct atoll_run_options {
	int stdin_fd;  /* where the command's input comes from; -1 for nothing */
	int stdout_fd; /* where its output goes; -1 drops it */
	int stderr_fd;
	/* Called once when the command's processes exist, with pid 1 of the sandbox as the host
	 * sees it; for tests and monitors. NULL for nothing. */
	void (*started)(int32_t pid, void *data);
	void *data; /* for the functions here */

	/*
	 * Signals. The library takes over none of a program's. A program that wants to pass some on
	 * blocks them and hands a signalfd(2) for them in; 0 for none. SIGINT, SIGTERM, SIGHUP and
	 * SIGQUIT go to the command's process group and begin the contract's grace period, after
	 * which everything is killed; a second SIGINT or SIGTERM kills at once. SIGTSTP stops
	 * everything inside, see `suspend`. SIGWINCH resizes the command's terminal, SIGCONT looks
	 * at the caller's anew. Others (SIGUSR1) go to the command alone. They are read only while
	 * the command runs: set-up is best interrupted by leaving them as they are until `started`.
	 */
	int signal_fd;
	/* Stop the calling process, and return when it goes on. Everything inside has been stopped,
	 * and the caller's terminal is as it was. `by_command`: because the command has stopped
	 * itself (Ctrl-Z); else because SIGTSTP came. NULL: nothing is ever stopped. */
	void (*suspend)(bool by_command, void *data);
	/* Called when a step begins that may take long, with what it is. NULL for nothing. */
	void (*progress)(const char *what, void *data);
	/* Whether the command gets a terminal of its own. */
	enum atoll_tty tty;
	/* Of a step in a sandbox: who runs it, of the users that its contract names. NULL: the
	 * first of them. */
	const char *user;

	/* Called for every connection at its end, and for every one refused. NULL for nothing. */
	void (*connection)(const struct atoll_connection *connection, void *data);
	/*
	 * Called for a name that the contract does not list, where it says `ask`. May wait for a
	 * person as long as the question says: meanwhile the run's output is held, and the caller's
	 * terminal is as it was before the run. Or it returns ATOLL_ASK_LATER. NULL: no.
	 */
	enum atoll_answer_type (*ask)(const struct atoll_question *question, void *data);
	/* Answers that come later, as struct atoll_answer: a pipe or a SOCK_SEQPACKET socket; 0 for
	 * none. To a question that is not open any more they are dropped. */
	int answer_fd;
	/* Called once if there are published ports, as soon as they can be reached. NULL for
	 * nothing. */
	void (*published)(const struct atoll_published *ports, size_t n, void *data);
	/*
	 * The record cannot be written, mostly because the disk is full: everything inside has been
	 * stopped, and it is tried again twice a second. `why` says what and where; NULL: it goes
	 * on. The time limit does not run meanwhile. SIGINT and SIGTERM end the run at once.
	 */
	void (*stuck)(const char *why, void *data);
	/* A receipt will be made of it (`atoll attest`) that can be replayed: note in the record
	 * what the workspace is before, for which all of it is read, and what the job was made of.
	 */
	bool for_receipt;
	/* Who is sent the lines of the record while they are written: "fd:N", "unix:PATH",
	 * "exec:COMMAND" (see doc/record.md), at most three, and NULL behind the last. NULL:
	 * nobody. */
	const char *const *events;
	/* A rule or a monitor has stopped everything inside, and nobody could be asked: `why`, and
	 * how long it will wait before it is ended; SIGCONT lets it go on. NULL, 0: it goes on. */
	void (*paused)(const char *why, uint64_t wait_ms, void *data);
};

/*
 * Run it, and wait for its end. `options` may be NULL: then 0, 1 and 2 of the caller are used. The
 * command itself gets pipes or a terminal of its own, never the caller's descriptors. What goes to
 * a terminal is filtered: only text, colours and movement come through. 0 if the run took place,
 * however it ended: `ret` tells, and for ATOLL_NOT_STARTED `err` tells why; a negative errno if it
 * did not, and then nothing has been changed.
 */
ATOLL_PUBLIC int atoll_job_run(struct atoll_job *job, const struct atoll_run_options *options,
			       struct atoll_result *ret, struct atoll_error *err);

/* The exit status that `atoll run` gives for a result, or for a failure (see atoll-run(1)). */
ATOLL_PUBLIC int atoll_result_status(const struct atoll_result *result);
ATOLL_PUBLIC int atoll_error_status(const struct atoll_error *err);

/* What this host can enforce, found out by trying; each lack with its fix. Returns how many clauses
 * of the default contract are missing (0: all hold), or a negative errno. */
ATOLL_PUBLIC int atoll_doctor(enum atoll_format format, char **ret_text, struct atoll_error *err);

/* Record that this job file's exact content, at this path, was reviewed. What is recorded is what
 * the file holds now: another process may have written it since somebody has read it. */
ATOLL_PUBLIC int atoll_trust(const char *path, char ret_hex[65], struct atoll_error *err);
/*
 * The same without that gap. The file is opened and read once; `agree` gets these bytes (at most 1
 * MiB; a NUL stands behind them) and their SHA-256, and returns 1 to have them recorded, 0 not to
 * (-EPERM), or a negative errno. `expected`: the SHA-256 of what was read before; other content is
 * refused. Either may be NULL.
 */
ATOLL_PUBLIC int atoll_trust_content(const char *path, const char *expected,
				     int (*agree)(const char *text, size_t size, const char *hex,
						  void *data),
				     void *data, char ret_hex[65], struct atoll_error *err);

/* The JSON Schema of a job file. */
ATOLL_PUBLIC const char *atoll_schema(void);

/* "0.1.0" */
ATOLL_PUBLIC const char *atoll_version(void);

#ifdef __cplusplus
}
#endif

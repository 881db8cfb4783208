/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/plan.h"

#include <sys/types.h>

struct spec;
struct cell;
struct notice_packet;

/*
 * Where it runs
 *
 * A back end turns a contract into walls on this host. `ns/` is the process tier: namespaces,
 * Landlock, seccomp, a guard. `bare/` is the same tier on a host that grants no namespaces, and
 * weaker. Others will stand beside them in isolate_backends[], which is the one list of them.
 */

/* One thing that the host can or cannot do, as found out by trying. */
struct backend_finding {
	const char *what; /* "user namespaces" */
	bool is_needed;	  /* the default contract fails without it */
	bool holds;
	bool is_instead;  /* a weaker way that stands in where a needed thing is missing */
	char result[128]; /* what was seen: "ABI 7" */
	const char *fix;  /* what to do where it does not hold; NULL if nothing helps */
};

#define BACKEND_FINDINGS_MAX 32

struct backend_report {
	struct backend_finding findings[BACKEND_FINDINGS_MAX];
	size_t n_findings;
};

/* What a started cell hands to its supervisor. */
struct cell_handle {
	pid_t pid;	/* the first process, as the host sees it */
	int pid_fd;	/* readable when everything inside has ended */
	int control_fd; /* struct init_message, struct init_order; closing it ends the cell */
	/* With a network, else -1: sockets of the sandbox's network namespace, for egress. Every
	 * TCP connection that leaves its loopback arrives at the first, every DNS query at the
	 * second. Never without namespaces. */
	int listener_fd;
	int dns_fd;
	/* Where the top layer is a tmpfs, a directory with upper/ in it, which lasts until it is
	 * closed; else -1. */
	int layer_fd;
	/* Where written() has something to tell, a directory; else -1. */
	int storage_fd;
	/* With a full record, else -1 and NULL: packets of notices (init/notice.h), and the one
	 * that was being gathered, which lasts until release(). */
	int notice_fd;
	const struct notice_packet *notice_rest;
};

/* What a workspace in mode `layer` is made of, besides the host's directory. */
struct cell_layer {
	const char *top; /* a directory with upper/ and work/ in it; NULL: a tmpfs, bounded by the
			  * contract's disk and memory */
	const char *const *sealed; /* directories to read from, the topmost first */
	size_t n_sealed;
	/* What was written beside the workspace earlier, likewise: the same form, laid out as the
	 * root is. */
	const char *const *roots;
	size_t n_roots;
	bool is_changed; /* relayer() will be asked for: costs the parent two descriptors */
};

/* Where what a live cell has written beside its workspace lies: a directory in the form of an
 * overlay's upper one. */
struct cell_written {
	const char *path; /* inside, without the slash; "" is the root itself */
	char dir[48];	  /* beneath storage_fd */
};

/* What was made for this run and belongs inside. */
struct cell_extra {
	const char *authority; /* PEM, shown at CELL_AUTHORITY; NULL: none */
	const char *bundle;    /* PEM: the host's authorities and that one. Shown at CELL_BUNDLE,
				* and over the host's own files of this kind; NULL: none */
	const char *keystore;  /* the same for Java: shown at CELL_KEYSTORE, and over the host's
				* own key stores. Never without namespaces; NULL: none */
	size_t keystore_size;
	uint16_t proxy_port; /* without namespaces: the proxy on the host's 127.0.0.1, which is all
			      * that can be connected to; 0: none */
	/* With a workspace in mode `layer`, for a start; NULL for a plan: then where it would live
	 * is described from `layer_is_memory`. */
	const struct cell_layer *layer;
	bool layer_is_memory;
	/* A sandbox that lives on: there is no command at the start, exec() brings them. */
	bool is_service;
	uint64_t disk_kept; /* what it has on the disk already, which counts to limits.disk */
	/* What start() calls while the walls are built, or NULL. The command does not run before it
	 * has returned 0; its failure is start()'s. */
	int (*meanwhile)(void *data, struct atoll_error *err);
	void *meanwhile_data;
};

/* Without namespaces the files are in the private directory, and variables of the command's that
 * have one of these as their value get the path there. */
#define CELL_AUTHORITY "/run/atoll/ca.pem"
#define CELL_BUNDLE    "/run/atoll/ca-bundle.pem"
#define CELL_KEYSTORE  "/run/atoll/cacerts" /* only with namespaces */

/* The host's key stores of Java, at most `max` of them: real files, each once, the caller's.
 * Returns how many. */
size_t isolate_find_keystores(char **ret, size_t max);

/* What a run has used, from what counts it; 0 where nothing does. */
struct cell_usage {
	uint64_t memory_peak; /* bytes */
	uint64_t memory;      /* now, as of the latest look */
	uint64_t processes;   /* likewise; threads counted */
	uint64_t cpu_ms;
	uint64_t processes_peak; /* threads counted */
	uint64_t written;	 /* bytes, where the host keeps them */
	uint64_t files;		 /* made in writable roots */
	bool is_out_of_memory;	 /* the kernel has killed for want of memory */
};

struct backend {
	const char *name;    /* as a tier is written in a contract */
	const char *summary; /* one line */
	bool has_terminals;  /* the command can have one of its own */

	/* Say what this host offers, by trying. Changes nothing, needs no privilege. */
	int (*probe)(struct backend_report *ret, struct atoll_error *err);

	/*
	 * Do everything that can fail early; the command has not run yet. `env` is the command's
	 * environment (NULL-terminated, must outlive the cell). `extra`, which may be NULL, and its
	 * texts must outlive the cell, too. With a plan, every clause adds its line, and what is
	 * missing is a line, too; without one what is missing is a failure.
	 */
	int (*prepare)(const struct spec *spec, char *const *env, const struct cell_extra *extra,
		       struct plan *plan, struct cell **ret, struct atoll_error *err);

	/* The same lines as of a plan, about what was prepared to be started. */
	void (*describe)(const struct cell *cell, struct plan *plan);

	/* Start it, with these descriptors as the command's 0, 1 and 2 (and the contract's own).
	 * -1 stands for a terminal of the sandbox's own (INIT_TERMINAL). */
	int (*start)(struct cell *cell, const int stdio[3], struct cell_handle *ret,
		     struct atoll_error *err);

	/* Put other layers in the place of a live workspace's. Nothing but the first process may
	 * run inside. -EOPNOTSUPP where it cannot be done in place (something else is mounted in
	 * the workspace): then the cell has to be started anew. NULL: never. */
	int (*relayer)(struct cell *cell, const struct cell_handle *handle,
		       const struct cell_layer *layer, struct atoll_error *err);

	/* The places of that which is written beside the workspace, of a service with `root: layer`
	 * and ids of its own: the first is the root. False behind the last. NULL: there are none.
	 * And as whose a file of such an id is to be kept (base/ids.h). */
	bool (*written)(const struct cell *cell, size_t number, struct cell_written *ret);
	uint32_t (*kept_id)(const struct cell *cell, bool is_group, uint32_t id);

	/* In a service: one more command. `words_fd` is as of struct init_step_head, `number` is
	 * not used twice, `stdio` as for start(). What becomes of it is told over the control
	 * socket. NULL where there are no services. */
	int (*exec)(struct cell *cell, const struct cell_handle *handle, uint32_t number,
		    int words_fd, const int stdio[3], struct atoll_error *err);

	/* Take what came with INIT_LISTENER, until release(); -1: there may be some that are of no
	 * use any more. NULL where none comes. */
	void (*keep_listener)(struct cell *cell, int fd);

	/* End everything inside; the first process has ended, or is about to, when it returns. */
	void (*stop)(struct cell *cell, const struct cell_handle *handle);

	/* Who connected last from this port inside: its number there and its name, or 0 and "". */
	int32_t (*find_process)(const struct cell *cell, uint16_t local_port, char ret_program[16]);

	/* What has been used so far; also after the end. */
	void (*account)(const struct cell *cell, struct cell_usage *ret);

	/* Takes NULL. The first process has ended, and was waited for. Everything that was made for
	 * the cell is gone afterwards. */
	void (*release)(struct cell *cell);
};

/* The ids that a step of this user has to take, for struct init_step_head. False where it has
 * nothing to take: the contract names no users, or this caller has one id, which all of them are.
 */
bool isolate_user_ids(const struct spec *spec, size_t user, uid_t *ret_uid, gid_t *ret_gid);

extern const struct backend *const isolate_backends[]; /* NULL-terminated */
extern const struct backend ns_backend;
extern const struct backend bare_backend;

/*
 * Which one it is, found out by trying: namespaces where the host grants them, which is asked for
 * only where they have failed or where nothing is run (it takes a few milliseconds). `*ret_errnum`,
 * if not NULL, gets why they cannot be had, and 0 where they can.
 */
const struct backend *isolate_choose(int *ret_errnum);
/* Where there are none: what this host does ("grants no user namespaces"). */
const char *isolate_lack(void);

/* For a process that only forks others that start cells: what is costly to find out about this host
 * is remembered, and handed on. isolate_refresh() before each fork looks whether it still holds;
 * false: who was forked before knows something else. It holds for a moment: whoever lives on calls
 * isolate_forget() after its first cell. A child that has waited is told with isolate_confirm()
 * since when its parent knows that nothing has changed. */
void isolate_remember(void);
bool isolate_refresh(void);
void isolate_confirm(int64_t checked_ns);
void isolate_forget(void);

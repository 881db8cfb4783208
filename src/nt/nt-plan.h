/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt-label.h"
#include "nt/nt-token.h"

#include <atoll/error.h>

/*
 * The plan of an unelevated Windows run
 *
 * The planner turns what a contract asks for into operations that the engine carries out in order,
 * each with its inverse, and into the token, the job object and the environment of the command. It
 * decides; it changes nothing.
 *
 *	roots        each writable root has a capability SID for ever. The token has the SIDs of
 *	             this run's roots as restricting SIDs, so entries of other roots grant nothing.
 *	grant        an entry on the root itself for its SID (read, write, execute), and one that
 *	             all beneath inherits (also delete). None has DELETE_CHILD, which would let a
 *	             child be deleted whatever its own list says.
 *	label        "low" on the root, inherited by all beneath: the token has the same level, and
 *	             changes nothing that has no such label.
 *	protect      an inheritable denial on each protected path that exists, for the SID of the
 *	             root that it lies in, and the label "medium".
 *
 * Which reading of "write-restricted" (access-check.h) a Windows has is seen by the canaries.
 * Outside the roots the plan holds under both: the label refuses what the second walk lets pass.
 * Protected paths hold under the stronger reading. Under the weaker one the command could change
 * the list of the directory that holds a protected path, and rename that path; a canary tries to
 * change a list inside, and a run with protected paths is refused where it can.
 *
 * What Windows cannot keep without elevation is refused, unless the caller accepted it by name:
 *
 *	read         the token reads what the user may read: nothing can be hidden
 *	network      an unelevated process cannot be cut off from the network
 *	protect      a name that does not exist yet cannot be protected: rights are per directory
 *	limits       a limit that no job object has
 */

#define NT_PROTECTED_MAX  256
#define NT_OPERATIONS_MAX (3 * NT_ROOTS_MAX + 2 * NT_PROTECTED_MAX)

/* Rights that the capability SID of a root gets there, and that it loses on a protected path. */
#define NT_ROOT_RIGHTS	    (NT_FILE_GENERIC_READ | NT_FILE_GENERIC_WRITE | NT_FILE_GENERIC_EXECUTE)
#define NT_CHILD_RIGHTS	    (NT_ROOT_RIGHTS | NT_DELETE)
#define NT_PROTECTED_RIGHTS NT_COVERS_CHANGES

struct nt_root {
	const char *path; /* in the form of nt_path_read() */
	struct nt_sid sid;
};

struct nt_protected {
	const char *path; /* in the form of nt_path_read() */
	bool exists;
};

/* What may be weaker than the contract says, each accepted by name (--accept-weaker). */
#define NT_WEAKER_READ	  0x1U
#define NT_WEAKER_NETWORK 0x2U
#define NT_WEAKER_PROTECT 0x4U
#define NT_WEAKER_LIMITS  0x8U

/* The word for one of them, or NULL; and the other way, 0 for an unknown word. */
const char *nt_weaker_word(unsigned weaker);
unsigned nt_weaker_from_word(const char *word);

/* The part of a contract that the planner needs. */
struct nt_contract {
	const struct nt_root *roots;
	size_t n_roots;
	const struct nt_protected *protected;
	size_t n_protected;
	struct nt_sid user, logon;
	bool hides;	      /* a path, the home or secrets are to be invisible */
	bool cuts_network;    /* no network, or only listed names */
	const char *no_limit; /* a limit that Windows does not have ("disk"), or NULL */
	unsigned accepted;    /* NT_WEAKER_... */
	uint64_t memory_bytes, processes, cpu_percent, cpu_time_ms; /* 0: no limit */
};

enum nt_operation_kind {
	NT_ADD_GRANT,  /* add the entry; inverse: remove this SID's grants */
	NT_ADD_DENIAL, /* add the entry; inverse: remove this SID's denials */
	NT_ADD_LABEL,  /* add the label; inverse: remove it */
};

/* One change of one descriptor. Every kind changes nothing if the entry is there already. */
struct nt_operation {
	enum nt_operation_kind kind;
	const char *path;  /* of the contract */
	struct nt_sid sid; /* of the root that the operation belongs to */
	uint8_t flags;
	uint32_t mask;	/* rights of an entry */
	uint32_t level; /* of a label */
};

struct nt_job_limits {
	bool kill_on_close, no_breakaway; /* always set */
	bool no_clipboard, no_desktop, no_handles, no_system_parameters;
	uint64_t memory_bytes, processes, cpu_percent, cpu_time_ms;
};

/* Check number `i` of a job object that was read back, as nt_token_check(). */
const char *nt_job_check(const struct nt_job_limits *wanted, const struct nt_job_limits *found,
			 size_t i, bool *ret_holds);
const char *nt_job_differs(const struct nt_job_limits *wanted, const struct nt_job_limits *found);

struct nt_plan {
	struct nt_operation operations[NT_OPERATIONS_MAX];
	size_t n_operations;
	struct nt_token_spec token;
	struct nt_job_limits job;
	bool needs_strong_writes; /* protected paths: the canary must not change a list inside */
	unsigned weaker;	  /* clauses that do not hold, all of them accepted */
};

/*
 * Make the plan. Returns 0, or a negative errno with the reason:
 *	-EINVAL   roots that overlap, two roots with one SID, a protected path outside every root,
 *		  too many of either
 *	-EPERM    a clause that Windows cannot keep and that was not accepted
 */
int nt_plan_make(const struct nt_contract *contract, struct nt_plan *ret, struct atoll_error *err);

/* Carry an operation out on a descriptor. Returns 1 if the descriptor changed, 0 if the entry was
 * there, -EEXIST if the object has a label of its own, -E2BIG or -ENOMEM. */
int nt_operation_apply(const struct nt_operation *operation, struct nt_descriptor *sd);

/* Whether the descriptor has what the operation adds. */
bool nt_operation_holds(const struct nt_operation *operation, const struct nt_descriptor *sd);

/* Give an object beneath a root what it inherits from its directory: entries of `sid`, and the
 * label. Nothing changes in a list that is protected from inheritance. Returns 1 if the descriptor
 * changed, 0, -E2BIG or -ENOMEM. */
int nt_descend(const struct nt_descriptor *parent, bool is_directory, const struct nt_sid *sid,
	       struct nt_descriptor *sd);

/* Take everything of a root's SID out of a descriptor, and a label that atoll sets. Returns whether
 * the descriptor changed. */
bool nt_revoke(const struct nt_sid *sid, struct nt_descriptor *sd);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt.h"
#include "win/calls.h"

/*
 * A Windows in memory, for tests of the engine
 *
 * Files are those of nt-world.h; tokens, job objects, desktops and processes are structs here; the
 * access check of the model decides what the canary child gets. Call number N can be made to fail,
 * or to claim success and do nothing: results are zero then. Lies of the whole platform, such as
 * Wine's, are switches.
 */

enum fake_fault {
	FAKE_HONEST,
	FAKE_FAILS,
	FAKE_LIES,
};

struct fake_process {
	win_handle token, job;
	bool is_suspended, has_ended;
};

#define FAKE_HANDLES 1024

enum fake_kind {
	FAKE_NOTHING,
	FAKE_FILE,
	FAKE_TOKEN,
	FAKE_JOB,
	FAKE_DESKTOP,
	FAKE_PROCESS,
};

struct fake_handle {
	enum fake_kind kind;
	struct nt_file *file;
	struct nt_token_spec token;
	struct nt_job_limits limits;
	struct nt_sid desktop;
	struct fake_process process;
	bool is_ended; /* of a job */
};

struct fake {
	struct nt_world world;
	struct nt_sid user, logon;
	char *ledger;
	bool is_locked;
	uint32_t write_covers; /* which reading of "write-restricted" this Windows has */

	struct fake_handle *handles;
	size_t n_open;

	/* Faults. */
	size_t n_calls;
	size_t fault_at;  /* number of the call, from 1; 0: none */
	size_t faults_to; /* all calls up to this one, too; 0: only that one */
	enum fake_fault fault;
	char fault_call[32]; /* the name of the first call that had it */

	bool lie_is_truth; /* an honest call would have said the same */

	/* Lies of the platform. */
	bool ignores_restricting, ignores_privileges, ignores_integrity, ignores_lists,
		ignores_labels, ignores_limits, ignores_interface, ignores_desktop_list,
		ignores_second_walk, is_elevated;

	/* What happened. */
	size_t n_started; /* processes that were let run */
	size_t n_wrong;	  /* of them, those without the planned token or outside the job */
	uint32_t status;  /* that the command ends with */
	bool runs_for_ever;
};

int fake_init(struct fake *fake);
void fake_done(struct fake *fake);

struct win_calls fake_calls(struct fake *fake);

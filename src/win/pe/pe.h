/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/pe/win-error.h"
#include "win/win.h"

/*
 * The Win32 side of struct win_calls
 *
 *	win-file.c     lock, ledger, files by handle, descriptors
 *	win-token.c    caller, token
 *	win-job.c      job object
 *	win-desktop.c  desktop
 *	win-launch.c   processes, pipes, canary child
 *
 * A win_handle is a pointer to struct win_item. Nothing here decides: a call does what it is told
 * and reports what Windows says. Never run on Windows by us.
 */

enum win_item_kind {
	WIN_ITEM_HANDLE, /* closed by CloseHandle() */
	WIN_ITEM_DESKTOP,
	WIN_ITEM_PROCESS,
};

struct win_pump;

struct win_item {
	enum win_item_kind kind;
	HANDLE handle;
	HANDLE thread; /* of a process, its first one */
	bool was_started_suspended;
	struct win_pump *pumps[3];
};

struct win_host {
	char store[WIN_PATH_SIZE];
	HANDLE lock;
	char program[WIN_PATH_SIZE]; /* atoll.exe itself, for the canary child */
	uint64_t output_limit;	     /* bytes of standard output and error together */
	bool output_was_cut;
};

/* Fill in the table. Makes the store's directories. */
int win_host_open(const char *store, struct win_host *ret, struct win_calls *ret_calls,
		  struct atoll_error *err);

win_handle win_item_new(enum win_item_kind kind, HANDLE handle);
HANDLE win_item_handle(win_handle item);

/* Each module fills in its part. */
void win_file_calls(struct win_calls *calls);
void win_token_calls(struct win_calls *calls);
void win_job_calls(struct win_calls *calls);
void win_desktop_calls(struct win_calls *calls);
void win_launch_calls(struct win_calls *calls);

/* Shared between modules. */
int win_read_token(HANDLE token, struct nt_token_view *ret, struct atoll_error *err);
PSID win_sid(const struct nt_sid *sid, uint8_t buffer[NT_SID_SIZE_MAX]);
bool win_read_sid(PSID sid, struct nt_sid *ret);
void win_close_process(struct win_item *item);

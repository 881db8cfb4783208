/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt.h"

#include <stdint.h>

/*
 * The calls to Windows that the engine makes
 *
 * The engine (engine.h) decides and checks; this table does. Its functions are thin: each is one or
 * a few Win32 calls without a decision. win-*.c fill the table on Windows; fake.c fills it in tests
 * with the model of src/nt, where a call can be made to fail or to claim success and do nothing.
 *
 * Every function returns 0 or a negative errno with the reason. Results are written on success
 * only. Paths are UTF-8 in the form of nt_path_read(). A handle is never 0.
 */

typedef uintptr_t win_handle;

#define WIN_PATH_SIZE 32768
#define WIN_NAME_SIZE 64

struct win_identity {
	struct nt_sid user, logon;
	bool is_elevated; /* an administrator's full token */
	uint32_t session;
	unsigned n_processors;
};

struct win_object {
	char path[WIN_PATH_SIZE]; /* as Windows names the open file */
	bool is_directory;
	bool is_reparse; /* a junction, symbolic link or other reparse point */
};

/* Directories and files in them that the canary child tries its attempts on. */
struct win_canary {
	const char *path; /* a directory that holds the file "file" */
	unsigned granted; /* result: bit N for enum nt_attempt N */
};

struct win_launch {
	win_handle token, job, desktop;
	const char *desktop_name;
	const char *command_line;
	const char *environment; /* block of nt_environment_block() */
	size_t environment_size;
	const char *directory;
	bool is_terminal; /* ConPTY instead of pipes */
};

/* A process that was started and does not run yet. */
struct win_process_view {
	struct nt_token_view token;
	bool is_in_job;
	bool is_suspended;
};

struct win_calls {
	void *context;

	int (*identify)(void *context, struct win_identity *ret, struct atoll_error *err);
	int (*random)(void *context, uint8_t *ret, size_t size, struct atoll_error *err);

	/* One engine at a time works on a store. */
	int (*lock)(void *context, struct atoll_error *err);
	void (*unlock)(void *context);

	/* The ledger, "" if there is none yet; an appended line is on the disk when this returns.
	 */
	int (*read_ledger)(void *context, char **ret, size_t *ret_size, struct atoll_error *err);
	int (*append_ledger)(void *context, const char *line, struct atoll_error *err);

	/* What there is at a path: enum nt_file_kind, or a negative errno. Follows no link. */
	int (*kind)(void *context, const char *path);
	int (*make_directory)(void *context, const char *path, struct atoll_error *err);
	int (*make_file)(void *context, const char *path, struct atoll_error *err);
	/* A file or an empty directory. */
	int (*remove)(void *context, const char *path, struct atoll_error *err);

	/* Open to read and change the descriptor. Opens a link itself, never its target. */
	int (*open)(void *context, const char *path, win_handle *ret, struct atoll_error *err);
	int (*describe)(void *context, win_handle file, struct win_object *ret,
			struct atoll_error *err);
	int (*get_security)(void *context, win_handle file, struct nt_descriptor *ret,
			    struct atoll_error *err);
	/* DACL and label; nothing is handed on to other objects. */
	int (*set_security)(void *context, win_handle file, const struct nt_descriptor *sd,
			    struct atoll_error *err);
	/* The names in a directory, sorted, each with a NUL, and an empty one at the end. The
	 * caller frees them. */
	int (*list)(void *context, win_handle directory, char **ret, struct atoll_error *err);
	void (*close)(void *context, win_handle handle);

	int (*make_token)(void *context, const struct nt_token_spec *spec, win_handle *ret,
			  struct atoll_error *err);
	int (*read_token)(void *context, win_handle token, struct nt_token_view *ret,
			  struct atoll_error *err);
	int (*make_job)(void *context, const struct nt_job_limits *limits, win_handle *ret,
			struct atoll_error *err);
	int (*read_job)(void *context, win_handle job, struct nt_job_limits *ret,
			struct atoll_error *err);
	int (*make_desktop)(void *context, const char *name, const struct nt_sid *logon,
			    win_handle *ret, struct atoll_error *err);
	int (*read_desktop)(void *context, win_handle desktop, struct nt_descriptor *ret,
			    struct atoll_error *err);

	/* Run the canary child as the command would run, and write `granted` of each canary. */
	int (*run_canary)(void *context, const struct win_launch *launch,
			  struct win_canary *canaries, size_t n, struct atoll_error *err);

	/* The command: start it suspended, look at it, let it run, wait. -ETIME after the time. */
	int (*start)(void *context, const struct win_launch *launch, win_handle *ret,
		     struct atoll_error *err);
	int (*inspect)(void *context, win_handle process, win_handle job,
		       struct win_process_view *ret, struct atoll_error *err);
	int (*resume)(void *context, win_handle process, struct atoll_error *err);
	int (*wait)(void *context, win_handle process, uint64_t timeout_ms, uint32_t *ret_status,
		    struct atoll_error *err);

	/* End every process of the job, and count those that are left. */
	int (*end_job)(void *context, win_handle job, struct atoll_error *err);
	int (*count_job)(void *context, win_handle job, struct atoll_error *err);
};

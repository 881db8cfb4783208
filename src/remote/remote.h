/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <curl/curl.h>

/*
 * atoll-remote: the commands that a daemon executes
 *
 * `atoll --host URL exec ...` executes this program with the same arguments
 * (src/cli/remote-call.c). It is a separate program, because it links libcurl and jansson. Options,
 * output and exit statuses are those of the local commands; an option that makes no sense for a
 * daemon is refused.
 *
 *   remote-main.c         finds the command, runs it, prints its error
 *   remote-address.c      the address of the daemon, and the key
 *   remote-http.c         one request and its answer; errors of the daemon
 *   remote-stream.c       server-sent events of a step
 *   remote-exec.c         `exec`: output, the terminal; remote-exec-post.c  input, signals, resize
 *   remote-boxes.c        `create`, `ls`, `rm`, `pause`, `resume`
 *   remote-checkpoints.c  `checkpoint`, `rollback`, `fork`, `history`
 *   remote-changes.c      `diff`, `apply`, `undo`, `export`, `log`
 *   top.c                 `top`: keys; top-data.c  requests; top-show.c  the table; screen.c  the
 * terminal
 */

/* The daemon. */
struct remote {
	char *base;	 /* "http://127.0.0.1:8642", without a slash at the end */
	char *unix_path; /* of "unix:PATH"; else NULL */
	char *key;	 /* "" for none */
	CURL *easy;
	struct curl_slist *fields;
	int patience_s; /* the timeout of a request; 0: 120 */
};

/* The daemon of this process; main() opens it before it runs a command. */
extern struct remote remote;

/* The commands. */
struct command;
extern const struct command remote_create, remote_ls, remote_rm, remote_pause, remote_resume,
	remote_exec, remote_checkpoint, remote_rollback, remote_fork, remote_history, remote_diff,
	remote_apply, remote_undo, remote_export, remote_log, remote_top;
/* All commands; ends with NULL. */
extern const struct command *const remote_commands[];
/* The exit status of a shell after the latest failure, if the daemon reports one (126, 127); else
 * 0. */
extern int remote_exit_status;

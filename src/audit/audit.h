/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What happened
 *
 * Every run and every sandbox has a log: lines of JSON (doc/events.md), one event each. A line
 * names the hash of the one before it, so that lines form a chain; the same hashes are the leaves
 * of a Merkle tree (RFC 6962), whose head is signed now and then, and stands in the log as a line
 * of its own. So one file tells all, and a copy of it can be checked anywhere.
 *
 * The last head of a log is entered into the tree of its store, a log of logs: one that has gone
 * as a whole, or that stands under another's name, is found there.
 *
 *   log.c     one log: lines to the file, chained, and heads; log-reopen.c: going on with one
 *   log-line.c    the form of a line
 *   merkle.c    the Merkle tree: its right edge, roots, proofs
 *   runs.c    the store's tree of logs
 *   note.c    heads as signed notes
 *   key.c     the key: made and read; key-trust.c: handed over, and which keys count
 *   log-check.c   a log the other way round, line by line; verify.c: a log, a store
 *   redact.c  what is left out of a line
 *
 * The store is $XDG_STATE_HOME/atoll (layer/store.c has the rules for it), and in it:
 *
 *   log/ID.jsonl     one log; whoever writes it holds its lock (flock)
 *   log/ID.edge      the tree's right edge at a late place of a long log; can be made anew from it
 *   log/spare        an empty file, the next log's
 *   log/ID.out       output, where the contract says that it is kept
 *   log/runs.jsonl   the store's tree: a line for each log that was closed
 *   log/checkpoint   its signed head, replaced as a whole
 *   log/hashes       what files were found to contain, by device, inode, size and times
 *   keys/            the signing key (0600, PKCS #8 PEM) and all public ones
 *
 * A sandbox reaches none of it: the store is never part of a contract.
 */

#define AUDIT_HASH_SIZE 32

struct audit_log;

/* ---- log.c ---- */

/* A new log, with its first line: `what` is "run" or "sandbox"; `parent` is what it was forked
 * from, or NULL. -EEXIST if there is one of that id. The store and its key are made if there are
 * none. */
int audit_create(const char *id, const char *what, const char *parent, struct audit_log **ret,
		 struct atoll_error *err);
/* Go on with one that exists, a sandbox's: what was half written at its end is cut off, with a line
 * that says so. Waits for whoever writes it now. */
int audit_reopen(const char *id, struct audit_log **ret, struct atoll_error *err);

/*
 * One event. audit_begin() opens the line's object and fills in what all lines have; the caller
 * adds to it with json_...(), and audit_commit() ends it and puts it behind the others, in memory.
 * `time_ns` is since 1970; 0: now. `step` is 0 for what belongs to none.
 */
struct json *audit_begin(struct audit_log *log, const char *kind, uint64_t time_ns, uint32_t step);
int audit_commit(struct audit_log *log, struct atoll_error *err);
/* The line that was committed last, without its end; for whoever watches. Valid until the next
 * audit_begin(). */
const char *audit_last_line(const struct audit_log *log, size_t *ret_size);

/* A line that is not for the log: made like one, with a `seq` of 2^64 - 1, for audit_last_line()
 * behind audit_end_unlogged(). */
struct json *audit_begin_unlogged(struct audit_log *log, const char *kind, uint64_t time_ns,
				  uint32_t step);
void audit_end_unlogged(struct audit_log *log);
/* The log's size, with what waits to be written. */
uint64_t audit_bytes(const struct audit_log *log);
/* Free space where the log is written, and the floor that stays free: 5 %, at most 1 GiB. */
int audit_space(const struct audit_log *log, uint64_t *ret_free, uint64_t *ret_floor);

/* The highest step that a line belongs to, also of those that were there before. */
uint32_t audit_last_step(const struct audit_log *log);

/* How many bytes wait to be written. */
size_t audit_pending(const struct audit_log *log);
/* Write them. On failure (-ENOSPC, -EDQUOT, -EIO) all that could not be written waits on, and it
 * can be tried again. */
int audit_flush(struct audit_log *log, struct atoll_error *err);
/* Sign all that was committed, as a line, and write. `is_last`: enter it into the store's tree,
 * too. `is_synced`: to the disk itself, which takes milliseconds. */
int audit_seal(struct audit_log *log, bool is_last, bool is_synced, struct atoll_error *err);
/* What audit_seal() does that needs no more lines: write those that there are, and read the key. It
 * is in memory from here on until audit_seal() or audit_close(), so nothing may be cloned from here
 * that is not trusted. What cannot be done now is done then. */
void audit_prepare_seal(struct audit_log *log);
/* Takes NULL. What was not written is lost. The lock is let go even if a child still has the
 * descriptor (which is closed at exec; a child that only forks closes it, as it does others). */
void audit_close(struct audit_log *log);
/* Make the next log's file ahead, while there is time: on some disks that takes longer than writing
 * a small log. Fine if it fails. */
void audit_make_spare(const struct audit_log *log);

/* ---- log-remove.c ---- */

/* Remove a log and what is kept with it; the store's tree gets a leaf that says so. -EBUSY if
 * somebody writes it. */
int audit_remove(const char *id, struct atoll_error *err);

/* ---- redact.c ---- */

/*
 * Put `text` behind `out` without what looks like a secret: credentials in URLs, values of flags
 * and variables with telling names, tokens of known forms, authorization headers. Each becomes
 * "[redacted]". `previous` is the argument before it, or NULL: "--password" "x". Returns how many
 * were left out.
 */
unsigned audit_redact(const char *text, size_t size, const char *previous, struct buf *out);

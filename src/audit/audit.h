/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/event-rules.h"
#include "audit/log-check.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "base/json.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The event log
 *
 * Each run and each sandbox has one log: lines of JSON (doc/events.md), one event per line. A line
 * contains the hash of the line before, so the lines form a chain. The same hashes are the leaves
 * of a Merkle tree (RFC 6962). Its head is signed at intervals and written as a line of the log. So
 * one file is complete evidence, and a copy of it can be checked anywhere.
 *
 * The last head of a log becomes a leaf in the tree of its store. That tree shows if a whole log
 * was deleted or renamed.
 *
 *   log.c          one log: lines, chain, heads, the file; log-reopen.c  continues a sandbox's log
 *   log-line.c     the form of a line
 *   log-check.c    checks a log line by line; verify.c  checks a log, or a store
 *   merkle.c       the Merkle tree: right edge, roots, proofs; proof.c  proofs as files
 *   runs.c         adds to the store's tree of logs; runs-read.c  reads and checks it
 *   note.c         heads as signed notes
 *   key.c          the signing key; key-trust.c  hand-overs and trusted keys; key-form.c  key
 * formats redact.c       removes secrets from texts before they are logged event-rules.c  rules
 * that watch the events of a run (--rule)
 *
 * The store is $XDG_STATE_HOME/atoll (base/state.h finds it). The files here are:
 *
 *   log/ID.jsonl     one log; its writer has an exclusive lock (flock)
 *   log/ID.edge      a position in a long log of a sandbox; can be computed again from the log
 *   log/spare        an empty file that the next log gets by a rename
 *   log/ID.out       output, if the contract keeps it
 *   log/runs.jsonl   the store's tree: one line per closed log
 *   log/checkpoint   the signed head of that tree, replaced as a whole
 *   log/hashes       hashes of executed files, by device, inode, size and times
 *   keys/            the signing key (0600, PKCS #8 PEM) and all public keys
 *
 * A sandbox cannot reach the store: no contract can grant it.
 */

#define AUDIT_HASH_SIZE 32
_Static_assert(AUDIT_HASH_SIZE == HASH_SIZE, "");

struct audit_log;

/* ---- log.c, log-reopen.c ---- */

/* Creates a log with its first line. `what` is "run" or "sandbox"; `parent` is the id that it was
 * forked from, or NULL. -EEXIST if there is a log of that id. Creates the store and its key if they
 * are missing. */
int audit_create(const char *id, const char *what, const char *parent, struct audit_log **ret,
		 struct atoll_error *err);
/* Opens an existing log of a sandbox to append to it. Waits for the lock. Cuts off an incomplete
 * line at the end and logs that as an event. */
int audit_reopen(const char *id, struct audit_log **ret, struct atoll_error *err);

/*
 * One event: audit_begin() opens the JSON object of a line and writes the members that all lines
 * have. The caller adds members with json_...(). audit_commit() closes the line and appends it to
 * the pending lines in memory. `time_ns` is since 1970; 0: now. `step` is 0 if the event belongs to
 * none.
 */
struct json *audit_begin(struct audit_log *log, const char *kind, uint64_t time_ns, uint32_t step);
int audit_commit(struct audit_log *log, struct atoll_error *err);
/* The line that was committed last, without its newline. Valid until the next audit_begin(). */
const char *audit_last_line(const struct audit_log *log, size_t *ret_size);

/* A line that is not appended to the log, for event rules and the monitor only: its `seq` is
 * 2^64 - 1. After audit_end_unlogged(), audit_last_line() returns the line. */
struct json *audit_begin_unlogged(struct audit_log *log, const char *kind, uint64_t time_ns,
				  uint32_t step);
void audit_end_unlogged(struct audit_log *log);
/* The size of the log with its pending lines. */
uint64_t audit_bytes(const struct audit_log *log);
/* The free space of the log's file system, and the part of it that must stay free: 5 %, at most
 * 1 GiB. */
int audit_space(const struct audit_log *log, uint64_t *ret_free, uint64_t *ret_floor);

/* The highest step of any line, also of lines from before a reopen. */
uint32_t audit_last_step(const struct audit_log *log);

/* The size of the pending lines. */
size_t audit_pending(const struct audit_log *log);
/* Writes the pending lines. After a failure (-ENOSPC, -EDQUOT, -EIO) the unwritten bytes stay
 * pending, and the call can be repeated. */
int audit_flush(struct audit_log *log, struct atoll_error *err);
/* Signs all committed lines with a head, and writes. `is_last`: also adds the head to the store's
 * tree. `is_synced`: waits for the disk, which takes milliseconds. */
int audit_seal(struct audit_log *log, bool is_last, bool is_synced, struct atoll_error *err);
/* The part of audit_seal() that can be done before the last line: writes the pending lines and
 * reads the private key. The key stays in memory until audit_seal() or audit_close(), so the
 * process must not clone anything untrusted in between. Ignores failures: audit_seal() repeats
 * them. */
void audit_prepare_seal(struct audit_log *log);
/* Frees the log; NULL is allowed. Pending lines are lost. Unlocks the file explicitly, because a
 * forked child may still have the descriptor. */
void audit_close(struct audit_log *log);
/* Creates log/spare for the next log. On some file systems creating a file takes longer than
 * writing a small log. Ignores failures. */
void audit_make_spare(const struct audit_log *log);

/* ---- log-remove.c ---- */

/* Removes a log and its other files; the store's tree gets a leaf of the kind "removed". -EBUSY if
 * a process writes the log. */
int audit_remove(const char *id, struct atoll_error *err);

/* ---- redact.c ---- */

/*
 * Appends `text` to `out` without what looks like a secret: credentials in URLs, values of flags
 * and variables whose names say so, tokens of known forms, authorization headers. Each becomes
 * "[redacted]". `previous` is the argument before `text`, or NULL: "--password" "x". Returns the
 * number of secrets.
 */
unsigned audit_redact(const char *text, size_t size, const char *previous, struct buf *out);

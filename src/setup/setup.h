/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct atoll_error;
struct buf;

/*
 * How is the machine prepared?
 *
 * `atoll setup` makes a list of changes that the machine should have, compares it with what is
 * there, and makes what is missing. It is a program of its own (atoll-setup, in libexec), because
 * it needs libraries that `atoll run` should not load.
 *
 *   setup.c     what is asked: plan, make, undo, restore, status
 *   ledger.c    the list of changes that were made, on disk; entries.c: what may stand in it
 *   kinds.c     plain files, links, directories, the switches of control groups
 *   lines.c     lines in files of the system's accounts
 *   accounts.c  which lines those are
 *   firewall.c  a table of our own in the kernel's packet filter; its rules: firewall-rules.c
 *   groups.c    a control group for root's runs, and the unit that restores all after a boot
 *
 * A change is one JSON object, the same in memory, in the ledger and in the output: `step`, `kind`,
 * `path`, `text`, and beneath `before` what was there. Its kind knows how to see whether it is in
 * effect, to make it, and to take it back.
 *
 * Order. A change is entered in the ledger, and the ledger is on disk, before the change is made;
 * an undone change is struck out afterwards. Whether an entry is in effect is never recorded but
 * looked up. So a kill or a power cut at any moment leaves a state from which both `atoll setup`
 * and `--undo` go on. Undo goes through the ledger backwards. What is no longer as we made it
 * belongs to whoever changed it: it is left, named, and stays in the ledger.
 */

#define SETUP_DIR    "/var/lib/atoll"
#define SETUP_LEDGER "setup.json"

enum change_state {
	CHANGE_ABSENT,
	CHANGE_PRESENT,
	CHANGE_PARTIAL,	  /* some of it: ours if it is entered, somebody else's if not */
	CHANGE_DIFFERENT, /* something else stands in its place */
};

struct change_kind {
	const char *name;
	bool is_shared;	  /* if it is there already, so much the better: nothing to undo then */
	bool is_volatile; /* a boot takes it away: --restore makes it again */

	/* An enum change_state, or a negative errno. */
	int (*check)(const json_t *change, struct atoll_error *err);
	/* Put down beneath "before" what will be needed for undoing; NULL where that is nothing. */
	int (*note)(json_t *change, struct atoll_error *err);
	/* Also repairs: called for what is absent, or was made by us and differs now. */
	int (*apply)(const json_t *change, struct atoll_error *err);
	/* 0 if nothing of ours is left, in whatever state it was; 1 and a reason if something had
	 * to be left, because it is not ours any more or is in use. */
	int (*undo)(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err);
};

#define SETUP_REASON_SIZE 256

extern const struct change_kind kind_lines, kind_file, kind_link, kind_directory, kind_lock,
	kind_table, kind_group, kind_controller;

const struct change_kind *change_kind(const json_t *change);
const char *change_text(const json_t *change, const char *key); /* "" where there is none */
json_t *change_new(const char *step, const struct change_kind *kind, const char *path,
		   const char *text);

/* ---- the ledger ---- */

struct ledger {
	json_t *changes; /* in the order in which they were made */
	bool exists;	 /* there is one, whether or not it could be read */
	bool is_readable;
	int dir_fd;  /* its directory; -1 if nothing is to be changed */
	int lock_fd; /* a file in it, locked against a second `atoll setup`; likewise */
};

/* Read it. To change anything one needs the lock, and with it the directory, which is made. */
int ledger_open(struct ledger *ledger, bool to_change, struct atoll_error *err);
int ledger_save(const struct ledger *ledger, struct atoll_error *err);
/* Nothing is entered any more: remove it and its directory. */
int ledger_remove(const struct ledger *ledger, struct atoll_error *err);
void ledger_close(struct ledger *ledger);
json_t *ledger_find(const struct ledger *ledger, const json_t *change);
/* Is this an entry that one of the steps makes, on any machine and in any version? */
bool entry_is_ours(const json_t *change);

/* ---- steps ---- */

struct setup {
	struct ledger ledger;
	json_t *wanted;
	json_t *notes;	    /* for people: what cannot be had here */
	uint32_t ids[2];    /* of the accounts */
	bool is_restricted; /* not root: what cannot be read is left out */
};

struct setup_step {
	const char *name;
	const char *summary;
	/* Append the changes that the machine should have to setup->wanted. Changes nothing. */
	int (*plan)(struct setup *setup, struct atoll_error *err);
};

extern const struct setup_step step_accounts, step_ids, step_groups, step_firewall, step_boot;

/* ---- small helpers ---- */

/* The whole of a plain file; -ENOENT without a story, because that is often no failure. */
int setup_read(const char *path, struct buf *ret, struct atoll_error *err);
/* The places of the steps, for those that make them and for entries.c. */
#define SETUP_PWD_LOCK "/etc/.pwd.lock"
#define SETUP_UNITS    "/etc/systemd/system"
#define SETUP_UNIT     "atoll-setup.service"
#define SETUP_WANTS    SETUP_UNITS "/sysinit.target.wants"
#define SETUP_TABLE    "inet atoll"
/* Ids of the two accounts. */
#define SETUP_ID_MIN 101
#define SETUP_ID_MAX 999
/* Does a path lie on a hierarchy of control groups? */
bool setup_is_cgroup(const char *path);
/* fsync() of the directory that a path lies in. */
int setup_sync_parent(const char *path, struct atoll_error *err);
int setup_fail(struct atoll_error *err, const char *what, const char *path);

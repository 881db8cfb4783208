/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/sid.h"

#include <atoll/error.h>

/*
 * The ledger: what atoll has changed on this machine
 *
 * A text file that is only appended to. A line is written and flushed before the change that it
 * announces, so that a crash leaves an announcement too many and never a change without one:
 *
 *	atoll1 KIND FIELD... CHECKSUM
 *
 *	root NUMBER SID PATH    the capability SID of a writable root, for ever
 *	changing NUMBER         lists of the root are being changed
 *	granted NUMBER          every list of the root has its entries
 *	returned NUMBER         every entry was taken back
 *	made PATH               a placeholder or canary was made
 *	removed PATH            it is gone
 *	account NAME, rule NAME, filter GUID, profile PATH, registry KEY
 *				of the elevated set-up, each before it is made
 *	undone KIND NAME        it is gone
 *
 * Fields are separated by tabs; %, tabs, line feeds and controls in them are %XX. The checksum
 * (CRC-32) finds torn and damaged lines, which are counted and skipped: the others still count. A
 * ledger that is lost does not lose the entries: every capability SID of atoll is known by its
 * second number (nt_sid_is_ours()), and `doctor --repair PATH` looks for these.
 */

enum nt_root_state {
	NT_ROOT_FREE,	  /* no entries on files */
	NT_ROOT_CHANGING, /* perhaps some */
	NT_ROOT_GRANTED,  /* all */
};

struct nt_ledger_root {
	unsigned number;
	struct nt_sid sid;
	char *path;
	enum nt_root_state state;
};

struct nt_ledger_thing {
	char *kind; /* "made", "account", "rule", "filter", "profile", "registry" */
	char *name;
};

struct nt_ledger {
	struct nt_ledger_root *roots;
	size_t n_roots;
	struct nt_ledger_thing *things; /* that exist, perhaps */
	size_t n_things;
	size_t n_damaged; /* lines that could not be read */
};

#define NT_LEDGER_SIZE_MAX (64 << 20)
#define NT_LEDGER_LINE_MAX 100000

/* Read a whole ledger. Damaged lines are counted, not fatal. Returns 0 or -ENOMEM. */
int nt_ledger_read(const char *text, size_t size, struct nt_ledger *ret);
void nt_ledger_done(struct nt_ledger *ledger);

const struct nt_ledger_root *nt_ledger_find(const struct nt_ledger *ledger, const char *path);

/* Write one line with its checksum into fresh memory that the caller frees. `fields` ends with
 * NULL. NULL if memory ran out. */
char *nt_ledger_line(const char *kind, const char *const *fields);

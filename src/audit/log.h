/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/key.h"
#include "audit/merkle.h"
#include "base/json.h"

#include <atoll/audit.h>
#include <stdbool.h>
#include <stdint.h>

struct audit_log {
	int state_fd, fd;
	char id[ATOLL_ID_SIZE];
	struct audit_key key;
	struct audit_place place;     /* after the last committed line, written or not */
	struct buf pending;	      /* lines that are not written yet */
	size_t line_start, last_size; /* the last line, in `pending` */
	struct json json;
	uint32_t last_step; /* the highest step of any line */
	bool is_sandbox;
	uint64_t saved_bytes;	   /* the position that ID.edge has */
	bool has_key;		   /* the private key is in memory */
	bool is_sealed, is_closed; /* the last line is a head; it is the last head */
	bool is_entered;	   /* the store's tree has the last head */
	uint64_t head_size;	   /* of the latest head, if `is_sealed` */
	unsigned char head_root[HASH_SIZE];
};

/* Opens the store and its key. The log has no file yet; audit_close() frees it. */
int audit_new_log(const char *id, struct audit_log **ret, struct atoll_error *err);
/* Opens and locks the log's file. `flags`: O_CREAT | O_EXCL, or 0. */
int audit_open_file(struct audit_log *log, int flags, struct atoll_error *err);
/* Commits the first line, of the kind "open". */
int audit_add_open(struct audit_log *log, const char *what, const char *parent,
		   struct atoll_error *err);

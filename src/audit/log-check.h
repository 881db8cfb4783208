/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/key-trust.h"
#include "audit/merkle.h"

#include <atoll/audit.h>
#include <stdbool.h>
#include <stdint.h>

struct audit_entry;
struct audit_key;

/* The state of checking one log, line by line. The caller fills in `trust` and, where a certain log
 * is expected, `run`, `store` and `known`. */
struct audit_check {
	struct audit_trust *trust;    /* NULL: do not check signatures */
	struct audit_place place;     /* after the last good line */
	char run[ATOLL_ID_SIZE];      /* expected, or taken over from the first line */
	char store[AUDIT_STORE_SIZE]; /* the same */
	char what[16];		      /* of the first line: "run" or "sandbox" */
	uint64_t n_signed;	      /* lines before the latest good head, with the head itself */
	uint64_t head_size;	      /* of the latest head */
	unsigned char head_root[HASH_SIZE];
	char key[AUDIT_KEY_SIZE]; /* the key that signed it */
	uint32_t last_step;	  /* the highest step of any line */
	bool is_closed;		  /* the line before was a last head */
	uint64_t bad_line;	  /* the number of the wrong line, from 1 */

	/* The sizes and roots that the store's tree has for this log; each is compared. */
	uint64_t known_size; /* the largest; 0 for none */
	const struct audit_entry *known;
	size_t n_known; /* entries that are not compared yet */

	/* The hash in the line before does not match the line before that one. The next line shows
	 * which of the two was changed. */
	bool is_suspect;
	unsigned char suspect[HASH_SIZE];
};

/* Checks the next line. -EBADMSG with a message that begins with "line N: ", or -EKEYREJECTED if
 * only the key is not trusted. */
int audit_check_line(struct audit_check *check, const char *line, size_t size,
		     struct atoll_error *err);
/* Checks what is left at the end of the log. */
int audit_check_end(struct audit_check *check, struct atoll_error *err);
/* Reads from the descriptor's offset to the end and calls line() for each complete line. `ret_cut`
 * is the number of bytes after the last newline. */
int audit_each_line(int fd, int (*line)(void *, const char *, size_t, struct atoll_error *),
		    void *arg, uint64_t *ret_cut, struct atoll_error *err);
int audit_check_fd(struct audit_check *check, int fd, uint64_t *ret_cut, struct atoll_error *err);

/* Appends a head for `place` to `out`: the complete line without its newline. */
void audit_head_line(const struct audit_place *place, const char *run, uint64_t time_ns,
		     bool is_last, const struct audit_key *key, struct buf *out);

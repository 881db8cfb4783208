/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit.h"
#include "base/hash.h"

#include <atoll/audit.h>
#include <limits.h>

/*
 * The record from within: hashes, notes, keys, the tree of logs, and checking
 */

_Static_assert(AUDIT_HASH_SIZE == HASH_SIZE, "");

#define AUDIT_STORE_SIZE 17 /* 16 hex digits and the end */
#define AUDIT_KEY_SIZE	 17
#define AUDIT_TIME_SIZE	 31 /* 2026-11-16T10:45:39.123456789Z, and the end */

/* A story that is told to its end: `code` is for programs, and no words of the system follow. */
#define audit_refuse(err, fault, code, ...) (error_set(err, fault, 0, __VA_ARGS__), -(code))

/* A buffer of a fixed size on the stack. Logs may be open for days, and the program's memory is
 * made for minutes (base/libc.c), so what is done again and again allocates nothing. */
#define AUDIT_STACK_BUF(name, size)                                                                \
	char name##_room[size];                                                                    \
	struct buf name = {.data = name##_room, .room = (size), .limit = (size)-1}

/* ---- merkle.c ---- */

/*
 * The right edge of a Merkle tree (RFC 6962, section 2.1): `nodes[k]` is the root over the 2^k
 * leaves that it stands for, and valid if `size` has bit k. All that is needed to add to the tree.
 */
struct audit_edge {
	uint64_t size;
	unsigned char nodes[64][HASH_SIZE];
};

void audit_leaf(const void *line, size_t size, unsigned char ret[HASH_SIZE]);
void audit_node(const unsigned char left[HASH_SIZE], const unsigned char right[HASH_SIZE],
		unsigned char ret[HASH_SIZE]);
void audit_edge_add(struct audit_edge *edge, const unsigned char leaf[HASH_SIZE]);
void audit_edge_root(const struct audit_edge *edge, unsigned char ret[HASH_SIZE]);

/*
 * An edge as a line of text, with how many bytes of the file it stands for and the hash of the last
 * line: "edge SIZE BYTES HASH NODE,NODE..." without its end, nodes of the largest trees first.
 * Reading says whether it was one; `ret` is left half filled if not.
 */
struct audit_place {
	struct audit_edge edge;
	uint64_t bytes;
	unsigned char prev[HASH_SIZE];
};
void audit_place_format(const struct audit_place *place, struct buf *out);
bool audit_place_parse(const char *text, size_t size, struct audit_place *ret);

/*
 * Proofs over `n` leaves (RFC 6962, 2.1.1 and 2.1.2). Made: at most 64 (128) hashes into `ret`;
 * returns how many. Checked: what roots follow, compared with those given.
 */
#define AUDIT_PROOF_MAX 128
void audit_tree_root(const unsigned char (*leaves)[HASH_SIZE], uint64_t n,
		     unsigned char ret[HASH_SIZE]);
size_t audit_prove_inclusion(const unsigned char (*leaves)[HASH_SIZE], uint64_t n, uint64_t index,
			     unsigned char ret[AUDIT_PROOF_MAX][HASH_SIZE]);
size_t audit_prove_consistency(const unsigned char (*leaves)[HASH_SIZE], uint64_t n, uint64_t old,
			       unsigned char ret[AUDIT_PROOF_MAX][HASH_SIZE]);
bool audit_check_inclusion(const unsigned char leaf[HASH_SIZE], uint64_t index, uint64_t size,
			   const unsigned char (*proof)[HASH_SIZE], size_t n,
			   const unsigned char root[HASH_SIZE]);
bool audit_check_consistency(uint64_t old_size, const unsigned char old_root[HASH_SIZE],
			     uint64_t size, const unsigned char root[HASH_SIZE],
			     const unsigned char (*proof)[HASH_SIZE], size_t n);

/* ---- key.c ---- */

struct audit_key {
	char store[AUDIT_STORE_SIZE];
	char id[AUDIT_KEY_SIZE];
	unsigned char public[32];
	unsigned char secret[64]; /* as libsodium wants it: the seed, then the public key */
};

/* The store's key; -ENOENT without a story if there is none. */
int audit_key_read(int state_fd, struct audit_key *ret, struct atoll_error *err);
/* The same; made if there is none. `state_fd` is the store's directory. */
int audit_key_load(int state_fd, struct audit_key *ret, struct atoll_error *err);
void audit_key_done(struct audit_key *key); /* wipes it */
/* A new one, of a store or (NULL) of a new store. */
void audit_key_make(const char *store, struct audit_key *ret);
/* Into keys/; the private one under a name that nobody looks for. */
int audit_key_write_public(int state_fd, const struct audit_key *key, struct atoll_error *err);
int audit_key_write_private(int state_fd, const struct audit_key *key, char ret_path[64],
			    struct atoll_error *err);
/* Whole and on the disk (0600), or not at all. */
int audit_key_write_file(int state_fd, const char *path, const struct buf *text,
			 struct atoll_error *err);
/* First 8 bytes of the SHA-256 of the public key in DER, in hex. */
void audit_key_id(const unsigned char public[32], char ret[AUDIT_KEY_SIZE]);
/* All forms of the public one. */
void audit_key_forms(const struct audit_key *key, struct atoll_key *ret);
/* Any of these. */
bool audit_key_parse_public(const char *text, unsigned char ret[32]);

/* Public keys that count, and from which one it follows that they do. */
#define AUDIT_TRUST_MAX 256
struct audit_trust {
	struct {
		unsigned char public[32];
		char id[AUDIT_KEY_SIZE];
	} keys[AUDIT_TRUST_MAX];
	size_t n;
};
void audit_trust_add(struct audit_trust *trust, const unsigned char public[32]);
bool audit_trust_has(const struct audit_trust *trust, const char *id);
/* Take in a hand-over, if one of its two keys counts and both have signed it: then the other counts
 * as well. Says whether that is news. */
bool audit_trust_hand_over(struct audit_trust *trust, const char *note, size_t size);
/* The hand-over of a key in keys/, and to which one. Its size, or a negative errno. */
#define AUDIT_HAND_OVER_MAX 1024
int audit_hand_over_read(int state_fd, const char *id, char ret[AUDIT_HAND_OVER_MAX],
			 char ret_to[AUDIT_KEY_SIZE]);
/* All that are tied by the store's hand-overs to what is in `ret` already; and, `with_current`, to
 * the store's own key, -ENOENT without a story if it has none. */
int audit_trust_load(int state_fd, bool with_current, struct audit_trust *ret,
		     struct atoll_error *err);

/* Whose signatures count: those of options->key_path, or of the store. `state_fd` may be -1. */
int audit_trust_for(int state_fd, const struct atoll_verify_options *options,
		    struct audit_trust *ret, struct atoll_error *err);
/* ---- note.c ---- */

/* How a signature names its key. */
void audit_key_hint(const char *name, const unsigned char public[32], unsigned char ret[4]);
/* Sign `text`, which ends with a newline, under the name "atoll/STORE": the whole note to `out`. */
void audit_note_sign(const struct audit_key *key, const char *text, size_t size, struct buf *out);
/* One signature line more for a note that has at least one. `size` is that of the text alone. */
void audit_note_cosign(const struct audit_key *key, size_t size, struct buf *note);
/* Where the text of a note ends: behind the newline before the blank line; 0 if it is none. */
size_t audit_note_text(const char *note, size_t size);
/* Has this key signed it, under that name? */
bool audit_note_is_signed(const char *note, size_t size, const char *name,
			  const unsigned char public[32]);
/* Which trusted key has? Index, or -1. */
int audit_note_signer(const char *note, size_t size, const char *name,
		      const struct audit_trust *trust);
/* Is there a signature that says that it is a trusted key's, right or wrong? */
bool audit_note_is_hinted(const char *note, size_t size, const char *name,
			  const struct audit_trust *trust);

/* What a checkpoint's text says (C2SP tlog-checkpoint). */
struct audit_head {
	char origin[64];
	uint64_t size;
	unsigned char root[HASH_SIZE];
	const char *more; /* extension lines, in the text that was parsed */
	size_t more_size;
};
void audit_head_format(const struct audit_head *head, struct buf *out);
bool audit_head_parse(const char *note, size_t size, struct audit_head *ret);

void audit_base64(const unsigned char *data, size_t size, struct buf *out);
/* Exactly `size` bytes, in the one right form. */
bool audit_from_base64(const char *text, size_t length, unsigned char *ret, size_t size);

/* ---- log-line.c ---- */

#define AUDIT_LINE_MAX ((size_t)1 << 20) /* without the newline */

/* The beginning that all lines have. */
struct audit_line {
	unsigned char prev[HASH_SIZE];
	uint64_t seq;
	char time[AUDIT_TIME_SIZE];
	char run[ATOLL_ID_SIZE];
	uint32_t step; /* 0: none */
	char kind[24];
	const char *members; /* what follows the kind, from its comma or closing brace on */
	size_t members_size;
};

/* Is it written like an id of a run? */
bool audit_is_id(const char *text);
void audit_time_format(uint64_t time_ns, char ret[AUDIT_TIME_SIZE]);
/* All up to and with the kind; no brace at the end. */
void audit_line_format(const struct audit_line *line, struct buf *out);
/* The strict way back. NULL, or what is wrong with it. */
const char *audit_line_parse(const char *text, size_t size, struct audit_line *ret);
/* Is it one JSON value, whole, in UTF-8 and without blanks? */
bool audit_json_is_valid(const char *text, size_t size);
/* A member behind the kind that is a string. */
int audit_line_string(const struct audit_line *line, const char *key, char *ret, size_t room);

/* The value of a member of an object that is valid JSON. -ENOENT, -EBADMSG. */
int audit_json_member(const char *text, size_t size, const char *key, const char **ret,
		      size_t *ret_size);
/* A string, with the escapes of our writer undone: its size, or -EBADMSG, -E2BIG. */
int audit_json_string(const char *text, size_t size, char *ret, size_t room);

/* ---- log.c, log-reopen.c ---- */

struct audit_log {
	int state_fd, fd;
	char id[ATOLL_ID_SIZE];
	struct audit_key key;
	struct audit_place place; /* `bytes`: with those that wait */
	struct buf pending;
	size_t line_start, last_size; /* in `pending` */
	struct json json;
	uint32_t last_step; /* the highest that a line belongs to */
	bool is_sandbox;
	uint64_t saved_bytes;	   /* how far ID.edge is */
	bool has_key;		   /* the private one is in memory */
	bool is_sealed, is_closed; /* the last line is a head; and says that it is the last */
	bool is_entered;	   /* and the store's tree knows */
	uint64_t head_size;	   /* of the latest head, if `is_sealed` */
	unsigned char head_root[HASH_SIZE];
};

/* The store, the key, and an empty log; what audit_close() takes. */
int audit_new_log(const char *id, struct audit_log **ret, struct atoll_error *err);
/* Its file, with O_CREAT and O_EXCL or 0, and its lock. */
int audit_open_file(struct audit_log *log, int flags, struct atoll_error *err);
int audit_add_open(struct audit_log *log, const char *what, const char *parent,
		   struct atoll_error *err);
/* To ID.edge, if much has come since. Not told if it fails: without it the log is read again. */
void audit_save_place(struct audit_log *log);
/* A line for each hand-over since the key that signed last. */
int audit_add_hand_overs(struct audit_log *log, const char *key, struct atoll_error *err);

/* ---- log-check.c ---- */

/* One log, line by line. */
struct audit_entry;
struct audit_check {
	struct audit_trust *trust;    /* NULL: signatures are not looked at */
	struct audit_place place;     /* so far */
	char run[ATOLL_ID_SIZE];      /* of the first line, or what it has to be */
	char store[AUDIT_STORE_SIZE]; /* the same */
	char what[16];		      /* the first line's */
	uint64_t n_signed;	      /* lines that a good head stands for, with the head itself */
	uint64_t head_size;	      /* of the latest head */
	unsigned char head_root[HASH_SIZE];
	char key[AUDIT_KEY_SIZE]; /* that signed it */
	uint32_t last_step;	  /* the highest that a line belongs to */
	bool is_closed;		  /* the line before was a last head */
	uint64_t bad_line;	  /* what a failure is about, from 1 */

	/* What the store's tree knows of it, to be compared: 0 for nothing. */
	uint64_t known_size; /* the largest */
	const struct audit_entry *known;
	size_t n_known; /* what is still to come of them */

	/* The line before does not follow from the one before that; the next tells which of the two
	 * was changed. */
	bool is_suspect;
	unsigned char suspect[HASH_SIZE];
};

/* 0, or -EBADMSG and what is wrong, beginning with "line N: "; -EKEYREJECTED where all is well but
 * for the key. */
int audit_check_line(struct audit_check *check, const char *line, size_t size,
		     struct atoll_error *err);
/* There is no line more. */
int audit_check_end(struct audit_check *check, struct atoll_error *err);
/* All from the descriptor's place on, to the end. What is behind the last newline is left, and how
 * many bytes that are is told. */
int audit_each_line(int fd, int (*line)(void *, const char *, size_t, struct atoll_error *),
		    void *arg, uint64_t *ret_cut, struct atoll_error *err);
int audit_check_fd(struct audit_check *check, int fd, uint64_t *ret_cut, struct atoll_error *err);

/* A head for `place`: the whole line, without its newline. Memory is the only thing that can fail,
 * and `out` remembers that. */
void audit_head_line(const struct audit_place *place, const char *run, uint64_t time_ns,
		     bool is_last, const struct audit_key *key, struct buf *out);

/* ---- runs.c ---- */

/* Enter that a log was closed with so many lines and this root; or that it was removed. */
int audit_runs_enter(int state_fd, const struct audit_key *key, const char *run, const char *kind,
		     uint64_t size, const unsigned char root[HASH_SIZE], bool is_synced,
		     struct atoll_error *err);

/* ---- runs-read.c ---- */

/* The latest that the tree says of a run. */
struct audit_entry {
	char run[ATOLL_ID_SIZE];
	uint64_t size;
	unsigned char root[HASH_SIZE];
	bool is_removed;
	uint64_t line; /* from 1 */
};

/* The tree of logs, checked. */
struct audit_runs {
	struct audit_entry *items; /* by run, then by size; since a run was removed, if it was */
	size_t n;
	struct atoll_verified found;
	uint64_t n_lost;  /* lines that a power loss took */
	char *note;	  /* the checkpoint, or NULL */
	uint64_t time_ns; /* when it was read */
};

/* 0 whatever was found; a negative errno if it could not be looked for. */
int audit_runs_read(int state_fd, const struct audit_trust *trust, struct audit_runs *ret,
		    struct atoll_error *err);
/* The one of the largest size, or that it was removed. */
const struct audit_entry *audit_runs_find(const struct audit_runs *runs, const char *run);
/* All that were closed under this name: each has to fit the log that there is now. */
size_t audit_runs_known(const struct audit_runs *runs, const char *run,
			const struct audit_entry **ret);
void audit_runs_done(struct audit_runs *runs);

/* ---- verify.c ---- */

/* The log's id by a beginning, or the latest (NULL). */
int audit_find_log(int state_fd, const char *beginning, char ret[ATOLL_ID_SIZE],
		   struct atoll_error *err);

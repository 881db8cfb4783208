/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Proof of what happened
 *
 * Each run and each sandbox has a log (doc/events.md), which is chained and signed (doc/record.md).
 * What is here checks that, and needs nothing but the log and the public key; and shows and
 * replaces the key.
 *
 *	struct atoll_verified found;
 *
 *	atoll_verify("k3v7q2ma", &(struct atoll_verify_options){0}, &found, &err);
 *	puts(found.text);
 */

#include <atoll/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- checking ---- */

enum atoll_finding {
	ATOLL_FINDING_GOOD, /* whole, closed and signed */
	ATOLL_FINDING_OPEN, /* good as far as it goes: still written, or its writer was interrupted
			     */
	ATOLL_FINDING_BROKEN,  /* changed, cut, moved, or not signed by a key that counts */
	ATOLL_FINDING_UNKNOWN, /* cannot be told: there is no such log, or it cannot be read */
};

struct atoll_verified {
	enum atoll_finding finding;
	char run[ATOLL_ID_SIZE]; /* "" for the tree of logs itself */
	char store[17];		 /* the id of the store that it was written in, or "" */
	char key[17];		 /* the id of the key that signed last, or "" */
	uint64_t n_lines;	 /* that are good */
	uint64_t n_signed;	 /* of them, signed */
	uint64_t line;		 /* at which something is wrong, from 1; 0: at none */
	char text[640];		 /* what was found, for people; no newline */
};

struct atoll_verify_options {
	/* A file with a public key, as `atoll key show` prints it in any of its forms. NULL: the
	 * store's own. Keys count that are tied to it by hand-overs. */
	const char *key_path;
	/* Each log and the tree of logs, as atoll_verify_all() goes through them; may be NULL. */
	void (*each)(const struct atoll_verified *found, void *data);
	void *data;
};

/* One log of the store, by id, an unambiguous beginning of that or NULL for the latest. What was
 * found is no failure; that it could not be looked for is. */
ATOLL_PUBLIC int atoll_verify(const char *id, const struct atoll_verify_options *options,
			      struct atoll_verified *ret, struct atoll_error *err);
/* One log in any file, by itself: whether a store knows of it is not asked. */
ATOLL_PUBLIC int atoll_verify_file(const char *path, const struct atoll_verify_options *options,
				   struct atoll_verified *ret, struct atoll_error *err);
/* All logs of the store, and its tree. `ret` is about the worst of them. */
ATOLL_PUBLIC int atoll_verify_all(const struct atoll_verify_options *options,
				  struct atoll_verified *ret, struct atoll_error *err);

/* ---- proofs ---- */

/* JSON with all that it takes to see that the line `seq` of a log is under a signed head, without
 * the other lines. Owned by the caller. */
ATOLL_PUBLIC int atoll_prove(const char *id, uint64_t seq,
			     const struct atoll_verify_options *options, char **ret_json,
			     struct atoll_error *err);
/* The same for: what an earlier head stood for is the beginning of what the latest one does.
 * `head_path` is a file with the earlier one: a signed note of a log, or of the tree of logs. */
ATOLL_PUBLIC int atoll_prove_consistency(const char *head_path,
					 const struct atoll_verify_options *options,
					 char **ret_json, struct atoll_error *err);
/* Check either. `text` of `ret` says what was proved. */
ATOLL_PUBLIC int atoll_check_proof(const char *path, const struct atoll_verify_options *options,
				   struct atoll_verified *ret, struct atoll_error *err);

/* ---- the key ---- */

struct atoll_key {
	char id[17];	/* first 8 bytes of the SHA-256 of the public key in DER, in hex */
	char store[17]; /* that signs with it */
	char pem[128];	/* the public key: SubjectPublicKeyInfo */
	char ssh[160];	/* as in authorized_keys or allowed_signers */
	char note[128]; /* as a verifier key of signed notes (C2SP) */
};

/* The store's; made if there is none. */
ATOLL_PUBLIC int atoll_key_show(struct atoll_key *ret, struct atoll_error *err);
/* Replace it. Both sign that; what the old one has signed stays good. Its private half is removed.
 */
ATOLL_PUBLIC int atoll_key_rotate(struct atoll_key *ret_old, struct atoll_key *ret_new,
				  struct atoll_error *err);

#ifdef __cplusplus
}
#endif

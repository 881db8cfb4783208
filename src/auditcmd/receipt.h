/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/scope.h"

#include <jansson.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct atoll_error;

/*
 * Receipts: what a run did, signed, for people who have none of our programs
 *
 * A receipt is a file of two lines, each a DSSE envelope around an in-toto Statement v1 (the form
 * that in-toto calls a bundle). Both have the same subjects: changed files and what was printed.
 * The first has the predicate SLSA Provenance v1, for tools that know it; the second has one of our
 * own for what does not fit there. Both name the log and its signed head.
 *
 *   sign.c       keys and signatures
 *   dsse.c       envelopes
 *   sshsig.c     a signature of the kind that ssh-keygen checks
 *   effects.c    what a log tells about some of its steps
 *   statement.c  the two statements
 *   attest.c     `atoll attest`
 *   bundle.c     a sigstore bundle, and the log that its entry is in
 *   tpm.c        a TPM's word about the log's head; tpm-check.c  is it right?
 *   tsm.c        that of a confidential machine
 *   receipt-read.c   a receipt as it is read again
 *   receipt-check.c  `atoll verify --receipt`
 *   replay.c     `atoll replay`
 */

#define RECEIPT_PAYLOAD_TYPE   "application/vnd.in-toto+json"
#define RECEIPT_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define RECEIPT_PROVENANCE     "https://slsa.dev/provenance/v1"
#define RECEIPT_PREDICATE      "https://atoll.dev/receipt/v1"
#define RECEIPT_BUILD_TYPE     "https://atoll.dev/run/v1"
#define RECEIPT_BUILDER	       "https://atoll.dev/atoll"
#define RECEIPT_SSH_NAMESPACE  "atoll-receipt"
/* A receipt is read whole, and anybody may have written it. */
#define RECEIPT_MAX ((size_t)64 << 20)

/* A refusal that is told to its end: `code` is for programs, and no words of the system follow. */
#define receipt_refuse(err, code, ...) (error_set(err, ATOLL_FAULT_POLICY, 0, __VA_ARGS__), -(code))

#define cleanup_json cleanup_with(receipt_json_done)
static inline void receipt_json_done(json_t **json)
{
	json_decref(*json);
}

/* ---- sign.c ---- */

#define SIGN_RAW_SIZE 32
#define SIGN_ID_SIZE  17

/* An Ed25519 key; `id` is what `atoll key show` calls it: the first 8 bytes of the
 * SHA-256 of its public part as DER, in hexadecimal. */
struct sign_key {
	EVP_PKEY *key; /* with its private part, or without */
	unsigned char raw[SIGN_RAW_SIZE];
	char id[SIGN_ID_SIZE];
};
#define cleanup_sign_key cleanup_with(sign_done)
void sign_done(struct sign_key *key);

/* From PEM: PKCS #8, or a public key. */
int sign_read_private(const char *path, struct sign_key *ret, struct atoll_error *err);
int sign_read_public(const char *path, struct sign_key *ret, struct atoll_error *err);
int sign_from_raw(const unsigned char raw[SIGN_RAW_SIZE], struct sign_key *ret,
		  struct atoll_error *err);
/* Any public key as PEM, whatever its kind; NULL and an error if there is none. */
EVP_PKEY *sign_read_any_public(const char *path, struct atoll_error *err);

/* Ed25519, or ECDSA with SHA-256, by the kind of key. */
int sign_bytes(EVP_PKEY *key, const void *data, size_t size, struct buf *ret,
	       struct atoll_error *err);
bool sign_is_good(EVP_PKEY *key, const void *data, size_t size, const void *signature,
		  size_t signature_size);
/* The public part, as DER and as PEM. */
int sign_public_der(EVP_PKEY *key, struct buf *ret, struct atoll_error *err);
int sign_public_pem(EVP_PKEY *key, struct buf *ret, struct atoll_error *err);

void sign_sha256(const void *data, size_t size, unsigned char ret[32]);
void sign_hex(const void *data, size_t size, char *ret);
/* Exactly 2 * `size` digits. */
bool sign_unhex(const char *text, void *ret, size_t size);
void sign_add_base64(struct buf *out, const void *data, size_t size);
json_t *sign_base64(const void *data, size_t size);
/* -EBADMSG for what is none. */
int sign_read_base64(const char *text, struct buf *ret);

/* ---- dsse.c ---- */

/* The bytes that are signed. */
void dsse_pae(const char *type, const void *body, size_t size, struct buf *out);
int dsse_sign(const char *body, size_t size, const struct sign_key *key, json_t **ret,
	      struct atoll_error *err);
/* Check that `key` has signed it; the body. -EBADMSG: it is no envelope; -EKEYREJECTED: not signed
 * by this key. */
int dsse_open(const json_t *envelope, const struct sign_key *key, struct buf *ret,
	      struct atoll_error *err);

/* ---- sshsig.c ---- */

/* Over `data` as a file, for `ssh-keygen -Y verify -n atoll-receipt`. */
int sshsig_sign(const void *data, size_t size, const struct sign_key *key, struct buf *ret,
		struct atoll_error *err);

/* ---- attest.c ---- */

/* A text into a file that appears whole, or to standard output for NULL. */
int receipt_write(const char *path, const struct buf *text, struct atoll_error *err);
/* One line: compact, keys in order. */
int receipt_add_line(const json_t *json, struct buf *out, struct atoll_error *err);

/* ---- bundle.c ---- */

/* Enter an envelope into the store's log of receipts, and put it into a sigstore bundle with the
 * proof. `pem` is the public key that signed it. `root_path`, if not NULL, gets what a verifier has
 * to trust: the log's key. */
int bundle_write(const json_t *envelope, const struct sign_key *key, const char *path,
		 const char *root_path, struct atoll_error *err);

/* ---- receipt-read.c ---- */

struct checked_keys;

/* Which part of a receipt is not as it should be. These are exit statuses of `atoll verify`, of
 * which 1 says about logs that they are not closed. */
enum receipt_fault {
	RECEIPT_GOOD = 0,
	RECEIPT_FORGED = 2,   /* not signed by a key that counts, changed since, or of two halves
			       * that do not belong together */
	RECEIPT_NONE = 3,     /* there is no receipt, or it cannot be read as one */
	RECEIPT_FILES = 4,    /* a file is missing, or is another */
	RECEIPT_LOG = 5,      /* the log does not verify, or tells something else */
	RECEIPT_HARDWARE = 6, /* hardware's word is about something else */
};

struct receipt {
	json_t *provenance, *own; /* the statements */
	unsigned char signer[SIGN_RAW_SIZE];
	char key[SIGN_ID_SIZE];
	unsigned n_signers; /* different ones, one after the other */
};

/* Read a receipt, check its signatures by one of the keys, and that its halves belong together.
 * `ret_fault` says what a failure means. */
int receipt_open(const char *path, const struct checked_keys *keys, struct receipt *ret,
		 enum receipt_fault *ret_fault, struct atoll_error *err);
void receipt_done(struct receipt *receipt);
#define cleanup_receipt cleanup_with(receipt_done)

/* Our own predicate, and something in it by its path: "log", "note". NULL where there is none. */
const json_t *receipt_get(const struct receipt *receipt, const char *key, const char *below);

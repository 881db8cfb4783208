/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/bundle.h"

#include "auditcmd/attest.h"
#include "auditcmd/checked.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

/*
 * A sigstore bundle
 *
 * Tools of sigstore's do not believe a signature alone: it has to be entered in a log that they
 * trust. The store keeps one for receipts, apart from the logs of runs, because its leaves are
 * sigstore's and its key has to be ECDSA:
 *
 *   receipts/entries   one entry a line; the lines are the leaves of a Merkle tree
 *   receipts/key.pem   the key that signs its heads (P-256), 0600
 *
 * A bundle holds the envelope, its entry, the proof that the entry is in the tree, and the signed
 * head. It is a log of one's own: whoever trusts its key trusts whoever has the store.
 */

#define ENTRIES_MAX ((size_t)256 << 20)

struct ledger {
	char directory[PATH_MAX];
	int fd; /* of the entries, locked */
	EVP_PKEY *key;
	struct buf der; /* the public key */
	unsigned char id[32];
	char name[64];
	char store[17];
};

static void ledger_close(struct ledger *ledger)
{
	EVP_PKEY_free(ledger->key);
	buf_done(&ledger->der);
	if (ledger->fd >= 0)
		close(ledger->fd);
}

/* ---- its key ---- */

static EVP_PKEY *read_ledger_key(int dir_fd)
{
	cleanup_fd int fd = openat(dir_fd, "key.pem", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_buf struct buf text = BUF_INIT(65536);
	EVP_PKEY *key;
	BIO *bio;

	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.data)
		return NULL;
	bio = BIO_new_mem_buf(text.data, (int)text.used);
	key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
	BIO_free(bio);
	return key;
}

static int write_key(int dir_fd, EVP_PKEY *key)
{
	cleanup_fd int fd = openat(dir_fd, "key.pem.new",
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && (!bio || !PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL)))
		r = -ENOMEM;
	if (r == 0) {
		const long size = BIO_get_mem_data(bio, &text);

		r = fd_write_all(fd, text, (size_t)size);
	}
	BIO_free(bio);
	if (r == 0 && (fsync(fd) < 0 || renameat(dir_fd, "key.pem.new", dir_fd, "key.pem") < 0))
		r = -errno;
	return r;
}

static int find_key(struct ledger *ledger, int dir_fd, struct atoll_error *err)
{
	int r = 0;

	ledger->key = read_ledger_key(dir_fd);
	if (!ledger->key) {
		if (faccessat(dir_fd, "key.pem", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return error_set(
				err, ATOLL_FAULT_POLICY, 0,
				"'%s/key.pem' is no key; move it away with 'entries', and a "
				"new log is begun",
				ledger->directory);
		ledger->key = EVP_EC_gen("P-256");
		r = ledger->key ? write_key(dir_fd, ledger->key) : -ENOMEM;
	}
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "make the key of the log of receipts");
	r = sign_public_der(ledger->key, &ledger->der, err);
	if (r == 0)
		sign_sha256(ledger->der.data, ledger->der.used, ledger->id);
	return r;
}

/* ---- its entries ---- */

static int ledger_open(struct ledger *ledger, struct atoll_error *err)
{
	cleanup_fd int dir_fd = -1;
	char store[PATH_MAX];
	char hex[17];
	int r = checked_store_path(store, err);

	if (r < 0)
		return r;
	if ((size_t)snprintf(ledger->directory, sizeof ledger->directory, "%s/receipts", store) >=
	    sizeof ledger->directory)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "the store of records");
	if (mkdir(ledger->directory, 0700) < 0 && errno != EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, errno, "create '%s'", ledger->directory);
	dir_fd = open(ledger->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", ledger->directory);
	ledger->fd = openat(dir_fd, "entries", O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (ledger->fd < 0 || flock(ledger->fd, LOCK_EX) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s/entries'",
				 ledger->directory);
	r = find_key(ledger, dir_fd, err);
	if (r < 0)
		return r;
	sign_hex(ledger->id, 8, hex);
	snprintf(ledger->name, sizeof ledger->name, "atoll-receipts/%s", hex);
	return 0;
}

/* The canonical JSON of a sigstore entry: sorted keys, no blanks. */
static int make_entry(const json_t *envelope, const struct sign_key *key, struct buf *ret,
		      struct atoll_error *err)
{
	const json_t *signature = json_array_get(json_object_get(envelope, "signatures"), 0);
	cleanup_buf struct buf pem = BUF_INIT(4096);
	cleanup_buf struct buf text = BUF_INIT(RECEIPT_MAX);
	cleanup_buf struct buf body = BUF_INIT(RECEIPT_MAX);
	cleanup_json json_t *entry = NULL;
	unsigned char hash[32];
	char envelope_hex[65], payload_hex[65];
	int r = sign_public_pem(key->key, &pem, err);

	if (r == 0)
		r = receipt_add_line(envelope, &text, err);
	if (r < 0)
		return r;
	/* Without the newline. */
	sign_sha256(text.data, text.used - 1, hash);
	sign_hex(hash, 32, envelope_hex);
	if (sign_read_base64(json_string_value(json_object_get(envelope, "payload")), &body) < 0)
		return error_oom(err);
	sign_sha256(body.data, body.used, hash);
	sign_hex(hash, 32, payload_hex);
	entry = json_pack("{s:s, s:s, s:{s:{s:s, s:s}, s:{s:s, s:s}, s:[{s:O, s:o}]}}",
			  "apiVersion", "0.0.1", "kind", "dsse", "spec", "envelopeHash",
			  "algorithm", "sha256", "value", envelope_hex, "payloadHash", "algorithm",
			  "sha256", "value", payload_hex, "signatures", "signature",
			  json_object_get(signature, "sig"), "verifier",
			  sign_base64(pem.data, pem.used));
	return entry ? receipt_add_line(entry, ret, err) : error_oom(err);
}

struct tree {
	unsigned char (*leaves)[32];
	uint64_t n, index;
	unsigned char root[32];
	unsigned char proof[128][32];
	size_t n_proof;
};

static int add_leaf(struct tree *tree, const char *line, size_t size)
{
	if ((tree->n & (tree->n - 1)) == 0) {
		void *more = realloc(tree->leaves, (tree->n ? 2 * tree->n : 1) * 32);

		if (!more)
			return -ENOMEM;
		tree->leaves = more;
	}
	checked_leaf(line, size, tree->leaves[tree->n++]);
	return 0;
}

/* Reads all complete lines; cuts off an incomplete one of a writer that was killed. */
static int read_entries(struct ledger *ledger, const struct buf *entry, struct tree *tree,
			bool *ret_is_there, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(ENTRIES_MAX);
	size_t at = 0;
	int r = fd_read_all(ledger->fd, &text);

	*ret_is_there = false;
	while (r == 0 && at < text.used) {
		const char *line = text.data + at, *end = memchr(line, '\n', text.used - at);

		if (!end)
			break;
		/* A receipt that is already in the log keeps its entry. */
		if ((size_t)(end + 1 - line) == entry->used &&
		    memcmp(line, entry->data, entry->used) == 0) {
			*ret_is_there = true;
			tree->index = tree->n;
		}
		r = add_leaf(tree, line, (size_t)(end - line));
		at += (size_t)(end + 1 - line);
	}
	if (r == 0 && at < text.used && ftruncate(ledger->fd, (off_t)at) < 0)
		r = -errno;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "read '%s/entries'", ledger->directory)
		     : 0;
}

static int enter(struct ledger *ledger, const struct buf *entry, struct tree *tree,
		 struct atoll_error *err)
{
	bool is_there;
	int r = read_entries(ledger, entry, tree, &is_there, err);

	if (r < 0)
		return r;
	if (!is_there) {
		tree->index = tree->n;
		r = add_leaf(tree, entry->data, entry->used - 1);
		if (r == 0)
			r = fd_write_all(ledger->fd, entry->data, entry->used);
		if (r == 0 && fdatasync(ledger->fd) < 0)
			r = -errno;
		if (r < 0)
			return error_set(err, ATOLL_FAULT_HOST, -r, "write '%s/entries'",
					 ledger->directory);
	}
	tree->n_proof = checked_prove((const unsigned char(*)[32])tree->leaves, tree->n,
				      tree->index, tree->root, tree->proof);
	return 0;
}

/* ---- the bundle ---- */

/* The origin must be "NAME - TREE", or cosign expects another type of log. */
static int make_checkpoint(struct ledger *ledger, const struct tree *tree, struct buf *ret,
			   struct atoll_error *err)
{
	cleanup_buf struct buf signature = BUF_INIT(1024);
	cleanup_buf struct buf line = BUF_INIT(1024);
	uint64_t number = 0;
	int r;

	for (int i = 0; i < 7; i++)
		number = number << 8 | ledger->id[i];
	buf_addf(ret, "%s - %" PRIu64 "\n%" PRIu64 "\n", ledger->name, number, tree->n);
	sign_add_base64(ret, tree->root, 32);
	buf_add_char(ret, '\n');
	r = sign_bytes(ledger->key, ret->data, ret->used, &signature, err);
	if (r < 0)
		return r;
	buf_add(&line, ledger->id, 4);
	buf_add(&line, signature.data, signature.used);
	buf_addf(ret, "\n\xe2\x80\x94 %s ", ledger->name);
	sign_add_base64(ret, line.data, line.used);
	buf_add_char(ret, '\n');
	return buf_error(ret) < 0 ? error_oom(err) : 0;
}

/* The inclusion promise: the log signs entry and time at once. */
static json_t *make_promise(struct ledger *ledger, const struct tree *tree, const struct buf *entry,
			    time_t now, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RECEIPT_MAX);
	cleanup_buf struct buf signature = BUF_INIT(1024);
	cleanup_json json_t *promise = NULL;
	char id[65];

	sign_hex(ledger->id, 32, id);
	promise = json_pack("{s:o, s:I, s:I, s:s}", "body",
			    sign_base64(entry->data, entry->used - 1), "integratedTime",
			    (json_int_t)now, "logIndex", (json_int_t)tree->index, "logID", id);
	if (!promise || receipt_add_line(promise, &text, err) < 0 ||
	    sign_bytes(ledger->key, text.data, text.used - 1, &signature, err) < 0)
		return NULL;
	return sign_base64(signature.data, signature.used);
}

static json_t *number_text(uint64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, number);
	return json_string(text);
}

static json_t *make_bundle(struct ledger *ledger, const struct tree *tree, const struct buf *entry,
			   const json_t *envelope, const struct sign_key *key,
			   struct atoll_error *err)
{
	cleanup_buf struct buf checkpoint = BUF_INIT(4096);
	json_t *hashes = json_array(), *proof, *promise, *log_entry;
	const time_t now = time(NULL);

	for (size_t i = 0; i < tree->n_proof; i++)
		json_array_append_new(hashes, sign_base64(tree->proof[i], 32));
	if (make_checkpoint(ledger, tree, &checkpoint, err) < 0 ||
	    !(promise = make_promise(ledger, tree, entry, now, err))) {
		json_decref(hashes);
		return NULL;
	}
	proof = json_pack("{s:o, s:o, s:o, s:o, s:{s:s}}", "logIndex", number_text(tree->index),
			  "rootHash", sign_base64(tree->root, 32), "treeSize", number_text(tree->n),
			  "hashes", hashes, "checkpoint", "envelope", checkpoint.data);
	log_entry =
		json_pack("{s:o, s:{s:o}, s:{s:s, s:s}, s:o, s:{s:o}, s:o, s:o}", "logIndex",
			  number_text(tree->index), "logId", "keyId", sign_base64(ledger->id, 32),
			  "kindVersion", "kind", "dsse", "version", "0.0.1", "integratedTime",
			  number_text((uint64_t)now), "inclusionPromise", "signedEntryTimestamp",
			  promise, "inclusionProof", proof, "canonicalizedBody",
			  sign_base64(entry->data, entry->used - 1));
	return json_pack("{s:s, s:{s:{s:s}, s:[o]}, s:O}", "mediaType",
			 "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial",
			 "publicKey", "hint", key->id, "tlogEntries", log_entry, "dsseEnvelope",
			 envelope);
}

static json_t *make_root(const struct ledger *ledger)
{
	return json_pack("{s:s, s:[{s:s, s:s, s:{s:o, s:s, s:{s:s}}, s:{s:o}}], s:[], s:[], s:[]}",
			 "mediaType", "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
			 "tlogs", "baseUrl", RECEIPT_BUILDER, "hashAlgorithm", "SHA2_256",
			 "publicKey", "rawBytes", sign_base64(ledger->der.data, ledger->der.used),
			 "keyDetails", "PKIX_ECDSA_P256_SHA_256", "validFor", "start",
			 "2020-01-01T00:00:00Z", "logId", "keyId", sign_base64(ledger->id, 32),
			 "certificateAuthorities", "ctlogs", "timestampAuthorities");
}

static int write_json(const char *path, json_t *json, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(2 * RECEIPT_MAX);
	int r = json ? receipt_add_line(json, &text, err) : error_oom(err);

	json_decref(json);
	return r < 0 ? r : receipt_write(path, &text, err);
}

int bundle_write(const json_t *envelope, const struct sign_key *key, const char *path,
		 const char *root_path, struct atoll_error *err)
{
	cleanup_with(ledger_close) struct ledger ledger = {.fd = -1, .der = BUF_INIT(4096)};
	cleanup_buf struct buf entry = BUF_INIT(RECEIPT_MAX);
	struct tree tree = {0};
	json_t *bundle = NULL;
	int r = ledger_open(&ledger, err);

	if (r == 0 && path) {
		r = make_entry(envelope, key, &entry, err);
		if (r == 0)
			r = enter(&ledger, &entry, &tree, err);
		if (r == 0) {
			bundle = make_bundle(&ledger, &tree, &entry, envelope, key, err);
			r = bundle ? write_json(path, bundle, err) : -ENOMEM;
		}
	}
	free(tree.leaves);
	if (r == 0 && root_path)
		r = write_json(root_path, make_root(&ledger), err);
	return r;
}

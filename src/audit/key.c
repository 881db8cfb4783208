/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/key.h"

#include "audit/audit-base.h"
#include "audit/key-form.h"
#include "audit/note.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <atoll/audit.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

/*
 * The signing key
 *
 *   keys/key.pem        the private key in PKCS #8, behind a line that says whose it is
 *   keys/ID.pub         each public key there was
 *   keys/ID.handover    how the key ID was replaced (hand-over.c)
 *
 * The line has what every run would have to compute otherwise: multiplying the public key out of
 * the private one takes as long as a signature. openssl skips it, as it does any text before the
 * first "-----BEGIN".
 */

#define SEED_SIZE  32
#define FILE_LIMIT 4096

static const unsigned char private_der[] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
					    0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

#define PRIVATE_BEGIN "-----BEGIN PRIVATE KEY-----\n"
#define PRIVATE_END   "\n-----END PRIVATE KEY-----\n"

void audit_key_done(struct audit_key *key)
{
	sodium_memzero(key, sizeof *key);
}

/* ---- the file ---- */

/* A checksum over the first line and the key, to detect a truncated file. */
static void key_check(const struct audit_key *key, char ret[17])
{
	unsigned char digest[HASH_SIZE];
	struct hash hash;

	hash_init(&hash);
	hash_update(&hash, key->store, AUDIT_STORE_SIZE);
	hash_update(&hash, key->secret, sizeof key->secret);
	hash_final(&hash, digest);
	hash_to_hex(digest, 8, ret);
}

static void format_private(const struct audit_key *key, struct buf *out)
{
	unsigned char der[sizeof private_der + SEED_SIZE];
	char check[17], hex[HASH_HEX_SIZE];

	key_check(key, check);
	hash_to_hex(key->public, 32, hex);
	memcpy(der, private_der, sizeof private_der);
	memcpy(der + sizeof private_der, key->secret, SEED_SIZE);
	buf_addf(out, "atoll store %s public %s check %s\n" PRIVATE_BEGIN, key->store, hex, check);
	audit_base64(der, sizeof der, out);
	buf_add_str(out, PRIVATE_END);
	sodium_memzero(der, sizeof der);
}

/* Accepts only the form that format_private() writes: formats the key again and compares. */
static bool parse_private(const char *text, struct audit_key *ret)
{
	const char *store = text + strlen("atoll store "),
		   *public = store + 16 + strlen(" public "),
		   *base64 = public + 64 + strlen(" check ") + 16 + 1 + strlen(PRIVATE_BEGIN);
	unsigned char der[sizeof private_der + SEED_SIZE];
	AUDIT_STACK_BUF(again, FILE_LIMIT);
	bool is_good;

	if (strlen(text) != (size_t)(base64 - text) + 64 + strlen(PRIVATE_END) ||
	    !hash_from_hex(public, 32, ret->public) ||
	    !audit_from_base64(base64, 64, der, sizeof der))
		return false;
	memcpy(ret->store, store, 16);
	ret->store[16] = '\0';
	memcpy(ret->secret, der + sizeof private_der, SEED_SIZE);
	memcpy(ret->secret + SEED_SIZE, ret->public, 32);
	format_private(ret, &again);
	is_good = streq(again.data, text);
	sodium_memzero(der, sizeof der);
	sodium_memzero(again.data, again.used);
	if (is_good)
		audit_key_id(ret->public, ret->id);
	return is_good;
}

static int check_mode(int fd, struct atoll_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at the signing key");
	if (st.st_uid != geteuid())
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the signing key (keys/key.pem in the store) belongs to somebody "
				 "else (uid %u); move it away, and a new one is made",
				 st.st_uid);
	if (!S_ISREG(st.st_mode) || st.st_mode & 077)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the signing key (keys/key.pem in the store) is open to others "
				 "(mode %03o); chmod 600 it, and if somebody may have read it: "
				 "atoll key rotate",
				 st.st_mode & 0777);
	return 0;
}

int audit_key_read(int state_fd, struct audit_key *ret, struct atoll_error *err)
{
	cleanup_fd int fd =
		openat(state_fd, "keys/key.pem", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[FILE_LIMIT];
	ssize_t got;
	bool is_good;
	int r;

	if (fd < 0)
		return errno == ENOENT
			       ? -ENOENT
			       : error_set(err, ATOLL_FAULT_HOST, errno,
					   "open the signing key (keys/key.pem in the store)");
	r = check_mode(fd, err);
	if (r < 0)
		return r;
	do
		got = read(fd, text, sizeof text - 1);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read the signing key");
	text[got] = '\0';
	is_good = parse_private(text, ret);
	sodium_memzero(text, sizeof text);
	if (!is_good)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the signing key (keys/key.pem in the store) is damaged; move it "
				 "away, and a new one is made");
	return 0;
}

/* ---- making one ---- */

static void random_bytes(void *ret, size_t size)
{
	/* getrandom() never returns less than 256 bytes; it blocks only shortly after boot. */
	while (getrandom(ret, size, 0) != (ssize_t)size)
		;
}

void audit_key_make(const char *store, struct audit_key *ret)
{
	unsigned char seed[SEED_SIZE], id[8];

	random_bytes(seed, sizeof seed);
	random_bytes(id, sizeof id);
	crypto_sign_seed_keypair(ret->public, ret->secret, seed);
	sodium_memzero(seed, sizeof seed);
	if (store)
		memcpy(ret->store, store, AUDIT_STORE_SIZE);
	else
		hash_to_hex(id, sizeof id, ret->store);
	audit_key_id(ret->public, ret->id);
}

/* Writes and syncs the file before it gets its final name. */
int audit_key_write_file(int state_fd, const char *path, const struct buf *text,
			 struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	int r = buf_error(text);

	if (r < 0)
		return error_oom(err);
	fd = openat(state_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "create '%s' in the store", path);
	r = fd_write_all(fd, text->data, text->used);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(state_fd, path, 0);
		return error_set(err, ATOLL_FAULT_HOST, -r, "write '%s' in the store", path);
	}
	return 0;
}

int audit_key_write_public(int state_fd, const struct audit_key *key, struct atoll_error *err)
{
	struct buf text = BUF_INIT(1024);
	struct atoll_key forms;
	char path[64];
	int r;

	snprintf(path, sizeof path, "keys/%s.pub", key->id);
	audit_key_forms(key, &forms);
	buf_add_str(&text, forms.pem);
	r = audit_key_write_file(state_fd, path, &text, err);
	buf_done(&text);
	return r;
}

int audit_key_write_private(int state_fd, const struct audit_key *key, char ret_path[64],
			    struct atoll_error *err)
{
	struct buf text = BUF_INIT(1024);
	int r;

	/* The name contains the key's id, so no other process uses it. */
	snprintf(ret_path, 64, "keys/.%s.pem", key->id);
	format_private(key, &text);
	r = audit_key_write_file(state_fd, ret_path, &text, err);
	if (text.data)
		sodium_memzero(text.data, text.used);
	buf_done(&text);
	return r;
}

/* Several processes may create a key at the same time. link() succeeds for one of them, and the
 * others use that key. */
static int make_key(int state_fd, struct atoll_error *err)
{
	struct audit_key key;
	char path[64], public_path[64];
	int r = 0;

	if (mkdirat(state_fd, "keys", 0700) < 0 && errno != EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, errno, "create 'keys' in the store");
	audit_key_make(NULL, &key);
	snprintf(public_path, sizeof public_path, "keys/%s.pub", key.id);
	r = audit_key_write_private(state_fd, &key, path, err);
	if (r == 0)
		r = audit_key_write_public(state_fd, &key, err);
	if (r == 0 && linkat(state_fd, path, state_fd, "keys/key.pem", 0) < 0) {
		/* ENOENT: a rotation has removed the temporary file, so there is a key. */
		if (errno != EEXIST && errno != ENOENT)
			r = error_set(err, ATOLL_FAULT_HOST, errno, "name the signing key");
		unlinkat(state_fd, public_path, 0);
	}
	unlinkat(state_fd, path, 0);
	audit_key_done(&key);
	return r;
}

int audit_key_load(int state_fd, struct audit_key *ret, struct atoll_error *err)
{
	int r = audit_key_read(state_fd, ret, err);

	if (r == -ENOENT) {
		r = make_key(state_fd, err);
		if (r == 0)
			r = audit_key_read(state_fd, ret, err);
		if (r == -ENOENT)
			error_set(err, ATOLL_FAULT_HOST, ENOENT, "the signing key");
	}
	return r;
}

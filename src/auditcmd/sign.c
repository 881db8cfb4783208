/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/sign.h"

#include "auditcmd/receipt.h"
#include "base/error.h"
#include "base/fd.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <stdio.h>

/* Keys and signatures by libcrypto. All signed data is in memory. */

#define KEY_FILE_MAX 65536

void sign_sha256(const void *data, size_t size, unsigned char ret[32])
{
	SHA256(data, size, ret);
}

void sign_hex(const void *data, size_t size, char *ret)
{
	sodium_bin2hex(ret, 2 * size + 1, data, size);
}

bool sign_unhex(const char *text, void *ret, size_t size)
{
	size_t got;

	return strlen(text) == 2 * size &&
	       sodium_hex2bin(ret, size, text, 2 * size, NULL, &got, NULL) == 0 && got == size;
}

void sign_add_base64(struct buf *out, const void *data, size_t size)
{
	const size_t room = sodium_base64_ENCODED_LEN(size, sodium_base64_VARIANT_ORIGINAL);
	cleanup_free char *text = malloc(room);

	if (!text) {
		out->failed = out->failed ? out->failed : ENOMEM;
		return;
	}
	buf_add_str(out, sodium_bin2base64(text, room, data, size, sodium_base64_VARIANT_ORIGINAL));
}

json_t *sign_base64(const void *data, size_t size)
{
	cleanup_buf struct buf text = BUF_INIT(2 * RECEIPT_MAX);

	buf_add_str(&text, "");
	sign_add_base64(&text, data, size);
	return buf_error(&text) < 0 ? NULL : json_stringn(text.data, text.used);
}

int sign_read_base64(const char *text, struct buf *ret)
{
	const size_t size = strlen(text);
	cleanup_free char *data = malloc(size + 1);
	size_t got;

	if (!data)
		return -ENOMEM;
	if (sodium_base642bin((unsigned char *)data, size, text, size, NULL, &got, NULL,
			      sodium_base64_VARIANT_ORIGINAL) < 0)
		return -EBADMSG;
	buf_add(ret, data, got);
	return buf_error(ret);
}

/* ---- keys ---- */

void sign_done(struct sign_key *key)
{
	EVP_PKEY_free(key->key);
	key->key = NULL;
}

int sign_public_der(EVP_PKEY *key, struct buf *ret, struct atoll_error *err)
{
	unsigned char *der = NULL;
	const int size = i2d_PUBKEY(key, &der);

	if (size <= 0)
		return error_set(err, ATOLL_FAULT_HOST, 0, "write a public key as DER");
	buf_add(ret, der, (size_t)size);
	OPENSSL_free(der);
	return buf_error(ret) < 0 ? error_oom(err) : 0;
}

int sign_public_pem(EVP_PKEY *key, struct buf *ret, struct atoll_error *err)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	long size;

	if (!bio || !PEM_write_bio_PUBKEY(bio, key)) {
		BIO_free(bio);
		return error_set(err, ATOLL_FAULT_HOST, 0, "write a public key as PEM");
	}
	size = BIO_get_mem_data(bio, &text);
	buf_add(ret, text, (size_t)size);
	BIO_free(bio);
	return buf_error(ret) < 0 ? error_oom(err) : 0;
}

static int fill_key(EVP_PKEY *pkey, const char *path, struct sign_key *ret, struct atoll_error *err)
{
	cleanup_buf struct buf der = BUF_INIT(KEY_FILE_MAX);
	struct sign_key key = {.key = pkey};
	size_t size = sizeof key.raw;
	unsigned char hash[32];

	if (EVP_PKEY_get_id(pkey) != EVP_PKEY_ED25519 ||
	    !EVP_PKEY_get_raw_public_key(pkey, key.raw, &size) || size != sizeof key.raw) {
		EVP_PKEY_free(pkey);
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is no Ed25519 key; receipts are signed with such", path);
	}
	if (sign_public_der(pkey, &der, err) < 0) {
		EVP_PKEY_free(pkey);
		return -ENOMEM;
	}
	sign_sha256(der.data, der.used, hash);
	sign_hex(hash, SIGN_ID_SIZE / 2, key.id);
	*ret = key;
	return 0;
}

static int read_pem(const char *path, struct buf *ret, struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "open the key '%s'", path);
	r = fd_read_all(fd, ret);
	return r < 0 ? error_set(err, ATOLL_FAULT_REQUEST, -r, "read the key '%s'", path) : 0;
}

/* No passphrase prompt: it would block a script. */
static int no_passphrase(char *buf, int size, int is_writing, void *data)
{
	(void)buf, (void)size, (void)is_writing, (void)data;
	return -1;
}

static int read_key(const char *path, bool is_private, struct sign_key *ret,
		    struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(KEY_FILE_MAX);
	EVP_PKEY *key;
	BIO *bio;
	int r = read_pem(path, &text, err);

	if (r < 0)
		return r;
	bio = BIO_new_mem_buf(text.data ? text.data : "", (int)text.used);
	if (!bio)
		return error_oom(err);
	key = is_private ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL)
			 : PEM_read_bio_PUBKEY(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	if (text.data)
		sodium_memzero(text.data, text.used);
	if (!key)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' holds no %s key as PEM without a passphrase", path,
				 is_private ? "private" : "public");
	return fill_key(key, path, ret, err);
}

int sign_read_private(const char *path, struct sign_key *ret, struct atoll_error *err)
{
	return read_key(path, true, ret, err);
}

int sign_read_public(const char *path, struct sign_key *ret, struct atoll_error *err)
{
	return read_key(path, false, ret, err);
}

int sign_from_raw(const unsigned char raw[SIGN_RAW_SIZE], struct sign_key *ret,
		  struct atoll_error *err)
{
	EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, SIGN_RAW_SIZE);

	return key ? fill_key(key, "a key", ret, err) : error_oom(err);
}

EVP_PKEY *sign_read_any_public(const char *path, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(KEY_FILE_MAX);
	EVP_PKEY *key;
	BIO *bio;

	if (read_pem(path, &text, err) < 0)
		return NULL;
	bio = BIO_new_mem_buf(text.data ? text.data : "", (int)text.used);
	key = bio ? PEM_read_bio_PUBKEY(bio, NULL, no_passphrase, NULL) : NULL;
	BIO_free(bio);
	if (!key)
		error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' holds no public key as PEM", path);
	return key;
}

/* ---- signatures ---- */

static const EVP_MD *digest_of(const EVP_PKEY *key)
{
	return EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
}

int sign_bytes(EVP_PKEY *key, const void *data, size_t size, struct buf *ret,
	       struct atoll_error *err)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned char signature[512];
	size_t got = sizeof signature;
	const bool is_done = context &&
			     EVP_DigestSignInit(context, NULL, digest_of(key), NULL, key) > 0 &&
			     EVP_DigestSign(context, signature, &got, data, size) > 0;

	EVP_MD_CTX_free(context);
	if (!is_done)
		return error_set(err, ATOLL_FAULT_HOST, 0, "sign");
	buf_add(ret, signature, got);
	return buf_error(ret) < 0 ? error_oom(err) : 0;
}

bool sign_is_good(EVP_PKEY *key, const void *data, size_t size, const void *signature,
		  size_t signature_size)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	const bool is_good = context &&
			     EVP_DigestVerifyInit(context, NULL, digest_of(key), NULL, key) > 0 &&
			     EVP_DigestVerify(context, signature, signature_size, data, size) == 1;

	EVP_MD_CTX_free(context);
	return is_good;
}

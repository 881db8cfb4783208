/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "egress/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <time.h>

/*
 * A key store as Java reads it
 *
 * JKS, which every Java understands whatever type it was told to expect (keystore.type.compat), and
 * which needs nothing but a digest; newer ones prefer PKCS #12 with an attribute of Oracle's own.
 * Numbers have the higher byte first, texts are a length of 16 bits and modified UTF-8:
 *
 *	0xFEEDFEED, version 2, how many entries
 *	for each: kind 2 (a trusted certificate), alias, u64 ms since 1970, "X.509", size, DER
 *	SHA-1 of the password as UTF-16, "Mighty Aphrodite", and everything above
 *
 * The digest is no secret: the password is the one that all have for this file.
 */
#define MAGIC	     0xFEEDFEED
#define VERSION	     2
#define KIND_TRUSTED 2
#define PASSWORD     "changeit"
#define WHITENER     "Mighty Aphrodite"

static void add_number(struct buf *out, uint64_t number, int bytes)
{
	while (bytes-- > 0)
		buf_add_char(out, (char)(number >> bytes * 8));
}

static void add_text(struct buf *out, const char *text)
{
	add_number(out, strlen(text), 2);
	buf_add_str(out, text);
}

static int add_certificate(struct buf *out, const X509 *certificate, int number, uint64_t now_ms)
{
	unsigned char *der = NULL;
	int size = i2d_X509(certificate, &der);
	char alias[24];

	if (size <= 0)
		return -EINVAL;
	snprintf(alias, sizeof alias, "atoll-%d", number);
	add_number(out, KIND_TRUSTED, 4);
	add_text(out, alias);
	add_number(out, now_ms, 8);
	add_text(out, "X.509");
	add_number(out, (uint64_t)size, 4);
	buf_add(out, der, (size_t)size);
	OPENSSL_free(der);
	return 0;
}

static int add_digest(struct buf *out)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned size = 0;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool is_good = context && EVP_DigestInit_ex(context, EVP_sha1(), NULL);

	for (const char *at = PASSWORD; is_good && *at; at++)
		is_good = EVP_DigestUpdate(context, (const char[]){0, *at}, 2);
	is_good = is_good && EVP_DigestUpdate(context, WHITENER, strlen(WHITENER)) &&
		  EVP_DigestUpdate(context, out->data, out->used) &&
		  EVP_DigestFinal_ex(context, digest, &size);
	EVP_MD_CTX_free(context);
	if (is_good)
		buf_add(out, digest, size);
	return is_good ? 0 : -EIO;
}

static int write_store(const struct authority *authority, const STACK_OF(X509) * trusted,
		       struct buf *out)
{
	uint64_t now_ms = (uint64_t)time(NULL) * 1000;
	int n = sk_X509_num(trusted), r;

	add_number(out, MAGIC, 4);
	add_number(out, VERSION, 4);
	add_number(out, (uint64_t)n + 1, 4);
	r = add_certificate(out, authority_certificate(authority), 0, now_ms);
	for (int i = 0; r == 0 && i < n; i++)
		r = add_certificate(out, sk_X509_value(trusted, i), i + 1, now_ms);
	if (r == 0)
		r = buf_error(out);
	if (r == 0)
		r = add_digest(out);
	return r < 0 ? r : buf_error(out);
}

int keystore_make(const struct authority *authority, SSL_CTX *outside, struct buf *out,
		  struct atoll_error *err)
{
	STACK_OF(X509) * trusted;
	int r;

	ERR_clear_error();
	trusted = X509_STORE_get1_all_certs(SSL_CTX_get_cert_store(outside));
	r = trusted ? write_store(authority, trusted, out) : -ENOMEM;
	sk_X509_pop_free(trusted, X509_free);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "make a key store for Java: %s",
				 tls_reason());
	return 0;
}

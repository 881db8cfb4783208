/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/test.h"
#include "egress/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

/* Two authorities that the host trusts, and the run's own. */
struct made {
	struct authority *host[2], *own;
	SSL_CTX *outside;
	struct buf store;
};

static void made_init(struct made *made, size_t limit)
{
	cleanup_fd int dir = test_tempdir(), fd = -1;
	struct atoll_error err = {0};
	char path[256];

	*made = (struct made){.store = BUF_INIT(limit)};
	fd = openat(dir, "ca.pem", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	for (int i = 0; i < 2; i++) {
		const char *pem;
		size_t size;

		CHECK(authority_new(NULL, &made->host[i], NULL) == 0);
		pem = authority_pem(made->host[i], &size);
		CHECK(fd_write_all(fd, pem, size) == 0);
	}
	CHECK(authority_new(NULL, &made->own, NULL) == 0);
	snprintf(path, sizeof path, "%s/ca.pem", test_tempdir_path());
	CHECK(authority_outside(path, &made->outside, &err) == 0);
}

static void made_done(struct made *made)
{
	buf_done(&made->store);
	SSL_CTX_free(made->outside);
	authority_free(made->own);
	authority_free(made->host[0]);
	authority_free(made->host[1]);
}

#define cleanup_made cleanup_with(made_done)

static uint64_t take_number(const unsigned char **at, int bytes)
{
	uint64_t number = 0;

	while (bytes-- > 0)
		number = number << 8 | *(*at)++;
	return number;
}

static const char *take_text(const unsigned char **at)
{
	static char text[64];
	size_t size = take_number(at, 2);

	CHECK(size < sizeof text);
	memcpy(text, *at, size);
	text[size] = '\0';
	*at += size;
	return text;
}

/* One entry; its certificate, the caller's. */
static X509 *take_entry(const unsigned char **at, int number)
{
	const unsigned char *der;
	char alias[16];
	X509 *certificate;
	size_t size;

	snprintf(alias, sizeof alias, "atoll-%d", number);
	CHECK_INT(take_number(at, 4), 2);
	CHECK_STR(take_text(at), alias);
	CHECK(take_number(at, 8) > UINT64_C(1600000000000));
	CHECK_STR(take_text(at), "X.509");
	size = take_number(at, 4);
	der = *at;
	certificate = d2i_X509(NULL, &der, (long)size);
	CHECK(certificate && der == *at + size);
	*at += size;
	return certificate;
}

TEST(a_key_store_has_what_the_host_trusts_and_the_authority)
{
	cleanup_made struct made made;
	unsigned seen[3] = {0};
	const unsigned char *at;

	made_init(&made, 1 << 16);
	CHECK_INT(keystore_make(made.own, made.outside, &made.store, NULL), 0);
	at = (const unsigned char *)made.store.data;
	CHECK_INT(take_number(&at, 4), 0xfeedfeed);
	CHECK_INT(take_number(&at, 4), 2);
	CHECK_INT(take_number(&at, 4), 3);
	for (int i = 0; i < 3; i++) {
		X509 *certificate = take_entry(&at, i);

		seen[0] += X509_cmp(certificate, authority_certificate(made.own)) == 0;
		seen[1] += X509_cmp(certificate, authority_certificate(made.host[0])) == 0;
		seen[2] += X509_cmp(certificate, authority_certificate(made.host[1])) == 0;
		X509_free(certificate);
	}
	CHECK(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
	CHECK_INT(at + 20 - (const unsigned char *)made.store.data, made.store.used);
}

TEST(a_key_store_ends_with_the_digest_that_java_wants)
{
	static const char before[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	cleanup_buf struct buf text = BUF_INIT(1 << 16);
	cleanup_made struct made made;
	unsigned char digest[20];

	made_init(&made, 1 << 16);
	CHECK_INT(keystore_make(made.own, made.outside, &made.store, NULL), 0);
	buf_add(&text, before, sizeof before - 1);
	buf_add(&text, made.store.data, made.store.used - sizeof digest);
	CHECK(EVP_Q_digest(NULL, "SHA1", NULL, text.data, text.used, digest, NULL));
	CHECK(memcmp(made.store.data + made.store.used - sizeof digest, digest, sizeof digest) ==
	      0);
}

TEST(a_key_store_that_does_not_fit_is_a_failure)
{
	cleanup_made struct made made;
	struct atoll_error err = {0};

	made_init(&made, 600);
	CHECK_INT(keystore_make(made.own, made.outside, &made.store, &err), -E2BIG);
	CHECK(strncmp(err.text, "make a key store for Java: ", 27) == 0);
}

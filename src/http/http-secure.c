/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * A BIO for sockets
 *
 * OpenSSL's own socket BIO writes by write(2), which can end the process by SIGPIPE, and it cannot
 * begin with bytes that were read before.
 */
struct early {
	int fd;
	const uint8_t *data;
	size_t size;
};

static int bio_read(BIO *bio, char *data, size_t size, size_t *ret_done)
{
	struct early *early = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (early->size > 0) {
		n = (ssize_t)(size < early->size ? size : early->size);
		memcpy(data, early->data, (size_t)n);
		early->data += n;
		early->size -= (size_t)n;
	} else {
		do
			n = recv(early->fd, data, size, 0);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno == EAGAIN)
			BIO_set_retry_read(bio);
		if (n == 0)
			BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	}
	*ret_done = n > 0 ? (size_t)n : 0;
	return n > 0;
}

static int bio_write(BIO *bio, const char *data, size_t size, size_t *ret_done)
{
	struct early *early = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	do
		n = send(early->fd, data, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	*ret_done = n > 0 ? (size_t)n : 0;
	return n > 0;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

static int bio_destroy(BIO *bio)
{
	free(BIO_get_data(bio));
	BIO_set_data(bio, NULL);
	return 1;
}

static BIO_METHOD *bio_method(void)
{
	static BIO_METHOD *method;

	if (!method) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "atoll socket");
		if (!method)
			return NULL;
		BIO_meth_set_read_ex(method, bio_read);
		BIO_meth_set_write_ex(method, bio_write);
		BIO_meth_set_ctrl(method, bio_ctrl);
		BIO_meth_set_destroy(method, bio_destroy);
	}
	return method;
}

int http_secure(SSL *ssl, int fd, const void *data, size_t size)
{
	struct early *early = malloc(sizeof *early);
	BIO *bio = early && bio_method() ? BIO_new(bio_method()) : NULL;

	if (!bio) {
		free(early);
		return -ENOMEM;
	}
	*early = (struct early){fd, data, size};
	BIO_set_data(bio, early);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	return 0;
}

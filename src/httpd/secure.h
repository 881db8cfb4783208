/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * TLS for a server, 1.2 or later, by OpenSSL
 *
 * On nonblocking sockets, which stay the caller's.
 */

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;

/* Of two PEM files. */
int secure_context(const char *certificate, const char *key, SSL_CTX **ret,
		   struct atoll_error *err);
void secure_context_free(SSL_CTX *context);

SSL *secure_new(SSL_CTX *context, int fd); /* NULL: out of memory */
void secure_free(SSL *ssl);
/* 1: done; 0: call again when the socket is ready; -EPROTO. */
int secure_handshake(SSL *ssl, bool *ret_wants_write);
/* Like recv() and send(), with a negative errno. A read may have to wait until the socket is
 * writable. */
ssize_t secure_read(SSL *ssl, void *data, size_t size, bool *ret_wants_write);
ssize_t secure_write(SSL *ssl, const void *data, size_t size);
/* Sends close_notify, once. Does nothing before the end of the handshake. */
void secure_shut(SSL *ssl);

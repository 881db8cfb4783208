/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/secure.h"

#include "base/error.h"
#include "http/http.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

/* TLS by OpenSSL; see secure.h. listen.c makes the contexts, connection.c the sessions. */

/* ---- the certificate ---- */

static const char *error_reason(void)
{
	unsigned long first = ERR_peek_error();
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	/* For a missing file the first error is the errno, and the last one only names a
	 * library. */
	if (ERR_SYSTEM_ERROR(first))
		text = strerrordesc_np(ERR_GET_REASON(first));
	return text ?: "no reason given";
}

/* ALPN: http/1.1 only. A client without ALPN gets HTTP/1.1, too. */
static int choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_size,
			   const unsigned char *offered, unsigned size, void *data)
{
	static const unsigned char ours[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
	unsigned char *chosen;

	(void)ssl;
	(void)data;
	if (SSL_select_next_proto(&chosen, ret_size, ours, sizeof ours, offered, size) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static void set_options(SSL_CTX *context)
{
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					     SSL_OP_CIPHER_SERVER_PREFERENCE);
	/* Session tickets need no memory in the server; a session cache would. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
}

int secure_context(const char *certificate, const char *key, SSL_CTX **ret, struct atoll_error *err)
{
	SSL_CTX *context;
	int r = 0;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_server_method());
	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION))
		r = error_set(err, ATOLL_FAULT_HOST, 0, "prepare TLS: %s", error_reason());
	else if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0, "read the certificate '%s': %s",
			      certificate, error_reason());
	else if (!key || SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0, "read the key '%s': %s",
			      key ?: "(none given)", error_reason());
	else if (SSL_CTX_check_private_key(context) != 1)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0,
			      "the key '%s' does not belong to the certificate '%s'", key,
			      certificate);
	if (r < 0) {
		SSL_CTX_free(context);
		ERR_clear_error();
		return r;
	}
	set_options(context);
	*ret = context;
	return 0;
}

void secure_context_free(SSL_CTX *context)
{
	SSL_CTX_free(context);
}

/* ---- one connection ---- */

SSL *secure_new(SSL_CTX *context, int fd)
{
	SSL *ssl = SSL_new(context);

	if (!ssl || http_secure(ssl, fd, NULL, 0) < 0) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return ssl;
}

void secure_free(SSL *ssl)
{
	SSL_free(ssl);
}

/* ---- reading and writing ---- */

/* -EAGAIN; 0: the client has sent close_notify; or -EPROTO. */
static int read_error(SSL *ssl, int result, bool *ret_wants_write)
{
	int error = SSL_get_error(ssl, result);

	*ret_wants_write = error == SSL_ERROR_WANT_WRITE;
	ERR_clear_error();
	switch (error) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		return -EPROTO;
	}
}

int secure_handshake(SSL *ssl, bool *ret_wants_write)
{
	int r;

	*ret_wants_write = false;
	ERR_clear_error();
	r = SSL_do_handshake(ssl);
	if (r == 1)
		return 1;
	return read_error(ssl, r, ret_wants_write) == -EAGAIN ? 0 : -EPROTO;
}

ssize_t secure_read(SSL *ssl, void *data, size_t size, bool *ret_wants_write)
{
	size_t done = 0;
	int r;

	*ret_wants_write = false;
	if (size == 0)
		return -EAGAIN;
	ERR_clear_error();
	r = SSL_read_ex(ssl, data, size, &done);
	return r == 1 ? (ssize_t)done : read_error(ssl, r, ret_wants_write);
}

ssize_t secure_write(SSL *ssl, const void *data, size_t size)
{
	bool wants_write;
	size_t done = 0;
	int r;

	if (size == 0)
		return 0;
	ERR_clear_error();
	r = SSL_write_ex(ssl, data, size, &done);
	if (r == 1)
		return (ssize_t)done;
	r = read_error(ssl, r, &wants_write);
	return r == 0 ? -EPIPE : r;
}

void secure_shut(SSL *ssl)
{
	if (!SSL_is_init_finished(ssl) || SSL_get_shutdown(ssl) & SSL_SENT_SHUTDOWN)
		return;
	ERR_clear_error();
	SSL_shutdown(ssl);
	ERR_clear_error();
}

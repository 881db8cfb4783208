/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "egress/egress-inner.h"
#include "egress/tls.h"
#include "http/http.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <unistd.h>

int stream_attach(struct stream *stream, SSL *ssl, const uint8_t *data, size_t size)
{
	int r = http_secure(ssl, stream->watch.fd, data, size);

	if (r < 0)
		SSL_free(ssl);
	else
		stream->ssl = ssl;
	return r;
}

/* What a call of OpenSSL came to; `wants` is told if it has to wait. */
static int ssl_result(struct stream *stream, int result, uint32_t *wants)
{
	switch (SSL_get_error(stream->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		*wants = EPOLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*wants = EPOLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT ? -errno
										   : -EPROTO;
	default:
		return -EPROTO;
	}
}

ssize_t stream_read(struct stream *stream, void *data, size_t size)
{
	ssize_t n;

	if (stream->is_read_closed)
		return 0;
	stream->read_wants = EPOLLIN;
	if (stream->ssl) {
		size_t done = 0;
		int result;

		ERR_clear_error();
		errno = 0;
		result = SSL_read_ex(stream->ssl, data, size, &done);
		n = result ? (ssize_t)done : ssl_result(stream, result, &stream->read_wants);
	} else {
		do
			n = recv(stream->watch.fd, data, size, 0);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			n = -errno;
	}
	if (n == 0)
		stream->is_read_closed = true;
	return n;
}

ssize_t stream_write(struct stream *stream, const void *data, size_t size)
{
	ssize_t n;

	if (stream->is_write_closed)
		return -EPIPE;
	if (size == 0)
		return 0;
	stream->write_wants = EPOLLOUT;
	if (stream->ssl) {
		size_t done = 0;
		int result;

		ERR_clear_error();
		errno = 0;
		result = SSL_write_ex(stream->ssl, data, size, &done);
		n = result ? (ssize_t)done : ssl_result(stream, result, &stream->write_wants);
		/* Their close_notify ends what can be read; writing goes on. */
		return n == 0 ? -EPIPE : n;
	}
	do
		n = send(stream->watch.fd, data, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

void stream_shut(struct stream *stream)
{
	if (stream->is_write_closed || stream->watch.fd < 0)
		return;
	stream->is_write_closed = true;
	if (stream->ssl && SSL_is_init_finished(stream->ssl)) {
		ERR_clear_error();
		SSL_shutdown(stream->ssl);
	}
	shutdown(stream->watch.fd, SHUT_WR);
}

bool stream_has_pending(const struct stream *stream)
{
	return stream->ssl && SSL_has_pending(stream->ssl);
}

void stream_done(struct stream *stream, bool resets)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	if (stream->watch.fd < 0)
		return;
	if (stream->egress)
		loop_unwatch(&stream->egress->loop, &stream->watch);
	if (resets)
		setsockopt(stream->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	else
		stream_shut(stream);
	SSL_free(stream->ssl);
	stream->ssl = NULL;
	close(stream->watch.fd);
	stream->watch.fd = -1;
}

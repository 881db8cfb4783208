/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct atoll_error;
struct buf;
struct network_address;
struct stream;

/*
 * TLS that ends in egress
 *
 * Towards the sandbox egress is every server, by certificates of an authority that exists for one
 * run and whose key is only in this process's memory. Towards the real server it is a client that
 * accepts nothing but a certificate for the name that was looked up, issued by somebody in the
 * host's trust file, and valid now. TLS 1.2 and up, no renegotiation, no compression, no
 * resumption, HTTP/1.1 as the only protocol within.
 *
 * Everything that opens a file happens in the two functions that make something, so that the
 * process can lock itself in afterwards.
 */
struct authority;

/* A new authority with new keys, or (`heritage`) the one that authority_write() wrote down. 0 or a
 * negative errno. */
int authority_new(const char *heritage, struct authority **ret, struct atoll_error *err);
/* Its key and its certificate, as PEM. */
int authority_write(const struct authority *authority, struct buf *out);
void authority_free(struct authority *authority); /* takes NULL */
/* Its certificate: what has to be trusted inside. Lives as long as the authority. */
const char *authority_pem(const struct authority *authority, size_t *ret_size);
X509 *authority_certificate(const struct authority *authority); /* likewise */

/* For checking servers: trusts what is in the PEM file at `trust` and nothing else. The file is
 * read here. */
int authority_outside(const char *trust, SSL_CTX **ret, struct atoll_error *err);

/* For Java, which reads a format of its own: a key store with all that `outside` trusts, and the
 * authority. Added to `out`, whose limit counts. */
int keystore_make(const struct authority *authority, SSL_CTX *outside, struct buf *out,
		  struct atoll_error *err);

/* Why a client or a server was not to be spoken with. */
struct tls_peer {
	const char *name;		       /* must be in SNI; "" for an address as such */
	const struct network_address *address; /* of `name` "" */
	bool needs_name;		       /* a client that gives no name is refused */
	bool is_refused;		       /* by the contract: SNI is not `name` */
	char reason[128];		       /* for people; "" as long as all is well */
};

/* Begin TLS on a connected stream; `peer` stays where it is until the handshake is over. As a
 * server, `early` is what was already read from the socket and has to stay until then, too. 0 or
 * a negative errno. */
int stream_serve(struct stream *stream, struct authority *authority, struct tls_peer *peer,
		 const uint8_t *early, size_t n_early);
int stream_verify(struct stream *stream, SSL_CTX *outside, struct tls_peer *peer);

/* Put `ssl`, which is the stream's from here on (also if this fails), over its socket; `data` comes
 * before what the socket gives. -ENOMEM or 0. */
int stream_attach(struct stream *stream, SSL *ssl, const uint8_t *data, size_t size);

/* Go on with the handshake: 0 when it is over, -EAGAIN (see stream->read_wants), or another
 * negative errno with the story in peer->reason. */
int stream_handshake(struct stream *stream, struct tls_peer *peer);

/* ---- for authority.c, of tls.c ---- */

extern const unsigned char tls_http11[9]; /* as ALPN has it */
SSL_CTX *tls_context(bool is_server);
/* Why OpenSSL failed, in its words, without codes. */
const char *tls_reason(void);

/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/tls.h"
#include "base/error.h"
#include "egress/egress-inner.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/epoll.h>

const unsigned char tls_http11[9] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

const char *tls_reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_error());

	return text ?: "no reason given";
}

SSL_CTX *tls_context(bool is_server)
{
	SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());

	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)) {
		SSL_CTX_free(context);
		return NULL;
	}
	SSL_CTX_set_options(context,
			    SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 0);
	/* Buffers move between two tries to write; idle connections shall cost little. */
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	return context;
}

/* ---- towards the outside ---- */

int authority_outside(const char *trust, SSL_CTX **ret, struct atoll_error *err)
{
	SSL_CTX *context;

	ERR_clear_error();
	context = tls_context(false);
	if (!context)
		return error_set(err, ATOLL_FAULT_HOST, 0, "prepare TLS: %s", tls_reason());
	if (!SSL_CTX_load_verify_file(context, trust)) {
		SSL_CTX_free(context);
		return error_set(err, ATOLL_FAULT_HOST, 0, "read authorities from '%s': %s", trust,
				 tls_reason());
	}
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_set_alpn_protos(context, tls_http11, sizeof tls_http11) != 0) {
		SSL_CTX_free(context);
		return error_oom(err);
	}
	*ret = context;
	return 0;
}

/* Whose certificate it has to be. */
static int demand_name(SSL *ssl, const struct tls_peer *peer)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	const uint8_t *bytes;

	/* A certificate's subject is free text: only its list of names counts (RFC 9525). */
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
						       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (*peer->name)
		return SSL_set_tlsext_host_name(ssl, peer->name) &&
		       X509_VERIFY_PARAM_set1_host(param, peer->name, 0);
	bytes = peer->address->bytes;
	if (network_address_is_v4(peer->address))
		return X509_VERIFY_PARAM_set1_ip(param, bytes + 12, 4);
	return X509_VERIFY_PARAM_set1_ip(param, bytes, 16);
}

int stream_verify(struct stream *stream, SSL_CTX *outside, struct tls_peer *peer)
{
	SSL *ssl = outside ? SSL_new(outside) : NULL;
	int r;

	peer->is_refused = false;
	*peer->reason = '\0';
	if (!ssl || !demand_name(ssl, peer)) {
		SSL_free(ssl);
		return -ENOMEM;
	}
	SSL_set_app_data(ssl, peer);
	r = stream_attach(stream, ssl, NULL, 0);
	if (r == 0)
		SSL_set_connect_state(ssl);
	return r;
}

/* ---- handshakes ---- */

static void say_verify_problem(long problem, struct tls_peer *peer)
{
	const char *text;

	switch (problem) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		text = "the server's certificate has expired";
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		text = "the server's certificate is not valid yet";
		break;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		text = "the server's certificate is for another name";
		break;
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		text = "the server's certificate is signed by itself";
		break;
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		text = "the server's certificate is from an authority that is not trusted";
		break;
	default:
		snprintf(peer->reason, sizeof peer->reason, "the server's certificate: %s",
			 X509_verify_cert_error_string(problem));
		return;
	}
	snprintf(peer->reason, sizeof peer->reason, "%s", text);
}

static void say_problem(SSL *ssl, int error, struct tls_peer *peer)
{
	unsigned long code = ERR_peek_error();
	bool is_server = SSL_is_server(ssl);
	long verified = SSL_get_verify_result(ssl);

	if (*peer->reason)
		return;
	if (!is_server && verified != X509_V_OK) {
		say_verify_problem(verified, peer);
		return;
	}
	switch (ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0) {
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
		if (is_server) {
			snprintf(peer->reason, sizeof peer->reason,
				 "the program does not trust the authority of this sandbox");
			return;
		}
		break;
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		code = 0;
		break;
	}
	if (error == SSL_ERROR_SYSCALL || code == 0)
		snprintf(peer->reason, sizeof peer->reason, "%s closed during the TLS handshake",
			 is_server ? "the program" : "the server");
	else
		snprintf(peer->reason, sizeof peer->reason, "TLS with %s failed: %s",
			 is_server ? "the program" : "the server", tls_reason());
}

int stream_handshake(struct stream *stream, struct tls_peer *peer)
{
	int result, error;

	ERR_clear_error();
	errno = 0;
	result = SSL_do_handshake(stream->ssl);
	if (result == 1) {
		SSL_set_app_data(stream->ssl, NULL);
		return 0;
	}
	error = SSL_get_error(stream->ssl, result);
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
		stream->read_wants = error == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT;
		return -EAGAIN;
	}
	say_problem(stream->ssl, error, peer);
	ERR_clear_error();
	return -EPROTO;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "egress/egress-inner.h"
#include "egress/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

/* Certificates that are kept; making one takes some 50 microseconds. */
#define LEAVES_MAX 256

struct leaf {
	char name[NETWORK_NAME_MAX]; /* or an address */
	X509 *certificate;
	uint64_t used; /* the higher, the later */
};

struct authority {
	EVP_PKEY *key;
	X509 *certificate;
	EVP_PKEY *leaf_key; /* the same for all: inside nobody else has it */
	SSL_CTX *server;
	char *pem;
	size_t pem_size;
	struct leaf leaves[LEAVES_MAX];
	size_t n_leaves;
	uint64_t clock;
};

/* ---- certificates ---- */

static int add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *extension;
	X509V3_CTX context;
	int ok;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	ok = extension && X509_add_ext(certificate, extension, -1);
	X509_EXTENSION_free(extension);
	return ok;
}

static int set_serial(X509 *certificate)
{
	unsigned char bytes[16];
	BIGNUM *number;
	int ok;

	if (RAND_bytes(bytes, sizeof bytes) != 1)
		return 0;
	bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and never shorter */
	number = BN_bin2bn(bytes, sizeof bytes, NULL);
	ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
	BN_free(number);
	return ok;
}

/* A certificate with nothing in it but who and when. */
static X509 *certificate_new(EVP_PKEY *key, const char *common_name)
{
	X509 *certificate = X509_new();
	X509_NAME *name = certificate ? X509_get_subject_name(certificate) : NULL;

	if (name && X509_set_version(certificate, 2) && set_serial(certificate) &&
	    X509_gmtime_adj(X509_getm_notBefore(certificate), -24 * 3600L) &&
	    X509_gmtime_adj(X509_getm_notAfter(certificate), 30 * 24 * 3600L) &&
	    X509_set_pubkey(certificate, key) &&
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common_name,
				       -1, -1, 0))
		return certificate;
	X509_free(certificate);
	return NULL;
}

static X509 *make_root(EVP_PKEY *key)
{
	unsigned char random[4];
	char name[40];
	X509 *root;

	if (RAND_bytes(random, sizeof random) != 1)
		return NULL;
	snprintf(name, sizeof name, "atoll sandbox %02x%02x%02x%02x", random[0], random[1],
		 random[2], random[3]);
	root = certificate_new(key, name);
	if (root && X509_set_issuer_name(root, X509_get_subject_name(root)) &&
	    add_extension(root, root, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	    add_extension(root, root, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	    add_extension(root, root, NID_subject_key_identifier, "hash") &&
	    X509_sign(root, key, EVP_sha256()))
		return root;
	X509_free(root);
	return NULL;
}

static X509 *make_leaf(struct authority *authority, const char *name, bool is_address)
{
	char san[NETWORK_NAME_MAX + 8];
	/* A common name has at most 64 characters; nobody looks at it. */
	X509 *leaf = certificate_new(authority->leaf_key, strlen(name) <= 64 ? name : "atoll");

	snprintf(san, sizeof san, "%s:%s", is_address ? "IP" : "DNS", name);
	if (leaf && X509_set_issuer_name(leaf, X509_get_subject_name(authority->certificate)) &&
	    add_extension(leaf, authority->certificate, NID_basic_constraints,
			  "critical,CA:FALSE") &&
	    add_extension(leaf, authority->certificate, NID_key_usage,
			  "critical,digitalSignature") &&
	    add_extension(leaf, authority->certificate, NID_ext_key_usage, "serverAuth") &&
	    add_extension(leaf, authority->certificate, NID_subject_key_identifier, "hash") &&
	    add_extension(leaf, authority->certificate, NID_authority_key_identifier,
			  "keyid:always") &&
	    add_extension(leaf, authority->certificate, NID_subject_alt_name, san) &&
	    X509_sign(leaf, authority->key, EVP_sha256()))
		return leaf;
	X509_free(leaf);
	return NULL;
}

/* The certificate for a name; the authority's. NULL if it could not be made. */
static X509 *find_leaf(struct authority *authority, const char *name, bool is_address)
{
	struct leaf *leaf = NULL;
	X509 *made;

	for (size_t i = 0; i < authority->n_leaves; i++) {
		struct leaf *other = &authority->leaves[i];

		if (streq(other->name, name)) {
			other->used = ++authority->clock;
			return other->certificate;
		}
		if (!leaf || other->used < leaf->used)
			leaf = other;
	}
	made = make_leaf(authority, name, is_address);
	if (!made)
		return NULL;
	if (authority->n_leaves < LEAVES_MAX)
		leaf = &authority->leaves[authority->n_leaves++];
	X509_free(leaf->certificate);
	leaf->certificate = made;
	leaf->used = ++authority->clock;
	snprintf(leaf->name, sizeof leaf->name, "%s", name);
	return made;
}

/* ---- towards the sandbox ---- */

static void peer_text(const struct tls_peer *peer, char ret[NETWORK_NAME_MAX])
{
	if (*peer->name)
		snprintf(ret, NETWORK_NAME_MAX, "%s", peer->name);
	else
		network_address_text(peer->address, ret);
}

/* The name that a client gives must be the one that it looked up. */
static bool name_fits(SSL *ssl, struct tls_peer *peer)
{
	const char *given = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	char name[NETWORK_NAME_MAX], shown[64];

	if (!given && !peer->needs_name)
		return true;
	peer->is_refused = true;
	if (!given) {
		snprintf(peer->reason, sizeof peer->reason, "TLS without a server name");
		return false;
	}
	if (network_name(given, strlen(given), name) < 0 || !streq(name, peer->name)) {
		snprintf(peer->reason, sizeof peer->reason, "TLS is for another name: %s",
			 str_show(given, shown, sizeof shown));
		return false;
	}
	peer->is_refused = false;
	return true;
}

static int on_name(SSL *ssl, int *alert, void *data)
{
	struct authority *authority = data;
	struct tls_peer *peer = SSL_get_app_data(ssl);
	char name[NETWORK_NAME_MAX];
	X509 *leaf;

	*alert = SSL_AD_UNRECOGNIZED_NAME;
	if (!name_fits(ssl, peer))
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	peer_text(peer, name);
	leaf = find_leaf(authority, name, !*peer->name);
	*alert = SSL_AD_INTERNAL_ERROR;
	if (!leaf || SSL_use_certificate(ssl, leaf) != 1 ||
	    SSL_use_PrivateKey(ssl, authority->leaf_key) != 1)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

static int on_protocols(SSL *ssl, const unsigned char **ret, unsigned char *ret_size,
			const unsigned char *offered, unsigned n_offered, void *data)
{
	struct tls_peer *peer = SSL_get_app_data(ssl);
	unsigned char *chosen;

	(void)data;
	if (SSL_select_next_proto(&chosen, ret_size, tls_http11, sizeof tls_http11, offered,
				  n_offered) != OPENSSL_NPN_NEGOTIATED) {
		snprintf(peer->reason, sizeof peer->reason,
			 "the program does not offer HTTP/1.1, which is what is looked into");
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	}
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static int make_pem(struct authority *authority)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *data;
	long size = 0;

	if (bio && PEM_write_bio_X509(bio, authority->certificate)) {
		size = BIO_get_mem_data(bio, &data);
		authority->pem = strndup(data, (size_t)size);
		authority->pem_size = (size_t)size;
	}
	BIO_free(bio);
	return authority->pem != NULL;
}

static bool make_keys(struct authority *authority)
{
	authority->key = EVP_EC_gen("P-256");
	authority->certificate = authority->key ? make_root(authority->key) : NULL;
	return authority->certificate;
}

static bool read_keys(struct authority *authority, const char *text)
{
	BIO *bio = BIO_new_mem_buf(text, -1);

	authority->key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
	authority->certificate = authority->key ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
	BIO_free(bio);
	return authority->certificate &&
	       X509_check_private_key(authority->certificate, authority->key) == 1;
}

int authority_write(const struct authority *authority, struct buf *out)
{
	BIO *bio = BIO_new(BIO_s_secmem());
	char *data = NULL;
	long size;

	if (bio && PEM_write_bio_PrivateKey(bio, authority->key, NULL, NULL, 0, NULL, NULL) == 1) {
		size = BIO_get_mem_data(bio, &data);
		if (size > 0)
			buf_add(out, data, (size_t)size);
	}
	BIO_free(bio);
	buf_add(out, authority->pem, authority->pem_size);
	return data ? buf_error(out) : -EIO;
}

int authority_new(const char *heritage, struct authority **ret, struct atoll_error *err)
{
	struct authority *authority = calloc(1, sizeof *authority);

	if (!authority)
		return error_oom(err);
	ERR_clear_error();
	if (!(heritage ? read_keys(authority, heritage) : make_keys(authority)) ||
	    !(authority->leaf_key = EVP_EC_gen("P-256")) || !make_pem(authority) ||
	    !(authority->server = tls_context(true))) {
		authority_free(authority);
		return error_set(err, ATOLL_FAULT_HOST, 0, "make a certificate authority: %s",
				 tls_reason());
	}
	SSL_CTX_set_tlsext_servername_callback(authority->server, on_name);
	SSL_CTX_set_tlsext_servername_arg(authority->server, authority);
	SSL_CTX_set_alpn_select_cb(authority->server, on_protocols, NULL);
	*ret = authority;
	return 0;
}

void authority_free(struct authority *authority)
{
	if (!authority)
		return;
	for (size_t i = 0; i < authority->n_leaves; i++)
		X509_free(authority->leaves[i].certificate);
	SSL_CTX_free(authority->server);
	X509_free(authority->certificate);
	EVP_PKEY_free(authority->leaf_key);
	EVP_PKEY_free(authority->key);
	free(authority->pem);
	free(authority);
}

const char *authority_pem(const struct authority *authority, size_t *ret_size)
{
	*ret_size = authority->pem_size;
	return authority->pem;
}

X509 *authority_certificate(const struct authority *authority)
{
	return authority->certificate;
}

int stream_serve(struct stream *stream, struct authority *authority, struct tls_peer *peer,
		 const uint8_t *early, size_t n_early)
{
	SSL *ssl = authority ? SSL_new(authority->server) : NULL;
	int r;

	peer->is_refused = false;
	*peer->reason = '\0';
	if (!ssl)
		return -ENOMEM;
	SSL_set_app_data(ssl, peer);
	r = stream_attach(stream, ssl, early, n_early);
	if (r == 0)
		SSL_set_accept_state(ssl);
	return r;
}

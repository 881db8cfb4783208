/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/sshsig.h"

#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <string.h>

/*
 * SSHSIG, the form that `ssh-keygen -Y` reads (PROTOCOL.sshsig of OpenSSH)
 *
 * For people who have only ssh. The signature is over a hash of the file and a namespace, so it
 * cannot be used for another purpose.
 */

#define LINE_LENGTH 70

static const char magic[6] = "SSHSIG";
static const char hash_name[] = "sha256";
static const char key_type[] = "ssh-ed25519";

static void add_string(struct buf *out, const void *data, size_t size)
{
	const uint32_t length = htonl((uint32_t)size);

	buf_add(out, &length, sizeof length);
	buf_add(out, data, size);
}

static void add_text(struct buf *out, const char *text)
{
	add_string(out, text, strlen(text));
}

static void add_pair(struct buf *out, const void *data, size_t size)
{
	cleanup_buf struct buf pair = BUF_INIT(1024);

	add_text(&pair, key_type);
	add_string(&pair, data, size);
	add_string(out, pair.data, pair.used);
}

static void add_armor(struct buf *out, const struct buf *blob)
{
	cleanup_buf struct buf text = BUF_INIT(4096);

	sign_add_base64(&text, blob->data, blob->used);
	buf_add_str(out, "-----BEGIN SSH SIGNATURE-----\n");
	for (size_t at = 0; at < text.used; at += LINE_LENGTH) {
		const size_t left = text.used - at;

		buf_add(out, text.data + at, left < LINE_LENGTH ? left : LINE_LENGTH);
		buf_add_char(out, '\n');
	}
	buf_add_str(out, "-----END SSH SIGNATURE-----\n");
}

int sshsig_sign(const void *data, size_t size, const struct sign_key *key, struct buf *ret,
		struct atoll_error *err)
{
	cleanup_buf struct buf signed_part = BUF_INIT(1024);
	cleanup_buf struct buf signature = BUF_INIT(1024);
	cleanup_buf struct buf blob = BUF_INIT(2048);
	const uint32_t version = htonl(1);
	unsigned char hash[32];
	int r;

	sign_sha256(data, size, hash);
	buf_add(&signed_part, magic, sizeof magic);
	add_text(&signed_part, RECEIPT_SSH_NAMESPACE);
	add_text(&signed_part, "");
	add_text(&signed_part, hash_name);
	add_string(&signed_part, hash, sizeof hash);
	r = sign_bytes(key->key, signed_part.data, signed_part.used, &signature, err);
	if (r < 0)
		return r;
	buf_add(&blob, magic, sizeof magic);
	buf_add(&blob, &version, sizeof version);
	add_pair(&blob, key->raw, sizeof key->raw);
	add_text(&blob, RECEIPT_SSH_NAMESPACE);
	add_text(&blob, "");
	add_text(&blob, hash_name);
	add_pair(&blob, signature.data, signature.used);
	add_armor(ret, &blob);
	return buf_error(ret) < 0 ? error_oom(err) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/key-form.h"

#include "audit/audit-base.h"
#include "audit/key.h"
#include "audit/note.h"
#include "base/str.h"

#include <atoll/audit.h>
#include <sodium.h>
#include <stdio.h>

/* Public keys as text: PEM, a line of OpenSSH, a verifier key of signed notes */

#define PEM_BEGIN "-----BEGIN PUBLIC KEY-----"
#define PEM_END	  "-----END PUBLIC KEY-----"

#define DER_SIZE   44
#define SSH_SIZE   51
#define NOTE_SIZE  33
#define HINT_SIZE  4
#define BASE64_MAX 80

static const unsigned char der_start[DER_SIZE - 32] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
						       0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
static const unsigned char ssh_start[SSH_SIZE - 32] = {
	0, 0, 0, 11, 's', 's', 'h', '-', 'e', 'd', '2', '5', '5', '1', '9', 0, 0, 0, 32};
static const unsigned char note_start[NOTE_SIZE - 32] = {1};

/* `start` and the key, in base64. */
static void encode(const unsigned char *start, size_t size, const unsigned char public[32],
		   char ret[BASE64_MAX])
{
	unsigned char data[64];

	memcpy(data, start, size);
	memcpy(data + size, public, 32);
	sodium_bin2base64(ret, BASE64_MAX, data, size + 32, sodium_base64_VARIANT_ORIGINAL);
}

static bool decode(const char *text, size_t length, const unsigned char *start, size_t size,
		   unsigned char ret[32])
{
	unsigned char data[64];

	if (!audit_from_base64(text, length, data, size + 32) || memcmp(data, start, size) != 0)
		return false;
	memcpy(ret, data + size, 32);
	return true;
}

void audit_key_id(const unsigned char public[32], char ret[AUDIT_KEY_SIZE])
{
	unsigned char der[DER_SIZE], digest[HASH_SIZE];

	memcpy(der, der_start, sizeof der_start);
	memcpy(der + sizeof der_start, public, 32);
	hash_sha256(der, sizeof der, digest);
	hash_to_hex(digest, 8, ret);
}

void audit_key_forms(const struct audit_key *key, struct atoll_key *ret)
{
	unsigned char hint[HINT_SIZE];
	char base64[BASE64_MAX], name[32], hex[2 * HINT_SIZE + 1];

	memcpy(ret->id, key->id, sizeof ret->id);
	memcpy(ret->store, key->store, sizeof ret->store);
	snprintf(name, sizeof name, "atoll/%s", key->store);
	encode(der_start, sizeof der_start, key->public, base64);
	snprintf(ret->pem, sizeof ret->pem, PEM_BEGIN "\n%s\n" PEM_END "\n", base64);
	encode(ssh_start, sizeof ssh_start, key->public, base64);
	snprintf(ret->ssh, sizeof ret->ssh, "ssh-ed25519 %s %s\n", base64, name);
	encode(note_start, sizeof note_start, key->public, base64);
	audit_key_hint(name, key->public, hint);
	hash_to_hex(hint, HINT_SIZE, hex);
	snprintf(ret->note, sizeof ret->note, "%s+%s+%s\n", name, hex, base64);
}

bool audit_key_parse_public(const char *text, unsigned char ret[32])
{
	const char *at = strstr(text, PEM_BEGIN);

	if (at) {
		at += strlen(PEM_BEGIN);
		at += strspn(at, "\r\n");
		return decode(at, strcspn(at, "\r\n"), der_start, sizeof der_start, ret);
	}
	if (starts_with(text, "ssh-ed25519 ")) {
		at = text + strlen("ssh-ed25519 ");
		return decode(at, strcspn(at, " \r\n"), ssh_start, sizeof ssh_start, ret);
	}
	/* NAME+HINT+BASE64 */
	at = strchr(text, '+');
	at = at ? strchr(at + 1, '+') : NULL;
	return at && decode(at + 1, strcspn(at + 1, "\r\n"), note_start, sizeof note_start, ret);
}

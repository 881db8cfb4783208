/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/note.h"

#include "audit/audit-base.h"
#include "audit/key-trust.h"
#include "audit/key.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Signed notes (C2SP signed-note), and checkpoints in them (C2SP tlog-checkpoint)
 *
 * A note is a text of lines, a blank line, and a line for each signature: an em dash, the key's
 * name, and in base64 a hint of four bytes which key it was, and the signature of the text.
 */

#define DASH	  "\xe2\x80\x94 "
#define HINT_SIZE 4
#define SIG_SIZE  64

void audit_base64(const unsigned char *data, size_t size, struct buf *out)
{
	char text[256];

	for (size_t at = 0; at < size;) {
		size_t part = size - at < 180 ? size - at : 180; /* a multiple of 3 */

		sodium_bin2base64(text, sizeof text, data + at, part,
				  sodium_base64_VARIANT_ORIGINAL);
		buf_add_str(out, text);
		at += part;
	}
	sodium_memzero(text, sizeof text); /* it may have been a key */
}

/* libsodium accepts some bytes above 127 as base64 letters. So encode the result again and
 * compare. */
bool audit_from_base64(const char *text, size_t length, unsigned char *ret, size_t size)
{
	char again[128];
	const char *end;
	size_t got;
	bool is_good;

	is_good = length < sizeof again &&
		  length == sodium_base64_encoded_len(size, sodium_base64_VARIANT_ORIGINAL) - 1 &&
		  sodium_base642bin(ret, size, text, length, NULL, &got, &end,
				    sodium_base64_VARIANT_ORIGINAL) == 0 &&
		  got == size &&
		  memcmp(sodium_bin2base64(again, sizeof again, ret, size,
					   sodium_base64_VARIANT_ORIGINAL),
			 text, length) == 0;
	sodium_memzero(again, sizeof again); /* likewise */
	return is_good;
}

/* ---- signatures ---- */

void audit_key_hint(const char *name, const unsigned char public[32], unsigned char ret[4])
{
	unsigned char digest[HASH_SIZE];
	struct hash hash;

	hash_init(&hash);
	hash_update(&hash, name, strlen(name));
	hash_update(&hash, "\n\x01", 2); /* 1 is Ed25519 */
	hash_update(&hash, public, 32);
	hash_final(&hash, digest);
	memcpy(ret, digest, HINT_SIZE);
}

static void add_signature(const struct audit_key *key, const char *text, size_t size,
			  struct buf *out)
{
	unsigned char signature[HINT_SIZE + SIG_SIZE];
	char name[32];

	snprintf(name, sizeof name, "atoll/%s", key->store);
	audit_key_hint(name, key->public, signature);
	crypto_sign_detached(signature + HINT_SIZE, NULL, (const unsigned char *)text, size,
			     key->secret);
	buf_add_str(out, DASH);
	buf_add_str(out, name);
	buf_add_char(out, ' ');
	audit_base64(signature, sizeof signature, out);
	buf_add_char(out, '\n');
}

void audit_note_sign(const struct audit_key *key, const char *text, size_t size, struct buf *out)
{
	buf_add(out, text, size);
	buf_add_char(out, '\n');
	add_signature(key, text, size, out);
}

void audit_note_cosign(const struct audit_key *key, size_t size, struct buf *note)
{
	/* A buffer of its own: appending to `note` could move the text that is being signed. */
	AUDIT_STACK_BUF(line, 1024);

	if (buf_error(note) == 0)
		add_signature(key, note->data, size, &line);
	buf_add(note, line.data, line.used);
}

size_t audit_note_text(const char *note, size_t size)
{
	const char *blank = memmem(note, size, "\n\n", 2);

	return blank && note[size - 1] == '\n' ? (size_t)(blank - note) + 1 : 0;
}

/* Finds the next signature line of `name` from `*at` on, and decodes it. */
static bool next_signature(const char *note, size_t size, size_t *at, const char *name,
			   unsigned char ret[HINT_SIZE + SIG_SIZE])
{
	const size_t length = 92; /* of 68 bytes in base64 */
	size_t before = strlen(DASH) + strlen(name) + 1;

	while (*at < size) {
		const char *line = note + *at, *end = memchr(line, '\n', size - *at);
		size_t line_size = end ? (size_t)(end - line) : 0;

		if (!end)
			return false;
		*at += line_size + 1;
		if (line_size == before + length && memcmp(line, DASH, strlen(DASH)) == 0 &&
		    memcmp(line + strlen(DASH), name, strlen(name)) == 0 &&
		    line[before - 1] == ' ' &&
		    audit_from_base64(line + before, length, ret, HINT_SIZE + SIG_SIZE))
			return true;
	}
	return false;
}

bool audit_note_is_signed(const char *note, size_t size, const char *name,
			  const unsigned char public[32])
{
	unsigned char hint[HINT_SIZE], signature[HINT_SIZE + SIG_SIZE];
	size_t text = audit_note_text(note, size), at = text + 1;

	if (!text)
		return false;
	audit_key_hint(name, public, hint);
	while (next_signature(note, size, &at, name, signature)) {
		if (memcmp(hint, signature, HINT_SIZE) == 0 &&
		    crypto_sign_verify_detached(signature + HINT_SIZE, (const unsigned char *)note,
						text, public) == 0)
			return true;
	}
	return false;
}

int audit_note_signer(const char *note, size_t size, const char *name,
		      const struct audit_trust *trust)
{
	for (size_t i = 0; i < trust->n; i++) {
		if (audit_note_is_signed(note, size, name, trust->keys[i].public))
			return (int)i;
	}
	return -1;
}

bool audit_note_is_hinted(const char *note, size_t size, const char *name,
			  const struct audit_trust *trust)
{
	unsigned char hint[HINT_SIZE], signature[HINT_SIZE + SIG_SIZE];
	size_t text = audit_note_text(note, size);

	for (size_t i = 0; text && i < trust->n; i++) {
		size_t at = text + 1;

		audit_key_hint(name, trust->keys[i].public, hint);
		while (next_signature(note, size, &at, name, signature)) {
			if (memcmp(hint, signature, HINT_SIZE) == 0)
				return true;
		}
	}
	return false;
}

/* ---- checkpoints ---- */

void audit_head_format(const struct audit_head *head, struct buf *out)
{
	buf_addf(out, "%s\n%" PRIu64 "\n", head->origin, head->size);
	audit_base64(head->root, HASH_SIZE, out);
	buf_add_char(out, '\n');
	buf_add(out, head->more, head->more_size);
}

bool audit_head_parse(const char *note, size_t size, struct audit_head *ret)
{
	size_t text = audit_note_text(note, size);
	const char *end = note + text, *line = note, *next;
	char *behind;

	if (!text || !(next = memchr(line, '\n', text)) ||
	    (size_t)(next - line) >= sizeof ret->origin)
		return false;
	memcpy(ret->origin, line, (size_t)(next - line));
	ret->origin[next - line] = '\0';
	line = next + 1;
	if (line >= end || *line < '0' || *line > '9' || (*line == '0' && line[1] != '\n'))
		return false;
	errno = 0;
	ret->size = strtoull(line, &behind, 10);
	if (errno != 0 || *behind != '\n')
		return false;
	line = behind + 1;
	next = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
	if (!next || !audit_from_base64(line, (size_t)(next - line), ret->root, HASH_SIZE))
		return false;
	ret->more = next + 1;
	ret->more_size = (size_t)(end - ret->more);
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/key-form.h"
#include "audit/key-trust.h"
#include "audit/key.h"
#include "audit/note.h"
#include "base/str.h"
#include "base/test.h"

#include <atoll/audit.h>
#include <sodium.h>

/* The example of the Go package that C2SP's format comes from. */
#define PETER_KEY "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
#define PETER_NOTE                                                                                 \
	"If you think cryptography is the answer to your problem,\n"                               \
	"then you don't know what your problem is.\n"                                              \
	"\n"                                                                                       \
	"\xe2\x80\x94 PeterNeumann "                                                               \
	"x08go/ZJkuBS9UG/"                                                                         \
	"SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"

TEST(a_note_of_others_is_checked)
{
	unsigned char public[32], hint[4];

	CHECK(audit_key_parse_public(PETER_KEY "\n", public));
	audit_key_hint("PeterNeumann", public, hint);
	CHECK(memcmp(hint, "\xc7\x4f\x20\xa3", 4) == 0);
	CHECK(audit_note_is_signed(PETER_NOTE, strlen(PETER_NOTE), "PeterNeumann", public));
	CHECK(!audit_note_is_signed(PETER_NOTE, strlen(PETER_NOTE), "Peter", public));
}

TEST(every_bit_of_a_note_counts)
{
	struct buf note = BUF_INIT(1024);
	struct audit_key key;
	char name[32];

	audit_key_make(NULL, &key);
	snprintf(name, sizeof name, "atoll/%s", key.store);
	audit_note_sign(&key, "a\nb\n", 4, &note);
	CHECK(audit_note_is_signed(note.data, note.used, name, key.public));
	for (size_t i = 0; i < 8 * note.used; i++) {
		note.data[i / 8] ^= (char)(1 << i % 8);
		if (audit_note_is_signed(note.data, note.used, name, key.public))
			test_fail(__FILE__, __LINE__, "bit %zu of byte %zu: %s", i % 8, i / 8,
				  note.data);
		note.data[i / 8] ^= (char)(1 << i % 8);
	}
	for (size_t i = 0; i < note.used; i++)
		CHECK(!audit_note_is_signed(note.data, i, name, key.public));
	buf_done(&note);
}

TEST(a_key_survives_all_its_forms)
{
	struct audit_key key;
	struct atoll_key forms;
	unsigned char public[32];
	char text[512];

	audit_key_make("0123456789abcdef", &key);
	audit_key_forms(&key, &forms);
	CHECK(audit_key_parse_public(forms.pem, public) && !memcmp(public, key.public, 32));
	CHECK(audit_key_parse_public(forms.ssh, public) && !memcmp(public, key.public, 32));
	CHECK(audit_key_parse_public(forms.note, public) && !memcmp(public, key.public, 32));
	snprintf(text, sizeof text, "words before\n%swords behind\n", forms.pem);
	CHECK(audit_key_parse_public(text, public) && !memcmp(public, key.public, 32));
	CHECK(!audit_key_parse_public("", public));
	CHECK(!audit_key_parse_public("-----BEGIN PUBLIC KEY-----\nAAAA\n", public));
	CHECK(!audit_key_parse_public("ssh-ed25519 AAAA x", public));
	CHECK(!audit_key_parse_public("a+b+c", public));
}

static void hand_over(const struct audit_key *from, const struct audit_key *to,
		      const struct audit_key *first, const struct audit_key *second,
		      struct buf *out)
{
	struct buf text = BUF_INIT(1024);
	char a[65], b[65];

	hash_to_hex(from->public, 32, a);
	hash_to_hex(to->public, 32, b);
	buf_addf(&text, "atoll/%s key\nfrom %s\nto %s\ntime x\n", from->store, a, b);
	out->used = 0;
	audit_note_sign(first, text.data, text.used, out);
	audit_note_cosign(second, text.used, out);
	buf_done(&text);
}

TEST(a_hand_over_counts_if_both_have_signed_it)
{
	static struct audit_trust trust;
	struct audit_key a, b, c;
	struct buf note = BUF_INIT(2048);

	audit_key_make("0123456789abcdef", &a);
	audit_key_make(a.store, &b);
	audit_key_make(a.store, &c);
	audit_trust_add(&trust, b.public);
	hand_over(&a, &b, &a, &a, &note);
	CHECK(!audit_trust_hand_over(&trust, note.data, note.used));
	hand_over(&a, &b, &b, &b, &note);
	CHECK(!audit_trust_hand_over(&trust, note.data, note.used));
	hand_over(&a, &c, &a, &c, &note);
	CHECK(!audit_trust_hand_over(&trust, note.data, note.used)); /* none of them counts */
	hand_over(&a, &b, &a, &b, &note);
	CHECK(audit_trust_hand_over(&trust, note.data, note.used));
	CHECK(audit_trust_has(&trust, a.id)); /* backwards */
	CHECK(!audit_trust_hand_over(&trust, note.data, note.used));
	hand_over(&b, &c, &b, &c, &note);
	CHECK(audit_trust_hand_over(&trust, note.data, note.used));
	CHECK(audit_trust_has(&trust, c.id)); /* and forwards */
	for (size_t i = 0; i < note.used; i++)
		CHECK(!audit_trust_hand_over(&trust, note.data, i));
	buf_done(&note);
}

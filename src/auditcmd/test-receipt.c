/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/dsse.h"
#include "auditcmd/hardware.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "auditcmd/tpm-check.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/test.h"

#include <openssl/evp.h>

static void make_key(struct sign_key *ret)
{
	unsigned char seed[32] = {7};
	size_t size = 32;

	ret->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof seed);
	CHECK(EVP_PKEY_get_raw_public_key(ret->key, ret->raw, &size) == 1);
	strcpy(ret->id, "0011223344556677");
}

TEST(what_is_signed_is_the_pre_authentication_encoding)
{
	cleanup_buf struct buf pae = BUF_INIT(1000);

	/* The example of the DSSE specification. */
	dsse_pae("http://example.com/HelloWorld", "hello world", 11, &pae);
	CHECK_STR(pae.data, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
}

TEST(an_envelope_opens_with_its_key_and_no_other)
{
	cleanup_sign_key struct sign_key key = {0}, other = {0};
	cleanup_json json_t *envelope = NULL;
	cleanup_buf struct buf body = BUF_INIT(1000), again = BUF_INIT(1000);
	unsigned char raw[32] = {9};
	struct atoll_error err = {0};

	make_key(&key);
	CHECK(dsse_sign("{}", 2, &key, &envelope, &err) == 0);
	CHECK(dsse_open(envelope, &key, &body, &err) == 0);
	CHECK_STR(body.data, "{}");
	if (sign_from_raw(raw, &other, &err) == 0)
		CHECK(dsse_open(envelope, &other, &again, &err) == -EKEYREJECTED);
}

TEST(an_envelope_of_which_anything_was_changed_does_not_open)
{
	cleanup_sign_key struct sign_key key = {0};
	cleanup_json json_t *envelope = NULL;
	struct atoll_error err = {0};
	static const struct {
		const char *member, *value;
		int r;
	} cases[] = {{"payload", "e30K", -EKEYREJECTED},
		     {"payload", "", -EBADMSG},
		     {"payload", "!", -EBADMSG},
		     {"payloadType", "text/plain", -EBADMSG},
		     {"signatures", "none", -EBADMSG}};

	make_key(&key);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_buf struct buf body = BUF_INIT(1000);

		json_decref(envelope);
		CHECK(dsse_sign("{}", 2, &key, &envelope, &err) == 0);
		json_object_set_new(envelope, cases[i].member, json_string(cases[i].value));
		CHECK_INT(dsse_open(envelope, &key, &body, &err), cases[i].r);
	}
}

TEST(a_register_follows_from_what_it_was_extended_with)
{
	unsigned char before[32] = {1}, hash[32] = {2}, both[64] = {0}, value[32];

	both[0] = 1;
	both[32] = 2;
	sign_sha256(both, sizeof both, value);
	CHECK(tpm_follows(before, hash, value));
	hash[31] ^= 1;
	CHECK(!tpm_follows(before, hash, value));
}

TEST(a_quote_that_is_none_is_refused_and_never_read_past_its_end)
{
	const struct hardware_claim claim = {.checkpoint = "x", .checkpoint_size = 1};
	cleanup_json json_t *quote = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:s}", "before",
		"0000000000000000000000000000000000000000000000000000000000000000", "value",
		"0000000000000000000000000000000000000000000000000000000000000000", "nonce",
		"0000000000000000000000000000000000000000000000000000000000000000", "quote",
		"/1RDR4AYACI=", "signature", "ABgACwAg", "key", "no key");
	struct atoll_error err = {0};

	CHECK(tpm_check(quote, &claim, NULL, &err) == -EKEYREJECTED);
	json_object_del(quote, "nonce");
	CHECK(tpm_check(quote, &claim, NULL, &err) == -EKEYREJECTED);
}

TEST(hexadecimal_is_taken_whole_or_not_at_all)
{
	unsigned char bytes[2];

	CHECK(sign_unhex("00ff", bytes, 2) && bytes[1] == 0xff);
	CHECK(!sign_unhex("00f", bytes, 2));
	CHECK(!sign_unhex("00fff", bytes, 2));
	CHECK(!sign_unhex("00fg", bytes, 2));
}

TEST(a_name_for_a_key_file_that_holds_none_is_told)
{
	cleanup_fd int dir = test_tempdir();
	struct sign_key key = {0};
	struct atoll_error err = {0};
	char path[4096];

	(void)dir;
	snprintf(path, sizeof path, "%s/key", test_tempdir_path());
	CHECK(sign_read_private(path, &key, &err) == -ENOENT);
	CHECK(fd_write_text(path, "no key") == 0);
	CHECK(sign_read_private(path, &key, &err) < 0);
	CHECK(strstr(err.text, "holds no private key"));
}

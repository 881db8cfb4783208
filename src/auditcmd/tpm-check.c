/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/tpm-check.h"

#include "auditcmd/hardware.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "base/error.h"
#include "base/str.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

/*
 * Checks a quote of a TPM
 *
 * A quote is a structure of the TPM (TPMS_ATTEST, big-endian) and a signature over it. The
 * signature must be that of the key; the structure must be a quote, contain the hash of this head
 * and nonce, and be about the register in the receipt.
 */

enum {
	MAGIC = 0xff544347, /* written by the TPM into whatever it makes itself; it signs nothing
			     * else with a restricted key */
	ATTEST_QUOTE = 0x8018,
	ALG_SHA256 = 0x000b,
	ALG_ECDSA = 0x0018,
};

struct reader {
	const unsigned char *at;
	size_t left;
	bool is_short;
};

static const unsigned char *read_bytes(struct reader *reader, size_t size)
{
	const unsigned char *data = reader->at;

	if (reader->is_short || reader->left < size) {
		reader->is_short = true;
		return NULL;
	}
	reader->at += size;
	reader->left -= size;
	return data;
}

static uint32_t read_number(struct reader *reader, size_t size)
{
	const unsigned char *data = read_bytes(reader, size);
	uint32_t value = 0;

	for (size_t i = 0; data && i < size; i++)
		value = value << 8 | data[i];
	return value;
}

/* Reads a value with a two-byte size before it. */
static const unsigned char *read_sized(struct reader *reader, size_t *ret_size)
{
	*ret_size = read_number(reader, 2);
	return read_bytes(reader, *ret_size);
}

static bool read_exactly(struct reader *reader, const unsigned char wanted[32])
{
	size_t size;
	const unsigned char *data = read_sized(reader, &size);

	return data && size == 32 && memcmp(data, wanted, 32) == 0;
}

static int wrong(struct atoll_error *err, const char *what)
{
	return receipt_refuse(err, EKEYREJECTED, "the TPM's quote %s", what);
}

static int check_content(const struct buf *quote, const unsigned char qualifying[32],
			 const unsigned char registers[32], struct atoll_error *err)
{
	static const unsigned char selection[] = {3, 0, 0, 1 << (HARDWARE_PCR - 16)};
	struct reader reader = {.at = (const unsigned char *)quote->data, .left = quote->used};
	const unsigned char *selected;
	size_t size;

	if (read_number(&reader, 4) != MAGIC || read_number(&reader, 2) != ATTEST_QUOTE)
		return wrong(err, "is none: a TPM has not made it");
	read_sized(&reader, &size); /* the name of the key */
	if (!read_exactly(&reader, qualifying))
		return wrong(err, "is about another checkpoint, or another nonce");
	read_bytes(&reader, 17 + 8); /* clock, resets; firmware */
	if (read_number(&reader, 4) != 1 || read_number(&reader, 2) != ALG_SHA256)
		return wrong(err, "is about other registers");
	selected = read_bytes(&reader, sizeof selection);
	if (!selected || memcmp(selected, selection, sizeof selection) != 0)
		return wrong(err, "is about other registers");
	if (!read_exactly(&reader, registers) || reader.left != 0)
		return wrong(err, "has another value of register 23 than the receipt");
	return 0;
}

/* Converts the TPM's two numbers with sizes to DER. */
static int read_signature(const struct buf *signature, struct buf *ret_der)
{
	struct reader reader = {.at = (const unsigned char *)signature->data,
				.left = signature->used};
	const unsigned char *r_data, *s_data;
	size_t r_size, s_size;
	unsigned char *der = NULL;
	uint32_t algorithm, hash;
	ECDSA_SIG *pair;
	int size;

	algorithm = read_number(&reader, 2);
	hash = read_number(&reader, 2);
	if (algorithm != ALG_ECDSA || hash != ALG_SHA256)
		return -EBADMSG;
	r_data = read_sized(&reader, &r_size);
	s_data = read_sized(&reader, &s_size);
	if (!r_data || !s_data || r_size > 32 || s_size > 32 || reader.left != 0)
		return -EBADMSG;
	pair = ECDSA_SIG_new();
	if (!pair || !ECDSA_SIG_set0(pair, BN_bin2bn(r_data, (int)r_size, NULL),
				     BN_bin2bn(s_data, (int)s_size, NULL))) {
		ECDSA_SIG_free(pair);
		return -ENOMEM;
	}
	size = i2d_ECDSA_SIG(pair, &der);
	ECDSA_SIG_free(pair);
	if (size <= 0)
		return -ENOMEM;
	buf_add(ret_der, der, (size_t)size);
	OPENSSL_free(der);
	return buf_error(ret_der);
}

static EVP_PKEY *read_key(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;

	BIO_free(bio);
	if (key && EVP_PKEY_get_id(key) != EVP_PKEY_EC) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	return key;
}

static int check_signature(const struct buf *quote, const char *signature, const char *pem,
			   EVP_PKEY *known, struct atoll_error *err)
{
	cleanup_buf struct buf bytes = BUF_INIT(4096);
	cleanup_buf struct buf der = BUF_INIT(4096);
	EVP_PKEY *key = read_key(pem);
	int r = 0;

	if (!key)
		return wrong(err, "comes with no key of its kind");
	if (known && EVP_PKEY_eq(key, known) != 1)
		r = wrong(err, "is by another TPM's key than the one given");
	else if (sign_read_base64(signature, &bytes) < 0 || read_signature(&bytes, &der) < 0)
		r = wrong(err, "has a signature of no known form");
	else if (!sign_is_good(key, quote->data, quote->used, der.data, der.used))
		r = wrong(err, "is not signed by its key");
	EVP_PKEY_free(key);
	return r;
}

bool tpm_follows(const unsigned char before[32], const unsigned char hash[32],
		 const unsigned char value[32])
{
	unsigned char both[64], result[32];

	memcpy(both, before, 32);
	memcpy(both + 32, hash, 32);
	sign_sha256(both, sizeof both, result);
	return memcmp(result, value, 32) == 0;
}

static int check_values(const char *before_text, const char *value_text,
			const struct hardware_claim *claim, bool has_signer,
			const struct buf *quote, struct atoll_error *err)
{
	unsigned char before[32], value[32], hash[32], registers[32], qualifying[32];
	cleanup_buf struct buf text = BUF_INIT(1 << 20);

	if (!sign_unhex(before_text, before, 32) || !sign_unhex(value_text, value, 32))
		return wrong(err, "comes with no values of register 23");
	sign_sha256(claim->checkpoint, claim->checkpoint_size, hash);
	if (!tpm_follows(before, hash, value))
		return wrong(err, "is of a register that was not extended with this checkpoint");
	buf_add(&text, claim->checkpoint, claim->checkpoint_size);
	buf_add(&text, claim->nonce, sizeof claim->nonce);
	if (has_signer)
		buf_add(&text, claim->signer, sizeof claim->signer);
	if (buf_error(&text) < 0)
		return error_oom(err);
	sign_sha256(text.data, text.used, qualifying);
	sign_sha256(value, 32, registers);
	return check_content(quote, qualifying, registers, err);
}

int tpm_check(const json_t *quote, const struct hardware_claim *claim, EVP_PKEY *key,
	      struct atoll_error *err)
{
	cleanup_buf struct buf bytes = BUF_INIT(65536);
	const char *before, *value, *nonce, *quoted, *signature, *pem;
	const char *signer = json_string_value(json_object_get(quote, "signer"));
	struct hardware_claim told = *claim;
	unsigned char said[sizeof told.signer];
	int r;

	if (json_unpack((json_t *)quote, "{s:s, s:s, s:s, s:s, s:s, s:s}", "before", &before,
			"value", &value, "nonce", &nonce, "quote", &quoted, "signature", &signature,
			"key", &pem) < 0 ||
	    !sign_unhex(nonce, told.nonce, sizeof told.nonce) ||
	    sign_read_base64(quoted, &bytes) < 0)
		return wrong(err, "lacks something");
	/* Whose receipt it is for: else anybody could put it into one of their own about the same
	 * head. Quotes of older versions do not say. */
	if (signer && (!sign_unhex(signer, said, sizeof said) ||
		       memcmp(said, claim->signer, sizeof said) != 0))
		return wrong(err, "was made for a receipt that another key has signed");
	r = check_signature(&bytes, signature, pem, key, err);
	return r < 0 ? r : check_values(before, value, &told, signer != NULL, &bytes, err);
}

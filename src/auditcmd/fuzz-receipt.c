/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/checked.h"
#include "auditcmd/hardware.h"
#include "auditcmd/receipt-read.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "auditcmd/tpm-check.h"
#include "auditcmd/tsm.h"
#include "base/error.h"
#include "base/fd.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/mman.h>

/* A receipt that anybody may have written; and what is in one as a TPM's or a machine's word, which
 * whoever signs it may have made up. What has no right signature is never found good; what needs
 * none, or gets one here, the fuzzer finds out by what it is compared with. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
static const struct hardware_claim claim = {.checkpoint = "head", .checkpoint_size = 4};

static void read_receipt(const uint8_t *data, size_t size)
{
	static const struct checked_keys keys = {.keys = {{.public = {1}, .id = "00"}}, .n = 1};
	cleanup_fd int fd = memfd_create("receipt", MFD_CLOEXEC);
	cleanup_receipt struct receipt receipt = {0};
	enum receipt_fault fault;
	struct atoll_error err;
	char path[64];

	if (fd < 0 || fd_write_all(fd, data, size) < 0)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (receipt_open(path, &keys, &receipt, &fault, &err) == 0)
		abort();
}

static EVP_PKEY *tpm_key(void)
{
	static EVP_PKEY *key;

	return key ? key : (key = EVP_EC_gen("P-256"));
}

static void add_number(struct buf *out, const BIGNUM *number)
{
	unsigned char bytes[34] = {0, 32};

	BN_bn2binpad(number, bytes + 2, 32);
	buf_add(out, bytes, sizeof bytes);
}

/* The byte order of a TPM. */
static void sign_quote(const uint8_t *data, size_t size, struct buf *ret)
{
	cleanup_buf struct buf der = BUF_INIT(1024);
	const unsigned char *at;
	ECDSA_SIG *pair;

	if (sign_bytes(tpm_key(), data, size, &der, NULL) < 0)
		abort();
	at = (const unsigned char *)der.data;
	pair = d2i_ECDSA_SIG(NULL, &at, (long)der.used);
	buf_add(ret, "\0\x18\0\x0b", 4);
	add_number(ret, ECDSA_SIG_get0_r(pair));
	add_number(ret, ECDSA_SIG_get0_s(pair));
	ECDSA_SIG_free(pair);
}

/* The value of the register after the head, or the quote would be refused at once. */
static void extend_zeros(char ret[65])
{
	unsigned char both[64] = {0}, hash[32];

	sign_sha256(claim.checkpoint, claim.checkpoint_size, both + 32);
	sign_sha256(both, sizeof both, hash);
	sign_hex(hash, sizeof hash, ret);
}

static void check_tpm(const uint8_t *data, size_t size, bool is_signed)
{
	cleanup_buf struct buf pem = BUF_INIT(4096), signature = BUF_INIT(4096);
	cleanup_json json_t *quote = NULL;
	struct atoll_error err;
	char value[65];

	extend_zeros(value);
	sign_public_pem(tpm_key(), &pem, NULL);
	if (is_signed)
		sign_quote(data, size, &signature);
	quote = json_pack("{s:s, s:s, s:s, s:o, s:o, s:s}", "before", zeros, "value", value,
			  "nonce", zeros, "quote", sign_base64(data, size), "signature",
			  is_signed ? sign_base64(signature.data, signature.used)
				    : sign_base64(data, size),
			  "key", pem.data);
	if (quote && tpm_check(quote, &claim, NULL, &err) == 0 && !is_signed)
		abort();
}

static void check_tsm(const uint8_t *data, size_t size)
{
	struct atoll_error err;

	for (int i = 0; i < 2; i++) {
		cleanup_json json_t *report =
			json_pack("{s:s, s:s, s:o}", "provider", i ? "sev_guest" : "tdx_guest",
				  "nonce", zeros, "outblob", sign_base64(data, size));

		if (report)
			tsm_check(report, &claim, &err);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0]) {
	case 's':
		check_tpm(data + 1, size - 1, false);
		break;
	case 'q':
		check_tpm(data + 1, size - 1, true);
		break;
	case 't':
		check_tsm(data + 1, size - 1);
		break;
	default:
		read_receipt(data, size);
	}
	return 0;
}

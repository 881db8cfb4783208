/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/tpm.h"

#include "auditcmd/hardware.h"
#include "auditcmd/sign.h"
#include "auditcmd/tpm-check.h"
#include "base/error.h"
#include "base/str.h"

#include <dlfcn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_tctildr.h>

/*
 * Gets a quote from a TPM
 *
 * The TPM libraries are loaded only for --tpm: the program starts, and can be installed, without
 * them.
 *
 * The key that quotes is a primary key of the endorsement hierarchy, restricted to signing
 * structures that the TPM itself has made. The TPM derives it from a seed that never leaves it, so
 * it is the same key each time and is not stored.
 */

#define TRIES 3

#define FUNCTIONS(X)                                                                               \
	X(Tss2_TctiLdr_Initialize)                                                                 \
	X(Tss2_TctiLdr_Finalize)                                                                   \
	X(Esys_Initialize)                                                                         \
	X(Esys_Finalize)                                                                           \
	X(Esys_Free)                                                                               \
	X(Esys_GetCapability)                                                                      \
	X(Esys_CreatePrimary)                                                                      \
	X(Esys_FlushContext)                                                                       \
	X(Esys_PCR_Extend)                                                                         \
	X(Esys_PCR_Read)                                                                           \
	X(Esys_Quote)                                                                              \
	X(Tss2_MU_TPMT_SIGNATURE_Marshal)

struct tpm {
/* A name cannot stand in parentheses where it is declared. */
#define DECLARE(name) __typeof__(&(name)) name; /* NOLINT(bugprone-macro-parentheses) */
	FUNCTIONS(DECLARE)
#undef DECLARE
	TSS2_TCTI_CONTEXT *tcti;
	ESYS_CONTEXT *esys;
	ESYS_TR key;
	EVP_PKEY *public;
	char vendor[17];
};

static const char *const libraries[] = {"libtss2-tctildr.so.0", "libtss2-esys.so.0",
					"libtss2-mu.so.0"};

static void *find_function(void *const *handles, const char *name)
{
	void *found = NULL;

	for (size_t i = 0; !found && i < ARRAY_SIZE(libraries); i++)
		found = dlsym(handles[i], name);
	return found;
}

/* The libraries stay loaded until the program ends. */
static int load_libraries(struct tpm *tpm, struct atoll_error *err)
{
	void *handles[ARRAY_SIZE(libraries)];

	/* No log output of the libraries: this program prints one line. */
	setenv("TSS2_LOG", "all+none", 1);
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
		handles[i] = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
		if (!handles[i])
			return error_set(err, ATOLL_FAULT_HOST, 0,
					 "load '%s', which speaks with TPMs: install "
					 "libtss2-esys-3.0.2-0 (Debian)",
					 libraries[i]);
	}
#define FIND(name)                                                                                 \
	tpm->name = (__typeof__(&(name)))find_function(handles, #name);                            \
	if (!tpm->name)                                                                            \
		return error_set(err, ATOLL_FAULT_HOST, 0, "the TPM libraries have no " #name);
	FUNCTIONS(FIND)
#undef FIND
	return 0;
}

static int fail(const char *what, TSS2_RC code, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, 0, "TPM: %s: code 0x%x", what, code);
}

/* Other names would make the TCTI loader load a library of that name. */
static bool is_known_tcti(const char *tcti)
{
	return starts_with(tcti, "device:") || starts_with(tcti, "swtpm:");
}

static int open_tpm(struct tpm *tpm, const char *tcti, struct atoll_error *err)
{
	TSS2_RC code;
	int r = load_libraries(tpm, err);

	if (r < 0)
		return r;
	code = tpm->Tss2_TctiLdr_Initialize(tcti, &tpm->tcti);
	if (code)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "reach the TPM at '%s' (code 0x%x): is it there, and may you?",
				 tcti, code);
	code = tpm->Esys_Initialize(&tpm->esys, tpm->tcti, NULL);
	return code ? fail("begin", code, err) : 0;
}

static void close_tpm(struct tpm *tpm)
{
	if (tpm->esys && tpm->key != ESYS_TR_NONE)
		tpm->Esys_FlushContext(tpm->esys, tpm->key);
	if (tpm->esys)
		tpm->Esys_Finalize(&tpm->esys);
	if (tpm->tcti)
		tpm->Tss2_TctiLdr_Finalize(&tpm->tcti);
	EVP_PKEY_free(tpm->public);
}

/* The vendor string: "SW   TPM" is libtpms, a software TPM. */
static int read_vendor(struct tpm *tpm, struct atoll_error *err)
{
	TPMS_CAPABILITY_DATA *data = NULL;
	TPMI_YES_NO more;
	const TSS2_RC code = tpm->Esys_GetCapability(tpm->esys, ESYS_TR_NONE, ESYS_TR_NONE,
						     ESYS_TR_NONE, TPM2_CAP_TPM_PROPERTIES,
						     TPM2_PT_VENDOR_STRING_1, 4, &more, &data);
	size_t used = 0;

	if (code)
		return fail("ask who made it", code, err);
	for (uint32_t i = 0; i < data->data.tpmProperties.count; i++) {
		const TPMS_TAGGED_PROPERTY *one = &data->data.tpmProperties.tpmProperty[i];

		for (int shift = 24; shift >= 0 && one->property <= TPM2_PT_VENDOR_STRING_4;
		     shift -= 8) {
			const char c = (char)(one->value >> shift);

			if (c >= ' ' && c <= '~' && used < sizeof tpm->vendor - 1)
				tpm->vendor[used++] = c;
		}
	}
	tpm->Esys_Free(data);
	return 0;
}

static EVP_PKEY *make_public(const TPMS_ECC_POINT *point)
{
	unsigned char octets[65] = {4};
	char group[] = "prime256v1";
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	EVP_PKEY *key = NULL;
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, octets, sizeof octets),
		OSSL_PARAM_construct_end(),
	};

	if (context && point->x.size <= 32 && point->y.size <= 32) {
		memcpy(octets + 33 - point->x.size, point->x.buffer, point->x.size);
		memcpy(octets + 65 - point->y.size, point->y.buffer, point->y.size);
		if (EVP_PKEY_fromdata_init(context) <= 0 ||
		    EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) <= 0)
			key = NULL;
	}
	EVP_PKEY_CTX_free(context);
	return key;
}

static int make_key(struct tpm *tpm, struct atoll_error *err)
{
	static const TPM2B_SENSITIVE_CREATE sensitive = {0};
	static const TPM2B_DATA outside = {0};
	static const TPML_PCR_SELECTION no_pcrs = {0};
	static const TPM2B_PUBLIC template = {
		.publicArea =
			{
				.type = TPM2_ALG_ECC,
				.nameAlg = TPM2_ALG_SHA256,
				.objectAttributes =
					TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT |
					TPMA_OBJECT_SENSITIVEDATAORIGIN | TPMA_OBJECT_USERWITHAUTH |
					TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_SIGN_ENCRYPT,
				.parameters.eccDetail =
					{
						.symmetric.algorithm = TPM2_ALG_NULL,
						.scheme = {.scheme = TPM2_ALG_ECDSA,
							   .details.ecdsa.hashAlg =
								   TPM2_ALG_SHA256},
						.curveID = TPM2_ECC_NIST_P256,
						.kdf.scheme = TPM2_ALG_NULL,
					},
			},
	};
	TPM2B_PUBLIC *public = NULL;
	const TSS2_RC code = tpm->Esys_CreatePrimary(
		tpm->esys, ESYS_TR_RH_ENDORSEMENT, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE,
		&sensitive, &template, &outside, &no_pcrs, &tpm->key, &public, NULL, NULL, NULL);

	if (code)
		return fail("make the key that quotes (has the endorsement hierarchy a password?)",
			    code, err);
	tpm->public = make_public(&public->publicArea.unique.ecc);
	tpm->Esys_Free(public);
	return tpm->public ? 0 : error_set(err, ATOLL_FAULT_HOST, 0, "TPM: its public key");
}

static const TPML_PCR_SELECTION selection = {
	.count = 1,
	.pcrSelections = {{.hash = TPM2_ALG_SHA256,
			   .sizeofSelect = 3,
			   .pcrSelect = {0, 0, 1 << (HARDWARE_PCR - 16)}}},
};

static int read_register(struct tpm *tpm, unsigned char ret[32], struct atoll_error *err)
{
	TPML_DIGEST *values = NULL;
	const TSS2_RC code = tpm->Esys_PCR_Read(tpm->esys, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE,
						&selection, NULL, NULL, &values);
	bool is_there;

	if (code)
		return fail("read register 23", code, err);
	is_there = values->count == 1 && values->digests[0].size == 32;
	if (is_there)
		memcpy(ret, values->digests[0].buffer, 32);
	tpm->Esys_Free(values);
	return is_there ? 0 : error_set(err, ATOLL_FAULT_HOST, 0, "TPM: it has no bank of SHA-256");
}

static int extend_register(struct tpm *tpm, const unsigned char hash[32], struct atoll_error *err)
{
	TPML_DIGEST_VALUES values = {.count = 1, .digests = {{.hashAlg = TPM2_ALG_SHA256}}};
	TSS2_RC code;

	memcpy(values.digests[0].digest.sha256, hash, 32);
	code = tpm->Esys_PCR_Extend(tpm->esys, ESYS_TR_PCR23, ESYS_TR_PASSWORD, ESYS_TR_NONE,
				    ESYS_TR_NONE, &values);
	return code ? fail("extend register 23", code, err) : 0;
}

static int quote_once(struct tpm *tpm, const unsigned char qualifying[32], struct buf *ret_quote,
		      struct buf *ret_signature, struct atoll_error *err)
{
	static const TPMT_SIG_SCHEME scheme = {.scheme = TPM2_ALG_NULL};
	TPM2B_DATA data = {.size = 32};
	TPM2B_ATTEST *quoted = NULL;
	TPMT_SIGNATURE *signature = NULL;
	unsigned char bytes[1024];
	size_t used = 0;
	TSS2_RC code;

	memcpy(data.buffer, qualifying, 32);
	code = tpm->Esys_Quote(tpm->esys, tpm->key, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE,
			       &data, &scheme, &selection, &quoted, &signature);
	if (code)
		return fail("quote", code, err);
	code = tpm->Tss2_MU_TPMT_SIGNATURE_Marshal(signature, bytes, sizeof bytes, &used);
	buf_add(ret_quote, quoted->attestationData, quoted->size);
	buf_add(ret_signature, bytes, used);
	tpm->Esys_Free(quoted);
	tpm->Esys_Free(signature);
	if (code)
		return fail("write the signature", code, err);
	return buf_error(ret_quote) < 0 || buf_error(ret_signature) < 0 ? error_oom(err) : 0;
}

/* The hash of the registers is at the end of a quote. */
static bool is_quote_of(const struct buf *quote, const unsigned char value[32])
{
	unsigned char hash[32];

	sign_sha256(value, 32, hash);
	return quote->used > 32 && memcmp(quote->data + quote->used - 32, hash, 32) == 0;
}

struct quoted {
	unsigned char before[32], value[32];
	struct buf quote, signature, key;
};

static void quoted_done(struct quoted *quoted)
{
	buf_done(&quoted->quote);
	buf_done(&quoted->signature);
	buf_done(&quoted->key);
}

/* Another process may extend the register at any moment. Then the value that was read does not
 * match the quote: try again. */
static int make_quote(struct tpm *tpm, const struct hardware_claim *claim, struct quoted *ret,
		      struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	unsigned char hash[32], qualifying[32];
	int r = 0;

	sign_sha256(claim->checkpoint, claim->checkpoint_size, hash);
	buf_add(&text, claim->checkpoint, claim->checkpoint_size);
	buf_add(&text, claim->nonce, sizeof claim->nonce);
	buf_add(&text, claim->signer, sizeof claim->signer);
	if (buf_error(&text) < 0)
		return error_oom(err);
	sign_sha256(text.data, text.used, qualifying);
	for (int i = 0; r == 0 && i < TRIES; i++) {
		ret->quote.used = ret->signature.used = 0;
		r = read_register(tpm, ret->before, err);
		if (r == 0)
			r = extend_register(tpm, hash, err);
		if (r == 0)
			r = read_register(tpm, ret->value, err);
		if (r == 0)
			r = quote_once(tpm, qualifying, &ret->quote, &ret->signature, err);
		if (r == 0 && tpm_follows(ret->before, hash, ret->value) &&
		    is_quote_of(&ret->quote, ret->value))
			return sign_public_pem(tpm->public, &ret->key, err);
	}
	return r < 0 ? r
		     : error_set(err, ATOLL_FAULT_HOST, EBUSY,
				 "TPM: somebody else keeps extending register 23");
}

static json_t *describe(const struct tpm *tpm, const struct hardware_claim *claim,
			const struct quoted *quoted)
{
	char nonce[2 * HARDWARE_NONCE_SIZE + 1], before[65], value[65], signer[65];

	sign_hex(claim->nonce, sizeof claim->nonce, nonce);
	sign_hex(claim->signer, sizeof claim->signer, signer);
	sign_hex(quoted->before, 32, before);
	sign_hex(quoted->value, 32, value);
	return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "vendor",
			 tpm->vendor, "bank", "sha256", "pcr", HARDWARE_PCR, "before", before,
			 "value", value, "nonce", nonce, "signer", signer, "quote",
			 sign_base64(quoted->quote.data, quoted->quote.used), "signature",
			 sign_base64(quoted->signature.data, quoted->signature.used), "key",
			 quoted->key.data);
}

int tpm_quote(const char *tcti, const struct hardware_claim *claim, json_t **ret,
	      const char **ret_root, struct atoll_error *err)
{
	struct tpm tpm = {.key = ESYS_TR_NONE};
	cleanup_with(quoted_done) struct quoted quoted = {
		.quote = BUF_INIT(4096), .signature = BUF_INIT(4096), .key = BUF_INIT(4096)};
	int r;

	if (!is_known_tcti(tcti))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--tpm '%s': 'device:/dev/tpmrm0' or 'swtpm:host=HOST,port=PORT'",
				 tcti);
	r = open_tpm(&tpm, tcti, err);
	if (r == 0)
		r = read_vendor(&tpm, err);
	if (r == 0)
		r = make_key(&tpm, err);
	if (r == 0)
		r = make_quote(&tpm, claim, &quoted, err);
	if (r == 0) {
		*ret = describe(&tpm, claim, &quoted);
		*ret_root = starts_with(tcti, "swtpm:") || starts_with(tpm.vendor, "SW ") ? "swtpm"
											  : "tpm";
		r = *ret ? 0 : error_oom(err);
	}
	close_tpm(&tpm);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/dsse.h"

#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "base/error.h"
#include "base/str.h"

/*
 * DSSE envelopes
 *
 * The signature is over the type and the body with their lengths in front, not over JSON. So a
 * verifier needs no canonical form of JSON.
 */

void dsse_pae(const char *type, const void *body, size_t size, struct buf *out)
{
	buf_addf(out, "DSSEv1 %zu %s %zu ", strlen(type), type, size);
	buf_add(out, body, size);
}

int dsse_sign(const char *body, size_t size, const struct sign_key *key, json_t **ret,
	      struct atoll_error *err)
{
	cleanup_buf struct buf pae = BUF_INIT(RECEIPT_MAX);
	cleanup_buf struct buf signature = BUF_INIT(1024);
	json_t *envelope;
	int r;

	dsse_pae(RECEIPT_PAYLOAD_TYPE, body, size, &pae);
	if (buf_error(&pae) < 0)
		return error_set(err, ATOLL_FAULT_HOST, -buf_error(&pae), "a receipt of %zu bytes",
				 size);
	r = sign_bytes(key->key, pae.data, pae.used, &signature, err);
	if (r < 0)
		return r;
	envelope = json_pack("{s:s, s:o, s:[{s:s, s:o}]}", "payloadType", RECEIPT_PAYLOAD_TYPE,
			     "payload", sign_base64(body, size), "signatures", "keyid", key->id,
			     "sig", sign_base64(signature.data, signature.used));
	if (!envelope)
		return error_oom(err);
	*ret = envelope;
	return 0;
}

static bool is_signed_by(const json_t *signatures, const struct buf *pae,
			 const struct sign_key *key)
{
	const json_t *one;
	size_t i;

	/* The key id is a hint only; the signature decides. */
	json_array_foreach(signatures, i, one)
	{
		cleanup_buf struct buf signature = BUF_INIT(1024);
		const char *text = json_string_value(json_object_get(one, "sig"));

		if (text && sign_read_base64(text, &signature) == 0 &&
		    sign_is_good(key->key, pae->data, pae->used, signature.data, signature.used))
			return true;
	}
	return false;
}

int dsse_open(const json_t *envelope, const struct sign_key *key, struct buf *ret,
	      struct atoll_error *err)
{
	const char *type = json_string_value(json_object_get(envelope, "payloadType"));
	const char *payload = json_string_value(json_object_get(envelope, "payload"));
	const json_t *signatures = json_object_get(envelope, "signatures");
	cleanup_buf struct buf pae = BUF_INIT(RECEIPT_MAX);

	if (!type || !payload || !json_is_array(signatures))
		return receipt_refuse(err, EBADMSG, "this is no DSSE envelope");
	if (!streq(type, RECEIPT_PAYLOAD_TYPE))
		return receipt_refuse(err, EBADMSG,
				      "the envelope holds '%.64s' and no in-toto statement", type);
	if (sign_read_base64(payload, ret) < 0 || ret->used == 0)
		return receipt_refuse(err, EBADMSG, "the envelope's content is no base64");
	dsse_pae(type, ret->data, ret->used, &pae);
	if (buf_error(&pae) < 0)
		return error_oom(err);
	if (!is_signed_by(signatures, &pae, key))
		return receipt_refuse(err, EKEYREJECTED, "not signed by the key %s", key->id);
	return 0;
}

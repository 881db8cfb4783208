/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/receipt-read.h"

#include "auditcmd/checked.h"
#include "auditcmd/dsse.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <stdio.h>

/* Reads a receipt. Its content is not used before the signature has been checked. */

void receipt_done(struct receipt *receipt)
{
	json_decref(receipt->provenance);
	json_decref(receipt->own);
}

const json_t *receipt_get(const struct receipt *receipt, const char *key, const char *below)
{
	const json_t *value = json_object_get(json_object_get(receipt->own, "predicate"), key);

	return below ? json_object_get(value, below) : value;
}

static int read_file(const char *path, struct buf *ret, struct atoll_error *err)
{
	cleanup_fd int fd = streq(path, "-")
				    ? fcntl(0, F_DUPFD_CLOEXEC, 3)
				    : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r = fd < 0 ? -errno : fd_read_all(fd, ret);

	return r < 0 ? error_set(err, ATOLL_FAULT_REQUEST, -r, "read the receipt '%s'", path) : 0;
}

/* The reason why no key fits; best that of the key which the receipt names. */
static int not_signed(const json_t *envelope, const struct checked_keys *keys,
		      struct atoll_error *err)
{
	const char *named = json_string_value(json_object_get(
		json_array_get(json_object_get(envelope, "signatures"), 0), "keyid"));
	char shown[40];

	for (size_t i = 0; named && i < keys->n; i++)
		if (streq(keys->keys[i].id, named))
			return error_set(err, ATOLL_FAULT_POLICY, 0,
					 "it was changed since: the signature of %s does not fit",
					 keys->keys[i].id);
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "it is not signed by %s, but says that %s has signed it (--key FILE names "
			 "the key that should have)",
			 keys->n == 1 ? keys->keys[0].id : "a key that counts here",
			 named ? str_show(named, shown, sizeof shown) : "nobody");
}

static int open_envelope(const json_t *envelope, const struct checked_keys *keys,
			 struct receipt *receipt, json_t **ret, struct atoll_error *err)
{
	cleanup_buf struct buf body = BUF_INIT(RECEIPT_MAX);
	int r = -EKEYREJECTED;

	for (size_t i = 0; r == -EKEYREJECTED && i < keys->n; i++) {
		cleanup_sign_key struct sign_key key = {0};

		body.used = 0;
		r = sign_from_raw(keys->keys[i].public, &key, err);
		if (r == 0)
			r = dsse_open(envelope, &key, &body, err);
		if (r == 0) {
			receipt->n_signers +=
				!receipt->n_signers ||
				memcmp(receipt->signer, key.raw, sizeof receipt->signer) != 0;
			memcpy(receipt->signer, key.raw, sizeof receipt->signer);
			memcpy(receipt->key, key.id, sizeof receipt->key);
		}
	}
	if (r == -EKEYREJECTED) {
		not_signed(envelope, keys, err);
		return r;
	}
	if (r < 0)
		return r;
	*ret = json_loadb(body.data, body.used, JSON_REJECT_DUPLICATES, NULL);
	return *ret ? 0 : error_set(err, ATOLL_FAULT_REQUEST, 0, "what is signed in it is no JSON");
}

static bool has_form(const json_t *statement, const char *predicate)
{
	const char *type = json_string_value(json_object_get(statement, "_type"));
	const char *kind = json_string_value(json_object_get(statement, "predicateType"));

	return type && kind && streq(type, RECEIPT_STATEMENT_TYPE) && streq(kind, predicate) &&
	       json_array_size(json_object_get(statement, "subject")) > 0 &&
	       json_is_object(json_object_get(statement, "predicate"));
}

static int read_line(const char *line, size_t size, const struct checked_keys *keys,
		     struct receipt *receipt, struct atoll_error *err)
{
	cleanup_json json_t *envelope = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
	cleanup_json json_t *statement = NULL;
	int r;

	if (!envelope)
		return receipt_refuse(err, EBADMSG, "a line of it is no JSON");
	r = open_envelope(envelope, keys, receipt, &statement, err);
	if (r < 0)
		return r;
	if (!receipt->provenance && has_form(statement, RECEIPT_PROVENANCE))
		receipt->provenance = take_ptr(statement);
	else if (!receipt->own && has_form(statement, RECEIPT_PREDICATE))
		receipt->own = take_ptr(statement);
	else
		return receipt_refuse(err, EBADMSG,
				      "it holds something else than two statements of atoll's");
	return 0;
}

/* ---- do the halves belong together? ---- */

static const json_t *member(const json_t *value, const char *const *path)
{
	for (; value && *path; path++)
		value = json_object_get(value, *path);
	return value;
}

#define MEMBER(value, ...) member(value, (const char *const[]){__VA_ARGS__, NULL})

static bool has_same_run(const struct receipt *receipt)
{
	const char *id = json_string_value(
		MEMBER(receipt->provenance, "predicate", "runDetails", "metadata", "invocationId"));
	const char *store = json_string_value(receipt_get(receipt, "log", "store"));
	const char *run = json_string_value(receipt_get(receipt, "log", "run"));
	char both[64];

	if (!id || !store || !run)
		return false;
	snprintf(both, sizeof both, "%s/%s", store, run);
	return streq(id, both);
}

static bool has_same_checkpoint(const struct receipt *receipt)
{
	const json_t *list = MEMBER(receipt->provenance, "predicate", "runDetails", "byproducts");
	const char *note = json_string_value(receipt_get(receipt, "log", "note"));
	const char *content =
		json_string_value(json_object_get(json_array_get(list, 0), "content"));
	cleanup_buf struct buf bytes = BUF_INIT(65536);

	return note && content && sign_read_base64(content, &bytes) == 0 &&
	       bytes.used == strlen(note) && memcmp(bytes.data, note, bytes.used) == 0;
}

#define PARAMETER(receipt, ...)                                                                    \
	MEMBER((receipt)->provenance, "predicate", "buildDefinition", __VA_ARGS__)

static bool is_same(const json_t *a, const json_t *b)
{
	return (!a && !b) || (a && b && json_equal(a, b));
}

/* Two steps of one sandbox may have left the same, in the same log. Each half lists its steps: they
 * have to be the same, with the same commands, in the same directories. */
static bool has_same_steps(const struct receipt *receipt)
{
	const json_t *theirs = PARAMETER(receipt, "externalParameters", "steps"), *one,
		     *own = receipt_get(receipt, "steps", NULL);
	const json_int_t step = json_integer_value(receipt_get(receipt, "step", NULL));
	size_t i;

	if (!json_array_size(own) || json_array_size(own) != json_array_size(theirs))
		return false;
	json_array_foreach(own, i, one)
	{
		const json_t *other = json_array_get(theirs, i);

		if (!json_is_integer(json_object_get(one, "step")) ||
		    !is_same(json_object_get(one, "step"), json_object_get(other, "step")) ||
		    !is_same(json_object_get(one, "command"), json_object_get(other, "command")) ||
		    !is_same(json_object_get(one, "cwd"), json_object_get(other, "cwd")))
			return false;
	}
	/* A receipt of one step contains the number of the step. */
	one = json_array_get(own, 0);
	return !step || (json_array_size(own) == 1 &&
			 json_integer_value(json_object_get(one, "step")) == step);
}

/* Contract and mechanisms of the first step must be the same in both halves. */
static bool has_same_terms(const struct receipt *receipt)
{
	const json_t *first = json_array_get(receipt_get(receipt, "steps", NULL), 0);
	const json_t *contract = receipt_get(receipt, "contract", NULL);
	const char *digest = json_string_value(json_object_get(first, "contract"));
	const char *hex = json_string_value(json_object_get(contract, "sha256"));

	if (digest && starts_with(digest, "sha256:"))
		digest += strlen("sha256:");
	return digest && hex && streq(digest, hex) &&
	       is_same(contract, PARAMETER(receipt, "externalParameters", "contract")) &&
	       is_same(json_object_get(first, "workspace"),
		       PARAMETER(receipt, "externalParameters", "workspace")) &&
	       is_same(json_object_get(first, "mode"),
		       PARAMETER(receipt, "internalParameters", "mode")) &&
	       is_same(json_object_get(first, "mechanisms"),
		       PARAMETER(receipt, "internalParameters", "mechanisms"));
}

static int check_halves(const struct receipt *receipt, struct atoll_error *err)
{
	const char *missing = NULL;

	if (!receipt->provenance || !receipt->own)
		missing = "one of its two statements is missing";
	else if (!json_equal(json_object_get(receipt->provenance, "subject"),
			     json_object_get(receipt->own, "subject")))
		missing = "its two statements have different subjects";
	else if (!has_same_run(receipt) || !has_same_checkpoint(receipt))
		missing = "its two statements are about different runs";
	else if (!has_same_steps(receipt))
		missing = "its two statements are about different steps or commands";
	else if (!has_same_terms(receipt))
		missing = "its two statements are about different contracts";
	else if (receipt->n_signers > 1)
		missing = "its two statements are signed by different keys";
	return missing ? error_set(err, ATOLL_FAULT_REQUEST, 0, "%s", missing) : 0;
}

int receipt_open(const char *path, const struct checked_keys *keys, struct receipt *ret,
		 enum receipt_fault *ret_fault, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(2 * RECEIPT_MAX);
	int r = read_file(path, &text, err);

	*ret = (struct receipt){0};
	*ret_fault = RECEIPT_NONE;
	for (size_t at = 0; r == 0 && at < text.used;) {
		const char *line = text.data + at;
		const size_t size = strcspn(line, "\n");

		if (size > 0)
			r = read_line(line, size, keys, ret, err);
		/* JSON contains no NUL. */
		at += size + 1;
	}
	if (r == 0 && !ret->own && !ret->provenance)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is empty", path);
	if (r == 0 || r == -EKEYREJECTED)
		*ret_fault = RECEIPT_FORGED;
	return r < 0 ? r : check_halves(ret, err);
}

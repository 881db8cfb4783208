/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/auditcmd.h"
#include "auditcmd/call-options.h"
#include "auditcmd/checked.h"
#include "auditcmd/effects.h"
#include "auditcmd/event-values.h"
#include "auditcmd/hardware.h"
#include "auditcmd/receipt-read.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "auditcmd/statement.h"
#include "auditcmd/tpm-check.h"
#include "auditcmd/tsm.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer-tree.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * `atoll verify --receipt`
 *
 * Checks the signature first; if it is wrong, nothing else is checked. Then makes each check that
 * was asked for, and prints a line for each, also after a failure. The exit status is that of the
 * first failure.
 */

struct request {
	const char *receipt, *key, *log, *log_key, *root, *nonce, *quote_key;
};

struct check {
	const struct request *request;
	struct receipt receipt;
	const struct checked_keys *keys; /* of the receipt */
	struct checked_keys *log_keys;	 /* of the log */
	enum receipt_fault fault;
};

static void print_failure(struct check *check, enum receipt_fault fault,
			  const struct atoll_error *err)
{
	char shown[sizeof err->text];

	fflush(stdout);
	fprintf(stderr, "atoll: receipt: %s\n", str_show(err->text, shown, sizeof shown));
	if (check->fault == RECEIPT_GOOD)
		check->fault = fault;
}

static const char *text_of(const struct check *check, const char *key, const char *below)
{
	return json_string_value(receipt_get(&check->receipt, key, below)) ?: "";
}

/* ---- files ---- */

/* Compares a file with a subject: 1 if equal, 0 if not, -ENOENT, or another negative errno. */
static int compare_file(int root_fd, const char *name, const char *hex)
{
	cleanup_fd int dir_fd = -1, fd = -1;
	EVP_MD_CTX *context;
	unsigned char chunk[65536], hash[32];
	const char *last;
	struct stat st;
	char have[65];
	ssize_t got;

	dir_fd = tree_open_parent(root_fd, name, false, &last);
	if (dir_fd < 0)
		return dir_fd;
	fd = tree_open_at(dir_fd, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, false);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	context = EVP_MD_CTX_new();
	if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL))
		return -ENOMEM;
	while ((got = read(fd, chunk, sizeof chunk)) > 0)
		EVP_DigestUpdate(context, chunk, (size_t)got);
	EVP_DigestFinal_ex(context, hash, NULL);
	EVP_MD_CTX_free(context);
	if (got < 0)
		return -errno;
	sign_hex(hash, sizeof hash, have);
	return streq(have, hex);
}

/* The name of a subject as bytes: as text, or in base64 if it is not UTF-8. */
static int subject_name(const json_t *subject, struct buf *ret)
{
	const char *bytes = json_string_value(
		json_object_get(json_object_get(subject, "annotations"), "path_base64"));
	const char *name = json_string_value(json_object_get(subject, "name"));

	if (bytes)
		return sign_read_base64(bytes, ret);
	buf_add_str(ret, name ? name : "");
	return buf_error(ret);
}

static bool is_file(const json_t *subject)
{
	const char *name = json_string_value(json_object_get(subject, "name"));

	return name && name[0] != '/' && !json_object_get(subject, "mediaType");
}

static bool is_outside(const json_t *subject)
{
	const char *name = json_string_value(json_object_get(subject, "name"));

	return name && name[0] == '/' &&
	       !json_object_get(json_object_get(subject, "annotations"), "stream");
}

static int check_file(int root_fd, const json_t *subject, struct atoll_error *err)
{
	const char *hex =
		json_string_value(json_object_get(json_object_get(subject, "digest"), "sha256"));
	const char *shown = json_string_value(json_object_get(subject, "name"));
	cleanup_buf struct buf name = BUF_INIT(65536);
	int r = subject_name(subject, &name);

	if (r == 0)
		r = compare_file(root_fd, name.data ? name.data : "", hex ? hex : "");
	if (r == -ENOENT || r == -ENOTDIR)
		return error_set(err, ATOLL_FAULT_POLICY, 0, "'%s' is missing", shown);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_POLICY, -r, "'%s' cannot be read", shown);
	return r ? 0
		 : error_set(err, ATOLL_FAULT_POLICY, 0,
			     "'%s' is not what the run has left: its content differs", shown);
}

static void check_files(struct check *check)
{
	const json_t *subjects = json_object_get(check->receipt.own, "subject"), *subject;
	cleanup_fd int root_fd = open(check->request->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct atoll_error err = {0};
	size_t i, n_files = 0, n_good = 0, n_outside = 0;

	if (root_fd < 0) {
		error_set(&err, ATOLL_FAULT_REQUEST, errno, "open '%s'", check->request->root);
		print_failure(check, RECEIPT_FILES, &err);
		return;
	}
	json_array_foreach(subjects, i, subject)
	{
		if (!is_file(subject)) {
			n_outside += is_outside(subject);
			continue;
		}
		n_files++;
		if (check_file(root_fd, subject, &err) < 0)
			print_failure(check, RECEIPT_FILES, &err);
		else
			n_good++;
	}
	printf("files: %zu of %zu are as the run left them\n", n_good, n_files);
	if (n_outside)
		printf("files: %zu outside of the workspace were not looked at\n", n_outside);
}

/* ---- the log ---- */

/* The values about the log must match the signed note in the receipt. */
static int check_note(const struct check *check, struct checked_log *ret, struct atoll_error *err)
{
	cleanup_buf struct buf root = BUF_INIT(64);
	int r = checked_note(text_of(check, "log", "note"), check->log_keys, ret, err);

	if (r < 0)
		return r;
	if (sign_read_base64(text_of(check, "log", "root"), &root) < 0 || root.used != 32 ||
	    memcmp(root.data, ret->head_root, 32) != 0 ||
	    json_integer_value(receipt_get(&check->receipt, "log", "size")) !=
		    (json_int_t)ret->head_size ||
	    !streq(text_of(check, "log", "store"), ret->store) ||
	    !streq(text_of(check, "log", "run"), ret->run))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the log's head is that of another log, or of another moment");
	return 0;
}

/* The predicate without its hardware part. */
static bool has_same_content(const struct check *check, const struct effects *effects)
{
	static const char *const keys[] = {
		"step",	     "steps",  "contract", "weaker", "changes",	 "denials", "connections",
		"approvals", "limits", "flags",	   "lost",   "left_out", "job"};
	const struct statement_hardware none = {.root = "none"};
	cleanup_json json_t *again = statement_receipt(effects, &none);
	const json_t *predicate = json_object_get(again, "predicate");

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const json_t *was = receipt_get(&check->receipt, keys[i], NULL),
			     *is = json_object_get(predicate, keys[i]);

		if (!was != !is || (was && !json_equal(was, is)))
			return false;
	}
	return again != NULL;
}

/* Makes the statements again from the log up to the receipt's head, and compares. */
static int check_content(const struct check *check, const struct checked_log *note,
			 struct atoll_error *err)
{
	const json_int_t step = json_integer_value(receipt_get(&check->receipt, "step", NULL));
	cleanup_effects struct effects effects = {0};
	cleanup_json json_t *subjects = NULL;
	const char *root;
	int r = effects_read(check->request->log, (uint32_t)step, note->head_size, check->log_keys,
			     &effects, err);

	if (r < 0)
		return r;
	if (!streq(effects.log.run, note->run) || !streq(effects.log.store, note->store))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' is the log of %s, and the receipt is about %s",
				 check->request->log, effects.log.run, note->run);
	root = event_text(effects.head, "root");
	if (!root || !streq(root, text_of(check, "log", "root")))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' had another root at %" PRIu64 " lines", check->request->log,
				 note->head_size);
	if (!has_same_content(check, &effects))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' tells of other steps, commands or events than the receipt",
				 check->request->log);
	subjects = statement_subjects(&effects);
	if (!json_equal(subjects, json_object_get(check->receipt.own, "subject")))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' tells of other files or output than the receipt",
				 check->request->log);
	return 0;
}

static void check_log(struct check *check)
{
	struct checked_log note;
	struct atoll_error err = {0};
	char shown[64];
	int r = check_note(check, &note, &err);

	/* The key of the store is not given: the head is not checked, and that is printed. */
	if (r == -EKEYREJECTED && !check->request->log && !check->request->log_key &&
	    check->request->key) {
		printf("log: head of %s, whose key was not given (--log-key)\n",
		       str_show(text_of(check, "log", "run"), shown, sizeof shown));
		return;
	}
	if (r == 0 && check->request->log)
		r = check_content(check, &note, &err);
	if (r < 0)
		print_failure(check, RECEIPT_LOG, &err);
	else
		printf("log: %s, %" PRIu64 " lines, head signed by %s%s\n", note.run,
		       note.head_size, note.key,
		       check->request->log ? "; it tells the same"
					   : "; the log itself was not given");
}

/* ---- hardware ---- */

static int check_nonce(const struct check *check, const json_t *evidence, struct atoll_error *err)
{
	const char *nonce = json_string_value(json_object_get(evidence, "nonce"));

	if (!check->request->nonce || (nonce && strcasecmp(nonce, check->request->nonce) == 0))
		return 0;
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "hardware's word is about another nonce: it may be an old one");
}

static int check_tpm(const struct check *check, const json_t *quote,
		     const struct hardware_claim *claim, struct atoll_error *err)
{
	EVP_PKEY *key = NULL;
	int r = check_nonce(check, quote, err);

	if (r == 0 && check->request->quote_key) {
		key = sign_read_any_public(check->request->quote_key, err);
		r = key ? 0 : -EINVAL;
	}
	if (r == 0)
		r = tpm_check(quote, claim, key, err);
	EVP_PKEY_free(key);
	return r;
}

static int check_claims(const struct check *check, struct atoll_error *err)
{
	const json_t *tpm = receipt_get(&check->receipt, "hardware", "tpm");
	const json_t *tsm = receipt_get(&check->receipt, "hardware", "tsm");
	struct hardware_claim claim = {.checkpoint = text_of(check, "log", "note")};
	const bool is_none = streq(text_of(check, "root", NULL), "none");
	int r = 0;

	claim.checkpoint_size = strlen(claim.checkpoint);
	memcpy(claim.signer, check->receipt.signer, sizeof claim.signer);
	if (is_none != (!tpm && !tsm))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "it names a root of trust, and does not show its word");
	if (tpm && !tsm && !streq(text_of(check, "root", NULL), "tpm") &&
	    !streq(text_of(check, "root", NULL), "swtpm"))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "it names a root of trust, and shows the word of a TPM");
	if (tpm && streq(text_of(check, "root", NULL), "tpm") &&
	    starts_with(json_string_value(json_object_get(tpm, "vendor")) ?: "", "SW "))
		return error_set(
			err, ATOLL_FAULT_POLICY, 0,
			"it names a TPM, and shows the word of a program that acts as one");
	if ((check->request->nonce || check->request->quote_key) && is_none)
		return error_set(err, ATOLL_FAULT_POLICY, 0, "there is no word of hardware in it");
	if (tpm)
		r = check_tpm(check, tpm, &claim, err);
	if (r == 0 && tsm)
		r = check_nonce(check, tsm, err);
	return r == 0 && tsm ? tsm_check(tsm, &claim, err) : r;
}

static void check_hardware(struct check *check)
{
	const char *root = text_of(check, "root", NULL);
	struct atoll_error err = {0};
	char shown[64];

	if (check_claims(check, &err) < 0)
		print_failure(check, RECEIPT_HARDWARE, &err);
	else if (streq(root, "none"))
		puts("hardware: none; the key's owner vouches for it, and nobody else");
	else if (receipt_get(&check->receipt, "hardware", "tsm"))
		printf("hardware: %s; its report is about this head and this key. Whether a "
		       "processor has signed it, its maker's certificates tell\n",
		       str_show(root, shown, sizeof shown));
	else
		printf("hardware: %s; its quote is about this head%s%s\n",
		       str_show(root, shown, sizeof shown),
		       json_object_get(receipt_get(&check->receipt, "hardware", "tpm"), "signer")
			       ? " and this key"
			       : " (of an older version: it does not say for whose receipt)",
		       check->request->quote_key
			       ? ", by the key that was given"
			       : ", by a key that the receipt brings itself (--quote-key)");
}

/* ---- all of it ---- */

static int read_request(char **args, struct request *ret, struct atoll_error *err)
{
	const struct call_option table[] = {
		{"receipt", &ret->receipt, NULL},
		{"key", &ret->key, NULL},
		{"log", &ret->log, NULL},
		{"log-key", &ret->log_key, NULL},
		{"root", &ret->root, NULL},
		{"nonce", &ret->nonce, NULL},
		{"quote-key", &ret->quote_key, NULL},
		{0},
	};
	int r = call_options_read(args, table, NULL, 0, err);

	if (r == 0 && !ret->receipt)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "--receipt FILE is missing");
	return r;
}

static void check_contents(struct check *check)
{
	const json_t *left_out = receipt_get(&check->receipt, "left_out", NULL);

	printf("signature: good, by %s\n", check->receipt.key);
	check_log(check);
	if (check->request->root)
		check_files(check);
	check_hardware(check);
	if (json_array_size(receipt_get(&check->receipt, "weaker", NULL)) > 0)
		printf("weaker: %zu clauses were enforced by weaker means, which it names\n",
		       json_array_size(receipt_get(&check->receipt, "weaker", NULL)));
	if (json_integer_value(left_out) > 0)
		printf("left out: %" JSON_INTEGER_FORMAT " events, which are in the log\n",
		       json_integer_value(left_out));
}

/* The log may be signed by another key than the receipt: the key of its store. */
static int load_keys(const struct request *request, struct checked_keys *keys,
		     struct checked_keys *log_keys, struct atoll_error *err)
{
	int r = checked_keys_load(request->key, keys, err);

	if (r < 0)
		return r;
	if (!request->log_key) {
		*log_keys = *keys;
		return 0;
	}
	return checked_keys_load(request->log_key, log_keys, err);
}

static int run_check(char **args, struct atoll_error *err)
{
	cleanup_free struct checked_keys *keys = calloc(2, sizeof *keys);
	struct request request = {0};
	struct check check = {.request = &request};
	enum receipt_fault fault;
	int r = keys ? read_request(args, &request, err) : error_oom(err);

	if (r == 0)
		r = load_keys(&request, keys, keys + 1, err);
	if (r < 0)
		return r;
	check.keys = keys;
	check.log_keys = keys + 1;
	if (receipt_open(request.receipt, keys, &check.receipt, &fault, err) < 0)
		print_failure(&check, fault, err);
	else
		check_contents(&check);
	receipt_done(&check.receipt);
	return (int)check.fault;
}

const struct audit_command audit_command_verify = {"verify", run_check};

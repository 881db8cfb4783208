/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/attest.h"

#include "auditcmd/auditcmd.h"
#include "auditcmd/bundle.h"
#include "auditcmd/call-options.h"
#include "auditcmd/checked.h"
#include "auditcmd/dsse.h"
#include "auditcmd/effects.h"
#include "auditcmd/event-values.h"
#include "auditcmd/hardware.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "auditcmd/sshsig.h"
#include "auditcmd/statement.h"
#include "auditcmd/tpm.h"
#include "auditcmd/tsm.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "ui/ui.h"

#include <sodium.h>
#include <stdio.h>

/*
 * `atoll attest`
 *
 *   effects    reads the event log, which must verify
 *   hardware   gets a signature of the hardware over the log's head, if asked for
 *   sign       makes and signs the two statements
 *   write      writes the receipt, and its other forms
 */

struct request {
	const char *run, *output, *key, *ssh_sig, *tpm, *bundle, *root, *step, *nonce;
	bool needs_tsm;
};

int receipt_add_line(const json_t *json, struct buf *out, struct atoll_error *err)
{
	cleanup_free char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);

	if (!text)
		return error_oom(err);
	buf_add_str(out, text);
	buf_add_char(out, '\n');
	return buf_error(out) < 0 ? error_set(err, ATOLL_FAULT_HOST, -buf_error(out),
					      "a receipt of %zu bytes", strlen(text))
				  : 0;
}

static int write_text(int fd, void *data, struct atoll_error *err)
{
	const struct buf *text = data;
	int r = fd_write_all(fd, text->data, text->used);

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write") : 0;
}

int receipt_write(const char *path, const struct buf *text, struct atoll_error *err)
{
	if (path && !streq(path, "-"))
		return export_file(path, write_text, (void *)text, err);
	fflush(stdout);
	return write_text(1, (void *)text, err);
}

/* ---- the steps ---- */

static int read_request(char **args, struct request *ret, struct atoll_error *err)
{
	const struct call_option table[] = {
		{"output", &ret->output, NULL},	  {"key", &ret->key, NULL},
		{"ssh-sig", &ret->ssh_sig, NULL}, {"tpm", &ret->tpm, NULL},
		{"bundle", &ret->bundle, NULL},	  {"trusted-root", &ret->root, NULL},
		{"step", &ret->step, NULL},	  {"nonce", &ret->nonce, NULL},
		{"tsm", NULL, &ret->needs_tsm},	  {0},
	};

	return call_options_read(args, table, &ret->run, 1, err);
}

static int read_step(const char *text, uint32_t *ret, struct atoll_error *err)
{
	char *end;
	unsigned long step = text ? strtoul(text, &end, 10) : 0;

	if (text && (*end || end == text || step == 0 || step > UINT32_MAX))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--step '%s': a number from 1 on, as 'atoll log' shows it", text);
	*ret = (uint32_t)step;
	return 0;
}

static int find_sign_key(const char *path, struct sign_key *ret, struct atoll_error *err)
{
	char store[PATH_MAX], own[PATH_MAX];
	int r;

	if (path)
		return sign_read_private(path, ret, err);
	r = checked_store_path(store, err);
	if (r < 0)
		return r;
	if ((size_t)snprintf(own, sizeof own, "%s/keys/key.pem", store) >= sizeof own)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "the store of records");
	return sign_read_private(own, ret, err);
}

static int fill_claim(const struct request *request, const struct effects *effects,
		      const struct sign_key *key, struct hardware_claim *ret,
		      struct atoll_error *err)
{
	*ret = (struct hardware_claim){.checkpoint = event_text(effects->head, "note")};
	if (!ret->checkpoint)
		return receipt_refuse(err, EBADMSG, "the log's head has no note");
	ret->checkpoint_size = strlen(ret->checkpoint);
	memcpy(ret->signer, key->raw, sizeof ret->signer);
	randombytes_buf(ret->nonce, sizeof ret->nonce);
	if (request->nonce && !sign_unhex(request->nonce, ret->nonce, sizeof ret->nonce))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--nonce is 64 hexadecimal digits: what whoever will check the "
				 "receipt has made up");
	return 0;
}

/* Asks a TPM if --tpm is given, and a confidential machine if this is one. */
static int ask_hardware(const struct request *request, const struct effects *effects,
			const struct sign_key *key, struct statement_hardware *ret,
			struct atoll_error *err)
{
	struct hardware_claim claim;
	int r = fill_claim(request, effects, key, &claim, err);

	ret->root = "none";
	if (r == 0 && request->tpm)
		r = tpm_quote(request->tpm, &claim, &ret->tpm, &ret->root, err);
	if (r == 0)
		r = tsm_report(&claim, &ret->tsm, &ret->root, err);
	if (r == 0 && request->needs_tsm)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "--tsm: this is no confidential machine that the kernel can ask "
				 "for a report (/sys/kernel/config/tsm/report), or it is not "
				 "for you");
	return r < 0 ? r : 0;
}

static int sign_statement(json_t *statement, const struct sign_key *key, json_t **ret,
			  struct atoll_error *err)
{
	cleanup_buf struct buf body = BUF_INIT(RECEIPT_MAX);
	int r = statement ? receipt_add_line(statement, &body, err) : error_oom(err);

	json_decref(statement);
	/* Without the newline. */
	return r < 0 ? r : dsse_sign(body.data, body.used - 1, key, ret, err);
}

static int write_all(const struct request *request, const struct sign_key *key,
		     const json_t *provenance, const json_t *receipt, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(2 * RECEIPT_MAX);
	cleanup_buf struct buf signature = BUF_INIT(4096);
	int r = receipt_add_line(provenance, &text, err);

	if (r == 0)
		r = receipt_add_line(receipt, &text, err);
	if (r == 0)
		r = receipt_write(request->output, &text, err);
	if (r == 0 && request->ssh_sig) {
		r = sshsig_sign(text.data, text.used, key, &signature, err);
		if (r == 0)
			r = receipt_write(request->ssh_sig, &signature, err);
	}
	if (r == 0 && (request->bundle || request->root))
		r = bundle_write(provenance, key, request->bundle, request->root, err);
	return r;
}

static int attest(const struct request *request, const struct effects *effects,
		  struct atoll_error *err)
{
	cleanup_sign_key struct sign_key key = {0};
	struct statement_hardware hardware = {0};
	cleanup_json json_t *provenance = NULL;
	cleanup_json json_t *receipt = NULL;
	int r = find_sign_key(request->key, &key, err);

	if (r == 0)
		r = ask_hardware(request, effects, &key, &hardware, err);
	if (r == 0)
		r = sign_statement(statement_provenance(effects, &hardware), &key, &provenance,
				   err);
	if (r == 0)
		r = sign_statement(statement_receipt(effects, &hardware), &key, &receipt, err);
	if (r == 0)
		r = write_all(request, &key, provenance, receipt, err);
	json_decref(hardware.tpm);
	json_decref(hardware.tsm);
	return r;
}

static int run_attest(char **args, struct atoll_error *err)
{
	cleanup_free struct checked_keys *keys = calloc(1, sizeof *keys);
	cleanup_effects struct effects effects = {0};
	struct request request = {0};
	uint32_t step = 0;
	int r = keys ? read_request(args, &request, err) : error_oom(err);

	if (r == 0)
		r = read_step(request.step, &step, err);
	if (r == 0)
		r = checked_keys_load(NULL, keys, err);
	if (r == 0)
		r = effects_read(request.run, step, 0, keys, &effects, err);
	return r < 0 ? r : attest(&request, &effects, err);
}

const struct audit_command audit_command_attest = {"attest", run_attest};

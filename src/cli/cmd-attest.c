/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-call.h"
#include "cli/cli.h"

/* src/auditcmd/attest.c does it. */

enum {
	OPTION_OUTPUT,
	OPTION_STEP,
	OPTION_KEY,
	OPTION_SSH_SIG,
	OPTION_BUNDLE,
	OPTION_TRUSTED_ROOT,
	OPTION_TPM,
	OPTION_TSM,
	OPTION_NONCE,
};

static const struct option attest_options[] = {
	{"output", 'o', "FILE", "write there; '-' and the default: standard output", OPTION_OUTPUT},
	{"step", 0, "N", "only the Nth command of a sandbox; else all", OPTION_STEP},
	{"key", 0, "PEMFILE", "sign with this Ed25519 key instead of the store's", OPTION_KEY},
	{"ssh-sig", 0, "FILE", "also a signature that 'ssh-keygen -Y verify' checks",
	 OPTION_SSH_SIG},
	{"bundle", 0, "FILE", "also a sigstore bundle, entered in the store's log of receipts",
	 OPTION_BUNDLE},
	{"trusted-root", 0, "FILE", "also what a verifier of bundles has to trust",
	 OPTION_TRUSTED_ROOT},
	{"tpm", 0, "TCTI",
	 "have a TPM quote the log's head: device:/dev/tpmrm0, or swtpm:host=HOST,port=PORT",
	 OPTION_TPM},
	{"tsm", 0, NULL,
	 "fail where no confidential machine's report can be had; else it is taken where it can",
	 OPTION_TSM},
	{"nonce", 0, "HEX",
	 "64 digits, from whoever will check it: shows that hardware was asked since",
	 OPTION_NONCE},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row attest_examples[] = {
	{"atoll attest -o run.receipt", "of the latest run in this directory"},
	{"atoll verify --receipt run.receipt --root .", "is it true, and are these the files?"},
	{"atoll attest k3vq --step 2 -o step.receipt", "one command of a sandbox"},
	{"atoll attest --bundle run.json --trusted-root root.json", "for tools of sigstore's"},
	{"atoll attest --tpm device:/dev/tpmrm0 -o run.receipt", "with a TPM's word"},
	{0},
};

static int run_attest(char **args, struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(&command_attest, args, 0, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	return audit_call("attest", attest_options, &line, err);
}

const struct command command_attest = {
	.name = "attest",
	.usage = "[RUN] [-o FILE] [--key PEMFILE]",
	.summary = "write a receipt of a run that strangers can check",
	.description =
		(const char *const[]){
			"Writes a receipt: what was run under which contract, enforced by what, "
			"which files it left with which content, what it printed, whom it talked "
			"to, what was refused, and the signed head of its log. It is made from the "
			"log alone, and only if that verifies.",
			"A receipt is two lines of JSON, each a DSSE envelope around an in-toto "
			"Statement, signed with Ed25519. The first is SLSA Provenance, the second "
			"has what does not fit there. openssl can check it; doc/record.md tells "
			"how, and what it proves.",
			"RUN is meant as in 'atoll log'.", NULL},
	.options = attest_options,
	.sections = (const struct command_section[]){{"Examples", attest_examples}, {0}},
	.run = run_attest,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-call.h"
#include "cli/cli.h"

/* Options and help only; src/auditcmd/attest.c implements the command. */

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
	{"output", 'o', "FILE", "the file to write ('-', the default: standard output)",
	 OPTION_OUTPUT},
	{"step", 0, "N", "only the Nth step of a sandbox (default: all)", OPTION_STEP},
	{"key", 0, "PEMFILE", "sign with this Ed25519 key instead of the store's", OPTION_KEY},
	{"ssh-sig", 0, "FILE", "also write a signature for 'ssh-keygen -Y verify'", OPTION_SSH_SIG},
	{"bundle", 0, "FILE",
	 "also write a sigstore bundle, and add it to the store's log of receipts", OPTION_BUNDLE},
	{"trusted-root", 0, "FILE", "also write the trusted root for verifiers of bundles",
	 OPTION_TRUSTED_ROOT},
	{"tpm", 0, "TCTI",
	 "let a TPM sign the head of the log: device:/dev/tpmrm0, or swtpm:host=HOST,port=PORT",
	 OPTION_TPM},
	{"tsm", 0, NULL,
	 "fail without a report of a confidential machine (default: add one if there is one)",
	 OPTION_TSM},
	{"nonce", 0, "HEX",
	 "64 hex digits from the verifier, to prove that the hardware signed after that",
	 OPTION_NONCE},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row attest_examples[] = {
	{"atoll attest -o run.receipt", "the latest run in this directory"},
	{"atoll verify --receipt run.receipt --root .", "check the receipt and the files"},
	{"atoll attest k3vq --step 2 -o step.receipt", "one step of a sandbox"},
	{"atoll attest --bundle run.json --trusted-root root.json", "for the tools of sigstore"},
	{"atoll attest --tpm device:/dev/tpmrm0 -o run.receipt", "with a signature of the TPM"},
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
	.summary = "write a signed receipt of a run for others",
	.description =
		(const char *const[]){
			"Writes a receipt: the command, its contract and the mechanisms that "
			"enforced it, the hashes of the files it left, its output, its "
			"connections, what was refused, and the signed head of its event log. It "
			"is made from the event log only, and only if that verifies.",
			"A receipt is two lines of JSON, each a DSSE envelope around an in-toto "
			"Statement, signed with Ed25519. The first line is SLSA Provenance; the "
			"second has the facts that do not fit there. openssl can check it; "
			"doc/record.md says how, and what it proves.",
			"RUN is the same as for 'atoll log'.", NULL},
	.options = attest_options,
	.sections = (const struct command_section[]){{"Examples", attest_examples}, {0}},
	.run = run_attest,
};

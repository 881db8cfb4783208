/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/audit-call.h"
#include "cli/cli.h"

#include <atoll/audit.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
	OPTION_ALL,
	OPTION_KEY,
	OPTION_PROVE,
	OPTION_CONSISTENCY,
	OPTION_CHECK,
	OPTION_RECEIPT,
	OPTION_JSON,
	OPTION_LOG,
	OPTION_LOG_KEY,
	OPTION_ROOT,
	OPTION_NONCE,
	OPTION_QUOTE_KEY,
};

#define RECEIPT_OPTIONS                                                                            \
	(1U << OPTION_LOG | 1U << OPTION_LOG_KEY | 1U << OPTION_ROOT | 1U << OPTION_NONCE |        \
	 1U << OPTION_QUOTE_KEY)

static const struct option verify_options[] = {
	{"all", 0, NULL, "check all logs of the store, and the store's tree of logs", OPTION_ALL},
	{"key", 0, "FILE",
	 "trust this public key, and keys connected with it by hand-overs (default: the store's "
	 "key)",
	 OPTION_KEY},
	{"prove", 0, "SEQ", "print a proof that line SEQ (from 0) is in the log", OPTION_PROVE},
	{"consistency", 0, "HEAD",
	 "print a proof that the log still begins with the lines of the signed head in the file "
	 "HEAD",
	 OPTION_CONSISTENCY},
	{"check", 0, "FILE", "check such a proof", OPTION_CHECK},
	{"json", 0, NULL, "print JSON", OPTION_JSON},
	{.help = "A receipt"},
	{"receipt", 0, "FILE", "check a receipt (atoll attest) instead of a log", OPTION_RECEIPT},
	{"root", 0, "DIR", "also check that DIR contains the files that the run left", OPTION_ROOT},
	{"log", 0, "FILE", "also check that this event log verifies and matches the receipt",
	 OPTION_LOG},
	{"log-key", 0, "FILE", "the key of the event log, if it differs from the receipt's",
	 OPTION_LOG_KEY},
	{"nonce", 0, "HEX", "also check that the hardware signed this nonce", OPTION_NONCE},
	{"quote-key", 0, "FILE", "also check that the TPM has this public key", OPTION_QUOTE_KEY},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row verify_statuses[] = {
	{"0", "good: complete, closed and signed; or the proof is valid"},
	{"1", "good but not closed: the run goes on, or its supervisor was killed"},
	{"2",
	 "broken: changed, cut, moved, replaced, missing, or signed by a key that is not trusted"},
	{"3", "unknown: there is no such log or receipt, or it cannot be read"},
	{"4", "receipt: a file is missing or has other content"},
	{"5", "receipt: the event log does not verify or does not match"},
	{"6", "receipt: the hardware signed something else"},
	{0},
};

static const char *const findings[] = {"good", "open", "broken", "unknown"};

static int print_json(const struct atoll_verified *found)
{
	struct buf text = BUF_INIT(8192);
	struct json json = {&text, false};
	int r;

	json_open(&json, NULL, '{');
	json_str(&json, "run", found->run[0] ? found->run : NULL);
	json_str(&json, "finding", findings[found->finding]);
	json_uint(&json, "lines", found->n_lines);
	json_uint(&json, "signed", found->n_signed);
	if (found->line)
		json_uint(&json, "line", found->line);
	else
		json_none(&json, "line");
	json_str(&json, "store", found->store[0] ? found->store : NULL);
	json_str(&json, "key", found->key[0] ? found->key : NULL);
	json_str(&json, "text", found->text);
	json_close(&json, '}');
	r = buf_error(&text);
	if (r == 0)
		puts(text.data);
	buf_done(&text);
	return r;
}

static void print_one(const struct atoll_verified *found, bool is_json)
{
	if (is_json) {
		print_json(found);
		return;
	}
	print_escaped(stdout, found->text);
	fputc('\n', stdout);
}

struct every {
	bool is_json;
	uint64_t n[4];
};

static void on_each(const struct atoll_verified *found, void *data)
{
	struct every *every = data;

	every->n[found->finding]++;
	/* Of several good logs only the number is printed. */
	if (every->is_json || found->finding != ATOLL_FINDING_GOOD || !found->run[0])
		print_one(found, every->is_json);
}

static int verify_all(const char *key_path, bool is_json, struct atoll_error *err)
{
	struct every every = {.is_json = is_json};
	const struct atoll_verify_options options = {key_path, on_each, &every};
	struct atoll_verified worst = {0};
	int r = atoll_verify_all(&options, &worst, err);

	if (r < 0)
		return r;
	if (!is_json)
		printf("%" PRIu64 " good, %" PRIu64 " not closed, %" PRIu64 " broken, %" PRIu64
		       " unknown\n",
		       every.n[0], every.n[1], every.n[2], every.n[3]);
	return (int)worst.finding;
}

/* `word` may be the name of a sandbox. */
static const char *resolve_name(const char *what, char id[ATOLL_ID_SIZE])
{
	struct atoll_record *records;
	size_t n;

	if (!what || atoll_records_list(false, &records, &n, NULL) < 0)
		return what;
	for (size_t i = 0; i < n; i++) {
		if (records[i].name[0] && streq(records[i].name, what))
			what = strcpy(id, records[i].id);
	}
	atoll_records_free(records, n);
	return what;
}

static int prove(const struct command_values *words, const struct atoll_verify_options *options,
		 struct atoll_error *err)
{
	const char *number = words->values[OPTION_PROVE];
	char *json, *end, id[ATOLL_ID_SIZE];
	uint64_t seq;
	int r;

	if (!number) {
		r = atoll_prove_consistency(words->values[OPTION_CONSISTENCY], options, &json, err);
	} else {
		errno = 0;
		seq = strtoull(number, &end, 10);
		if (errno || *number < '0' || *number > '9' || *end)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "--prove wants the number of a line, not '%s'", number);
		r = atoll_prove(resolve_name(words->args[0], id), seq, options, &json, err);
	}
	if (r < 0)
		return r;
	fputs(json, stdout);
	free(json);
	return 0;
}

/* Names may have dots, too. */
static bool is_file(const char *what)
{
	return strchr(what, '/') || ends_with(what, ".jsonl") ||
	       (strchr(what, '.') && access(what, F_OK) == 0);
}

/* Without this check a receipt would be reported as a broken log. No line of a log begins like a
 * receipt. */
static int check_no_receipt(const char *path, struct atoll_error *err)
{
	static const char start[] = "{\"payload";
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char text[sizeof start - 1];

	if (fd < 0 || pread(fd, text, sizeof text, 0) != sizeof text ||
	    memcmp(text, start, sizeof text) != 0)
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "'%s' is a receipt and no log; to check it: atoll verify --receipt %s",
			 path, path);
}

static int verify_one(const struct command_values *words,
		      const struct atoll_verify_options *options, struct atoll_error *err)
{
	const char *what = words->args[0];
	struct atoll_verified found = {0};
	char id[ATOLL_ID_SIZE];
	int r;

	if (words->values[OPTION_CHECK])
		r = atoll_check_proof(words->values[OPTION_CHECK], options, &found, err);
	else if (what && is_file(what))
		r = check_no_receipt(what, err) < 0 ? -EINVAL
						    : atoll_verify_file(what, options, &found, err);
	else
		r = atoll_verify(resolve_name(what, id), options, &found, err);
	if (r < 0)
		return r;
	print_one(&found, words->seen & 1U << OPTION_JSON);
	return (int)found.finding;
}

/* Two of these options together are an error. */
static int check_words(const struct command_values *words, struct atoll_error *err)
{
	unsigned n = 0;

	for (unsigned id = 0; id < OPTION_JSON; id++)
		n += id != OPTION_KEY && words->seen & 1U << id;
	if (n > 1)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"--all, --prove, --consistency, --check and --receipt exclude each "
			"other");
	if (words->seen & RECEIPT_OPTIONS && !(words->seen & 1U << OPTION_RECEIPT))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--root, --log, --log-key, --nonce and --quote-key are about a "
				 "receipt: --receipt FILE");
	if (words->seen & 1U << OPTION_RECEIPT && words->seen & 1U << OPTION_JSON)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--receipt has no --json: the exit status tells");
	if (words->n && words->seen & (1U << OPTION_RECEIPT | 1U << OPTION_ALL |
				       1U << OPTION_CONSISTENCY | 1U << OPTION_CHECK))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "unexpected argument '%s'",
				 words->args[0]);
	return 0;
}

static int run_verify(char **args, struct atoll_error *err)
{
	struct command_values words;
	struct atoll_verify_options options = {0};
	int status, r = command_read_values(&command_verify, args, 0, 1, &words, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = check_words(&words, err);
	if (r < 0)
		return r;
	/* Implemented in src/auditcmd/receipt-check.c. */
	if (words.seen & 1U << OPTION_RECEIPT)
		return audit_call("verify", verify_options, &words, err);
	options.key_path = words.values[OPTION_KEY];
	if (words.seen & (1U << OPTION_PROVE | 1U << OPTION_CONSISTENCY))
		status = prove(&words, &options, err);
	else if (words.seen & 1U << OPTION_ALL)
		status = verify_all(options.key_path, words.seen & 1U << OPTION_JSON, err);
	else
		status = verify_one(&words, &options, err);
	if (status < 0)
		return status;
	r = command_flush(err);
	return r < 0 ? r : status;
}

static const struct command_row verify_examples[] = {
	{"atoll verify", "the event log of the latest run"},
	{"atoll verify --all", "all event logs, and that none is missing"},
	{"atoll verify run.jsonl --key atoll.pub",
	 "a copy, on any machine, with the public key only"},
	{"atoll verify --prove 7 k3v7q2ma >proof", "prove one line without showing the others"},
	{"atoll verify --check proof --key atoll.pub", "check this proof"},
	{"atoll verify --receipt run.receipt --root . --key atoll.pub", "a receipt, and its files"},
	{"atoll verify --consistency old-checkpoint", "prove that no line was removed since then"},
	{0},
};

const struct command command_verify = {
	.name = "verify",
	.usage = "[RUN|FILE|--all] [--key FILE] [--json]",
	.summary = "check that an event log or a receipt was not changed",
	.description =
		(const char *const[]){
			"Finds lines that were changed, removed, inserted or moved, a missing end, "
			"a log under another run's name, a missing log, and wrong signatures. It "
			"prints the number of the first wrong line. RUN is an id, the beginning of "
			"an id, or the name of a sandbox; the default is the latest log. A FILE "
			"(with a slash, or ending in .jsonl) is checked without the store.",
			"If a log is not closed, a missing end cannot be detected. The length of a "
			"closed log is in the store's tree of logs.",
			NULL},
	.options = verify_options,
	.sections =
		(const struct command_section[]){
			{"Examples", verify_examples},
			{"Exit status", verify_statuses},
			{0},
		},
	.run = run_verify,
};

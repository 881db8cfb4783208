/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/cli.h"

#include <atoll/audit.h>

enum {
	OPTION_PEM,
	OPTION_SSH,
	OPTION_NOTE,
	OPTION_JSON,
};

static const struct option key_options[] = {
	{"pem", 0, NULL, "show: the public key as PEM, for openssl", OPTION_PEM},
	{"ssh", 0, NULL, "show: the public key as a line for ssh-keygen", OPTION_SSH},
	{"note", 0, NULL, "show: the public key as a verifier key for signed notes", OPTION_NOTE},
	{"json", 0, NULL, "print JSON", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static void add_key(struct json *json, const char *name, const struct atoll_key *key)
{
	json_open(json, name, '{');
	json_str(json, "id", key->id);
	json_str(json, "store", key->store);
	json_str(json, "pem", key->pem);
	json_strn(json, "ssh", key->ssh, strcspn(key->ssh, "\n"));
	json_strn(json, "note", key->note, strcspn(key->note, "\n"));
	json_close(json, '}');
}

static int put_json(struct buf *text, struct atoll_error *err)
{
	int r = buf_error(text);

	if (r == 0)
		puts(text->data);
	buf_done(text);
	return r < 0 ? error_oom(err) : 0;
}

static int show(unsigned seen, struct atoll_error *err)
{
	struct buf text = BUF_INIT(4096);
	struct json json = {&text, false};
	struct atoll_key key;
	int r = atoll_key_show(&key, err);

	if (r < 0)
		return r;
	if (seen & 1U << OPTION_JSON) {
		add_key(&json, NULL, &key);
		return put_json(&text, err);
	}
	if (seen & 1U << OPTION_PEM)
		fputs(key.pem, stdout);
	else if (seen & 1U << OPTION_SSH)
		fputs(key.ssh, stdout);
	else if (seen & 1U << OPTION_NOTE)
		fputs(key.note, stdout);
	else
		printf("key %s of store %s\n%s", key.id, key.store, key.pem);
	return 0;
}

static int rotate(unsigned seen, struct atoll_error *err)
{
	struct buf text = BUF_INIT(4096);
	struct json json = {&text, false};
	struct atoll_key old, new;
	int r = atoll_key_rotate(&old, &new, err);

	if (r < 0)
		return r;
	if (seen & 1U << OPTION_JSON) {
		json_open(&json, NULL, '{');
		add_key(&json, "old", &old);
		add_key(&json, "new", &new);
		json_close(&json, '}');
		return put_json(&text, err);
	}
	printf("Replaced key %s by key %s. Signatures of the old key stay valid.\n%s", old.id,
	       new.id, new.pem);
	return 0;
}

static int run_key(char **args, struct atoll_error *err)
{
	struct command_values words;
	int r = command_read_values(&command_key, args, 1, 1, &words, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (streq(words.args[0], "show"))
		r = show(words.seen, err);
	else if (streq(words.args[0], "rotate"))
		r = rotate(words.seen, err);
	else
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "unknown action '%s'; usage: atoll key %s", words.args[0],
				 command_key.usage);
	return r < 0 ? r : command_flush(err);
}

static const struct command_row key_examples[] = {
	{"atoll key show --pem >atoll.pub", "the public key, for people who check your logs"},
	{"atoll key rotate", "replace the key, for example if somebody may have read it"},
	{0},
};

static const struct command_row key_files[] = {
	{"~/.local/state/atoll/keys/key.pem", "the private key (PKCS #8), readable by you only"},
	{"~/.local/state/atoll/keys/ID.pub", "the public keys, old ones as well"},
	{"~/.local/state/atoll/keys/ID.handover", "the hand-over note of the key ID"},
	{0},
};

const struct command command_key = {
	.name = "key",
	.usage = "show|rotate [--pem|--ssh|--note] [--json]",
	.summary = "show or replace the key that signs event logs",
	.description =
		(const char *const[]){
			"Event logs are signed (Ed25519) by a key in the store, which is created "
			"when it is first needed. No sandbox can read the key.",
			"'rotate' replaces the key. Both keys sign a hand-over note, so trust in "
			"one of them includes the other: old logs can be checked with the new key, "
			"and new logs with the old key.",
			NULL},
	.options = key_options,
	.sections =
		(const struct command_section[]){
			{"Examples", key_examples},
			{"Files", key_files},
			{0},
		},
	.run = run_key,
};

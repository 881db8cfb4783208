/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/attest.h"
#include "auditcmd/auditcmd.h"
#include "auditcmd/call-options.h"
#include "auditcmd/checked.h"
#include "auditcmd/effects.h"
#include "auditcmd/event-values.h"
#include "auditcmd/receipt-read.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "auditcmd/statement.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "job/input.h"
#include "job/job.h"
#include "spec/spec.h"
#include "ui/ui.h"

#include <atoll/layer.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * `atoll replay`
 *
 *   open      the receipt; it must be signed by a trusted key, because it says what to run
 *   make      the same job, from the input in the receipt
 *   compare   the workspace with its state before the run
 *   run       in a layer, with a full event log
 *   compare   the effects in the event log with the receipt
 *   discard   the layer; the event log stays, as after any run
 */

#define JOB_MAX ((size_t)8 << 20)

enum {
	STATUS_DIFFERS = 1,
	STATUS_OTHER_INPUT = 2,
};

struct request {
	const char *receipt, *key;
	bool is_anyway, keeps, is_json;
};

struct replay {
	const struct request *request;
	struct receipt receipt;
	struct buf recipe;
	char **argv;
	struct atoll_job *job;
	bool has_other_input;
	json_t *report;
};

/* ---- the job ---- */

static int add_word(const json_t *word, struct buf *out)
{
	const char *base64 = json_string_value(json_object_get(word, "base64"));
	const char *text = json_string_value(word);

	if (!base64 && !text)
		return -EBADMSG;
	if (base64 && sign_read_base64(base64, out) < 0)
		return -EBADMSG;
	if (text)
		buf_add(out, text, json_string_length(word));
	buf_add_char(out, '\0');
	return buf_error(out);
}

static int read_argv(const json_t *list, char ***ret)
{
	char **argv = calloc(json_array_size(list) + 1, sizeof *argv);
	const json_t *word;
	size_t i;
	int r = argv ? 0 : -ENOMEM;

	*ret = argv;
	if (r < 0)
		return r;
	json_array_foreach(list, i, word)
	{
		struct buf text = BUF_INIT(JOB_MAX);

		if (r == 0)
			r = add_word(word, &text);
		if (r == 0)
			argv[i] = buf_take(&text);
		if (r == 0 && !argv[i])
			r = -ENOMEM;
		buf_done(&text);
	}
	return r < 0 ? r : argv[0] ? 0 : -EBADMSG;
}

static int read_job(struct replay *replay, struct atoll_error *err)
{
	const json_t *words = receipt_get(&replay->receipt, "job", "words"), *word;
	const json_t *argv = receipt_get(&replay->receipt, "job", "argv");
	int r = 0;
	size_t i;

	if (json_array_size(words) == 0 || json_array_size(argv) == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "the receipt does not say what the job was made of: only 'atoll "
				 "run --receipt' notes that, and not if it is too large");
	if (json_array_size(receipt_get(&replay->receipt, "steps", NULL)) != 1)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "the receipt is about several commands; a replay is of one run");
	if (json_integer_value(receipt_get(&replay->receipt, "job", "redacted")) > 0)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"what looked like a secret was left out of the job in the receipt, "
			"so that it cannot be made again");
	json_array_foreach(words, i, word)
	{
		if (r == 0)
			r = add_word(word, &replay->recipe);
	}
	if (r == 0)
		r = read_argv(argv, &replay->argv);
	return r < 0 ? error_set(err, ATOLL_FAULT_REQUEST, -r, "the job in the receipt") : 0;
}

static int make_job(struct replay *replay, struct atoll_error *err)
{
	const char *digest = json_string_value(receipt_get(&replay->receipt, "contract", "sha256"));
	const struct recipe recipe = {
		.words = &replay->recipe, .argv = replay->argv, .digest = digest ? digest : ""};
	int r = recipe_follow(&recipe, &replay->job, err);

	if (r == -ESTALE)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the contract would not be the receipt's: this is another version "
				 "of atoll, or the places that it names are others here");
	return r;
}

/* Writes go to a layer and everything is logged, whatever the contract says. */
static int turn_to_layer(struct replay *replay, struct atoll_error *err)
{
	const struct spec *spec = replay->job->spec;
	const bool is_right =
		spec->workspace_mode != SPEC_WORKSPACE_DIRECT && spec->record == SPEC_RECORD_FULL;
	struct atoll_job *other;
	int r;

	if (is_right)
		return 0;
	if (spec->workspace_mode == SPEC_WORKSPACE_DIRECT)
		buf_add(&replay->recipe, "set\0mode\0layer", sizeof "set\0mode\0layer");
	buf_add(&replay->recipe, "set\0record\0full", sizeof "set\0record\0full");
	r = buf_error(&replay->recipe);
	if (r < 0)
		return error_oom(err);
	r = recipe_follow(&(struct recipe){.words = &replay->recipe, .argv = replay->argv}, &other,
			  err);
	if (r < 0)
		return r;
	atoll_job_free(replay->job);
	replay->job = other;
	return 0;
}

/* The layer covers the workspace only: writes to other places would be permanent. */
static int check_reach(const struct replay *replay, struct atoll_error *err)
{
	const struct spec *spec = replay->job->spec;

	for (size_t i = 0; i < spec->n_rules && !replay->request->is_anyway; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->access == SPEC_WRITE && !path_is_within(rule->path, spec->workspace))
			return error_set(err, ATOLL_FAULT_POLICY, 0,
					 "the contract lets it write to '%s', outside of the "
					 "workspace, and a replay would, too (--anyway does so)",
					 rule->path);
	}
	return 0;
}

/* ---- the workspace ---- */

static const char *told_digest(const struct replay *replay, const char *what)
{
	const json_t *list = json_object_get(
		json_object_get(json_object_get(replay->receipt.provenance, "predicate"),
				"buildDefinition"),
		"resolvedDependencies");
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));

		if (name && streq(name, what))
			return json_string_value(
				json_object_get(json_object_get(one, "digest"), "sha256"));
	}
	return NULL;
}

static int compare_input(struct replay *replay, struct atoll_error *err)
{
	const char *told = told_digest(replay, "workspace");
	char now[HASH_HEX_SIZE];
	int r;

	if (!told)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "the receipt does not say what the workspace was: only 'atoll run "
				 "--receipt' notes that");
	r = input_digest(replay->job->spec, now, err);
	if (r < 0)
		return r;
	replay->has_other_input = !streq(now, told);
	json_object_set_new(replay->report, "input",
			    json_string(replay->has_other_input ? "differs" : "same"));
	if (replay->has_other_input && !replay->request->is_json)
		fprintf(stderr,
			"atoll: replay: '%s' is not what the run began with (sha256 %.16s..., and "
			"it was %.16s...)%s\n",
			replay->job->spec->workspace, now, told,
			replay->request->is_anyway ? "" : "; nothing was run (--anyway does so)");
	return 0;
}

/* The programs come from there: what they do with the same files is another thing with another
 * one. A receipt that says nothing of it leaves that open, and so it is told as another. */
static int compare_image(struct replay *replay, struct atoll_error *err)
{
	const char *told = told_digest(replay, "image");
	char now[HASH_HEX_SIZE];
	int r;

	if (!replay->job->spec->image)
		return 0;
	r = input_image_digest(replay->job->spec, now, err);
	if (r < 0)
		return r;
	json_object_set_new(replay->report, "image",
			    json_string(told && streq(now, told) ? "same" : "differs"));
	if (told && streq(now, told))
		return 0;
	replay->has_other_input = true;
	if (!replay->request->is_json)
		fprintf(stderr,
			"atoll: replay: the image '%s' is not what the run had (sha256 %.16s..., "
			"and it was %.16s%s)%s\n",
			replay->job->spec->image, now, told ? told : "not noted", told ? "..." : "",
			replay->request->is_anyway ? "" : "; nothing was run (--anyway does so)");
	return 0;
}

/* ---- the result ---- */

static const char *digest_of(const json_t *subject)
{
	const char *hex =
		json_string_value(json_object_get(json_object_get(subject, "digest"), "sha256"));

	return hex ? hex : "";
}

/* Compare names as bytes if they are not UTF-8: two of them may be shown alike. */
static const char *key_of(const json_t *subject)
{
	const char *bytes = json_string_value(
		json_object_get(json_object_get(subject, "annotations"), "path_base64"));

	return bytes ? bytes : json_string_value(json_object_get(subject, "name")) ?: "";
}

/* The only subject of a run without effects is the head of its log, which always differs. */
static bool is_comparable(const json_t *subject)
{
	return !json_object_get(subject, "mediaType");
}

/* There may be many of them. */
static json_t *index_subjects(const json_t *subjects)
{
	json_t *index = json_object(), *subject;
	size_t i;

	json_array_foreach(subjects, i, subject)
	{
		if (is_comparable(subject))
			json_object_set(index, key_of(subject), subject);
	}
	return index;
}

static void print_difference(struct replay *replay, const char *what, const json_t *subject,
			     const json_t *other)
{
	cleanup_buf struct buf shown = BUF_INIT(RECEIPT_MAX);
	const char *name = json_string_value(json_object_get(subject, "name")) ?: "";
	json_t *entry = json_pack("{s:s}", "name", name);

	if (streq(what, "differs")) {
		json_object_set_new(entry, "was", json_string(digest_of(subject)));
		json_object_set_new(entry, "is", json_string(digest_of(other)));
	}
	json_array_append_new(json_object_get(replay->report, what), entry);
	if (replay->request->is_json || streq(what, "same"))
		return;
	event_show(name, &shown);
	printf("%s: %s\n", what, shown.data ? shown.data : "");
}

static size_t compare_subjects(struct replay *replay, const json_t *now)
{
	cleanup_json json_t *was = index_subjects(json_object_get(replay->receipt.own, "subject"));
	cleanup_json json_t *is = index_subjects(now);
	const json_t *other;
	json_t *subject;
	const char *key;
	size_t n = 0;

	json_object_foreach(was, key, subject)
	{
		other = json_object_get(is, key);
		n += !other || !streq(digest_of(subject), digest_of(other));
		print_difference(replay,
				 !other					       ? "missing"
				 : streq(digest_of(subject), digest_of(other)) ? "same"
									       : "differs",
				 subject, other);
	}
	json_object_foreach(is, key, subject)
	{
		if (json_object_get(was, key))
			continue;
		print_difference(replay, "new", subject, NULL);
		n++;
	}
	return n;
}

static int64_t told_status(const struct replay *replay)
{
	const json_t *step = json_array_get(receipt_get(&replay->receipt, "steps", NULL), 0);

	return json_integer_value(json_object_get(json_object_get(step, "ended"), "status"));
}

static int compare_result(struct replay *replay, const struct atoll_result *result,
			  struct atoll_error *err)
{
	cleanup_free struct checked_keys *keys = calloc(1, sizeof *keys);
	cleanup_effects struct effects effects = {0};
	cleanup_json json_t *now = NULL;
	const int64_t was = told_status(replay), is = atoll_result_status(result);
	size_t n;
	int r = keys ? checked_keys_load(NULL, keys, err) : error_oom(err);

	if (r == 0)
		r = effects_read(result->run, 0, 0, keys, &effects, err);
	if (r < 0)
		return error_context(err, r, "the record of the replay");
	now = statement_subjects(&effects);
	n = compare_subjects(replay, now);
	if (was != is && !replay->request->is_json)
		printf("differs: exit status %" PRId64 ", and it was %" PRId64 "\n", is, was);
	json_object_set_new(replay->report, "run", json_string(result->run));
	json_object_set_new(replay->report, "status",
			    json_pack("{s:I, s:I}", "was", (json_int_t)was, "is", (json_int_t)is));
	return n > 0 || was != is ? STATUS_DIFFERS : 0;
}

/* ---- all of it ---- */

static int run_again(struct replay *replay, struct atoll_error *err)
{
	/* Do not print the output: it is only compared. */
	cleanup_fd int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct atoll_run_options options = {
		.stdin_fd = 0, .stdout_fd = null_fd, .stderr_fd = null_fd};
	cleanup_free struct atoll_result *result = malloc(sizeof *result);
	struct atoll_error ignored;
	int r;

	if (!result)
		return error_oom(err);
	if (null_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '/dev/null'");
	interact_begin(&options);
	r = atoll_job_run(replay->job, &options, result, err);
	interact_end();
	if (r < 0)
		return error_context(err, r, "replay");
	if (result->interrupted_by)
		return error_set(err, ATOLL_FAULT_JOB, EINTR, "the replay");
	r = compare_result(replay, result, err);
	/* Ignore a failure: `atoll ls` shows the record. */
	if (result->record[0] && !replay->request->keeps)
		atoll_record_discard(result->record, true, &ignored);
	return r;
}

static int carry_out(struct replay *replay, struct atoll_error *err)
{
	int r = read_job(replay, err);

	if (r == 0)
		r = make_job(replay, err);
	if (r == 0)
		r = check_reach(replay, err);
	if (r == 0)
		r = compare_input(replay, err);
	if (r == 0)
		r = compare_image(replay, err);
	if (r == 0 && replay->has_other_input && !replay->request->is_anyway)
		return STATUS_OTHER_INPUT;
	if (r == 0)
		r = turn_to_layer(replay, err);
	if (r == 0)
		r = run_again(replay, err);
	return r;
}

static int print_result(const struct replay *replay, int status, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RECEIPT_MAX);
	const size_t n = json_array_size(json_object_get(replay->report, "same"));
	int r;

	if (!replay->request->is_json) {
		if (status != STATUS_OTHER_INPUT)
			printf("same: %zu of %zu\n", n,
			       json_array_size(json_object_get(replay->receipt.own, "subject")));
		return status;
	}
	r = receipt_add_line(replay->report, &text, err);
	if (r == 0)
		r = receipt_write(NULL, &text, err);
	return r < 0 ? r : status;
}

static void replay_done(struct replay *replay)
{
	for (size_t i = 0; replay->argv && replay->argv[i]; i++)
		free(replay->argv[i]);
	free(replay->argv);
	buf_done(&replay->recipe);
	atoll_job_free(replay->job);
	receipt_done(&replay->receipt);
	json_decref(replay->report);
}

static int read_request(char **args, struct request *ret, struct atoll_error *err)
{
	const struct call_option table[] = {
		{"key", &ret->key, NULL},
		{"anyway", NULL, &ret->is_anyway},
		{"keep", NULL, &ret->keeps},
		{"json", NULL, &ret->is_json},
		{0},
	};
	int r = call_options_read(args, table, &ret->receipt, 1, err);

	return r == 0 && !ret->receipt ? error_set(err, ATOLL_FAULT_REQUEST, 0, "which receipt?")
				       : r;
}

static int run_replay(char **args, struct atoll_error *err)
{
	cleanup_free struct checked_keys *keys = calloc(1, sizeof *keys);
	struct request request = {0};
	cleanup_with(replay_done) struct replay replay = {
		.request = &request,
		.recipe = BUF_INIT(JOB_MAX),
		.report =
			json_pack("{s:[], s:[], s:[], s:[]}", "same", "differs", "missing", "new")};
	enum receipt_fault fault;
	int r = keys && replay.report ? read_request(args, &request, err) : error_oom(err);

	if (r == 0)
		r = checked_keys_load(request.key, keys, err);
	if (r == 0)
		r = receipt_open(request.receipt, keys, &replay.receipt, &fault, err);
	if (r == 0)
		r = carry_out(&replay, err);
	return r < 0 ? r : print_result(&replay, r, err);
}

const struct audit_command audit_command_replay = {"replay", run_replay};

/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/statement.h"

#include "auditcmd/effects.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "base/str.h"

#include <atoll/atoll.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * The two statements of a receipt
 *
 * Both have the same subjects. The first is SLSA Provenance, for tools that know it; the second has
 * all other facts of the event log.
 */

/* ---- texts ---- */

/* Does the text contain U+10DC00..U+10DCFF, the reader's form of bytes that are not UTF-8? */
static bool has_bytes(const char *text)
{
	for (const char *at = text; (at = strstr(at, "\xf4\x8d")); at++)
		if ((unsigned char)at[2] >= 0xb0 && (unsigned char)at[2] <= 0xb3)
			return true;
	return false;
}

static json_t *plain_text(const char *text)
{
	cleanup_buf struct buf shown = BUF_INIT(RECEIPT_MAX);

	if (!has_bytes(text))
		return json_string(text);
	event_show(text, &shown);
	return buf_error(&shown) < 0 ? NULL : json_string(shown.data);
}

static bool is_in_every_line(const char *key)
{
	return streq(key, "prev") || streq(key, "run") || streq(key, "kind");
}

static json_t *plain_object(const json_t *value)
{
	json_t *copy = json_object(), *member;
	const char *key;

	json_object_foreach((json_t *)value, key, member)
	{
		if (!is_in_every_line(key) && !has_bytes(key))
			json_object_set_new(copy, key, statement_plain(member));
	}
	return copy;
}

json_t *statement_plain(const json_t *value)
{
	json_t *copy, *member;
	size_t i;

	if (json_is_string(value))
		return plain_text(json_string_value(value));
	if (json_is_object(value))
		return plain_object(value);
	if (!json_is_array(value))
		return json_incref((json_t *)value);
	copy = json_array();
	json_array_foreach(value, i, member) json_array_append_new(copy, statement_plain(member));
	return copy;
}

/* "sha256:HEX" as a digest set; NULL if it is none. */
static json_t *digest_set(const char *text)
{
	unsigned char bytes[32];

	if (!text || !starts_with(text, "sha256:") || !sign_unhex(text + 7, bytes, sizeof bytes))
		return NULL;
	return json_pack("{s:s}", "sha256", text + 7);
}

/* ---- subjects ---- */

/* A name that is not UTF-8 has its bytes in base64 beside it. */
static json_t *make_subject(const char *path, json_t *digest, const json_t *change)
{
	json_t *annotations = json_object();
	const char *mode = event_text(change, "mode");

	if (mode)
		json_object_set_new(annotations, "mode", json_string(mode));
	if (has_bytes(path)) {
		cleanup_buf struct buf bytes = BUF_INIT(RECEIPT_MAX);

		event_bytes(path, strlen(path), &bytes);
		json_object_set_new(annotations, "path_base64",
				    sign_base64(bytes.data, bytes.used));
	}
	return json_pack("{s:o, s:o, s:o}", "name", plain_text(path), "digest", digest,
			 "annotations", annotations);
}

static void add_files(const struct effects *effects, json_t *subjects)
{
	const char *path;
	json_t *change;

	json_object_foreach(effects->changes, path, change)
	{
		const char *type = event_text(change, "type");
		json_t *digest = NULL;

		if (type && streq(type, "file") &&
		    !streq(event_text(change, "change") ?: "", "deleted"))
			digest = digest_set(event_text(change, "after"));
		if (digest)
			json_array_append_new(subjects, make_subject(path, digest, change));
	}
}

/* Names for output begin with a slash, which no file of a workspace does. */
static void add_outputs(const struct effects *effects, json_t *subjects)
{
	const bool is_one = json_array_size(effects->starts) == 1;
	const json_t *output;
	size_t i;

	json_array_foreach(effects->outputs, i, output)
	{
		const char *stream = event_text(output, "stream");
		json_t *digest = digest_set(event_text(output, "hash"));
		char name[64];

		if (!stream || !digest) {
			json_decref(digest);
			continue;
		}
		if (is_one)
			snprintf(name, sizeof name, "/dev/%.16s", stream);
		else
			snprintf(name, sizeof name, "/dev/%.16s#%" PRIu64, stream,
				 event_number(output, "step", 0));
		json_array_append_new(subjects,
				      json_pack("{s:s, s:o, s:{s:s, s:I}}", "name", name, "digest",
						digest, "annotations", "stream", stream, "size",
						(json_int_t)event_number(output, "bytes", 0)));
	}
}

static json_t *describe_checkpoint(const struct effects *effects, bool with_content)
{
	const char *note = event_text(effects->head, "note");
	unsigned char hash[32];
	char hex[65];

	note = note ? note : "";
	sign_sha256(note, strlen(note), hash);
	sign_hex(hash, sizeof hash, hex);
	return json_pack("{s:s, s:s, s:{s:s}, s:o*}", "name", "log checkpoint", "mediaType",
			 "text/plain; charset=utf-8", "digest", "sha256", hex, "content",
			 with_content ? sign_base64(note, strlen(note)) : NULL);
}

json_t *statement_subjects(const struct effects *effects)
{
	json_t *subjects = json_array();

	add_files(effects, subjects);
	add_outputs(effects, subjects);
	/* A statement needs a subject: without any effect it is the head of the log. */
	if (json_array_size(subjects) == 0)
		json_array_append_new(subjects, describe_checkpoint(effects, false));
	return subjects;
}

static json_t *make_statement(const struct effects *effects, const char *type, json_t *predicate)
{
	return json_pack("{s:s, s:o, s:s, s:o}", "_type", RECEIPT_STATEMENT_TYPE, "subject",
			 statement_subjects(effects), "predicateType", type, "predicate",
			 predicate);
}

/* ---- provenance ---- */

static const json_t *first_start(const struct effects *effects)
{
	return json_array_get(effects->starts, 0);
}

static json_t *plain_member(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return value ? statement_plain(value) : NULL;
}

static json_t *list_commands(const struct effects *effects)
{
	json_t *list = json_array();
	const json_t *start;
	size_t i;

	json_array_foreach(effects->starts, i, start) json_array_append_new(
		list, json_pack("{s:I, s:o*, s:o*}", "step",
				(json_int_t)event_number(start, "step", 0), "command",
				plain_member(start, "argv"), "cwd", plain_member(start, "cwd")));
	return list;
}

static const char *contract_hex(const struct effects *effects)
{
	const char *digest = event_text(first_start(effects), "contract");

	return digest && starts_with(digest, "sha256:") ? digest + 7 : digest ? digest : "";
}

static json_t *define_build(const struct effects *effects)
{
	const json_t *start = first_start(effects);
	json_t *dependencies = json_array();
	json_t *input = digest_set(event_text(start, "input"));
	json_t *image = digest_set(event_text(start, "image"));
	const char *commit = event_text(start, "commit");

	if (input)
		json_array_append_new(dependencies, json_pack("{s:s, s:o}", "name", "workspace",
							      "digest", input));
	if (commit)
		json_array_append_new(dependencies, json_pack("{s:s, s:{s:s}}", "name", "git HEAD",
							      "digest", "gitCommit", commit));
	if (image)
		json_array_append_new(dependencies,
				      json_pack("{s:s, s:o}", "name", "image", "digest", image));
	return json_pack("{s:s, s:{s:o, s:{s:s}, s:o*}, s:{s:o*, s:o*, s:o*}, s:o}", "buildType",
			 RECEIPT_BUILD_TYPE, "externalParameters", "steps", list_commands(effects),
			 "contract", "sha256", contract_hex(effects), "workspace",
			 plain_member(start, "workspace"), "internalParameters", "tier",
			 plain_member(start, "tier"), "mode", plain_member(start, "mode"),
			 "mechanisms", plain_member(start, "mechanisms"), "resolvedDependencies",
			 dependencies);
}

/* Times in seconds: all tools accept them. */
static json_t *plain_time(const json_t *event)
{
	const char *text = event_text(event, "time");
	char cut[32];

	if (!text || strlen(text) < 20)
		return NULL;
	snprintf(cut, sizeof cut, "%.19sZ", text);
	return json_string(cut);
}

static json_t *describe_evidence(const char *name, const json_t *evidence, const char *key)
{
	const char *content = json_string_value(json_object_get(evidence, key));

	return content ? json_pack("{s:s, s:s}", "name", name, "content", content) : NULL;
}

static json_t *detail_run(const struct effects *effects, const struct statement_hardware *hardware)
{
	const json_t *last = json_array_get(effects->ends, json_array_size(effects->ends) - 1);
	json_t *byproducts = json_array();
	char id[64];

	json_array_append_new(byproducts, describe_checkpoint(effects, true));
	if (hardware->tpm)
		json_array_append_new(byproducts,
				      describe_evidence("tpm quote", hardware->tpm, "quote"));
	if (hardware->tsm)
		json_array_append_new(byproducts,
				      describe_evidence("tsm report", hardware->tsm, "outblob"));
	snprintf(id, sizeof id, "%s/%s", effects->log.store, effects->log.run);
	return json_pack("{s:{s:s, s:{s:s}}, s:{s:s, s:o*, s:o*}, s:o}", "builder", "id",
			 RECEIPT_BUILDER, "version", "atoll",
			 event_text(effects->open, "atoll") ?: atoll_version(), "metadata",
			 "invocationId", id, "startedOn", plain_time(first_start(effects)),
			 "finishedOn", plain_time(last), "byproducts", byproducts);
}

json_t *statement_provenance(const struct effects *effects,
			     const struct statement_hardware *hardware)
{
	json_t *predicate = json_pack("{s:o, s:o}", "buildDefinition", define_build(effects),
				      "runDetails", detail_run(effects, hardware));

	return predicate ? make_statement(effects, RECEIPT_PROVENANCE, predicate) : NULL;
}

/* ---- our own ---- */

static const json_t *end_of(const struct effects *effects, uint64_t step)
{
	const json_t *end;
	size_t i;

	json_array_foreach(effects->ends, i, end)
	{
		if (event_number(end, "step", 0) == step)
			return end;
	}
	return NULL;
}

static json_t *list_steps(const struct effects *effects)
{
	json_t *list = json_array();
	const json_t *start;
	size_t i;

	json_array_foreach(effects->starts, i, start)
	{
		json_t *step = statement_plain(start);
		json_t *end = statement_plain(end_of(effects, event_number(start, "step", 0))
						      ?: json_null());

		json_object_set_new(step, "command", plain_member(start, "argv"));
		json_object_del(step, "argv");
		json_object_set_new(step, "ended", end);
		json_array_append_new(list, step);
	}
	return list;
}

/* A list of the clauses that were enforced by a weaker mechanism. */
static json_t *list_weaker(const struct effects *effects)
{
	const json_t *start, *one;
	json_t *list = json_array();
	size_t i, j;

	json_array_foreach(effects->starts, i, start)
	{
		json_array_foreach(json_object_get(start, "mechanisms"), j, one)
		{
			if (!streq(event_text(one, "strength") ?: "", "enforced"))
				json_array_append_new(list, statement_plain(one));
		}
	}
	return list;
}

/* Changes without a hash: deletions, links, directories, unreadable files. */
static json_t *list_changes(const struct effects *effects)
{
	json_t *list = json_array();
	const char *path;
	json_t *change;

	json_object_foreach(effects->changes, path, change)
	{
		const char *type = event_text(change, "type");

		if (!type || !streq(type, "file") || !event_text(change, "after") ||
		    event_text(change, "mark") ||
		    streq(event_text(change, "change") ?: "", "deleted")) {
			json_t *copy = statement_plain(change);

			json_object_set_new(copy, "path", plain_text(path));
			json_array_append_new(list, copy);
		}
	}
	return list;
}

static json_t *describe_log(const struct effects *effects)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:o*, s:o*, s:b}", "store", effects->log.store,
			 "run", effects->log.run, "key", effects->log.key, "size",
			 (json_int_t)effects->log.head_size, "root",
			 plain_member(effects->head, "root"), "note",
			 plain_member(effects->head, "note"), "closed", effects->log.is_closed);
}

/* Each argument as text, or as {"base64": ...}. */
static json_t *list_words(const json_t *list)
{
	json_t *words = json_array();
	const json_t *word;
	size_t i;

	json_array_foreach(list, i, word)
	{
		cleanup_buf struct buf bytes = BUF_INIT(RECEIPT_MAX);
		const char *text = json_string_value(word) ?: "";

		if (has_bytes(text)) {
			event_bytes(text, strlen(text), &bytes);
			json_array_append_new(
				words,
				json_pack("{s:o}", "base64", sign_base64(bytes.data, bytes.used)));
		} else {
			json_array_append_new(words, json_string(text));
		}
	}
	return words;
}

/* The input of the job, to run it again. */
static json_t *describe_job(const struct effects *effects)
{
	return json_pack("{s:o, s:o, s:I}", "words",
			 list_words(json_object_get(effects->recipe, "words")), "argv",
			 list_words(json_object_get(effects->recipe, "argv")), "redacted",
			 (json_int_t)event_number(effects->recipe, "redacted", 0));
}

static json_t *describe_hardware(const struct statement_hardware *hardware)
{
	json_t *evidence = json_object();

	if (hardware->tpm)
		json_object_set(evidence, "tpm", hardware->tpm);
	if (hardware->tsm)
		json_object_set(evidence, "tsm", hardware->tsm);
	return evidence;
}

json_t *statement_receipt(const struct effects *effects, const struct statement_hardware *hardware)
{
	json_t *predicate = json_pack(
		"{s:s, s:s, s:I, s:o, s:{s:s}, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, "
		"s:s, "
		"s:o, s:o*}",
		"what", effects->log.what, "atoll",
		event_text(effects->open, "atoll") ?: atoll_version(), "step",
		(json_int_t)effects->step, "steps", list_steps(effects), "contract", "sha256",
		contract_hex(effects), "weaker", list_weaker(effects), "changes",
		list_changes(effects), "denials", statement_plain(effects->denials), "connections",
		statement_plain(effects->connections), "approvals",
		statement_plain(effects->approvals), "limits", statement_plain(effects->limits),
		"flags", statement_plain(effects->flags), "lost", (json_int_t)effects->n_lost,
		"left_out", (json_int_t)effects->n_left_out, "log", describe_log(effects), "root",
		hardware->root, "hardware", describe_hardware(hardware), "job",
		effects->recipe ? describe_job(effects) : NULL);

	return predicate ? make_statement(effects, RECEIPT_PREDICATE, predicate) : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/hash.h"
#include "base/scope.h"
#include "base/str.h"
#include "job/job.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>

/*
 * The words that a job was made of, to make the same contract again
 *
 * A sandbox outlives the process that made it, and a holder builds it again from its record. The
 * recipe has the job file and the options word for word, with the directory and home that relative
 * paths count from. Trust in the file was decided when the sandbox was created. The command is left
 * out: each step has its own, and a replay uses that of its receipt.
 *
 *	"atoll job 1"  HOME  CALLER  { "load" NAME PATH TEXT | "set" KEY VALUE }...
 */

#define RECIPE_MAX (4 << 20)

static const char magic[] = "atoll job 1";

void recipe_begin(struct atoll_job *job, const char *home, const char *caller)
{
	job->recipe = (struct buf)BUF_INIT(RECIPE_MAX);
	recipe_add(job, (const char *const[]){magic, home, caller}, 3);
}

void recipe_add(struct atoll_job *job, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_add(&job->recipe, words[i] ? words[i] : "",
			strlen(words[i] ? words[i] : "") + 1);
}

struct reader {
	const char *at, *end;
	bool is_short;
};

static const char *next(struct reader *reader)
{
	const char *text = reader->at;
	const char *stop = memchr(text, '\0', (size_t)(reader->end - text));

	if (!stop) {
		reader->is_short = true;
		return "";
	}
	reader->at = stop + 1;
	return text;
}

static int follow_load(struct atoll_job *job, struct reader *reader, struct atoll_error *err)
{
	const char *name = next(reader), *path = next(reader), *text = next(reader);

	if (reader->is_short)
		return 0;
	hash_sha256_hex(text, strlen(text), job->file_hash);
	return spec_load(job->spec, name, path[0] ? path : NULL, text, strlen(text), err);
}

static int follow_set(struct atoll_job *job, struct reader *reader, struct atoll_error *err)
{
	const char *key = next(reader), *value = next(reader);

	return reader->is_short ? 0 : atoll_job_set(job, key, value, err);
}

static int follow_all(struct atoll_job *job, struct reader *reader, char *const *argv,
		      struct atoll_error *err)
{
	char *const none[] = {(char *)"sh", NULL};
	int r = 0;

	while (r == 0 && reader->at < reader->end && !reader->is_short) {
		const char *what = next(reader);

		if (streq(what, "load"))
			r = follow_load(job, reader, err);
		else if (streq(what, "set"))
			r = follow_set(job, reader, err);
		else
			reader->is_short = true;
	}
	if (r == 0 && reader->is_short)
		r = error_set(err, ATOLL_FAULT_HOST, EBADMSG, "what the sandbox is made of");
	if (r == 0)
		r = spec_set_command(job->spec, argv ? argv : none, "command line", err);
	return r < 0 ? r : job_finish(job, err);
}

int recipe_without(const char *data, size_t size, const char *key, struct buf *out)
{
	struct reader reader = {.at = data, .end = data + size};

	for (int i = 0; i < 3; i++)
		next(&reader);
	buf_add(out, data, (size_t)(reader.at - data));
	while (reader.at < reader.end && !reader.is_short) {
		const char *first = reader.at, *what = next(&reader), *name = next(&reader);

		next(&reader);
		if (streq(what, "load"))
			next(&reader);
		if (!streq(what, "set") || !streq(name, key))
			buf_add(out, first, (size_t)(reader.at - first));
	}
	return reader.is_short ? -EBADMSG : buf_error(out);
}

static int check_digest(struct atoll_job *job, const char *digest, struct atoll_error *err)
{
	char now[HASH_HEX_SIZE];
	int r = spec_digest(job->spec, now, err);

	if (r < 0 || streq(now, digest))
		return r;
	return error_set(
		err, ATOLL_FAULT_POLICY, ESTALE,
		"the sandbox's contract would not be the one that it was made with (another "
		"version of atoll?); make a new one with `atoll create`");
}

int recipe_follow(const struct recipe *recipe, struct atoll_job **ret, struct atoll_error *err)
{
	const char *data = recipe->words->data ? recipe->words->data : "";
	struct reader reader = {.at = data, .end = data + recipe->words->used};
	const char *first = next(&reader), *home = next(&reader), *caller = next(&reader);
	struct atoll_job *job;
	int r;

	if (reader.is_short || !streq(first, magic))
		return error_set(err, ATOLL_FAULT_HOST, EBADMSG, "what the sandbox is made of");
	job = calloc(1, sizeof *job);
	if (!job)
		return error_oom(err);
	job->recipe = (struct buf)BUF_INIT(RECIPE_MAX);
	job->is_trusted = true;
	job->is_held = recipe->is_held;
	job->spec = spec_new(home, caller, err);
	r = job->spec ? follow_all(job, &reader, recipe->argv, err) : -ENOMEM;
	if (r == 0 && recipe->digest)
		r = check_digest(job, recipe->digest, err);
	if (r < 0) {
		atoll_job_free(job);
		return r;
	}
	*ret = job;
	return 0;
}

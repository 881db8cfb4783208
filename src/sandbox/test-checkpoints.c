/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A new sandbox's record, in a store of its own. */
static struct layer_record *make_record(void)
{
	static char home[256];
	struct layer_record *record = NULL;
	struct atoll_error err = {0};
	char path[300];

	if (!home[0]) {
		close(test_tempdir());
		snprintf(home, sizeof home, "%s", test_tempdir_path());
	}
	setenv("XDG_STATE_HOME", home, 1);
	snprintf(path, sizeof path, "%s/ws", home);
	mkdir(path, 0755);
	CHECK(layer_record_create(ATOLL_RECORD_SANDBOX, path, &record, &err) == 0);
	CHECK(layer_record_save(record, &err) == 0);
	return record;
}

static void write_in_top(const struct layer_record *record, const char *name, const char *text)
{
	char path[64];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof path, "top/upper/%s", name);
	fd = openat(record->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
}

static void end(struct layer_record *record)
{
	CHECK(layer_record_remove(record, NULL) == 0);
	layer_record_close(record);
}

TEST(a_checkpoint_is_a_list_of_layers_under_a_name)
{
	const struct checkpoint_step note = {"make\ntest \x1b[2J", 3};
	struct layer_record *record = make_record();
	struct checkpoints steps;
	struct atoll_error err = {0};
	char name[64];

	CHECK(checkpoints_seal(record, NULL, NULL, name, &err) == 0);
	CHECK_STR(name, "step-1");
	write_in_top(record, "a", "1");
	CHECK(checkpoints_seal(record, "two", &note, name, &err) == 0);
	write_in_top(record, "b", "2");
	CHECK(checkpoints_copy(record, NULL, NULL, name, &err) == 0);
	CHECK_STR(name, "step-3");
	CHECK(record->n_layers == 1); /* the copy is the checkpoint's alone */
	CHECK(checkpoints_read(record, &steps, &err) == 0);
	CHECK(steps.n == 3);
	CHECK(steps.points[0].n_layers == 0 && steps.points[1].n_layers == 1);
	CHECK(steps.points[2].n_layers == 2);
	CHECK_STR(steps.points[2].layers[1], record->layers[0]);
	CHECK_STR(steps.points[1].info.command, "make test  [2J");
	CHECK(steps.points[1].info.status == 3 && steps.points[0].info.status == -1);
	CHECK(steps.points[2].info.is_current && !steps.points[1].info.is_current);
	checkpoints_done(&steps);
	end(record);
}

TEST(a_line_that_a_kill_cut_off_is_none_and_the_next_one_is_whole)
{
	struct layer_record *record = make_record();
	struct checkpoints steps;
	struct atoll_error err = {0};
	cleanup_fd int fd = -1;

	CHECK(checkpoints_seal(record, "one", NULL, NULL, &err) == 0);
	fd = openat(record->fd, "checkpoints", O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK(fd_write_all(fd, "2 17", 4) == 0);
	CHECK(checkpoints_read(record, &steps, &err) == 0 && steps.n == 1);
	checkpoints_done(&steps);
	CHECK(checkpoints_seal(record, "two", NULL, NULL, &err) == 0);
	CHECK(checkpoints_read(record, &steps, &err) == 0 && steps.n == 2);
	CHECK_STR(steps.points[1].info.name, "two");
	checkpoints_done(&steps);
	/* A line whose writer could not save the number in the record. */
	CHECK(fd_write_all(fd, "2 17 -1 again - \n", 17) == 0);
	CHECK(checkpoints_read(record, &steps, &err) == 0 && steps.n == 2);
	CHECK_STR(steps.points[1].info.name, "again");
	checkpoints_done(&steps);
	end(record);
}

TEST(going_back_takes_the_layers_and_leaves_nothing_on_top)
{
	struct layer_record *record = make_record();
	struct atoll_error err = {0};
	struct stat st;

	write_in_top(record, "a", "1");
	CHECK(checkpoints_seal(record, "one", NULL, NULL, &err) == 0);
	write_in_top(record, "b", "2");
	CHECK(checkpoints_seal(record, "two", NULL, NULL, &err) == 0);
	write_in_top(record, "c", "3");
	CHECK(checkpoints_return(record, "none", &err) == -ENOENT);
	CHECK(fstatat(record->fd, "top/upper/c", &st, 0) == 0); /* nothing was changed */
	CHECK(checkpoints_return(record, "one", &err) == 0);
	CHECK(record->n_layers == 1 && layer_top_is_empty(record));
	CHECK(checkpoints_return(record, "two", &err) == 0);
	CHECK(record->n_layers == 2);
	end(record);
}

TEST(names_that_a_checkpoint_cannot_have)
{
	struct layer_record *record = make_record();
	static const char *const bad[] = {"", "a b", "a/b", "a\nb", "step-1", "\xc3\xa9"};
	struct atoll_error err = {0};

	CHECK(checkpoints_seal(record, "one", NULL, NULL, &err) == 0);
	CHECK(checkpoints_seal(record, "one", NULL, NULL, &err) == -EEXIST);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(checkpoints_seal(record, bad[i], NULL, NULL, &err) < 0);
	CHECK(checkpoints_seal(record, "step-x", NULL, NULL, &err) == 0);
	CHECK(record->info.n_checkpoints == 2);
	end(record);
}

/* ---- what a sandbox is made of ---- */

static struct atoll_job *make_job(void)
{
	char *const none[] = {(char *)"sh", NULL};
	struct atoll_error err = {0};
	struct atoll_job *job;

	CHECK(chdir("/tmp") == 0);
	job = atoll_job_new(&err);
	CHECK(job != NULL);
	CHECK(atoll_job_set(job, "workspace", "/tmp/x", &err) == 0);
	CHECK(atoll_job_set(job, "memory", "128M", &err) == 0);
	CHECK(atoll_job_set(job, "env", "A=b c", &err) == 0);
	CHECK(spec_set_command(job->spec, none, "command line", &err) == 0);
	CHECK(job_finish(job, &err) == 0);
	return job;
}

static int follow(const struct buf *words, const char *digest, struct atoll_job **ret,
		  struct atoll_error *err)
{
	return recipe_follow(&(struct recipe){.words = words, .digest = digest}, ret, err);
}

TEST(a_job_can_be_made_again_from_its_recipe)
{
	struct atoll_job *job = make_job(), *again = NULL;
	struct atoll_error err = {0};
	char digest[65], other[65];

	CHECK(spec_digest(job->spec, digest, &err) == 0);
	CHECK(follow(&job->recipe, digest, &again, &err) == 0);
	CHECK(spec_digest(again->spec, other, &err) == 0);
	CHECK_STR(digest, other);
	CHECK(again->spec->limits[SPEC_MEMORY].value == 128U << 20);
	atoll_job_free(again);
	digest[0] = digest[0] == 'a' ? 'b' : 'a';
	CHECK(follow(&job->recipe, digest, &again, &err) == -ESTALE);
	atoll_job_free(job);
}

TEST(a_recipe_that_is_cut_off_or_changed_makes_no_other_contract)
{
	struct atoll_job *job = make_job(), *again;
	struct atoll_error err = {0};
	char digest[65];

	CHECK(spec_digest(job->spec, digest, &err) == 0);
	for (size_t size = 0; size < job->recipe.used; size++) {
		struct buf part = job->recipe;

		part.used = size;
		again = NULL;
		CHECK(follow(&part, digest, &again, &err) < 0);
		CHECK(again == NULL);
	}
	atoll_job_free(job);
}

/* The test itself is one of atoll's programs here, and lies in the workspace. */
TEST(a_job_of_a_step_has_the_same_digest_without_the_lines_of_own_programs)
{
	char here[PATH_MAX] = "", digest[65], *const none[] = {(char *)"sh", NULL};
	struct atoll_job *job, *full = NULL, *held = NULL;
	struct atoll_error err = {0};
	struct recipe recipe = {.digest = digest};

	CHECK(readlink("/proc/self/exe", here, sizeof here - 1) > 0);
	*strrchr(here, '/') = '\0';
	job = atoll_job_new(&err);
	CHECK(job != NULL);
	CHECK(atoll_job_set(job, "workspace", here, &err) == 0);
	CHECK(atoll_job_set(job, "mode", "direct", &err) == 0);
	CHECK(spec_set_command(job->spec, none, "command line", &err) == 0);
	CHECK(job_finish(job, &err) == 0);
	CHECK(spec_digest(job->spec, digest, &err) == 0);
	recipe.words = &job->recipe;
	CHECK(recipe_follow(&recipe, &full, &err) == 0);
	recipe.is_held = true;
	CHECK(recipe_follow(&recipe, &held, &err) == 0);
	CHECK(full->spec->n_rules == job->spec->n_rules);
	CHECK(held->spec->n_rules < full->spec->n_rules);
	atoll_job_free(held);
	atoll_job_free(full);
	atoll_job_free(job);
}

TEST(a_recipe_without_a_key_is_the_rest)
{
	struct atoll_job *job = make_job(), *again = NULL;
	cleanup_buf struct buf words = BUF_INIT(1 << 20), cut = BUF_INIT(1 << 20);
	struct atoll_error err = {0};

	recipe_add(job, (const char *const[]){"set", "env", "write-at"}, 3);
	recipe_add(job, (const char *const[]){"load", "set", "write-at", "x: {}"}, 4);
	CHECK(recipe_without(job->recipe.data, job->recipe.used, "none", &words) == 0);
	CHECK(words.used == job->recipe.used);
	CHECK(memcmp(words.data, job->recipe.data, words.used) == 0);
	CHECK(recipe_without(job->recipe.data, job->recipe.used - 1, "none", &cut) == -EBADMSG);
	atoll_job_free(job);

	job = make_job();
	buf_done(&cut);
	cut = (struct buf)BUF_INIT(1 << 20);
	recipe_add(job, (const char *const[]){"set", "write-at", "/d=/srv/d"}, 3);
	CHECK(recipe_without(job->recipe.data, job->recipe.used, "write-at", &cut) == 0);
	CHECK(follow(&cut, NULL, &again, &err) == 0);
	CHECK(again->spec->n_moved == 0);
	CHECK(again->spec->limits[SPEC_MEMORY].value == 128U << 20);
	atoll_job_free(again);
	CHECK(follow(&job->recipe, NULL, &again, &err) == 0);
	CHECK(again->spec->n_moved == 1);
	atoll_job_free(again);
	atoll_job_free(job);
}

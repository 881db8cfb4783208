/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/str.h"
#include "base/test.h"

#include <errno.h>

#define TEXT_MAX (sizeof((struct atoll_error *)0)->text - 1)

/* `size` letters; good until the next call. */
static const char *letters(char letter, size_t size)
{
	static char text[2048];

	memset(text, letter, size);
	text[size] = '\0';
	return text;
}

TEST(the_words_of_the_errno_stand_behind_the_text)
{
	struct atoll_error err = {0};

	CHECK_INT(error_set(&err, ATOLL_FAULT_HOST, ENOENT, "open '%s'", "x"), -ENOENT);
	CHECK_STR(err.text, "open 'x': No such file or directory");
	CHECK_INT(err.fault, ATOLL_FAULT_HOST);
	CHECK_INT(err.errnum, ENOENT);
}

TEST(without_an_errno_the_text_stands_alone)
{
	struct atoll_error err = {.errnum = ENOENT};

	error_set(&err, ATOLL_FAULT_REQUEST, 0, "no command");
	CHECK_STR(err.text, "no command");
	CHECK_INT(err.errnum, 0);
}

TEST(without_an_errno_the_fault_decides_what_is_returned)
{
	struct atoll_error err;

	CHECK_INT(error_set(&err, ATOLL_FAULT_REQUEST, 0, "x"), -EINVAL);
	CHECK_INT(error_set(&err, ATOLL_FAULT_POLICY, 0, "x"), -EPERM);
	CHECK_INT(error_set(&err, ATOLL_FAULT_HOST, 0, "x"), -ENOTSUP);
	CHECK_INT(error_set(&err, ATOLL_FAULT_BUG, 0, "x"), -ENOTRECOVERABLE);
	CHECK(error_set(&err, ATOLL_FAULT_JOB, 0, "x") < 0);
}

TEST(an_errno_without_words_is_told_by_number)
{
	struct atoll_error err = {0};

	CHECK_INT(error_set(&err, ATOLL_FAULT_HOST, 9999, "call"), -9999);
	CHECK_STR(err.text, "call: error 9999");
}

TEST(a_second_failure_replaces_the_first)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_HOST, EIO, "a much longer story");
	error_set(&err, ATOLL_FAULT_POLICY, 0, "short");
	CHECK_STR(err.text, "short");
	CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
}

TEST(nobody_has_to_want_the_story)
{
	CHECK_INT(error_set(NULL, ATOLL_FAULT_HOST, ENOENT, "open"), -ENOENT);
	CHECK_INT(error_set(NULL, ATOLL_FAULT_POLICY, 0, "no"), -EPERM);
	CHECK_INT(error_context(NULL, -EIO, "prepare"), -EIO);
	CHECK_INT(error_oom(NULL), -ENOMEM);
}

TEST(a_text_that_is_too_long_is_cut)
{
	struct atoll_error err = {0};

	CHECK_INT(error_set(&err, ATOLL_FAULT_HOST, ENOENT, "%s", letters('x', 2000)), -ENOENT);
	CHECK_INT(strlen(err.text), TEXT_MAX);
	CHECK_STR(err.text, letters('x', TEXT_MAX));
	CHECK_INT(err.errnum, ENOENT);
}

TEST(words_that_do_not_fit_are_cut)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_HOST, ENOENT, "%s", letters('x', TEXT_MAX - 5));
	CHECK_INT(strlen(err.text), TEXT_MAX);
	CHECK(ends_with(err.text, "x: No "));
}

TEST(context_stands_in_front_and_the_code_passes_through)
{
	struct atoll_error err = {0};
	int code = error_set(&err, ATOLL_FAULT_POLICY, ENOTDIR, "open layer '%s'", "b7");

	CHECK_INT(error_context(&err, code, "prepare job %s", "build-7"), -ENOTDIR);
	CHECK_STR(err.text, "prepare job build-7: open layer 'b7': Not a directory");
	CHECK_INT(error_context(&err, -7, "run"), -7);
	CHECK_STR(err.text, "run: prepare job build-7: open layer 'b7': Not a directory");
}

TEST(context_changes_neither_fault_nor_errno)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_POLICY, EACCES, "x");
	error_context(&err, -EIO, "y");
	CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
	CHECK_INT(err.errnum, EACCES);
}

TEST(context_in_front_of_a_full_story_cuts_its_end)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_HOST, 0, "%s", letters('x', 2000));
	error_context(&err, -EIO, "ctx");
	CHECK_INT(strlen(err.text), TEXT_MAX);
	CHECK(starts_with(err.text, "ctx: xxx"));
	CHECK(ends_with(err.text, "x"));
	error_context(&err, -EIO, "%s", letters('y', 2000));
	CHECK_STR(err.text, letters('y', TEXT_MAX));
}

TEST(percent_signs_in_a_story_are_only_text)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_REQUEST, 0, "%s", "%s%n%d");
	error_context(&err, -EINVAL, "%s", "%x");
	CHECK_STR(err.text, "%x: %s%n%d");
}

TEST(running_out_of_memory_is_the_hosts_fault)
{
	struct atoll_error err = {0};

	CHECK_INT(error_oom(&err), -ENOMEM);
	CHECK_INT(err.fault, ATOLL_FAULT_HOST);
	CHECK_STR(err.text, "allocate: Cannot allocate memory");
}

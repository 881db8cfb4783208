/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/environment-block.h"

#include <errno.h>
#include <stdlib.h>

static void check_block(const char *const *env, const char *want, size_t size)
{
	cleanup_free char *block = NULL;

	CHECK_INT(nt_environment_block(env, &block), (int)size);
	CHECK(memcmp(block, want, size) == 0);
}

TEST(variables_are_sorted_without_case_and_later_ones_win)
{
	static const char want[] = "=C:=C:\\x\0A=3\0b=2\0PATH=y\0";

	check_block(
		(const char *const[]){"Path=x", "b=2", "a=1", "=C:=C:\\x", "PATH=y", "A=3", NULL},
		want, sizeof want);
}

TEST(an_underscore_comes_behind_the_letters)
{
	static const char want[] = "AB=1\0A_=2\0";

	check_block((const char *const[]){"a_=2", "ab=1", NULL}, "ab=1\0a_=2\0", sizeof want);
	CHECK(nt_environment_compare("ab", "A_") < 0);
	CHECK(nt_environment_compare("A", "AB") < 0);
	CHECK_INT(nt_environment_compare("Path", "PATH"), 0);
}

TEST(an_empty_block_has_two_nuls)
{
	check_block((const char *const[]){NULL}, "\0\0", 2);
}

TEST(entries_without_a_name_are_refused)
{
	char *block;

	CHECK_INT(nt_environment_block((const char *const[]){"A", NULL}, &block), -EINVAL);
	CHECK_INT(nt_environment_block((const char *const[]){"", NULL}, &block), -EINVAL);
	CHECK_INT(nt_environment_block((const char *const[]){"=", NULL}, &block), -EINVAL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/command-line.h"

#include <errno.h>
#include <stdlib.h>

static void check_line(const char *const *argv, const char *want)
{
	cleanup_free char *line = NULL;
	cleanup_free char **back = NULL;
	int n;

	CHECK_INT(nt_command_line(argv, &line), 0);
	CHECK_STR(line, want);
	n = nt_command_split(line, &back);
	for (int i = 0; i < n; i++)
		CHECK_STR(back[i], argv[i]);
	CHECK(!argv[n]);
}

TEST(arguments_come_out_as_they_went_in)
{
	check_line((const char *const[]){"a.exe", NULL}, "\"a.exe\"");
	check_line((const char *const[]){"C:\\my dir\\a.exe", "x", "", NULL},
		   "\"C:\\my dir\\a.exe\" x \"\"");
	check_line(
		(const char *const[]){"a", "b c", "d\"e", "f\\", "g h\\", "i\\\"j", "\\\\k", NULL},
		"\"a\" \"b c\" \"d\\\"e\" f\\ \"g h\\\\\" \"i\\\\\\\"j\" \\\\k");
}

TEST(two_quotes_within_quotes_are_one)
{
	cleanup_free char **argv = NULL;

	CHECK_INT(nt_command_split("a \"b\"\"c\" d", &argv), 3);
	CHECK_STR(argv[1], "b\"c");
	CHECK_STR(argv[2], "d");
}

TEST(program_names_with_quotes_are_refused)
{
	char *line;

	CHECK_INT(nt_command_line((const char *const[]){"a\"b", NULL}, &line), -EINVAL);
	CHECK_INT(nt_command_line((const char *const[]){"", NULL}, &line), -EINVAL);
}

TEST(batch_files_get_harmless_arguments_only)
{
	cleanup_free char *line = NULL;

	CHECK_INT(nt_command_line((const char *const[]){"x.BAT", "a&calc", NULL}, &line), -EPERM);
	CHECK_INT(nt_command_line((const char *const[]){"x.cmd. ", "%PATH%", NULL}, &line), -EPERM);
	CHECK_INT(nt_command_line((const char *const[]){"x.cmd", "a b", NULL}, &line), -EPERM);
	CHECK_INT(nt_command_line((const char *const[]){"x.cmd", "--a/b.c", NULL}, &line), 0);
}

TEST(long_command_lines_are_refused)
{
	static char text[NT_COMMAND_LINE_MAX + 1];
	char *line;

	memset(text, 'a', sizeof text - 1);
	CHECK_INT(nt_command_line((const char *const[]){"a", text, NULL}, &line), -E2BIG);
}

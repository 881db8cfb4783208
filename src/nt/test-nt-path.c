/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/nt-path.h"

#include <stdlib.h>

static char written[32768];

static void check_path(const char *text, const char *want)
{
	CHECK_INT(nt_path_read(text, written, sizeof written), NT_PATH_OK);
	CHECK_STR(written, want);
	/* The one form is read as itself. */
	CHECK_INT(nt_path_read(want, written, sizeof written), NT_PATH_OK);
	CHECK_STR(written, want);
}

static void check_refused(const char *text, enum nt_path_problem want)
{
	CHECK_INT(nt_path_read(text, written, sizeof written), want);
	CHECK(nt_path_explain(want));
}

TEST(absolute_paths_have_one_form)
{
	check_path("c:\\a\\.\\b\\..\\c", "C:\\a\\c");
	check_path("C:/Users/Ada/", "C:\\Users\\Ada");
	check_path("C:\\", "C:\\");
	check_path("C:\\a\\..", "C:\\");
	check_path("C:\\\\a", "C:\\a");
	check_path("\\\\?\\C:\\a b", "C:\\a b");
	check_path("//server/share/x/../y", "\\\\server\\share\\y");
	check_path("\\\\?\\unc\\server\\share\\x", "\\\\server\\share\\x");
	check_path("\\\\server\\share", "\\\\server\\share\\");
	check_path("C:\\\xc3\xa4\\.git", "C:\\\xc3\xa4\\.git");
}

TEST(paths_that_depend_on_something_are_refused)
{
	check_refused("", NT_PATH_EMPTY);
	check_refused("a\\b", NT_PATH_RELATIVE);
	check_refused("\\a", NT_PATH_RELATIVE);
	check_refused("C:a", NT_PATH_RELATIVE);
	check_refused("C:", NT_PATH_RELATIVE);
	check_refused("1:\\a", NT_PATH_RELATIVE);
}

TEST(devices_are_refused_in_every_spelling)
{
	static const char *const devices[] = {"\\\\.\\PhysicalDrive0",
					      "\\??\\C:\\a",
					      "\\\\?\\GLOBALROOT\\Device",
					      "//./C:/a",
					      "//?/C:/a",
					      "\\\\?\\Volume{1}\\a",
					      "C:\\NUL",
					      "C:\\nul.txt",
					      "C:\\a\\Com1",
					      "C:\\lpt9.x.y",
					      "C:\\COM\xc2\xb2",
					      "C:\\CONIN$",
					      "C:\\aux .txt",
					      "\\\\server\\share\\con"};

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		check_refused(devices[i], NT_PATH_DEVICE);
	check_path("C:\\COM", "C:\\COM");
	check_path("C:\\COM10", "C:\\COM10");
	check_path("C:\\nullable", "C:\\nullable");
}

TEST(streams_short_names_and_rewritten_names_are_refused)
{
	check_refused("C:\\a:b", NT_PATH_STREAM);
	check_refused("C:\\a::$DATA", NT_PATH_STREAM);
	check_refused("C:\\PROGRA~1\\x", NT_PATH_SHORT_NAME);
	check_refused("C:\\GIT~1", NT_PATH_SHORT_NAME);
	check_refused("C:\\ABCDEF~1.TXT", NT_PATH_SHORT_NAME);
	check_path("C:\\backup~", "C:\\backup~");
	check_path("C:\\long-name~1", "C:\\long-name~1");
	check_refused("C:\\a.", NT_PATH_TRAILING);
	check_refused("C:\\a \\b", NT_PATH_TRAILING);
	check_refused("C:\\a\\...", NT_PATH_TRAILING);
	check_refused("C:\\a*", NT_PATH_CHARACTER);
	check_refused("C:\\a\x01", NT_PATH_CHARACTER);
	check_refused("C:\\\xff", NT_PATH_ENCODING);
	check_refused("\\\\?\\C:\\a/b", NT_PATH_CHARACTER);
}

TEST(paths_do_not_lead_above_their_root)
{
	check_refused("C:\\..", NT_PATH_ABOVE_ROOT);
	check_refused("C:\\a\\..\\..\\b", NT_PATH_ABOVE_ROOT);
	check_refused("\\\\server\\share\\..", NT_PATH_ABOVE_ROOT);
	check_refused("\\\\?\\C:\\a\\..", NT_PATH_ABOVE_ROOT);
	check_refused("\\\\server", NT_PATH_SHARE);
	check_refused("\\\\server\\", NT_PATH_SHARE);
	check_refused("\\\\server\\..", NT_PATH_SHARE);
}

TEST(long_paths_and_names_are_refused)
{
	char name[300] = "C:\\";

	memset(name + 3, 'a', 256);
	check_refused(name, NT_PATH_TOO_LONG);
	name[3 + 255] = '\0';
	check_path(name, name);
	CHECK_INT(nt_path_read("C:\\abc", written, 5), NT_PATH_TOO_LONG);
}

TEST(paths_compare_without_case)
{
	CHECK(nt_path_equal("C:\\Users\\Ada", "c:\\USERS\\ada"));
	CHECK(!nt_path_equal("C:\\Users\\Ada", "C:\\Users\\Ad"));
	CHECK(nt_path_is_within("C:\\p\\.git\\config", "c:\\P"));
	CHECK(nt_path_is_within("C:\\p", "C:\\p"));
	CHECK(nt_path_is_within("C:\\p", "C:\\"));
	CHECK(!nt_path_is_within("C:\\project", "C:\\p"));
	CHECK(!nt_path_is_within("D:\\p", "C:\\"));
}

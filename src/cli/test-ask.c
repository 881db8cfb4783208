/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "cli/ask.h"

TEST(a_question_names_who_whom_and_what_does_not_list_it)
{
	const struct atoll_question question = {
		.name = "evil\033.test", .program = "py\nthon", .port = 443, .file = "/w/job.yaml"};
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	ask_text(&question, out);
	fclose(out);
	CHECK_STR(have, "atoll: py\\nthon wants to connect to evil\\x1b.test, port 443, which "
			"/w/job.yaml does not list.\n");
}

TEST(only_a_clear_answer_is_a_yes)
{
	CHECK_INT(ask_meaning("o\n"), ATOLL_ASK_ONCE);
	CHECK_INT(ask_meaning("R\n"), ATOLL_ASK_RUN);
	CHECK_INT(ask_meaning("always\r\n"), ATOLL_ASK_ALWAYS);
	CHECK_INT(ask_meaning("\n"), ATOLL_ASK_NO);
	CHECK_INT(ask_meaning(""), ATOLL_ASK_NO);
	CHECK_INT(ask_meaning("n\n"), ATOLL_ASK_NO);
	CHECK_INT(ask_meaning("yes\n"), ATOLL_ASK_NO);
	CHECK_INT(ask_meaning("o \n"), ATOLL_ASK_NO);
	CHECK_INT(ask_meaning("alwaysx\n"), ATOLL_ASK_NO);
}

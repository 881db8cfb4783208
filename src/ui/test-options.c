/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/test.h"
#include "ui/options.h"

#include <atoll/error.h>

static const struct option table[] = {
	{.help = "A heading"},
	{"read", 0, "PATH", "a value", 1},
	{"file", 'f', "FILE", "a value, and a letter", 2},
	{"plan", 'p', NULL, "a switch", 3},
	{0},
};

/* String literals are const, and arguments of main() are not. */
#define READER(...)                                                                                \
	{                                                                                          \
		"run", table, (char **)(const char *[])                                            \
		{                                                                                  \
			__VA_ARGS__, NULL                                                          \
		}                                                                                  \
	}

static const struct option *option;
static const char *value;
static struct atoll_error err;

TEST(a_value_stands_behind_or_after_an_equals_sign)
{
	struct options options = READER("--read", "/a", "--read=/b=c", "-f", "x", "-fy", "--file=");

	CHECK_INT(options_next(&options, &option, &value, &err), 1);
	CHECK_INT(option->id, 1);
	CHECK_STR(value, "/a");
	CHECK_INT(options_next(&options, &option, &value, &err), 1);
	CHECK_STR(value, "/b=c");
	CHECK_INT(options_next(&options, &option, &value, &err), 1);
	CHECK_INT(option->id, 2);
	CHECK_STR(value, "x");
	CHECK_INT(options_next(&options, &option, &value, &err), 1);
	CHECK_STR(value, "y");
	CHECK_INT(options_next(&options, &option, &value, &err), 1);
	CHECK_STR(value, "");
	CHECK_INT(options_next(&options, &option, &value, &err), 0);
	CHECK(!*options.next);
}

TEST(reading_stops_at_two_dashes_and_skips_them)
{
	struct options options = READER("--plan", "--", "--plan");

	CHECK_INT(options_next(&options, &option, &value, &err), 1);
	CHECK(!value);
	CHECK_INT(options_next(&options, &option, &value, &err), 0);
	CHECK_STR(*options.next, "--plan");
}

TEST(reading_stops_at_the_first_word)
{
	struct options options = READER("ls", "--plan");
	struct options dash = READER("-", "--plan");

	CHECK_INT(options_next(&options, &option, &value, &err), 0);
	CHECK_STR(*options.next, "ls");
	CHECK_INT(options_next(&dash, &option, &value, &err), 0);
	CHECK_STR(*dash.next, "-");
}

TEST(an_unknown_option_is_refused_with_a_suggestion)
{
	struct options options = READER("--raed=x");
	struct options far = READER("--zzzzzzzzz");
	struct options letter = READER("-z");
	struct options bundle = READER("-pf");
	struct options none = READER("--=x");

	CHECK(options_next(&options, &option, &value, &err) < 0);
	CHECK_STR(err.text, "unknown option '--raed'; did you mean '--read'?");
	CHECK_INT(err.fault, ATOLL_FAULT_REQUEST);
	CHECK(options_next(&far, &option, &value, &err) < 0);
	CHECK_STR(err.text, "unknown option '--zzzzzzzzz'; for a list: atoll run --help");
	CHECK(options_next(&letter, &option, &value, &err) < 0);
	CHECK(options_next(&bundle, &option, &value, &err) < 0);
	CHECK(options_next(&none, &option, &value, &err) < 0);
}

TEST(a_missing_or_superfluous_value_is_refused)
{
	struct options end = READER("--read");
	struct options dashes = READER("--read", "--", "ls");
	struct options letter = READER("-f");
	struct options plain = READER("--plan=yes");

	CHECK(options_next(&end, &option, &value, &err) < 0);
	CHECK_STR(err.text, "option '--read' needs a value: --read PATH");
	CHECK(options_next(&dashes, &option, &value, &err) < 0);
	CHECK(options_next(&letter, &option, &value, &err) < 0);
	CHECK(options_next(&plain, &option, &value, &err) < 0);
	CHECK_STR(err.text, "option '--plan' takes no value");
}

TEST(what_is_no_option_before_the_dashes_is_the_id_once)
{
	struct options both = READER("-p", "box", "-f", "x", "ls", "-l");
	struct options dashes = READER("-p", "--", "ls");
	struct options known = READER("-p", "ls");
	const char *id = NULL;

	CHECK_INT(options_next_or_id(&both, &id, &option, &value, &err), 1);
	CHECK(!id);
	CHECK_INT(options_next_or_id(&both, &id, &option, &value, &err), 1);
	CHECK_STR(id, "box");
	CHECK_STR(value, "x");
	CHECK_INT(options_next_or_id(&both, &id, &option, &value, &err), 0);
	CHECK_STR(*both.next, "ls");
	id = NULL;
	CHECK_INT(options_next_or_id(&dashes, &id, &option, &value, &err), 1);
	CHECK_INT(options_next_or_id(&dashes, &id, &option, &value, &err), 0);
	CHECK(!id);
	CHECK_STR(*dashes.next, "ls");
	CHECK_INT(options_next_or_id(&known, NULL, &option, &value, &err), 1);
	CHECK_INT(options_next_or_id(&known, NULL, &option, &value, &err), 0);
	CHECK_STR(*known.next, "ls");
}

struct line {
	bool is_help;
	int n, fails_at;
};

static int add_option(void *data, const struct option *taken, const char *text,
		      struct atoll_error *message)
{
	struct line *line = data;

	(void)text;
	line->is_help |= taken->letter == 'p';
	return ++line->n == line->fails_at ? error_set(message, ATOLL_FAULT_REQUEST, 0, "no") : 0;
}

TEST(a_line_is_read_to_its_command_or_to_what_fails)
{
	struct options whole = READER("-f", "x", "box", "-f", "y", "--", "ls", "-f");
	struct options help = READER("-p", "ls");
	struct options bad = READER("-f", "x", "box", "-f", "y", "ls");
	struct line line = {0};
	const char *id = NULL;

	CHECK_INT(options_read_with_id(&whole, &id, &line.is_help, add_option, &line, &err), 0);
	CHECK_STR(id, "box");
	CHECK_STR(*whole.next, "ls");
	CHECK_INT(line.n, 2);
	id = NULL;
	CHECK_INT(options_read_with_id(&help, &id, &line.is_help, add_option, &line, &err), 0);
	CHECK(!id && line.is_help);
	CHECK_STR(*help.next, "ls");
	line = (struct line){.fails_at = 2};
	CHECK(options_read_with_id(&bad, &id, &line.is_help, add_option, &line, &err) < 0);
	CHECK_STR(err.text, "no");
}

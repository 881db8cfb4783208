/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/test.h"
#include "spec/spec-inner.h"

static void free_spec(struct spec **spec)
{
	spec_free(*spec);
}
#define cleanup_spec cleanup_with(free_spec)

static struct spec *job_in(const char *caller)
{
	char *argv[] = {(char *)"true", NULL};
	struct spec *spec = spec_new("/home/u", caller, NULL);

	CHECK(spec && spec_set_command(spec, argv, "--", NULL) == 0);
	return spec;
}

static struct spec *job(void)
{
	return job_in("/home/u/p");
}

static void add(struct spec *spec, enum spec_access access, const char *path)
{
	static const char *const flags[] = {"--read", "--write", "--hide", "--protect"};
	struct atoll_error err = {0};

	if (spec_add_rule(spec, access, path, flags[access], &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
}

static void finish(struct spec *spec)
{
	struct atoll_error err = {0};

	if (spec_finish(spec, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
}

static const char *answer(const struct spec *spec, const char *path)
{
	const struct spec_rule *rule = spec_rule_for(spec, path);

	return rule ? spec_access_word(rule->access) : "nothing";
}

TEST(defaults_show_the_system_and_not_the_home)
{
	cleanup_spec struct spec *spec = job();

	finish(spec);
	CHECK_STR(answer(spec, "/usr/bin/cc"), "read");
	CHECK_STR(answer(spec, "/etc/passwd"), "read");
	CHECK_STR(answer(spec, "/etc/shadow"), "hide");
	CHECK_STR(answer(spec, "/etc/ssl/private/key.pem"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/src/a.c"), "write");
	CHECK_STR(answer(spec, "/home/u/px"), "nothing");
	CHECK_STR(answer(spec, "/home/u"), "nothing");
	CHECK_STR(answer(spec, "/home/u/.cargo/bin/cargo"), "read");
	CHECK_STR(answer(spec, "/home/u/.ssh/id_rsa"), "hide");
	CHECK_STR(answer(spec, "/home/other/x"), "nothing");
	CHECK_STR(answer(spec, "/"), "nothing");
}

TEST(the_most_specific_line_wins_and_a_tie_is_settled)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_READ, "/srv/a");
	add(spec, SPEC_HIDE, "/srv/a/b");
	add(spec, SPEC_WRITE, "/srv/a/b/c");
	add(spec, SPEC_WRITE, "/srv/t");
	add(spec, SPEC_READ, "/srv/t");
	add(spec, SPEC_READ, "/srv/h");
	add(spec, SPEC_HIDE, "/srv/h");
	finish(spec);
	CHECK_STR(answer(spec, "/srv/a/x"), "read");
	CHECK_STR(answer(spec, "/srv/a/b/x"), "hide");
	CHECK_STR(answer(spec, "/srv/a/b/c/x"), "write");
	CHECK_STR(answer(spec, "/srv/t/x"), "read");
	CHECK_STR(answer(spec, "/srv/h/x"), "hide");
}

TEST(a_pattern_hides_at_any_depth)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_HIDE, ".env*");
	add(spec, SPEC_HIDE, "deploy/*.key");
	add(spec, SPEC_HIDE, "/srv/**/secret");
	add(spec, SPEC_READ, "/srv");
	finish(spec);
	CHECK_STR(answer(spec, "/home/u/p/.env"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/a/b/.env.local"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/a/.environment/x"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/env"), "write");
	CHECK_STR(answer(spec, "/home/u/p/deploy/a.key"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/deploy/x/a.key"), "write");
	CHECK_STR(answer(spec, "/srv/secret"), "hide");
	CHECK_STR(answer(spec, "/srv/a/b/secret/c"), "hide");
	CHECK_STR(answer(spec, "/srv/a/secrets"), "read");
}

TEST(a_grant_beneath_a_match_does_not_uncover_the_next_match)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_HIDE, "**/.env");
	add(spec, SPEC_READ, ".env/public");
	finish(spec);
	CHECK_STR(answer(spec, "/home/u/p/.env/x"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/.env/public/x"), "read");
	CHECK_STR(answer(spec, "/home/u/p/.env/public/.env"), "hide");
}

TEST(a_literal_line_wins_over_a_pattern_at_the_same_depth)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_HIDE, "*.key");
	add(spec, SPEC_READ, "public.key");
	finish(spec);
	CHECK_STR(answer(spec, "/home/u/p/private.key"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/public.key"), "read");
}

TEST(an_explicit_line_takes_the_place_of_a_default_at_the_same_path)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_READ, "~/.npmrc");
	finish(spec);
	CHECK_STR(answer(spec, "/home/u/.npmrc"), "read");
	CHECK_STR(answer(spec, "/home/u/.netrc"), "hide");
}

TEST(a_grant_above_a_default_hide_does_not_uncover_it)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_READ, "~/.config");
	finish(spec);
	CHECK_STR(answer(spec, "/home/u/.config/nvim"), "read");
	CHECK_STR(answer(spec, "/home/u/.config/gh/hosts.yml"), "hide");
}

TEST(flags_take_special_characters_in_grants_literally)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_READ, "/srv/*");
	add(spec, SPEC_WRITE, "[a]");
	finish(spec);
	CHECK_STR(answer(spec, "/srv/*/x"), "read");
	CHECK_STR(answer(spec, "/srv/b"), "nothing");
	CHECK_STR(answer(spec, "/home/u/p/[a]/x"), "write");
}

TEST(an_escaped_star_in_hide_is_a_star)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_HIDE, "\\*");
	finish(spec);
	CHECK_STR(answer(spec, "/home/u/p/*"), "hide");
	CHECK_STR(answer(spec, "/home/u/p/a"), "write");
}

TEST(patterns_hold_in_a_workspace_whose_name_is_one)
{
	cleanup_spec struct spec *spec = job_in("/home/u/[a]*?");

	add(spec, SPEC_HIDE, "*.key");
	finish(spec);
	CHECK_STR(answer(spec, "/home/u/[a]*?/x/a.key"), "hide");
	CHECK_STR(answer(spec, "/home/u/[a]*?/x/a"), "write");
	CHECK_STR(answer(spec, "/home/u/abc/a.key"), "nothing");
}

TEST(protect_holds_beneath_and_by_pattern)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_PROTECT, "vendor");
	add(spec, SPEC_PROTECT, "*.lock");
	finish(spec);
	CHECK_STR(spec_is_protected(spec, "/home/u/p/vendor/a"), "protect: /home/u/p/vendor");
	CHECK(spec_is_protected(spec, "/home/u/p/x/cargo.lock"));
	CHECK(!spec_is_protected(spec, "/home/u/p/src/a.c"));
	CHECK_STR(answer(spec, "/home/u/p/vendor/a"), "write");
}

TEST(trusted_names_are_protected_unless_they_are_a_root)
{
	cleanup_spec struct spec *spec = job();

	add(spec, SPEC_WRITE, "b/.vscode");
	finish(spec);
	CHECK(spec_is_protected(spec, "/home/u/p/a/.vscode/settings.json"));
	CHECK(!spec_is_protected(spec, "/home/u/p/b/.vscode/settings.json"));
	CHECK(!spec_is_protected(spec, "/usr/.vscode"));
}

TEST(the_deepest_match_of_a_pattern_counts)
{
	CHECK_INT(place_match_depth("/a/**/b", "/a/b/c/b/d"), 4);
	CHECK_INT(place_match_depth("/a/**/b", "/a/b"), 2);
	CHECK_INT(place_match_depth("/a/**/b", "/a/c"), 0);
	CHECK_INT(place_match_depth("/a/**", "/a/b/c"), 3);
	CHECK_INT(place_match_depth("/a/*", "/a/b/c"), 2);
	CHECK_INT(place_match_depth("/**/**/x", "/x"), 1);
	CHECK_INT(place_match_depth("/a/[bc]", "/a/c"), 2);
}

TEST(a_name_that_a_line_hides_is_never_taken_for_a_free_one)
{
	static const char *const hidden[] = {".env", "a.key", "plain", "deep",
					     "[x]y", "xz",    ".netrc"};
	static const char *const lines[] = {"**/.env",	    "**/*.key",	 "src/plain",
					    "/srv/**/deep", "**/[[]x]y", "**/x?"};
	cleanup_spec struct spec *spec = job();
	struct spec_hidden set;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		add(spec, SPEC_HIDE, lines[i]);
	finish(spec);
	spec_hidden_prepare(spec, &set);
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		if (!spec_hidden_may(&set, hidden[i]))
			test_fail(__FILE__, __LINE__, "%s", hidden[i]);
	}
	CHECK(!spec_hidden_may(&set, "main.c") && !spec_hidden_may(&set, "keys"));
}

TEST(behind_two_stars_any_name_may_be_hidden)
{
	cleanup_spec struct spec *spec = job();
	struct spec_hidden set;

	add(spec, SPEC_HIDE, "secrets/**");
	finish(spec);
	spec_hidden_prepare(spec, &set);
	CHECK(spec_hidden_may(&set, "main.c"));
}

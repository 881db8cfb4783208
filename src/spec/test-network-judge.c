/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts about connections and requests. */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/network-inner.h"

static void free_spec(struct spec **spec)
{
	spec_free(*spec);
}
#define cleanup_spec cleanup_with(free_spec)

/* A job with this section. */
static struct spec *job(const char *network)
{
	char *argv[] = {(char *)"true", NULL};
	struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);
	struct atoll_error err = {0};
	char text[2048];

	snprintf(text, sizeof text, "network: %s\n", network);
	if (spec_load(spec, "job.yaml", NULL, text, strlen(text), &err) < 0 ||
	    spec_set_command(spec, argv, "--", NULL) < 0 || spec_finish(spec, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return spec;
}

static const char *const verdicts[] = {"refused", "denied", "allowed", "ask"};

static const char *judge(const struct spec *spec, const char *host, uint16_t port)
{
	const struct network_rule *rule;
	struct network_address address;
	bool is_address = network_address(host, strlen(host), &address) == 0;

	return verdicts[network_judge(&spec->network, is_address ? NULL : host,
				      is_address ? &address : NULL, port, &rule)];
}

static const char *rule_for(const struct spec *spec, const char *host, uint16_t port)
{
	static char text[512];
	const struct network_rule *rule;
	struct network_address address;
	bool is_address = network_address(host, strlen(host), &address) == 0;
	bool is_deny = network_judge(&spec->network, is_address ? NULL : host,
				     is_address ? &address : NULL, port, &rule) == NETWORK_DENIED;

	if (!rule)
		return "";
	network_rule_text(rule, is_deny, text, sizeof text);
	return text;
}

TEST(nothing_listed_means_nothing)
{
	cleanup_spec struct spec *off = job("off"), *rules = job("rules");
	cleanup_spec struct spec *empty = job("{mode: rules, allow: [], deny: []}");

	CHECK_STR(judge(off, "a.test", 443), "refused");
	CHECK_STR(judge(rules, "a.test", 443), "refused");
	CHECK_STR(judge(empty, "a.test", 443), "refused");
	CHECK_STR(judge(empty, "1.1.1.1", 443), "refused");
	CHECK(!network_knows(&empty->network, "a.test"));
}

TEST(names_match_label_by_label)
{
	cleanup_spec struct spec *spec =
		job("{allow: [good.test, '*.below.test', '**.with.test']}");
	static const char *const good[] = {"good.test", "a.below.test", "a.b.below.test",
					   "with.test", "a.with.test",	"a.b.with.test"};
	static const char *const bad[] = {"evilgood.test",
					  "good.test.evil.test",
					  "a.good.test",
					  "ood.test",
					  "good.tes",
					  "good.testx",
					  "below.test",
					  "evilbelow.test",
					  "x-below.test",
					  "evilwith.test",
					  "with.test.x",
					  "test",
					  "",
					  "xn--good-abc.test"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		CHECK_STR(judge(spec, good[i], 443), "allowed");
		CHECK(network_knows(&spec->network, good[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_STR(judge(spec, bad[i], 443), "refused");
		CHECK(!network_knows(&spec->network, bad[i]));
	}
}

TEST(ports_are_those_of_the_line)
{
	cleanup_spec struct spec *spec =
		job("{allow: [a.test, 'b.test:22,8443'], deny: ['c.test:25', "
		    "'**:6379']}");

	CHECK_STR(judge(spec, "a.test", 80), "allowed");
	CHECK_STR(judge(spec, "a.test", 443), "allowed");
	CHECK_STR(judge(spec, "a.test", 22), "refused");
	CHECK_STR(judge(spec, "a.test", 0), "refused");
	CHECK_STR(judge(spec, "b.test", 22), "allowed");
	CHECK_STR(judge(spec, "b.test", 8443), "allowed");
	CHECK_STR(judge(spec, "b.test", 443), "refused");
	CHECK_STR(judge(spec, "c.test", 25), "denied");
	CHECK_STR(judge(spec, "c.test", 443), "refused");
	CHECK_STR(judge(spec, "1.1.1.1", 6379), "denied");
}

TEST(deny_beats_allow)
{
	cleanup_spec struct spec *spec =
		job("{allow: ['**.a.test', 'x.a.test:443', 192.0.2.1, 198.51.100.0/24], deny: "
		    "['**.x.a.test', "
		    "198.51.100.7, 'p.a.test:80']}");

	CHECK_STR(judge(spec, "a.test", 443), "allowed");
	CHECK_STR(judge(spec, "x.a.test", 443), "denied");
	CHECK_STR(judge(spec, "y.x.a.test", 443), "denied");
	CHECK_STR(rule_for(spec, "x.a.test", 443), "deny **.x.a.test (job.yaml:1)");
	CHECK_STR(judge(spec, "198.51.100.7", 443), "denied");
	CHECK_STR(judge(spec, "64:ff9b::198.51.100.7", 443), "denied");
	CHECK_STR(judge(spec, "198.51.100.8", 443), "allowed");
	CHECK_STR(judge(spec, "p.a.test", 80), "denied");
	CHECK_STR(judge(spec, "p.a.test", 443), "allowed");
	CHECK(network_knows(&spec->network, "p.a.test"));
	CHECK(!network_knows(&spec->network, "x.a.test"));
}

TEST(a_name_all_of_whose_ports_are_denied_is_not_known)
{
	cleanup_spec struct spec *spec = job("{allow: ['a.test:443'], deny: ['a.test:443']}");

	CHECK(!network_knows(&spec->network, "a.test"));
}

TEST(the_most_specific_line_counts)
{
	cleanup_spec struct spec *spec =
		job("{allow: ['**.a.test', '*.a.test:443', '*.b.a.test', {host: c.b.a.test, ports: "
		    "[443]}, "
		    "10.0.0.0/8, 10.1.0.0/16, 10.1.2.3]}");

	CHECK_STR(rule_for(spec, "a.test", 443), "allow **.a.test (job.yaml:1)");
	CHECK_STR(rule_for(spec, "x.a.test", 443), "allow *.a.test:443 (job.yaml:1)");
	CHECK_STR(rule_for(spec, "x.a.test", 80), "allow **.a.test (job.yaml:1)");
	CHECK_STR(rule_for(spec, "c.b.a.test", 443), "allow c.b.a.test:443 (job.yaml:1)");
	CHECK_STR(rule_for(spec, "c.b.a.test", 80), "allow *.b.a.test (job.yaml:1)");
	CHECK_STR(rule_for(spec, "10.9.9.9", 80), "allow 10.0.0.0/8 (job.yaml:1)");
	CHECK_STR(rule_for(spec, "10.1.9.9", 80), "allow 10.1.0.0/16 (job.yaml:1)");
	CHECK_STR(rule_for(spec, "10.1.2.3", 80), "allow 10.1.2.3 (job.yaml:1)");
}

static bool odd(const struct spec *spec, const char *text, uint16_t port)
{
	struct network_address address;

	CHECK(network_address(text, strlen(text), &address) == 0);
	return network_allows_odd(&spec->network, &address, port);
}

TEST(addresses_need_a_literal_line)
{
	cleanup_spec struct spec *spec =
		job("{allow: ['**.a.test', '127.0.0.1:5432', 169.254.0.0/16, "
		    "'[2001:db8::1]:22', 192.168.0.0/16], deny: [192.168.7.0/24]}");
	cleanup_spec struct spec *exact = job("{allow: [169.254.169.254, 198.0.0.0/8]}");

	CHECK_STR(judge(spec, "1.1.1.1", 443), "refused");
	CHECK_STR(judge(spec, "127.0.0.1", 5432), "allowed");
	CHECK_STR(judge(spec, "127.0.0.1", 5433), "refused");
	CHECK_STR(judge(spec, "127.0.0.2", 5432), "refused");
	CHECK_STR(judge(spec, "::1", 5432), "refused");
	CHECK_STR(judge(spec, "2001:db8::1", 22), "allowed");
	CHECK_STR(rule_for(spec, "2001:db8::1", 22), "allow [2001:db8::1]:22 (job.yaml:1)");
	CHECK(odd(spec, "127.0.0.1", 5432) && !odd(spec, "127.0.0.1", 80));
	CHECK(odd(spec, "192.168.1.1", 80) && !odd(spec, "192.168.7.1", 80));
	CHECK(odd(spec, "169.254.1.1", 80) && !odd(spec, "169.254.169.254", 80));
	CHECK(odd(exact, "169.254.169.254", 80));
	/* An address that stands for a name is never meant as such. */
	CHECK_STR(judge(exact, "198.17.0.1", 80), "allowed");
	CHECK_STR(judge(exact, "198.18.0.1", 80), "refused");
	CHECK(!odd(exact, "198.19.1.1", 80));
}

TEST(near_bounds_what_literal_lines_count_for)
{
	cleanup_spec struct spec *none =
		job("{mode: open, allow: [10.0.0.1, 93.184.216.34, 45.33.0.0/16], near: []}");
	cleanup_spec struct spec *some = job("{allow: [10.0.0.1, '10.0.0.2:5432', 10.9.0.0/16, "
					     "169.254.0.0/16], near: ['10.0.0.1:80', 10.0.0.2, "
					     "169.254.0.0/16]}");

	CHECK(!odd(none, "10.0.0.1", 80) && !odd(none, "45.33.32.10", 80));
	/* What is simply public is not asked about there. */
	CHECK_STR(judge(none, "93.184.216.34", 80), "allowed");
	CHECK(odd(some, "10.0.0.1", 80) && !odd(some, "10.0.0.1", 443));
	CHECK(odd(some, "10.0.0.2", 5432) && !odd(some, "10.0.0.2", 80));
	CHECK(!odd(some, "10.9.0.1", 80));
	CHECK(odd(some, "169.254.1.1", 80) && !odd(some, "169.254.169.254", 80));
}

TEST(open_means_public)
{
	cleanup_spec struct spec *spec =
		job("{mode: open, allow: [{host: api.test, methods: [GET]}, '10.0.0.1:80'], deny: "
		    "['**.evil.test', 203.0.113.0/24]}");

	CHECK_STR(judge(spec, "anything.example", 12345), "allowed");
	CHECK_STR(rule_for(spec, "anything.example", 443), "");
	CHECK_STR(rule_for(spec, "api.test", 443), "allow api.test (job.yaml:1)");
	CHECK_STR(judge(spec, "evil.test", 443), "denied");
	CHECK_STR(judge(spec, "1.1.1.1", 443), "allowed");
	CHECK_STR(judge(spec, "203.0.113.9", 443), "denied");
	CHECK_STR(judge(spec, "10.0.0.1", 80), "allowed");
	CHECK_STR(judge(spec, "10.0.0.2", 80), "refused");
	CHECK_STR(judge(spec, "169.254.169.254", 80), "refused");
	CHECK_STR(judge(spec, "::1", 80), "refused");
	CHECK(odd(spec, "10.0.0.1", 80) && !odd(spec, "10.0.0.2", 80));
	CHECK(network_knows(&spec->network, "a.b") && !network_knows(&spec->network, "evil.test"));
}

TEST(asking_is_for_what_nothing_speaks_about)
{
	cleanup_spec struct spec *spec = job("{ask: true, allow: [a.test], deny: [b.test]}");

	CHECK_STR(judge(spec, "a.test", 443), "allowed");
	CHECK_STR(judge(spec, "a.test", 22), "ask");
	CHECK_STR(judge(spec, "b.test", 443), "denied");
	CHECK_STR(judge(spec, "c.test", 443), "ask");
	CHECK_STR(judge(spec, "1.1.1.1", 443), "ask");
	CHECK_STR(judge(spec, "10.0.0.1", 443), "refused");
	CHECK(network_knows(&spec->network, "c.test") && !network_knows(&spec->network, "b.test"));
}

/* ---- requests ---- */

static bool permits(const char *pattern, const char *path)
{
	struct network_rule rule = NETWORK_RULE_INIT;
	struct atoll_error err = {0};
	bool answer;

	if (network_rule_add_path(&rule, pattern, "test", &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	answer = network_rule_permits(&rule, "GET", path);
	network_rule_done(&rule);
	return answer;
}

TEST(paths_match_patterns)
{
	CHECK(permits("/", "/") && !permits("/", "/a"));
	CHECK(permits("/a", "/a") && !permits("/a", "/a/") && !permits("/a", "/A"));
	CHECK(permits("/a/*", "/a/b") && permits("/a/*", "/a/") && !permits("/a/*", "/a/b/c"));
	CHECK(permits("/a/**", "/a/b/c") && permits("/a/**", "/a/") && !permits("/a/**", "/a"));
	CHECK(permits("/**", "/") && permits("/**", "/a/b"));
	CHECK(permits("/*/b/*.txt", "/a/b/c.txt") && !permits("/*/b/*.txt", "/a/x/b/c.txt"));
	CHECK(permits("/**/b", "/a/b") && permits("/**/b", "/a/b/c/b") &&
	      !permits("/**/b", "/a/c"));
	CHECK(permits("/a*b*c", "/axbxbxc") && !permits("/a*b*c", "/axc"));
	CHECK(permits("/**x*y", "/a/xx/xzy") && !permits("/**x*y", "/x/y"));
	CHECK(permits("/a**", "/abc/d") && !permits("/a**", "/bc"));
	CHECK(permits("/repos/o/*/issues/**", "/repos/o/r/issues/1/comments"));
}

TEST(escapes_are_compared_by_what_they_mean)
{
	CHECK(permits("/api/*", "/%61pi/x"));
	CHECK(permits("/%7Euser", "/~user") && permits("/~user", "/%7euser"));
	CHECK(permits("/b%C3%BCcher", "/b%c3%bccher"));
	CHECK(!permits("/a+b", "/a%2Bb") && permits("/a%2bb", "/a%2Bb"));
	CHECK(permits("/a/*", "/a/b%20c") && permits("/a/*", "/a/%2A"));
}

TEST(a_path_that_may_mean_another_matches_nothing)
{
	static const char *const bad[] = {
		"",	   "a",	       "*",	     "//a",	   "/a//b",	"/a//",
		"/a/../b", "/a/..",    "/a/.",	     "/./a",	   "/%2e%2e/b", "/a/%2E./b",
		"/a/.%2e", "/a/..;/b", "/a/..%3b/b", "/a%c0%af..", "/a/%C1%9c", "/a/.;x",
		"/a%2fb",  "/a%2Fb",   "/a%5cb",     "/a\\b",	   "/a%00",	"/a%0ab",
		"/a%7f",   "/a%",      "/a%2",	     "/a%zz",	   "/a%252e",	"/a b",
		"/a\tb",   "/a\nb",    "/a\x7f",     "/\xc3\xbc",  "http://x/",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (permits("/**", bad[i]))
			test_fail(__FILE__, __LINE__, "'%s' was permitted", bad[i]);
	CHECK(permits("/**", "/a/.../b") && permits("/**", "/.well-known/x") &&
	      permits("/**", "/a..b"));
	CHECK(network_rule_permits(&(struct network_rule){0}, "GET", "//"));
	CHECK(network_rule_permits(NULL, "BREW", "*"));
}

TEST(long_paths_take_no_time)
{
	static char path[16384];

	memset(path, 'a', sizeof path - 1);
	path[0] = '/';
	CHECK(!permits("/**a*a*a*a*a*a*a*a*a*b", path));
	for (size_t i = 0; i < sizeof path - 1; i += 2)
		path[i] = '/';
	CHECK(!permits("/**a/**a/**a/**a/*a/*a/*b", path));
}

TEST(methods_are_words)
{
	cleanup_spec struct spec *spec =
		job("{allow: [{host: a.test, methods: [get, HEAD, Get]}]}");
	const struct network_rule *rule = &spec->network.allow[0];

	CHECK_INT(rule->n_methods, 2);
	CHECK(network_rule_permits(rule, "GET", "/x") && network_rule_permits(rule, "HEAD", "//"));
	CHECK(!network_rule_permits(rule, "POST", "/x") &&
	      !network_rule_permits(rule, "get", "/x"));
	CHECK(!network_rule_permits(rule, "", "/x"));
}

TEST(a_line_reads_in_both_spellings)
{
	cleanup_spec struct spec *spec = job("{allow: ['*.b\u00fccher.example:443,80']}");
	char text[512], small[12];

	network_rule_text(&spec->network.allow[0], false, text, sizeof text);
	CHECK_STR(text,
		  "allow *.xn--bcher-kva.example:80,443 \"*.b\u00fccher.example\" (job.yaml:1)");
	network_rule_text(&spec->network.allow[0], false, small, sizeof small);
	CHECK_STR(small, "allow *.xn-");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"
#include "netctl/answers.h"
#include "spec/spec.h"

#include <atoll/error.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct atoll_error err;
static struct network_rule *rules;
static size_t n;

/* A finished job whose workspace is beside the place of the list. */
static struct spec *make_job(const char *command)
{
	static char top[256], home[300], work[300];
	char *argv[] = {(char *)command, NULL};
	struct spec *spec;

	if (!top[0]) {
		close(test_tempdir());
		snprintf(top, sizeof top, "%s", test_tempdir_path());
		snprintf(home, sizeof home, "%s/home", top);
		snprintf(work, sizeof work, "%s/work", top);
		mkdir(home, 0700);
		mkdir(work, 0700);
	}
	setenv("HOME", home, 1);
	unsetenv("XDG_CONFIG_HOME");
	spec = spec_new(home, work, &err);
	spec->network.asks = true;
	spec->network.mode = NETWORK_RULES;
	spec_set_command(spec, argv, "command line", &err);
	return spec && spec_finish(spec, &err) == 0 ? spec : NULL;
}

TEST(an_answer_about_a_private_address_is_none)
{
	struct spec *spec = make_job("private");

	CHECK(spec);
	CHECK_INT(answers_add(spec, "10.0.0.1", 80, &err), 0);
	CHECK_INT(answers_add(spec, "169.254.169.254", 80, &err), 0);
	CHECK_INT(answers_add(spec, "::ffff:127.0.0.1", 80, &err), 0);
	CHECK_INT(answers_add(spec, "93.184.216.34", 80, &err), 0);
	CHECK_INT(answers_read(spec, &rules, &n, &err), 0);
	CHECK_INT(n, 1);
	CHECK_STR(rules[0].host, "93.184.216.34");
	answers_free(rules, n);
	spec_free(spec);
}

TEST(an_answer_holds_for_its_contract_alone)
{
	struct spec *one = make_job("one"), *two = make_job("two");

	CHECK(one && two);
	CHECK_INT(answers_read(one, &rules, &n, &err), 0);
	CHECK_INT(n, 0);
	CHECK_INT(answers_add(one, "API.Good.Test.", 443, &err), 0);
	CHECK_INT(answers_add(one, "2606:4700:4700::1111", 22, &err), 0);
	CHECK_INT(answers_read(two, &rules, &n, &err), 0);
	CHECK_INT(n, 0);
	CHECK_INT(answers_read(one, &rules, &n, &err), 0);
	CHECK_INT(n, 2);
	CHECK_STR(rules[0].host, "api.good.test");
	CHECK_INT(rules[0].kind, NETWORK_EXACT);
	CHECK_INT(rules[0].n_ports, 1);
	CHECK_INT(rules[0].ports[0], 443);
	CHECK(strncmp(rules[0].origin, "answer of 2", 11) == 0);
	CHECK_INT(rules[1].kind, NETWORK_LITERAL);
	CHECK_INT(rules[1].ports[0], 22);
	answers_free(rules, n);
	one->network.asks = false;
	CHECK_INT(answers_read(one, &rules, &n, &err), 0);
	CHECK_INT(n, 0);
	spec_free(one);
	spec_free(two);
}

TEST(a_line_that_is_none_allows_nothing)
{
	struct spec *spec = make_job("lines");
	char digest[65], path[512], text[2048];

	CHECK(spec);
	CHECK_INT(spec_digest(spec, digest, &err), 0);
	snprintf(path, sizeof path, "%s/.config/atoll/answers", getenv("HOME"));
	snprintf(text, sizeof text,
		 "%s a.test 2026-01-01\n%s a.test:0 2026-01-01\n%s a.test:70000 2026-01-01\n"
		 "%s *.test:443 2026-01-01\n%s a.test:443\n%s a.test:443 yesterday\n%s \n%s"
		 "\n%.10s a.test:443 2026-01-01\n\n",
		 digest, digest, digest, digest, digest, digest, digest, digest, digest);
	CHECK_INT(fd_write_text(path, text), 0);
	CHECK_INT(answers_read(spec, &rules, &n, &err), 0);
	CHECK_INT(n, 0);
	spec_free(spec);
}

TEST(a_list_that_the_job_can_reach_is_not_believed)
{
	struct spec *spec = make_job("reach");
	char path[512];

	CHECK(spec);
	setenv("XDG_CONFIG_HOME", spec->workspace, 1);
	CHECK(answers_add(spec, "a.test", 443, &err) < 0);
	CHECK(strstr(err.text, "lies where this job reads or writes"));
	CHECK(answers_read(spec, &rules, &n, &err) < 0);
	unsetenv("XDG_CONFIG_HOME");
	snprintf(path, sizeof path, "%s/.config/atoll/answers", getenv("HOME"));
	CHECK_INT(chmod(path, 0666), 0);
	CHECK(answers_read(spec, &rules, &n, &err) < 0);
	CHECK(strstr(err.text, "is not yours alone to write"));
	CHECK_INT(unlink(path), 0);
	CHECK_INT(symlink("/etc/passwd", path), 0);
	CHECK(answers_read(spec, &rules, &n, &err) < 0);
	CHECK_INT(unlink(path), 0);
	spec_free(spec);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"
#include "netctl/secrets.h"
#include "spec/network.h"

#include <atoll/error.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct atoll_error err;
static struct secrets secrets;

static int read_one(enum network_source source, const char *from)
{
	static char name[] = "KEY", host[] = "api.test", header[] = "authorization",
		    origin[] = "job.yaml:3";
	struct network_secret secret = {name, host, header, source, (char *)from, origin};
	struct network network = {.secrets = &secret, .n_secrets = 1};

	err = (struct atoll_error){0};
	return secrets_read(&network, &secrets, &err);
}

TEST(a_placeholder_has_the_shape_of_the_value)
{
	static const char value[] = "sk-proj-Ab1z.Yx9/QQQQ0000wwww";
	char text[sizeof value];

	for (int round = 0; round < 100; round++) {
		CHECK_INT(secrets_placeholder(value, strlen(value), text), 0);
		CHECK_INT(strlen(text), strlen(value));
		CHECK(strncmp(text, "sk-", 3) == 0);
		CHECK(strcmp(text, value) != 0);
		for (size_t i = 3; value[i]; i++) {
			CHECK(!isupper(value[i]) == !isupper(text[i]));
			CHECK(!islower(value[i]) == !islower(text[i]));
			CHECK(!isdigit(value[i]) == !isdigit(text[i]));
			CHECK(isalnum(value[i]) || value[i] == text[i]);
		}
	}
}

TEST(a_prefix_is_kept_only_where_it_cannot_be_the_secret)
{
	char text[64];

	/* Too long, or with too little behind it. */
	CHECK_INT(secrets_placeholder("correcthorse_x", 14, text), 0);
	CHECK(strncmp(text, "correcthorse", 12) != 0);
	CHECK_INT(secrets_placeholder("abcdefg-1", 9, text), 0);
	CHECK(strncmp(text, "abcdefg", 7) != 0);
	CHECK_INT(secrets_placeholder("ghp_0123456789abcdefXY", 22, text), 0);
	CHECK(strncmp(text, "ghp_", 4) == 0);
}

/* Item 25 of the review: "sk-" was kept only where 16 characters followed. */
TEST(a_prefix_that_its_vendor_documents_is_kept_at_every_length)
{
	static const char *const values[] = {"sk-abc123",      "ghp_0123456789", "glpat-x1y2z3",
					     "sk-ant-abcdef1", "AKIAABCDEFGH",	 "npm_a1b2c3"};
	static const size_t kept[] = {3, 4, 6, 7, 4, 4};
	char text[64];

	for (size_t i = 0; i < 6; i++) {
		size_t size = strlen(values[i]);
		bool differs = false;

		CHECK_INT(secrets_placeholder(values[i], size, text), 0);
		CHECK(strncmp(text, values[i], kept[i]) == 0);
		for (int round = 0; round < 20 && !differs; round++) {
			CHECK_INT(secrets_placeholder(values[i], size, text), 0);
			differs = text[kept[i]] != values[i][kept[i]];
		}
		CHECK(differs);
	}
	/* With too little behind it, all of it is hidden, or nothing can be. */
	CHECK_INT(secrets_placeholder("sk-abc12", 8, text), 0);
	CHECK(strncmp(text, "sk-", 3) != 0 || strcmp(text, "sk-abc12") != 0);
	CHECK_INT(secrets_placeholder("sk-ab1", 6, text), -EINVAL);
}

TEST(what_could_not_differ_has_no_placeholder)
{
	char text[64];

	CHECK_INT(secrets_placeholder("abc12", 5, text), -EINVAL);
	CHECK_INT(secrets_placeholder("----------------", 16, text), -EINVAL);
}

TEST(a_value_comes_from_a_variable)
{
	setenv("TEST_SECRET", "hunter2hunter2", 1);
	CHECK_INT(read_one(NETWORK_FROM_ENV, "TEST_SECRET"), 0);
	CHECK_STR(secrets.list[0].value, "hunter2hunter2");
	secrets_done(&secrets);
	setenv("TEST_SECRET", "", 1);
	CHECK(read_one(NETWORK_FROM_ENV, "TEST_SECRET") < 0);
	CHECK_STR(err.text, "secret KEY (job.yaml:3): the variable is empty; set it");
	unsetenv("TEST_SECRET");
	CHECK(read_one(NETWORK_FROM_ENV, "TEST_SECRET") < 0);
	CHECK(strstr(err.text, "the variable TEST_SECRET is not set here"));
}

TEST(a_value_comes_from_a_file_without_its_line_end)
{
	cleanup_fd int dir = test_tempdir();
	char path[512];

	snprintf(path, sizeof path, "%s/key", test_tempdir_path());
	CHECK_INT(fd_write_text(path, "hunter2hunter2\r\n"), 0);
	CHECK_INT(read_one(NETWORK_FROM_FILE, path), 0);
	CHECK_STR(secrets.list[0].value, "hunter2hunter2");
	secrets_done(&secrets);
	CHECK_INT(fd_write_text(path, "hunter2\nhunter2\n"), 0);
	CHECK(read_one(NETWORK_FROM_FILE, path) < 0);
	CHECK(!strstr(err.text, "hunter2"));
	CHECK(read_one(NETWORK_FROM_FILE, "/dev/zero") < 0);
	CHECK(strstr(err.text, "is not a plain file"));
	CHECK(read_one(NETWORK_FROM_FILE, "/nonexistent/x") < 0);
	(void)dir;
}

TEST(a_value_comes_from_a_command)
{
	CHECK_INT(read_one(NETWORK_FROM_COMMAND, "echo hunter2; printf ''"), 0);
	CHECK_STR(secrets.list[0].value, "hunter2");
	secrets_done(&secrets);
	CHECK(read_one(NETWORK_FROM_COMMAND, "echo hunter2hunter2; exit 3") < 0);
	CHECK_STR(err.text, "secret KEY (job.yaml:3): its command failed with status 3");
	CHECK(read_one(NETWORK_FROM_COMMAND, "true") < 0);
	CHECK(strstr(err.text, "the command printed nothing"));
	CHECK(read_one(NETWORK_FROM_COMMAND, "cat /dev/zero") < 0);
	CHECK(strstr(err.text, "more than 64 KiB"));
}

TEST(one_variable_for_two_hosts_is_read_once)
{
	static char name[] = "KEY", a[] = "a.test", b[] = "b.test", header[] = "x", origin[] = "o",
		    from[] = "echo x$$x$$x$$x";
	struct network_secret both[] = {{name, a, header, NETWORK_FROM_COMMAND, from, origin},
					{name, b, header, NETWORK_FROM_COMMAND, from, origin}};
	struct network network = {.secrets = both, .n_secrets = 2};

	CHECK_INT(secrets_read(&network, &secrets, &err), 0);
	CHECK_STR(secrets.list[0].value, secrets.list[1].value);
	CHECK_STR(secrets.list[0].placeholder, secrets.list[1].placeholder);
	secrets_done(&secrets);
}

TEST(a_clone_finds_the_values_gone)
{
	int status;
	pid_t pid;

	CHECK_INT(read_one(NETWORK_FROM_COMMAND, "echo hunter2hunter2"), 0);
	pid = fork();
	if (pid == 0)
		_exit(secrets.list[0].value[0] != '\0');
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	CHECK_STR(secrets.list[0].value, "hunter2hunter2");
	secrets_done(&secrets);
}

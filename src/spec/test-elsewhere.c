/* SPDX-License-Identifier: Apache-2.0 */
/* Grants that are seen at another place. */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/spec.h"

static void free_spec(struct spec **spec)
{
	spec_free(*spec);
}
#define cleanup_spec cleanup_with(free_spec)

static struct spec *job(void)
{
	char *argv[] = {(char *)"true", NULL};
	struct spec *spec = spec_new("/data/people/u", "/data/people/u/p", NULL);

	CHECK(spec && spec_set_command(spec, argv, "--", NULL) == 0);
	return spec;
}

static struct spec *load(const char *text, struct atoll_error *err)
{
	struct spec *spec = job();

	if (spec_load(spec, "job.yaml", NULL, text, strlen(text), err) == 0)
		spec_finish(spec, err);
	return spec;
}

static int fault_of(const char *text)
{
	struct atoll_error err = {0};

	spec_free(load(text, &err));
	return (int)err.fault;
}

TEST(a_grant_elsewhere_has_two_names)
{
	cleanup_spec struct spec *spec = job();
	char path[256];

	CHECK(spec_add_write_at(spec, "/mnt//d/=/srv/d=1", "--write-at", NULL) == 0);
	CHECK(spec_add_rule(spec, SPEC_HIDE, "/srv/d=1/secret", "--hide", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	CHECK_INT(spec->n_moved, 1);
	CHECK(spec_host_path(spec, "/mnt/d/a/b", path, sizeof path));
	CHECK_STR(path, "/srv/d=1/a/b");
	CHECK(spec_host_path(spec, "/mnt/dd", path, sizeof path));
	CHECK_STR(path, "/mnt/dd");
	CHECK(!spec_host_path(spec, "/srv/d=1/a", path, sizeof path));
	CHECK(!spec_host_path(spec, "/mnt/d/a/b", path, 8));
	CHECK_STR(spec_inside_path(spec, "/srv/d=1/a", path, sizeof path), "/mnt/d/a");
	CHECK_STR(spec_inside_path(spec, "/srv/other", path, sizeof path), "/srv/other");
	CHECK(spec_rule_inside(spec, "/mnt/d/x")->access == SPEC_WRITE);
	CHECK(spec_rule_inside(spec, "/mnt/d/secret/x")->access == SPEC_HIDE);
	CHECK(!spec_rule_inside(spec, "/srv/d=1/x"));
}

TEST(a_job_file_says_it_as_a_map)
{
	struct atoll_error err = {0};
	cleanup_spec struct spec *spec = load(
		"filesystem: {read: [/srv/a, {path: /srv/b, at: /b}], write: [{path: /srv/c}]}\n",
		&err);

	CHECK_STR(err.text, "");
	CHECK_STR(spec_rule_for(spec, "/srv/b")->at, "/b");
	CHECK(!spec_rule_for(spec, "/srv/a")->at);
	CHECK(!spec_rule_for(spec, "/srv/c")->at);
	CHECK_INT(spec_rule_for(spec, "/srv/c")->access, SPEC_WRITE);
	CHECK_INT(fault_of("filesystem: {read: [{at: /b}]}\n"), ATOLL_FAULT_REQUEST);
	CHECK_INT(fault_of("filesystem: {read: [{path: /srv, at: b}]}\n"), ATOLL_FAULT_REQUEST);
	CHECK_INT(fault_of("filesystem: {read: [{path: /srv, in: /b}]}\n"), ATOLL_FAULT_REQUEST);
	CHECK_INT(fault_of("filesystem: {hide: [{path: /srv/x, at: /b}]}\n"), ATOLL_FAULT_REQUEST);
	CHECK_INT(fault_of("filesystem: {protect: [{path: /srv/x}]}\n"), ATOLL_FAULT_REQUEST);
}

TEST(the_place_of_a_grant_has_to_be_free)
{
	static const char *const taken[] = {"/",
					    "/proc/x",
					    "/sys",
					    "/dev/shm",
					    "/run/atoll",
					    "/usr/x",
					    "/etc",
					    "/var",
					    "/tmp",
					    "/home",
					    "/opt/x",
					    "/granted",
					    "/granted/x",
					    "/above",
					    "/data/people/u/p",
					    "/data",
					    "/data/people/u/p/x",
					    "/data/people/u",
					    "/hidden",
					    "/hidden/x",
					    "/sock",
					    "/other/x",
					    "/m/x.key",
					    "/data/people/u/.ssh/x"};
	static const char *const words[] = {"x=/srv/d", "=/srv/d", "/a/..=/srv/d", "/a", "/a=", ""};

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		cleanup_spec struct spec *spec = job();
		struct atoll_error err = {0};
		char text[64];

		snprintf(text, sizeof text, "%s=/srv/d", taken[i]);
		CHECK(spec_add_rule(spec, SPEC_READ, "/granted", "--read", NULL) == 0);
		CHECK(spec_add_rule(spec, SPEC_READ, "/above/x", "--read", NULL) == 0);
		CHECK(spec_add_rule(spec, SPEC_HIDE, "/hidden", "--hide", NULL) == 0);
		CHECK(spec_add_rule(spec, SPEC_HIDE, "/m/*.key", "--hide", NULL) == 0);
		CHECK(spec_add_socket(spec, "/sock/s", "--socket", NULL) == 0);
		CHECK(spec_add_read_at(spec, "/other=/srv/e", "--read-at", NULL) == 0);
		CHECK(spec_add_write_at(spec, text, "--write-at", NULL) == 0);
		CHECK(spec_finish(spec, &err) < 0);
		CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
		CHECK(starts_with(err.text, "--write-at: ") ||
		      starts_with(err.text, "--read-at: "));
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		cleanup_spec struct spec *spec = job();

		CHECK(spec_add_write_at(spec, words[i], "--write-at", NULL) < 0);
	}
}

TEST(what_is_seen_elsewhere_is_granted_once)
{
	CHECK_INT(fault_of("filesystem: {read: [{path: /srv/a, at: /a}, /srv/a]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(
		fault_of("filesystem: {read: [{path: /srv/a, at: /a}, {path: /srv/a, at: /b}]}\n"),
		ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("filesystem: {read: [{path: /srv/a, at: /a}], write: [/srv]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("filesystem: {read: [{path: /srv/a, at: /a}], write: [/srv/a/b]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("filesystem: {read: [{path: /srv/a, at: /a}], sockets: [/srv/a/s]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("filesystem: {read: [{path: sub, at: /a}]}\n"), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("filesystem: {read: [{path: /opt, at: /a}]}\n"), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("filesystem: {write: [{path: /usr/lib, at: /a}]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("filesystem: {read: [{path: /opt/x, at: /a}]}\n"), ATOLL_FAULT_NONE);
	CHECK_INT(fault_of("filesystem: {read: [{path: /srv/a, at: /srv/a}, /srv/a]}\n"),
		  ATOLL_FAULT_NONE);
	CHECK_INT(
		fault_of("filesystem: {read: [{path: /srv/a, at: /a}, {path: /srv/a, at: /a}]}\n"),
		ATOLL_FAULT_NONE);
}

TEST(a_place_is_part_of_the_canonical_form_where_there_is_one)
{
	struct atoll_error err = {0};
	cleanup_spec struct spec *plain = load("filesystem: {read: [/srv/a]}\n", &err);
	cleanup_spec struct spec *moved =
		load("filesystem: {read: [{path: /srv/a, at: /a}]}\n", &err);
	cleanup_buf struct buf one = BUF_INIT(1 << 20), two = BUF_INIT(1 << 20);

	CHECK_INT(err.fault, ATOLL_FAULT_NONE);
	CHECK(spec_canonical(plain, &one, NULL) == 0 && spec_canonical(moved, &two, NULL) == 0);
	CHECK(!strstr(one.data, "\"at\""));
	CHECK(strstr(two.data,
		     "{\"access\":\"read\",\"at\":\"/a\",\"path\":\"/srv/a\",\"pattern\":false}"));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names inside: the workspace's place, users, the guest. */
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

TEST(a_workspace_elsewhere_has_two_names)
{
	cleanup_spec struct spec *spec = job();
	char path[256];

	CHECK(spec_set_workspace_at(spec, "/home//user/", "--workspace-at", NULL) == 0);
	CHECK(spec_add_rule(spec, SPEC_HIDE, "secret", "--hide", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	CHECK_STR(spec_at(spec), "/home/user");
	CHECK_STR(spec->cwd, "/home/user");
	CHECK(spec_host_path(spec, "/home/user/a/b", path, sizeof path));
	CHECK_STR(path, "/data/people/u/p/a/b");
	CHECK(spec_host_path(spec, "/usr/bin", path, sizeof path));
	CHECK_STR(path, "/usr/bin");
	CHECK(!spec_host_path(spec, "/data/people/u/p/a", path, sizeof path));
	CHECK(spec_rule_inside(spec, "/home/user/x")->access == SPEC_WRITE);
	CHECK(spec_rule_inside(spec, "/home/user/secret/x")->access == SPEC_HIDE);
	CHECK(!spec_rule_inside(spec, "/data/people/u/p/x"));
}

TEST(where_a_command_starts_may_be_said_from_both_sides)
{
	static const char *const ways[] = {"/data/people/u/p/sub", "/home/user/sub", "sub"};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		cleanup_spec struct spec *spec = job();

		CHECK(spec_set_workspace_at(spec, "/home/user", "--workspace-at", NULL) == 0);
		CHECK(spec_set_cwd(spec, ways[i], "--chdir", NULL) == 0);
		CHECK(spec_finish(spec, NULL) == 0);
		CHECK_STR(spec->cwd, "/home/user/sub");
	}
}

TEST(a_place_inside_has_to_be_free)
{
	static const char *const taken[] = {
		"/",	  "/proc",	"/proc/x",  "/sys",	  "/dev/shm", "/run",
		"/run/x", "/usr",	"/usr/x",   "/etc/x",	  "/bin",     "/lib64/x",
		"/var",	  "/tmp",	"/home",    "/var/tmp",	  "/opt",     "/opt/x",
		"/nix",	  "/var/run/x", "/granted", "/granted/x", "/above"};
	static const char *const words[] = {"x", "./x", "~/x", "..", "/home/../usr", "/a/..", ""};

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		cleanup_spec struct spec *spec = job();
		struct atoll_error err = {0};

		CHECK(spec_add_rule(spec, SPEC_READ, "/granted", "--read", NULL) == 0);
		CHECK(spec_add_rule(spec, SPEC_READ, "/above/x", "--read", NULL) == 0);
		CHECK(spec_set_workspace_at(spec, taken[i], "--workspace-at", NULL) == 0);
		spec_finish(spec, &err);
		CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		cleanup_spec struct spec *spec = job();

		CHECK(spec_set_workspace_at(spec, words[i], "--workspace-at", NULL) < 0);
	}
}

TEST(nothing_in_a_workspace_elsewhere_is_granted_by_itself)
{
	CHECK_INT(fault_of("workspace: {at: /home/user}\nfilesystem: {write: [out]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("workspace: {at: /home/user}\nfilesystem: {read: [out]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("workspace: {at: /home/user}\nfilesystem: {sockets: [s]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("workspace: {at: /home/user}\nfilesystem: {hide: [out]}\n"),
		  ATOLL_FAULT_NONE);
	CHECK_INT(fault_of("workspace: {at: /home/user, mode: direct}\n"), ATOLL_FAULT_REQUEST);
	CHECK_INT(fault_of("workspace: {at: /home/user, mode: read-only}\n"), ATOLL_FAULT_REQUEST);
	CHECK_INT(fault_of("workspace: {at: /data/people/u/p, mode: direct}\n"), ATOLL_FAULT_NONE);
}

TEST(users_are_read_with_what_is_usual)
{
	struct atoll_error err = {0};
	cleanup_spec struct spec *spec =
		load("users:\n- {name: user, uid: 1000}\n- {name: root, uid: 0}\n"
		     "- {name: db, uid: 70, gid: 71, home: /srv/db}\nguest: on\n",
		     &err);

	CHECK_STR(err.text, "");
	CHECK_INT(spec->n_users, 3);
	CHECK_STR(spec->users[0].home, "/home/user");
	CHECK_INT(spec->users[0].gid, 1000);
	CHECK_STR(spec->users[1].home, "/root");
	CHECK_INT(spec->users[2].gid, 71);
	CHECK_STR(spec_home_inside(spec, 2), "/srv/db");
	CHECK_INT(spec_find_user(spec, NULL, NULL), 0);
	CHECK_INT(spec_find_user(spec, "root", NULL), 1);
	CHECK(spec_find_user(spec, "nobody", &err) < 0);
	CHECK(spec->has_guest);
}

TEST(users_that_make_no_sense_are_refused)
{
	static const char *const bad[] = {
		"users: [{name: user}]\n",
		"users: [{uid: 1000}]\n",
		"users: []\n",
		"users: [{name: User, uid: 1000}]\n",
		"users: [{name: 'a:b', uid: 1000}]\n",
		"users: [{name: \"a\\nb\", uid: 1000}]\n",
		"users: [{name: nobody, uid: 1000}]\n",
		"users: [{name: root, uid: 1000}]\n",
		"users: [{name: user, uid: 65534}]\n",
		"users: [{name: user, uid: -1}]\n",
		"users: [{name: a, uid: 1}, {name: a, uid: 2}]\n",
		"users: [{name: a, uid: 1}, {name: b, uid: 1}]\n",
		"users: [{name: a, uid: 1, home: x}]\n",
		"users: [{name: a, uid: 1, home: /home/../etc}]\n",
		"users: [{name: a, uid: 1, home: \"/home/a:b\\n\"}]\n",
		"users: [{name: a, uid: 1, home: /data/people/u/p/x}]\n",
		"guest: maybe\n",
	};
	static const char *const taken[] = {"/", "/etc", "/usr/x", "/proc", "/run", "/tmp"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(fault_of(bad[i]), ATOLL_FAULT_REQUEST);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		char text[128];

		snprintf(text, sizeof text, "users: [{name: a, uid: 1, home: %s}]\n", taken[i]);
		CHECK_INT(fault_of(text), ATOLL_FAULT_POLICY);
	}
}

static void digest(const char *text, char ret[65])
{
	cleanup_spec struct spec *spec = load(text, NULL);

	CHECK(spec_digest(spec, ret, NULL) == 0);
}

TEST(who_says_nothing_keeps_his_digest)
{
	char bare[65], same[65], other[65];

	digest("command: [a]\n", bare);
	digest("command: [a]\nguest: off\nworkspace: {at: /data/people/u/p}\n", same);
	CHECK_STR(same, bare);
	digest("command: [a]\nguest: on\n", other);
	CHECK(!streq(other, bare));
	digest("command: [a]\nworkspace: {at: /home/user}\n", other);
	CHECK(!streq(other, bare));
	digest("command: [a]\nusers: [{name: user, uid: 1000}]\n", other);
	CHECK(!streq(other, bare));
	digest("command: [a]\nimage: {root: /srv/image}\n", same);
	CHECK(!streq(same, bare));
	digest("command: [a]\nusers: [{name: user, uid: 1001}]\n", same);
	CHECK(!streq(other, same));
}

TEST(the_command_reads_names_that_it_sees)
{
	cleanup_spec struct spec *spec = load("workspace: {at: /home/user}\n"
					      "filesystem: {protect: [kept]}\n"
					      "users: [{name: user, uid: 1000}]\n",
					      NULL);
	cleanup_buf struct buf json = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);

	CHECK(spec_explain_json(spec, &json, NULL) == 0 &&
	      spec_explain_text(spec, &text, NULL) == 0);
	CHECK(!strstr(json.data, "/data/people") && !strstr(text.data, "/data/people"));
	CHECK(strstr(json.data, "/home/user/kept") && strstr(text.data, "`/home/user`"));
}

TEST(users_in_a_file_of_the_workspace_need_trust)
{
	cleanup_spec struct spec *spec = load("users: [{name: user, uid: 1000}]\n", NULL);
	cleanup_spec struct spec *moved = load("workspace: {at: /home/user}\nguest: on\n", NULL);
	cleanup_free char *clause = spec_file_widens(spec), *none = spec_file_widens(moved);

	CHECK_STR(clause, "users user (job.yaml:1)");
	CHECK(!none);
}

TEST(an_image_is_none_of_the_hosts_own)
{
	static const char *const taken[] = {
		"/",	 "/usr",	   "/etc/x",	       "/proc",
		"/data", "/data/people/u", "/data/people/u/p", "/data/people/u/p/image"};
	cleanup_spec struct spec *spec = load("image: {root: /srv/image}\n", NULL);
	cleanup_free char *clause = spec_file_widens(spec);

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		char text[128];

		snprintf(text, sizeof text, "image: {root: %s}\n", taken[i]);
		CHECK_INT(fault_of(text), ATOLL_FAULT_POLICY);
	}
	CHECK_STR(clause, "image /srv/image (job.yaml:1)");
	CHECK_INT(fault_of("image: {root: /srv/image}\nfilesystem: {read: [/etc/x]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("image: {root: /srv/image}\nfilesystem: {write: [/srv/image/usr/x]}\n"),
		  ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of("image: {}\n"), ATOLL_FAULT_REQUEST);
	CHECK_INT(fault_of("image: debian\n"), ATOLL_FAULT_HOST);
}

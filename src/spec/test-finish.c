/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the whole, and what counts as widening. */
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

static struct spec *job(const char *home, const char *caller)
{
	char *argv[] = {(char *)"true", NULL};
	struct spec *spec = spec_new(home, caller, NULL);

	CHECK(spec && spec_set_command(spec, argv, "--", NULL) == 0);
	return spec;
}

/* The fault of a job with one grant. */
static int fault_of(enum spec_access access, const char *path, const char *broad)
{
	cleanup_spec struct spec *spec = job("/data/people/u", "/data/people/u/p");
	struct atoll_error err = {0};

	CHECK(spec_add_rule(spec, access, path, "--grant", NULL) == 0);
	CHECK(!broad || spec_add_broad(spec, broad, "--accept-broad", NULL) == 0);
	spec_finish(spec, &err);
	return (int)err.fault;
}

TEST(wide_grants_must_be_asked_for_twice)
{
	static const char *const wide[] = {
		"~",	  "/home",	"/home/x",  "/root", "/data",  "/data/people", "/etc",
		"/etc/x", "/usr/local", "/boot",    "/bin",  "/lib",   "/lib64",       "/opt",
		"/var",	  "/tmp",	"/var/tmp", "/srv",  "/run/x", "/var/run/x"};

	for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
		CHECK_INT(fault_of(SPEC_WRITE, wide[i], NULL), ATOLL_FAULT_POLICY);
		CHECK_INT(fault_of(SPEC_WRITE, wide[i], wide[i]), ATOLL_FAULT_NONE);
	}
	CHECK_INT(fault_of(SPEC_WRITE, "/usr/local", "/usr"), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of(SPEC_READ, "/", NULL), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of(SPEC_READ, "/", "/"), ATOLL_FAULT_NONE);
	CHECK_INT(fault_of(SPEC_READ, "~", NULL), ATOLL_FAULT_POLICY);
}

TEST(some_places_are_never_given)
{
	static const char *const never[] = {"/",
					    "/proc",
					    "/proc/sys",
					    "/sys",
					    "/sys/fs",
					    "/dev",
					    "/dev/sda",
					    "/run/atoll",
					    "/run/atoll/x",
					    "~/.config/atoll",
					    "~/.local/state/atoll/log",
					    "~/.local/share/atoll"};

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		CHECK_INT(fault_of(SPEC_WRITE, never[i], never[i]), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of(SPEC_READ, "/proc/1", "/proc/1"), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of(SPEC_READ, "/dev/sda", "/dev/sda"), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of(SPEC_READ, "/run/atoll", "/run/atoll"), ATOLL_FAULT_POLICY);
	CHECK_INT(fault_of(SPEC_READ, "/sys/class", NULL), ATOLL_FAULT_NONE);
}

TEST(ordinary_grants_need_nothing)
{
	static const char *const plain[] = {"/srv/x",	 "/tmp/x", "/var/lib/x",   "/opt/x",
					    "/home/x/y", "~/x",	   "/data/shared", "/mnt",
					    "/etcetera", "/devel"};

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		CHECK_INT(fault_of(SPEC_WRITE, plain[i], NULL), ATOLL_FAULT_NONE);
}

TEST(the_current_directory_is_judged_like_any_workspace)
{
	cleanup_spec struct spec *spec = job("/home/u", "/home/u");
	cleanup_spec struct spec *hidden = job("/home/u", "/home/u/.ssh");
	cleanup_spec struct spec *meant = job("/home/u", "/home/u");
	struct atoll_error err = {0};

	CHECK(spec_finish(spec, &err) < 0);
	CHECK_STR(err.text, "current directory: workspace '/home/u' would open a whole home "
			    "directory; if that is meant, add --accept-broad /home/u");
	CHECK(spec_finish(hidden, &err) < 0);
	CHECK(strstr(err.text, "is hidden by '/home/u/.ssh' (default)"));
	CHECK(spec_add_broad(meant, ".", "--accept-broad", NULL) == 0);
	CHECK(spec_finish(meant, &err) == 0);
	CHECK_STR(spec_access_word(spec_rule_for(meant, "/home/u/.ssh/x")->access), "hide");
}

TEST(a_workspace_where_a_default_reads_is_writable)
{
	cleanup_spec struct spec *spec = job("/home/u", "/home/u/go");

	CHECK(spec_finish(spec, NULL) == 0);
	CHECK_STR(spec_access_word(spec_rule_for(spec, "/home/u/go/x")->access), "write");
}

TEST(a_read_only_workspace_stays_so)
{
	cleanup_spec struct spec *spec = job("/home/u", "/home/u/p");

	CHECK(spec_set_workspace_mode(spec, "read-only", "--mode", NULL) == 0);
	CHECK(spec_add_rule(spec, SPEC_WRITE, ".", "--write", NULL) == 0);
	CHECK(spec_add_rule(spec, SPEC_WRITE, "out", "--write", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	CHECK_STR(spec_access_word(spec_rule_for(spec, "/home/u/p/x")->access), "read");
	CHECK_STR(spec_access_word(spec_rule_for(spec, "/home/u/p/out/x")->access), "write");
}

TEST(a_job_needs_a_command_and_is_finished_once)
{
	cleanup_spec struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);
	cleanup_spec struct spec *twice = job("/home/u", "/home/u/p");
	struct atoll_error err = {0};

	CHECK(spec_finish(spec, &err) < 0);
	CHECK_INT(err.fault, ATOLL_FAULT_REQUEST);
	CHECK(spec_finish(twice, &err) == 0);
	CHECK(spec_finish(twice, &err) < 0);
	CHECK_INT(err.fault, ATOLL_FAULT_BUG);
}

TEST(homes_and_callers_are_absolute)
{
	struct atoll_error err = {0};

	CHECK(!spec_new("home", "/", &err));
	CHECK(!spec_new("/home/u", ".", &err));
}

/* What widens in a job file, or "" if it only narrows. */
static const char *widens(const char *text)
{
	static char found[256];
	cleanup_spec struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);
	struct atoll_error err = {0};
	char *clause;

	if (spec_load(spec, "job.yaml", "/home/u/p/job.yaml", text, strlen(text), &err) < 0 ||
	    spec_finish(spec, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	clause = spec_widens(spec);
	snprintf(found, sizeof found, "%s", clause ? clause : "");
	free(clause);
	clause = spec_file_widens(spec);
	CHECK_STR(clause ? clause : "", found);
	free(clause);
	return found;
}

TEST(a_file_that_narrows_is_harmless)
{
	CHECK_STR(widens("command: [a]\n"), "");
	CHECK_STR(widens("command: [a]\nworkspace: {mode: read-only, cwd: x}\n"), "");
	CHECK_STR(widens("command: [a]\nworkspace: sub\n"), "");
	CHECK_STR(widens("command: [a]\nfilesystem: {hide: [x], protect: [y], read: [., "
			 "/usr/share, /etc], "
			 "write: [.]}\n"),
		  "");
	CHECK_STR(widens("command: [a]\nworkspace: {mode: layer}\nroot: read-only\n"
			 "checkpoints: every-step\n"),
		  "");
	CHECK_STR(widens("command: [a]\nlimits: {memory: 1G, cpus: 1}\nenvironment: {set: "
			 "{LD_PRELOAD: x}}\n"),
		  "");
}

TEST(a_file_that_widens_is_told)
{
	CHECK_STR(widens("command: [a]\nfilesystem:\n  read: [/srv/x]\n"),
		  "filesystem.read /srv/x (job.yaml:3)");
	CHECK_STR(widens("command: [a]\nfilesystem: {write: [~/x]}\n"),
		  "filesystem.write /home/u/x (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nfilesystem: {read: [~/.npmrc]}\n"),
		  "filesystem.read /home/u/.npmrc (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nfilesystem: {read: [/etc/shadow]}\n"),
		  "filesystem.read /etc/shadow (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nfilesystem: {write: [a/.vscode]}\n"),
		  "filesystem.write /home/u/p/a/.vscode (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nworkspace: {mode: direct}\n"),
		  "workspace.mode direct (job.yaml:2)");
	CHECK_STR(
		widens("command: [a]\nworkspace: {mode: read-only}\nfilesystem: {write: [out]}\n"),
		"filesystem.write /home/u/p/out (job.yaml:3)");
	CHECK_STR(widens("command: [a]\nroot: layer\n"), "root layer (job.yaml:2)");
	/* It would be written on the host at once, and not in the layer. */
	CHECK_STR(widens("command: [a]\nfilesystem: {write: [out]}\n"),
		  "filesystem.write /home/u/p/out (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nfilesystem: {sockets: [s]}\n"),
		  "filesystem.sockets /home/u/p/s (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nworkspace: /home/u/q\n"),
		  "workspace /home/u/q (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nenvironment: {pass: [TOKEN]}\n"),
		  "environment.pass TOKEN (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nenvironment: {descriptors: [3]}\n"),
		  "environment.descriptors 3 (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nlimits: {memory: 8G}\n"),
		  "limits.memory 8 GiB (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nlimits: {wall: unlimited}\n"),
		  "limits.wall unlimited (job.yaml:2)");
	CHECK_STR(widens("command: [a]\nisolation: {accept-weaker: [hide]}\n"),
		  "isolation.accept-weaker hide (job.yaml:2)");
}

/* What the file still asks for once a person has said how the workspace is written. */
static const char *widens_beside(const char *mode, const char *text)
{
	static char found[256];
	cleanup_spec struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);
	char *clause;

	CHECK(spec_load(spec, "job.yaml", "/home/u/p/job.yaml", text, strlen(text), NULL) == 0);
	CHECK(spec_set_workspace_mode(spec, mode, "--mode", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	clause = spec_file_widens(spec);
	snprintf(found, sizeof found, "%s", clause ? clause : "");
	free(clause);
	return found;
}

TEST(a_directory_to_be_written_gives_nothing_where_all_is_written_directly)
{
	const char text[] = "command: [a]\nworkspace: {mode: direct}\nfilesystem: {write: [out]}\n";

	CHECK_STR(widens_beside("direct", text), "");
	CHECK_STR(widens_beside("layer", text), "filesystem.write /home/u/p/out (job.yaml:3)");
	CHECK_STR(widens_beside("read-only", text), "filesystem.write /home/u/p/out (job.yaml:3)");
	CHECK_STR(widens_beside("direct", "command: [a]\nfilesystem: {write: [.vscode]}\n"),
		  "filesystem.write /home/u/p/.vscode (job.yaml:2)");
}

TEST(the_workspace_is_a_layer_unless_somebody_says)
{
	cleanup_spec struct spec *spec = job("/home/u", "/home/u/p");

	CHECK(spec_finish(spec, NULL) == 0);
	CHECK_INT(spec->workspace_mode, SPEC_WORKSPACE_LAYER);
	CHECK_STR(spec->workspace_mode_origin, "default");
	CHECK(!spec->root_is_layer && !spec->checkpoints_every_step);
}

TEST(what_a_person_typed_is_not_the_files_doing)
{
	cleanup_spec struct spec *spec = job("/home/u", "/home/u/p");
	char *clause;

	CHECK(spec_add_rule(spec, SPEC_READ, "/srv/x", "--read", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	CHECK(!spec_file_widens(spec));
	clause = spec_widens(spec);
	CHECK_STR(clause, "filesystem.read /srv/x (--read)");
	free(clause);
}

# SPDX-License-Identifier: Apache-2.0
"""libatoll for strangers: the installed headers and the shared library are enough."""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)
ROOT = os.environ.get("ATOLL_ROOT") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LIBRARY = os.path.join(BUILD, "src", "libatoll.so")

STRANGER = r"""
#include <atoll/atoll.h>
#include <stdio.h>

static void started(int32_t pid, void *data)
{
	*(int *)data = pid > 0;
}

int main(int argc, char **argv)
{
	struct atoll_error err = {0};
	struct atoll_result result;
	int was_started = 0;
	struct atoll_run_options options = {
		.stdin_fd = -1, .stdout_fd = 1, .stderr_fd = 2, .started = started, .data = &was_started};
	struct atoll_job *job = atoll_job_new(&err);

	(void)argc;
	if (!job || atoll_job_command(job, argv + 2, &err) < 0 ||
	    atoll_job_set(job, "mode", "direct", &err) < 0 || atoll_job_set(job, "timeout", argv[1], &err) < 0 ||
	    atoll_job_run(job, &options, &result, &err) < 0) {
		printf("failed: %s\n", err.text);
		atoll_job_free(job);
		return atoll_error_status(&err);
	}
	atoll_job_free(job);
	fflush(stdout);
	dprintf(1, "started %d, status %d, denials %u\n", was_started, atoll_result_status(&result),
		result.n_denials);
	return 0;
}
"""


def need_library():
    need("gcc")
    if "ASAN_OPTIONS" in os.environ:
        skip("a libatoll without sanitizers")
    if not os.path.exists(LIBRARY):
        skip("libatoll.so in the build directory")


def build_stranger(place, compiler, *more, source=STRANGER):
    source = write(place.tmp + "/stranger.c", source)
    program = place.tmp + "/stranger"
    done = subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-I", ROOT + "/include", "-o", program, *more, source, LIBRARY,
                           "-Wl,-rpath," + os.path.dirname(LIBRARY)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    same((done.returncode, done.stdout), (0, ""), "compiling with " + compiler)
    return program


@test("a stranger's program runs a job with nothing but the public header")
def _():
    need_library()
    with Place() as place:
        program = build_stranger(place, "gcc", "-std=c11", "-D_GNU_SOURCE")
        good = plain(place, [program, "100s", "sh", "-c", "echo inside $ATOLL_SANDBOX; echo x >.git/hooks/h; exit 7"], confined=False)
        check("inside 1\n" in good.out and "started 1, status 7, denials 1\n" in good.out, good.out)
        late = plain(place, [program, "200ms", "sleep", "600"], confined=False)
        check("status %d" % TIMED_OUT in late.out, late.out)
        bad = plain(place, [program, "soon", "true"], confined=False)
        same(bad.status, BAD_REQUEST, "status")
        check(bad.out.startswith("failed: ") and "soon" in bad.out, bad.out)


@test("a program with threads, that ignores SIGCHLD")
def _():
    need_library()
    with Place() as place:
        threaded = STRANGER.replace("int main(", """
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static void *wait_for_ever(void *data) { pause(); return data; }
int main(""").replace("struct atoll_job *job = ", """pthread_t other;
	pthread_create(&other, NULL, wait_for_ever, NULL);
	signal(SIGCHLD, SIG_IGN);
	struct atoll_job *job = """)
        check(threaded.count("pthread") == 3, "the program has no threads")
        program = build_stranger(place, "gcc", "-std=c11", "-D_GNU_SOURCE", "-pthread", source=threaded)
        for _ in range(10):
            result = plain(place, [program, "100s", "sh", "-c", "echo inside; exit 7"], confined=False)
            same(result.out, "inside\nstarted 1, status 7, denials 0\n", "output")


ASKED = r"""
#include <atoll/atoll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct state {
	int write_fd, n_questions, n_connections, n_refused;
	int answer; /* given at once, or -1: later */
	char name[256], program[16], reason[128];
};

static enum atoll_answer_type ask(const struct atoll_question *question, void *data)
{
	struct state *state = data;
	struct atoll_answer answer = {.id = question->id, .answer = ATOLL_ASK_NO};
	struct atoll_answer other = {.id = question->id + 1000, .answer = ATOLL_ASK_RUN};

	state->n_questions++;
	snprintf(state->name, sizeof state->name, "%s:%u", question->name, question->port);
	snprintf(state->program, sizeof state->program, "%s", question->program);
	if (state->answer >= 0)
		return (enum atoll_answer_type)state->answer;
	if (write(state->write_fd, &other, sizeof other) < 0 ||
	    write(state->write_fd, &answer, sizeof answer) < 0)
		return ATOLL_ASK_NOBODY;
	return ATOLL_ASK_LATER;
}

static void connection(const struct atoll_connection *connection, void *data)
{
	struct state *state = data;

	state->n_connections++;
	state->n_refused += connection->verdict == ATOLL_CONN_REFUSED;
	snprintf(state->reason, sizeof state->reason, "%s", connection->reason);
}

int main(int argc, char **argv)
{
	struct atoll_error err = {0};
	static struct atoll_result result;
	struct state state = {.answer = strcmp(argv[1], "later") == 0 ? -1 : ATOLL_ASK_NOBODY};
	int ends[2];
	struct atoll_job *job = atoll_job_new(&err);

	(void)argc;
	if (pipe(ends) < 0)
		return 1;
	state.write_fd = ends[1];
	struct atoll_run_options options = {.stdin_fd = -1, .stdout_fd = 1, .stderr_fd = 2, .data = &state,
		.ask = ask, .connection = connection, .answer_fd = ends[0]};
	if (!job || atoll_job_command(job, argv + 2, &err) < 0 || atoll_job_set(job, "ask", "on", &err) < 0 ||
	    atoll_job_run(job, &options, &result, &err) < 0) {
		printf("failed: %s\n", err.text);
		return 1;
	}
	atoll_job_free(job);
	dprintf(1, "questions %d, %s by %s, told %d, refused %d, listed %u, %s\n", state.n_questions, state.name, state.program,
		state.n_connections, state.n_refused, result.n_connections, state.reason);
	return 0;
}
"""


@test("a stranger's program is asked about the network, answers at once or later, and is told of every connection")
def _():
    need_library()
    need("curl")
    with Place() as place:
        program = build_stranger(place, "gcc", "-std=c11", "-D_GNU_SOURCE", source=ASKED)
        twice = ["sh", "-c", "curl -s -m 9 http://asked.test/; curl -4 -s -m 9 --noproxy '*' http://asked.test/; true"]
        later = plain(place, [program, "later", *twice], confined=False)
        # Both are refused by the one answer; the question names who it is for.
        check("questions 1, asked.test:80 by curl, told 2, refused 2, listed 1, a person said no\n" in later.out, later.out)
        nobody = plain(place, [program, "nobody", *twice], confined=False)
        check("questions 2, asked.test:80 by curl, told 2, refused 2, listed 1, nobody was there to allow it\n" in nobody.out, nobody.out)


LAYERS = r"""
#include <atoll/layer.h>
#include <stdio.h>
#include <stdlib.h>

#define must(call) ((call) >= 0 ? 0 : (printf("failed: %s\n", err.text), exit(1), 0))

int main(void)
{
	char *argv[] = {"sh", "-c", "echo mine >>f; echo x >.git/hooks/pre-commit", NULL};
	struct atoll_run_options options = {.stdin_fd = -1, .stdout_fd = 1, .stderr_fd = 2};
	struct atoll_apply_report report;
	struct atoll_changes *changes;
	struct atoll_record *records;
	struct atoll_error err = {0};
	struct atoll_result result;
	char *text;
	size_t n, size, added, removed;
	struct atoll_job *job = atoll_job_new(&err);

	setbuf(stdout, NULL);
	must(atoll_job_command(job, argv, &err));
	must(atoll_job_run(job, &options, &result, &err));
	atoll_job_free(job);
	must(atoll_records_list(false, &records, &n, &err));
	printf("%zu record, %s\n", n, records[0].workspace);
	atoll_records_free(records, n);
	must(atoll_changes_open(result.record, &changes, &err));
	for (size_t i = 0; i < changes->n; i++) {
		must(atoll_change_text(changes, i, &text, &size, &added, &removed, &err));
		printf("%s: %s, %zu lines\n", changes->items[i].path, changes->items[i].mark ? changes->items[i].mark : "-", added);
		free(text);
	}
	atoll_changes_close(changes);
	must(atoll_apply(NULL, &(struct atoll_apply_options){0}, &report, &err));
	printf("applied %d, held %d\n", (int)report.n_applied, (int)report.n_held);
	system("cat f");
	must(atoll_undo(NULL, false, &report, &err));
	system("cat f");
	must(atoll_record_discard(NULL, false, &err));
	return 0;
}
"""


@test("a stranger's program looks at changes, applies them and takes them back")
def _():
    need_library()
    need_layers()
    with Place() as place:
        program = build_stranger(place, "gcc", "-std=c11", "-D_GNU_SOURCE", "-Wno-unused-result", source=LAYERS)
        done = plain(place, [program], confined=False)
        same(done.out, "1 record, %s\n.git/hooks/pre-commit: git hooks, 1 lines\nf: -, 1 lines\napplied 1, held 1\none line\nmine\none line\n" % place.ws, done.err)
        check("no records" in atoll(place, "ls").out, "the record is still there")


@test("each header stands alone, in strict C")
def _():
    need("gcc")
    with Place() as place:
        for header in ("atoll.h", "layer.h", "step.h", "audit.h", "error.h"):
            source = write(place.tmp + "/alone.c", "#include <atoll/%s>\nint unused;\n" % header)
            done = subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I",
                                   ROOT + "/include", source], stderr=subprocess.PIPE, text=True)
            same((done.returncode, done.stderr), (0, ""), header)


@test("the shared library shows what the header promises, and nothing else")
def _():
    need_library()
    need("nm")
    promised = set()
    for header in ("atoll.h", "layer.h", "step.h", "audit.h"):
        with open(ROOT + "/include/atoll/" + header) as file:
            promised |= set(re.findall(r"^ATOLL_PUBLIC[^;(]*?(\w+)\(", file.read(), re.M))
    shown = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", LIBRARY], check=True, stdout=subprocess.PIPE, text=True)
    same({line.split()[0] for line in shown.stdout.splitlines()}, promised, "symbols")


@test("the program does not load libatoll, and links little")
def _():
    need("readelf")
    if "ASAN_OPTIONS" in os.environ:
        skip("a build without sanitizers")
    text = subprocess.run(["readelf", "-d", ATOLL], check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = {re.sub(r"\.so.*", "", name) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text)}
    check(needed <= {"libc", "libsodium", "libyaml-0"}, "it links %s" % sorted(needed))


PLANNER = r"""
#include <atoll/atoll.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(int is_right, const char *what)
{
	if (!is_right) {
		printf("not: %s\n", what);
		failures++;
	}
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static struct atoll_job *make(const char *key, const char *value)
{
	struct atoll_error err = {0};
	char *argv[] = {"true", NULL};
	struct atoll_job *job = atoll_job_new(&err);

	expect(job && atoll_job_command(job, argv, &err) == 0, "a job with a command");
	expect(!key || atoll_job_set(job, key, value, &err) == 0, "a clause");
	return job;
}

static void plan_and_run(const char *version)
{
	struct atoll_job *one = make(NULL, NULL), *same = make(NULL, NULL), *other = make("pids", "77");
	char digest[65] = "", again[65] = "", third[65] = "";
	struct atoll_error err = {0};
	struct atoll_result result;
	char *text = NULL;

	expect(atoll_job_digest(one, digest, &err) == 0 && strlen(digest) == 64, "a digest");
	expect(atoll_job_digest(same, again, &err) == 0 && strcmp(digest, again) == 0, "the same digest");
	expect(atoll_job_digest(other, third, &err) == 0 && strcmp(digest, third) != 0, "another digest");
	expect(atoll_job_plan(other, ATOLL_JSON, &text, &err) == 0 && strstr(text, third) && strstr(text, "--pids"), "a plan");
	free(text);
	expect(atoll_job_plan(other, ATOLL_TEXT, &text, &err) == 0 && strstr(text, "77"), "a plan for people");
	free(text);
	for (int i = 0; i < 2; i++)
		expect(atoll_job_run(other, NULL, &result, &err) == 0 && result.end == ATOLL_EXITED && result.code == 0 &&
			       atoll_result_status(&result) == 0 && result.wall_ns > 0,
		       "a planned job runs, and once more");
	expect(atoll_doctor(ATOLL_JSON, &text, &err) == 0 && strstr(text, "\"ready\":true"), "doctor");
	free(text);
	expect(strstr(atoll_schema(), "\"limits\"") != NULL, "a schema");
	expect(strcmp(atoll_version(), version) == 0, "the version");
	atoll_job_free(one);
	atoll_job_free(same);
	atoll_job_free(other);
	atoll_job_free(NULL);
}

/* What goes wrong says whose problem it is; and nobody has to listen. */
static void fail(void)
{
	struct atoll_job *job = make(NULL, NULL);
	struct atoll_error err = {0};
	struct atoll_result result;

	expect(atoll_job_set(job, "no-such-clause", "x", &err) < 0 && err.fault == ATOLL_FAULT_REQUEST &&
		       strstr(err.text, "no-such-clause") && atoll_error_status(&err) == 240,
	       "an unknown clause");
	expect(atoll_job_set(job, "memory", "x", NULL) < 0, "a bad value, and nobody listens");
	expect(atoll_job_load(job, "/no/such/file", &err) == -ENOENT && err.errnum == ENOENT, "a file that is not there");
	expect(atoll_job_set(job, "read", "/no/such/place", &err) == 0, "a place is looked at later");
	expect(atoll_job_run(job, NULL, &result, &err) < 0 && err.fault == ATOLL_FAULT_REQUEST, "then it fails");
	expect(atoll_job_run(job, NULL, &result, NULL) < 0, "also if nobody listens");
	atoll_job_free(job);
	job = make("write", "/etc");
	expect(atoll_job_run(job, NULL, &result, &err) < 0 && err.fault == ATOLL_FAULT_POLICY && atoll_error_status(&err) == 241,
	       "a system directory");
	atoll_job_free(job);
	job = atoll_job_new(&err);
	expect(atoll_job_run(job, NULL, &result, &err) < 0 && err.fault == ATOLL_FAULT_REQUEST, "no command");
	atoll_job_free(job);
}

int main(int argc, char **argv)
{
	int before = open_descriptors();

	expect(argc == 2, "a version");
	plan_and_run(argv[1]);
	fail();
	expect(open_descriptors() == before, "no descriptor is left open");
	return failures ? 1 : 0;
}
"""


@test("plan, digest, doctor, schema and every kind of failure through the library")
def _():
    need_library()
    with Place() as place:
        version = atoll(place, "version").out.split()[1]
        source = write(place.tmp + "/planner.c", PLANNER)
        program = place.tmp + "/planner"
        done = subprocess.run(["gcc", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", ROOT + "/include", "-o", program, source,
                               LIBRARY, "-Wl,-rpath," + os.path.dirname(LIBRARY)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        same((done.returncode, done.stdout), (0, ""), "compiling")
        result = plain(place, [program, version], confined=False)
        same((result.status, result.out, result.err), (0, "", ""), "what went wrong")


main()

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the Win32 modules, as TAP, for Wine and Windows
 *
 *	atoll-modules.exe            every test
 *	atoll-modules.exe child ...  what the tests start
 *
 * A test may name a check of engine-probe.h that the platform must keep; where it does not, the
 * test is skipped with what was observed. test_win_wine.py has the exact list of skips under Wine.
 * A pass under Wine says that the code does what Wine implements, and nothing about containment.
 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt.h"
#include "win/pe/win-canary.h"
#include "win/pe/win-launch.h"
#include "win/pe/win-text.h"
#include "win/win.h"

#include <setjmp.h>
#include <shellapi.h>
#include <stdio.h>

static struct win_host host;
static struct win_calls calls;
static char place[WIN_PATH_SIZE / 16]; /* a directory for the tests */
static jmp_buf failed;
static struct atoll_error err;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("# %s:%d: %s: %s\n", __FILE__, __LINE__, #condition, err.text);     \
			longjmp(failed, 1);                                                        \
		}                                                                                  \
	} while (0)

/* ---- the child ---- */

static int child_main(int n, char **words)
{
	HANDLE in = GetStdHandle(STD_INPUT_HANDLE), out = GetStdHandle(STD_OUTPUT_HANDLE);
	static char data[65536];
	DWORD size, written;

	if (streq(words[2], "copy")) {
		while (ReadFile(in, data, sizeof data, &size, NULL) && size > 0)
			if (!WriteFile(out, data, size, &written, NULL))
				return 1;
	} else if (streq(words[2], "arguments")) {
		for (int i = 3; i < n; i++)
			printf("%s\n", words[i]);
	} else if (streq(words[2], "exit")) {
		return atoi(words[3]);
	} else if (streq(words[2], "sleep")) {
		Sleep(60000);
	} else if (streq(words[2], "environment")) {
		wchar_t *block = GetEnvironmentStringsW();

		for (const wchar_t *at = block; *at; at += wcslen(at) + 1) {
			cleanup_free char *text = win_narrow(at);

			printf("%s\n", text ? text : "?");
		}
	} else if (streq(words[2], "handle")) {
		/* Whether a handle of the parent is valid here. */
		HANDLE handle = (HANDLE)(uintptr_t)strtoull(words[3], NULL, 10);
		DWORD flags;

		printf("%s\n", GetHandleInformation(handle, &flags) ? "valid" : "invalid");
	} else if (streq(words[2], "breed")) {
		STARTUPINFOW start = {.cb = sizeof start};
		PROCESS_INFORMATION process;
		wchar_t command[2048];

		swprintf(command, ARRAY_SIZE(command), L"\"%hs\" child sleep", words[0]);
		if (!CreateProcessW(NULL, command, NULL, NULL, FALSE, 0, NULL, NULL, &start,
				    &process))
			return 1;
		printf("%lu\n", process.dwProcessId);
		fflush(stdout);
		Sleep(60000);
	}
	return 0;
}

/* ---- helpers ---- */

static struct nt_job_limits plain_limits(void)
{
	return (struct nt_job_limits){.kill_on_close = true, .no_breakaway = true};
}

struct child {
	win_handle job;
	PROCESS_INFORMATION process;
	struct win_pipes pipes;
};

/* The program itself as a child in a job, with pipes and the caller's own token. */
static void start_child(struct child *child, const char *const *words, const char *environment,
			size_t environment_size)
{
	const struct nt_job_limits limits = plain_limits();
	cleanup_free char *line = NULL;
	struct win_launch launch = {.environment = environment,
				    .environment_size = environment_size};

	memset(child, 0, sizeof *child);
	CHECK(calls.make_job(&host, &limits, &child->job, &err) == 0);
	launch.job = child->job;
	CHECK(nt_command_line(words, &line) == 0);
	CHECK(win_pipes_open(&child->pipes, &err) == 0);
	CHECK(win_process_start(&launch, line, child->pipes.child, &child->process, &err) == 0);
	win_pipes_close_child(&child->pipes);
}

static void resume_child(struct child *child)
{
	CHECK(ResumeThread(child->process.hThread) == 1);
}

static size_t read_all(HANDLE from, char *ret, size_t size)
{
	size_t used = 0;
	DWORD n;

	while (used < size - 1 && ReadFile(from, ret + used, (DWORD)(size - 1 - used), &n, NULL) &&
	       n > 0)
		used += n;
	ret[used] = '\0';
	return used;
}

static void end_child(struct child *child)
{
	calls.close(&host, child->job);
	WaitForSingleObject(child->process.hProcess, 10000);
	CloseHandle(child->process.hThread);
	CloseHandle(child->process.hProcess);
	win_pipes_close_parent(&child->pipes);
}

/* Output without carriage returns. */
static char *output_of(const char *const *words, const char *environment, size_t size)
{
	static char text[65536];
	struct child child;
	char *to = text;

	start_child(&child, words, environment, size);
	resume_child(&child);
	read_all(child.pipes.parent[1], text, sizeof text);
	end_child(&child);
	for (const char *from = text; *from; from++)
		if (*from != '\r')
			*to++ = *from;
	*to = '\0';
	return text;
}

/* ---- tests ---- */

static void test_text(void)
{
	cleanup_free wchar_t *wide = win_wide("h\303\251 \360\237\230\200");
	cleanup_free char *back = NULL;

	CHECK(wide && wcslen(wide) == 5);
	back = win_narrow(wide);
	CHECK(back && streq(back, "h\303\251 \360\237\230\200"));
	CHECK(!win_wide("\377"));
	CHECK(!win_narrow(L"\xd800x"));
}

static void test_arguments(void)
{
	const char *const words[] = {host.program, "child",    "arguments", "two words", "a\"b",
				     "c\\",	   "d\\\\\"e", "",	    "h\303\251", NULL};

	CHECK(streq(output_of(words, NULL, 0), "two words\na\"b\nc\\\nd\\\\\"e\n\nh\303\251\n"));
}

static void test_environment(void)
{
	static const char *const variables[] = {"B=2", "a=1", "SystemRoot=C:\\windows", NULL};
	const char *const words[] = {host.program, "child", "environment", NULL};
	cleanup_free char *block = NULL;
	int size = nt_environment_block(variables, &block);
	const char *text;

	CHECK(size > 0);
	text = output_of(words, block, (size_t)size);
	CHECK(strstr(text, "a=1\n") && strstr(text, "B=2\n"));
	CHECK(!strstr(text, "LOCALAPPDATA="));
}

static DWORD WINAPI write_million(void *argument)
{
	static char data[65536];
	DWORD n;

	for (int i = 0; i < 16; i++)
		WriteFile(argument, data, sizeof data, &n, NULL);
	CloseHandle(argument);
	return 0;
}

static void test_streams(void)
{
	const char *const words[] = {host.program, "child", "copy", NULL};
	cleanup_free char *text = malloc(1 << 21);
	struct child child;
	HANDLE writer;

	CHECK(text);
	start_child(&child, words, NULL, 0);
	resume_child(&child);
	writer = CreateThread(NULL, 0, write_million, child.pipes.parent[0], 0, NULL);
	child.pipes.parent[0] = NULL;
	CHECK(read_all(child.pipes.parent[1], text, 1 << 21) == 1 << 20);
	CloseHandle(writer);
	end_child(&child);
}

static void test_handles(void)
{
	SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
	HANDLE event = NULL;
	char number[32];
	const char *const words[] = {host.program, "child", "handle", number, NULL};

	/* A number that is so high that the child has no handle of its own there. */
	for (int i = 0; i < 500; i++)
		event = CreateEventW(&inherited, TRUE, FALSE, NULL);
	snprintf(number, sizeof number, "%llu", (unsigned long long)(uintptr_t)event);
	CHECK(streq(output_of(words, NULL, 0), "invalid\n"));
}

static void test_status(void)
{
	const char *const words[] = {host.program, "child", "exit", "23", NULL};
	struct child child;
	DWORD status = 0;

	start_child(&child, words, NULL, 0);
	resume_child(&child);
	CHECK(WaitForSingleObject(child.process.hProcess, 20000) == WAIT_OBJECT_0);
	CHECK(GetExitCodeProcess(child.process.hProcess, &status) && status == 23);
	CHECK(calls.count_job(&host, child.job, &err) == 0);
	end_child(&child);
}

static void test_suspended(void)
{
	const char *const words[] = {host.program, "child", "exit", "0", NULL};
	struct win_process_view view = {0};
	struct win_item item = {.kind = WIN_ITEM_PROCESS};
	struct child child;

	start_child(&child, words, NULL, 0);
	item.handle = child.process.hProcess;
	item.thread = child.process.hThread;
	CHECK(calls.inspect(&host, (win_handle)&item, child.job, &view, &err) == 0);
	nt_acl_done(&view.token.default_list);
	CHECK(view.is_in_job && view.is_suspended);
	CHECK(WaitForSingleObject(child.process.hProcess, 200) == WAIT_TIMEOUT);
	CHECK(calls.resume(&host, (win_handle)&item, &err) == 0);
	CHECK(WaitForSingleObject(child.process.hProcess, 20000) == WAIT_OBJECT_0);
	end_child(&child);
}

static void test_job_ends_all(void)
{
	const char *const words[] = {host.program, "child", "breed", NULL};
	struct child child;
	HANDLE grandchild;
	char text[64] = "";
	DWORD n = 0;

	start_child(&child, words, NULL, 0);
	resume_child(&child);
	CHECK(ReadFile(child.pipes.parent[1], text, sizeof text - 1, &n, NULL));
	grandchild = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)strtoul(text, NULL, 10));
	CHECK(grandchild);
	end_child(&child); /* closes the last handle of the job */
	CHECK(WaitForSingleObject(grandchild, 20000) == WAIT_OBJECT_0);
	CloseHandle(grandchild);
}

static void test_job_is_ended_and_counted(void)
{
	const char *const words[] = {host.program, "child", "breed", NULL};
	struct child child;
	char text[64] = "";
	DWORD n = 0;

	start_child(&child, words, NULL, 0);
	resume_child(&child);
	CHECK(ReadFile(child.pipes.parent[1], text, sizeof text - 1, &n, NULL));
	CHECK(calls.end_job(&host, child.job, &err) == 0);
	CHECK(calls.count_job(&host, child.job, &err) == 0);
	end_child(&child);
}

static void test_wall_limit(void)
{
	const char *const words[] = {host.program, "child", "sleep", NULL};
	struct win_item item = {.kind = WIN_ITEM_PROCESS};
	struct child child;
	uint32_t status;

	start_child(&child, words, NULL, 0);
	item.handle = child.process.hProcess;
	resume_child(&child);
	CHECK(calls.wait(&host, (win_handle)&item, 300, &status, &err) == -ETIME);
	end_child(&child);
}

static void test_ledger(void)
{
	cleanup_free char *first = NULL, *second = NULL;
	size_t a, b;
	struct win_host other = host;

	CHECK(calls.lock(&host, &err) == 0);
	CHECK(calls.lock(&other, &err) == -EBUSY);
	CHECK(calls.read_ledger(&host, &first, &a, &err) == 0);
	CHECK(calls.append_ledger(&host, "one line\n", &err) == 0);
	CHECK(calls.read_ledger(&host, &second, &b, &err) == 0);
	CHECK(b == a + 9 && memcmp(second, first, a) == 0 && streq(second + a, "one line\n"));
	calls.unlock(&host);
	CHECK(calls.lock(&other, &err) == 0);
	calls.unlock(&other);
}

static void test_files(void)
{
	char directory[sizeof place + 32], file[sizeof place + 64], upper[sizeof place + 64];
	struct win_object *object = calloc(1, sizeof *object);
	cleanup_free char *names = NULL;
	win_handle handle;

	CHECK(object);
	snprintf(directory, sizeof directory, "%s\\Directory", place);
	snprintf(file, sizeof file, "%s\\File", directory);
	snprintf(upper, sizeof upper, "%s\\FILE", directory);
	CHECK(calls.kind(&host, directory) == NT_NOTHING);
	CHECK(calls.make_directory(&host, directory, &err) == 0);
	CHECK(calls.make_file(&host, file, &err) == 0);
	CHECK(calls.make_file(&host, file, &err) == -EEXIST);
	CHECK(calls.kind(&host, directory) == NT_IS_DIRECTORY);
	CHECK(calls.kind(&host, upper) == NT_IS_FILE);
	CHECK(calls.remove(&host, directory, &err) == -ENOTEMPTY);
	CHECK(calls.open(&host, upper, &handle, &err) == 0);
	CHECK(calls.describe(&host, handle, object, &err) == 0);
	CHECK(streq(object->path, file)); /* the name as it was made, not as it was opened */
	CHECK(!object->is_directory && !object->is_reparse);
	calls.close(&host, handle);
	CHECK(calls.open(&host, directory, &handle, &err) == 0);
	CHECK(calls.list(&host, handle, &names, &err) == 0);
	CHECK(streq(names, "File") && !names[5]);
	calls.close(&host, handle);
	CHECK(calls.remove(&host, file, &err) == 0);
	CHECK(calls.remove(&host, file, &err) == -ENOENT);
	CHECK(calls.remove(&host, directory, &err) == 0);
	free(object);
}

static void test_random(void)
{
	uint8_t a[12] = {0}, b[12] = {0};

	CHECK(calls.random(&host, a, sizeof a, &err) == 0);
	CHECK(calls.random(&host, b, sizeof b, &err) == 0);
	CHECK(memcmp(a, b, sizeof a) != 0);
}

static void test_canary_answers(void)
{
	struct win_canary canaries[2] = {{0}};

	CHECK(win_canary_read("granted 0000\ngranted 03ff\n", canaries, 2, &err) == 0);
	CHECK(canaries[0].granted == 0 && canaries[1].granted == 0x3ff);
	CHECK(win_canary_read("granted 0000\n", canaries, 2, &err) < 0);
	CHECK(win_canary_read("", canaries, 2, &err) < 0);
	CHECK(win_canary_read("granted 0000\ngranted 0000\ngranted 0000\n", canaries, 2, &err) < 0);
}

/* Promises: the probe is the test. */
static void test_promise(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
	const char *needs; /* a check that the platform must keep, or NULL */
} tests[] = {
	{"text is converted both ways", test_text, NULL},
	{"arguments arrive as they were given", test_arguments, NULL},
	{"the environment is the block and nothing else", test_environment, NULL},
	{"a mebibyte goes through both pipes", test_streams, NULL},
	{"a handle that is not listed is not inherited", test_handles, NULL},
	{"the exit status arrives", test_status, NULL},
	{"a process begins suspended and in its job", test_suspended, NULL},
	{"closing the job ends grandchildren", test_job_ends_all, NULL},
	{"an ended job has no processes", test_job_is_ended_and_counted, NULL},
	{"waiting ends at the wall limit", test_wall_limit, NULL},
	{"the ledger grows by its lines under one lock", test_ledger, NULL},
	{"files are made, named, listed and removed", test_files, NULL},
	{"random numbers differ", test_random, NULL},
	{"answers of the canary are complete", test_canary_answers, NULL},
	{"the token has its restricting SIDs", test_promise, "token.restricting"},
	{"the token is write-restricted", test_promise, "token.write-restricted"},
	{"the token has no privileges", test_promise, "token.privileges"},
	{"the token's administrators group only denies", test_promise, "token.administrators"},
	{"the token's integrity level is low", test_promise, "token.integrity"},
	{"the token's default list is kept", test_promise, "token.default-list"},
	{"the job limits memory", test_promise, "job.memory"},
	{"the job limits processes", test_promise, "job.processes"},
	{"the job limits the user interface", test_promise, "job.user-interface"},
	{"the desktop is the logon session's alone", test_promise, "desktop.list"},
	{"a list is read back as it was set", test_promise, "list.read-back"},
	{"a label is read back as it was set", test_promise, "label.read-back"},
	{"the canary child runs", test_promise, "canary.run"},
	{"the canary child writes nothing outside", test_promise, "canary.outside"},
	{"the canary child writes inside", test_promise, "canary.inside"},
};

static const struct engine_probe *find_probe(const struct engine_probe *probes, size_t n,
					     const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (streq(probes[i].name, name))
			return &probes[i];
	return NULL;
}

static int run_tests(void)
{
	struct engine_probe probes[ENGINE_PROBES_MAX];
	size_t n = engine_probe_all(&calls, place, probes);
	int n_failed = 0;

	printf("1..%d\n", (int)ARRAY_SIZE(tests));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		const struct engine_probe *probe =
			tests[i].needs ? find_probe(probes, n, tests[i].needs) : NULL;

		if (tests[i].needs && (!probe || !probe->holds)) {
			printf("ok %d - %s # SKIP %s %s\n", (int)i + 1, tests[i].name,
			       tests[i].needs, probe ? probe->observed : "was not probed");
			continue;
		}
		memset(&err, 0, sizeof err);
		if (setjmp(failed) == 0) {
			tests[i].run();
			printf("ok %d - %s\n", (int)i + 1, tests[i].name);
		} else {
			printf("not ok %d - %s\n", (int)i + 1, tests[i].name);
			n_failed++;
		}
		fflush(stdout);
	}
	return n_failed ? 1 : 0;
}

int main(void)
{
	wchar_t **wide, temp[MAX_PATH];
	cleanup_free char *directory = NULL;
	int n, r;

	wide = CommandLineToArgvW(GetCommandLineW(), &n);
	if (n >= 2 && wcscmp(wide[1], L"canary") == 0)
		return win_canary_main();
	if (n >= 3 && wcscmp(wide[1], L"child") == 0) {
		char **words = calloc((size_t)n + 1, sizeof *words);

		for (int i = 0; i < n; i++)
			words[i] = win_narrow(wide[i]);
		return child_main(n, words);
	}
	GetTempPathW(ARRAY_SIZE(temp), temp);
	directory = win_narrow(temp);
	snprintf(place, sizeof place, "%satoll-modules-%lu", directory, GetCurrentProcessId());
	r = win_host_open(place, &host, &calls, &err);
	if (r < 0) {
		printf("Bail out! %s\n", err.text);
		return 1;
	}
	return run_tests();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes on Windows: the command, and the canary child. Called through struct win_calls.
 *
 * Order for the command: pipes, CreateProcessAsUserW (suspended), inspect, resume, pumps, wait. The
 * pumps start with resume, because a suspended process writes nothing.
 */
#include "win/pe/win-launch.h"

#include "base/error.h"
#include "base/scope.h"
#include "win/pe/win-canary.h"
#include "win/pe/win-text.h"

#include <stdio.h>

/* ---- pipes ---- */

static void close_one(HANDLE *handle)
{
	if (*handle)
		CloseHandle(*handle);
	*handle = NULL;
}

void win_pipes_close_child(struct win_pipes *pipes)
{
	for (size_t i = 0; i < 3; i++)
		close_one(&pipes->child[i]);
}

void win_pipes_close_parent(struct win_pipes *pipes)
{
	for (size_t i = 0; i < 3; i++)
		close_one(&pipes->parent[i]);
}

int win_pipes_open(struct win_pipes *ret, struct atoll_error *err)
{
	*ret = (struct win_pipes){0};
	for (size_t i = 0; i < 3; i++) {
		HANDLE *reader = i == 0 ? &ret->child[0] : &ret->parent[i];
		HANDLE *writer = i == 0 ? &ret->parent[0] : &ret->child[i];

		if (CreatePipe(reader, writer, NULL, 65536) &&
		    SetHandleInformation(ret->child[i], HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT))
			continue;
		int r = win_fail(err, "process.pipes", "CreatePipe");

		win_pipes_close_child(ret);
		win_pipes_close_parent(ret);
		return r;
	}
	return 0;
}

/* ---- starting ---- */

struct attributes {
	LPPROC_THREAD_ATTRIBUTE_LIST list;
	HANDLE jobs[1], inherited[3];
};

static void attributes_done(struct attributes *attributes)
{
	if (attributes->list)
		DeleteProcThreadAttributeList(attributes->list);
	free(attributes->list);
}

static int attributes_make(struct attributes *ret, HANDLE job, const HANDLE inherited[3],
			   struct atoll_error *err)
{
	SIZE_T size = 0;

	InitializeProcThreadAttributeList(NULL, 2, 0, &size);
	ret->list = calloc(1, size);
	if (!ret->list)
		return error_oom(err);
	if (!InitializeProcThreadAttributeList(ret->list, 2, 0, &size)) {
		int r = win_fail(err, "process.attributes", "InitializeProcThreadAttributeList");

		free(ret->list);
		ret->list = NULL;
		return r;
	}
	ret->jobs[0] = job;
	memcpy(ret->inherited, inherited, sizeof ret->inherited);
	if (!UpdateProcThreadAttribute(ret->list, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
				       ret->inherited, sizeof ret->inherited, NULL, NULL))
		return win_fail(err, "process.handles", "UpdateProcThreadAttribute");
	if (job && !UpdateProcThreadAttribute(ret->list, 0, PROC_THREAD_ATTRIBUTE_JOB_LIST,
					      ret->jobs, sizeof ret->jobs, NULL, NULL))
		return win_fail(err, "process.job", "UpdateProcThreadAttribute");
	return 0;
}

int win_process_start(const struct win_launch *launch, const char *command_line,
		      const HANDLE inherited[3], PROCESS_INFORMATION *ret, struct atoll_error *err)
{
	cleanup_with(attributes_done) struct attributes attributes = {0};
	cleanup_free wchar_t *command = win_wide(command_line);
	cleanup_free wchar_t *directory = launch->directory ? win_wide(launch->directory) : NULL;
	cleanup_free wchar_t *environment =
		launch->environment ? win_wide_n(launch->environment, launch->environment_size)
				    : NULL;
	wchar_t desktop[WIN_NAME_SIZE + 16];
	STARTUPINFOEXW start = {.StartupInfo = {.cb = sizeof start}};
	const DWORD flags = CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT |
			    EXTENDED_STARTUPINFO_PRESENT | CREATE_NO_WINDOW;
	int r = attributes_make(&attributes, launch->job ? win_item_handle(launch->job) : NULL,
				inherited, err);

	if (r < 0)
		return r;
	if (!command || (launch->directory && !directory) || (launch->environment && !environment))
		return error_set(err, ATOLL_FAULT_REQUEST, EILSEQ, "process.text: no valid UTF-8");
	start.lpAttributeList = attributes.list;
	start.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
	start.StartupInfo.hStdInput = inherited[0];
	start.StartupInfo.hStdOutput = inherited[1];
	start.StartupInfo.hStdError = inherited[2];
	if (launch->desktop_name) {
		swprintf(desktop, ARRAY_SIZE(desktop), L"WinSta0\\%hs", launch->desktop_name);
		start.StartupInfo.lpDesktop = desktop;
	}
	if (launch->token ? !CreateProcessAsUserW(win_item_handle(launch->token), NULL, command,
						  NULL, NULL, TRUE, flags, environment, directory,
						  &start.StartupInfo, ret)
			  : !CreateProcessW(NULL, command, NULL, NULL, TRUE, flags, environment,
					    directory, &start.StartupInfo, ret))
		return win_fail(err, "process.started", "CreateProcessAsUserW");
	return 0;
}

/* ---- pumps ---- */

static DWORD WINAPI pump(void *argument)
{
	struct win_pump *in = argument;
	char data[16384];
	DWORD n, written;

	while (ReadFile(in->from, data, sizeof data, &n, NULL) && n > 0) {
		if (in->n_bytes &&
		    (uint64_t)InterlockedAdd64(in->n_bytes, n) > in->host->output_limit) {
			in->host->output_was_cut = true;
			break;
		}
		for (DWORD done = 0; done < n; done += written)
			if (!WriteFile(in->to, data + done, n - done, &written, NULL))
				return 1;
	}
	if (in->closes_to)
		close_one(&in->to);
	return 0;
}

static volatile LONG64 output_bytes;

static struct win_pump *pump_start(struct win_host *host, HANDLE from, HANDLE to, bool is_input)
{
	struct win_pump *in = calloc(1, sizeof *in);

	if (!in)
		return NULL;
	*in = (struct win_pump){.from = from, .to = to, .closes_to = is_input, .host = host};
	if (!is_input)
		in->n_bytes = &output_bytes;
	in->thread = CreateThread(NULL, 0, pump, in, 0, NULL);
	if (in->thread)
		return in;
	free(in);
	return NULL;
}

/* Output pumps end when the last process of the job is gone; the input pump may wait for a person
 * for ever and is left behind: the launcher exits. */
void win_close_process(struct win_item *item)
{
	for (size_t i = 1; i < 3; i++)
		if (item->pumps[i]) {
			WaitForSingleObject(item->pumps[i]->thread, 5000);
			close_one(&item->pumps[i]->from);
		}
	close_one(&item->thread);
	close_one(&item->handle);
}

/* ---- the calls ---- */

static int launch_start(void *context, const struct win_launch *launch, win_handle *ret,
			struct atoll_error *err)
{
	struct win_host *host = context;
	PROCESS_INFORMATION process;
	struct win_pipes pipes;
	struct win_item *item;
	int r;

	if (launch->is_terminal)
		return error_set(err, ATOLL_FAULT_HOST, ENOTSUP,
				 "process.terminal: ConPTY is not used yet; redirect a stream");
	r = win_pipes_open(&pipes, err);
	if (r == 0)
		r = win_process_start(launch, launch->command_line, pipes.child, &process, err);
	win_pipes_close_child(&pipes);
	if (r < 0) {
		win_pipes_close_parent(&pipes);
		return r;
	}
	*ret = win_item_new(WIN_ITEM_PROCESS, process.hProcess);
	item = (struct win_item *)*ret;
	if (!item)
		return error_oom(err);
	item->thread = process.hThread;
	item->was_started_suspended = true;
	item->pumps[0] = pump_start(host, GetStdHandle(STD_INPUT_HANDLE), pipes.parent[0], true);
	item->pumps[1] = pump_start(host, pipes.parent[1], GetStdHandle(STD_OUTPUT_HANDLE), false);
	item->pumps[2] = pump_start(host, pipes.parent[2], GetStdHandle(STD_ERROR_HANDLE), false);
	if (!item->pumps[1] || !item->pumps[2])
		return error_set(err, ATOLL_FAULT_HOST, EIO, "process.pipes: no thread");
	return 0;
}

static int launch_inspect(void *context, win_handle process, win_handle job,
			  struct win_process_view *ret, struct atoll_error *err)
{
	struct win_item *item = (struct win_item *)process;
	BOOL is_in_job = FALSE;
	HANDLE token;
	DWORD count;
	int r;

	(void)context;
	if (!OpenProcessToken(item->handle, TOKEN_QUERY, &token))
		return win_fail(err, "process.token", "OpenProcessToken");
	r = win_read_token(token, &ret->token, err);
	CloseHandle(token);
	if (r < 0)
		return r;
	if (!IsProcessInJob(item->handle, win_item_handle(job), &is_in_job))
		return win_fail(err, "process.job", "IsProcessInJob");
	ret->is_in_job = is_in_job;
	/* SuspendThread() returns how often the thread was suspended before: 1 if it never ran. */
	count = SuspendThread(item->thread);
	ret->is_suspended = count == 1;
	if (count != (DWORD)-1)
		ResumeThread(item->thread);
	return 0;
}

static int launch_resume(void *context, win_handle process, struct atoll_error *err)
{
	(void)context;
	return ResumeThread(((struct win_item *)process)->thread) == 1
		       ? 0
		       : win_fail(err, "process.resume", "ResumeThread");
}

static int launch_wait(void *context, win_handle process, uint64_t timeout_ms, uint32_t *ret_status,
		       struct atoll_error *err)
{
	const ULONGLONG end = GetTickCount64() + timeout_ms;
	struct win_item *item = (struct win_item *)process;
	struct win_host *host = context;
	DWORD status;

	for (;;) {
		DWORD r = WaitForSingleObject(item->handle, 100);

		if (r == WAIT_OBJECT_0)
			break;
		if (r != WAIT_TIMEOUT)
			return win_fail(err, "process.wait", "WaitForSingleObject");
		if (host->output_was_cut)
			return error_set(err, ATOLL_FAULT_JOB, EFBIG,
					 "limits.output: more output than allowed");
		if (timeout_ms != UINT64_MAX && GetTickCount64() >= end)
			return -ETIME;
	}
	if (!GetExitCodeProcess(item->handle, &status))
		return win_fail(err, "process.wait", "GetExitCodeProcess");
	*ret_status = status;
	return 0;
}

/* ---- the canary child ---- */

static int write_paths(HANDLE to, const struct win_canary *canaries, size_t n,
		       struct atoll_error *err)
{
	DWORD written;

	for (size_t i = 0; i < n; i++)
		if (!WriteFile(to, canaries[i].path, (DWORD)strlen(canaries[i].path), &written,
			       NULL) ||
		    !WriteFile(to, "\n", 1, &written, NULL))
			return win_fail(err, "canary.pipe", "WriteFile");
	return 0;
}

static size_t read_answers(HANDLE from, char *ret, size_t size)
{
	size_t used = 0;
	DWORD n;

	while (used < size - 1 && ReadFile(from, ret + used, (DWORD)(size - 1 - used), &n, NULL) &&
	       n > 0)
		used += n;
	ret[used] = '\0';
	return used;
}

static int launch_run_canary(void *context, const struct win_launch *launch,
			     struct win_canary *canaries, size_t n, struct atoll_error *err)
{
	struct win_host *host = context;
	cleanup_free char *command = NULL, *answers = calloc(1, 65536);
	PROCESS_INFORMATION process = {0};
	struct win_pipes pipes;
	int r;

	if (!answers || asprintf(&command, "\"%s\" canary", host->program) < 0)
		return error_oom(err);
	r = win_pipes_open(&pipes, err);
	if (r == 0)
		r = win_process_start(launch, command, pipes.child, &process, err);
	win_pipes_close_child(&pipes);
	if (r == 0 && ResumeThread(process.hThread) != 1)
		r = win_fail(err, "canary.resume", "ResumeThread");
	/* The canary reads all paths before it answers: neither pipe can fill up on both sides. */
	if (r == 0)
		r = write_paths(pipes.parent[0], canaries, n, err);
	close_one(&pipes.parent[0]);
	if (r == 0) {
		read_answers(pipes.parent[1], answers, 65536);
		r = win_canary_read(answers, canaries, n, err);
	}
	if (process.hProcess) {
		if (WaitForSingleObject(process.hProcess, 10000) != WAIT_OBJECT_0)
			TerminateProcess(process.hProcess, 1);
		close_one(&process.hThread);
		close_one(&process.hProcess);
	}
	win_pipes_close_parent(&pipes);
	return r;
}

void win_launch_calls(struct win_calls *calls)
{
	calls->start = launch_start;
	calls->inspect = launch_inspect;
	calls->resume = launch_resume;
	calls->wait = launch_wait;
	calls->run_canary = launch_run_canary;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in struct win_calls and makes the store. Called once by the programs' mains. */
#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"
#include "win/pe/pe.h"
#include "win/pe/win-text.h"

#include <stdio.h>

static int find_program(struct win_host *host, struct atoll_error *err)
{
	cleanup_free wchar_t *wide = calloc(WIN_PATH_SIZE, sizeof *wide);
	cleanup_free char *path = NULL;
	DWORD n;

	if (!wide)
		return error_oom(err);
	n = GetModuleFileNameW(NULL, wide, WIN_PATH_SIZE);
	if (n == 0 || n >= WIN_PATH_SIZE)
		return win_fail(err, "program.path", "GetModuleFileNameW");
	path = win_narrow(wide);
	if (!path || strchr(path, '"'))
		return error_set(err, ATOLL_FAULT_HOST, EILSEQ, "program.path");
	snprintf(host->program, sizeof host->program, "%s", path);
	return 0;
}

static int make_directory(const char *path, struct atoll_error *err)
{
	cleanup_free wchar_t *wide = win_path(path);

	if (!wide)
		return error_oom(err);
	if (CreateDirectoryW(wide, NULL) || GetLastError() == ERROR_ALREADY_EXISTS)
		return 0;
	return win_fail(err, "store.directory", "CreateDirectoryW");
}

int win_host_open(const char *store, struct win_host *ret, struct win_calls *ret_calls,
		  struct atoll_error *err)
{
	static const char *const beneath[] = {"temp", "mirrors"};
	int r = make_directory(store, err);

	*ret = (struct win_host){.lock = INVALID_HANDLE_VALUE, .output_limit = UINT64_MAX};
	snprintf(ret->store, sizeof ret->store, "%s", store);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(beneath); i++) {
		cleanup_free char *path = NULL;

		if (asprintf(&path, "%s\\%s", store, beneath[i]) < 0)
			return error_oom(err);
		r = make_directory(path, err);
	}
	if (r == 0)
		r = find_program(ret, err);
	*ret_calls = (struct win_calls){.context = ret};
	win_file_calls(ret_calls);
	win_token_calls(ret_calls);
	win_job_calls(ret_calls);
	win_desktop_calls(ret_calls);
	win_launch_calls(ret_calls);
	return r;
}

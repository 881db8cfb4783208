/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attempts of the canary child. Called in a process of its own under the final token. Only the
 * canary's directory and the files in it are touched. The order leaves every later attempt what it
 * needs: rename and delete come last.
 */
#include "win/pe/win-canary.h"

#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"
#include "win/pe/win-text.h"

#include <stdio.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

static wchar_t *name_in(const char *directory, const char *name)
{
	cleanup_free char *path = NULL;

	return asprintf(&path, "%s\\%s", directory, name) < 0 ? NULL : win_path(path);
}

static HANDLE open_for(const wchar_t *path, DWORD access, DWORD how)
{
	return path ? CreateFileW(path, access, SHARE_ALL, NULL, how,
				  FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS, NULL)
		    : INVALID_HANDLE_VALUE;
}

/* Open, and write a byte: an open that succeeds and a write that fails is no success. */
static bool can_write(const wchar_t *path, DWORD access, DWORD how)
{
	HANDLE file = open_for(path, access, how);
	DWORD n = 0;
	bool can;

	if (file == INVALID_HANDLE_VALUE)
		return false;
	can = WriteFile(file, "x", 1, &n, NULL) && n == 1;
	CloseHandle(file);
	return can;
}

static bool can_change_attributes(const wchar_t *path)
{
	return path && SetFileAttributesW(path, FILE_ATTRIBUTE_HIDDEN) &&
	       (GetFileAttributesW(path) & FILE_ATTRIBUTE_HIDDEN);
}

/* Opening with the right is the attempt: the list itself is not changed. */
static bool can_open(const wchar_t *path, DWORD access)
{
	HANDLE file = open_for(path, access, OPEN_EXISTING);

	if (file == INVALID_HANDLE_VALUE)
		return false;
	CloseHandle(file);
	return true;
}

static bool try_one(const char *directory, enum nt_attempt attempt, unsigned granted)
{
	cleanup_free wchar_t *file = name_in(directory, "file");
	cleanup_free wchar_t *renamed = name_in(directory, "file-renamed");
	cleanup_free wchar_t *fresh = name_in(directory, "new");
	cleanup_free wchar_t *made = name_in(directory, "newdir");
	cleanup_free wchar_t *stream = name_in(directory, "file:stream");

	if (!file || !renamed || !fresh || !made || !stream)
		return attempt != NT_TRY_CREATE; /* no memory: looks wrong on both sides */
	switch (attempt) {
	case NT_TRY_CREATE:
		return can_write(fresh, GENERIC_WRITE, CREATE_NEW);
	case NT_TRY_MKDIR:
		return CreateDirectoryW(made, NULL);
	case NT_TRY_OVERWRITE:
		return can_write(file, FILE_WRITE_DATA, OPEN_EXISTING);
	case NT_TRY_APPEND:
		return can_write(file, FILE_APPEND_DATA, OPEN_EXISTING);
	case NT_TRY_ATTRIBUTES:
		return can_change_attributes(file);
	case NT_TRY_STREAM:
		/* The stream goes at once: the launcher removes files by name. */
		return can_write(stream, GENERIC_WRITE, CREATE_ALWAYS) && DeleteFileW(stream);
	case NT_TRY_DACL:
		return can_open(file, WRITE_DAC);
	case NT_TRY_OWNER:
		return can_open(file, WRITE_OWNER);
	case NT_TRY_RENAME:
		return MoveFileExW(file, renamed, 0);
	case NT_TRY_DELETE:
		return DeleteFileW(granted & 1U << NT_TRY_RENAME ? renamed : file);
	default:
		return true;
	}
}

static unsigned try_all(const char *directory)
{
	static const enum nt_attempt order[] = {
		NT_TRY_CREATE, NT_TRY_MKDIR, NT_TRY_OVERWRITE, NT_TRY_APPEND, NT_TRY_ATTRIBUTES,
		NT_TRY_STREAM, NT_TRY_DACL,  NT_TRY_OWNER,     NT_TRY_RENAME, NT_TRY_DELETE};
	unsigned granted = 0;

	_Static_assert(ARRAY_SIZE(order) == NT_ATTEMPTS, "every attempt is made");
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (try_one(directory, order[i], granted))
			granted |= 1U << order[i];
	return granted;
}

int win_canary_main(void)
{
	enum {
		SIZE = 1 << 20
	};
	cleanup_free char *input = calloc(1, SIZE);
	HANDLE from = GetStdHandle(STD_INPUT_HANDLE), to = GetStdHandle(STD_OUTPUT_HANDLE);
	size_t used = 0;
	DWORD n;

	if (!input)
		return 1;
	while (used < SIZE - 1 &&
	       ReadFile(from, input + used, (DWORD)(SIZE - 1 - used), &n, NULL) && n > 0)
		used += n;
	for (char *line = strtok(input, "\r\n"); line; line = strtok(NULL, "\r\n")) {
		char answer[32];
		int size = snprintf(answer, sizeof answer, "granted %04x\n", try_all(line));

		if (!WriteFile(to, answer, (DWORD)size, &n, NULL))
			return 1;
	}
	return 0;
}

int win_canary_read(const char *answers, struct win_canary *canaries, size_t n,
		    struct atoll_error *err)
{
	for (size_t i = 0; i < n; i++) {
		unsigned granted;
		int size = 0;

		if (sscanf(answers, "granted %4x\n%n", &granted, &size) != 1 || size == 0)
			return error_set(err, ATOLL_FAULT_HOST, EIO,
					 "canary.answer: the canary child answered %zu of %zu", i,
					 n);
		canaries[i].granted = granted;
		answers += size;
	}
	return *answers ? error_set(err, ATOLL_FAULT_HOST, EIO, "canary.answer: more than asked")
			: 0;
}

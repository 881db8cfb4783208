/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files, descriptors, the ledger and the lock on Windows. Called through struct win_calls. A file
 * is opened once, without following a reparse point, and everything is done by that handle.
 */
#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"
#include "win/pe/pe.h"
#include "win/pe/win-text.h"

#include <stdio.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define PARTS                                                                                      \
	(OWNER_SECURITY_INFORMATION | GROUP_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION |     \
	 LABEL_SECURITY_INFORMATION)
#define DACL_AUTO_INHERIT_REQ 0x0100

/* ---- handles ---- */

win_handle win_item_new(enum win_item_kind kind, HANDLE handle)
{
	struct win_item *item = calloc(1, sizeof *item);

	if (item)
		*item = (struct win_item){.kind = kind, .handle = handle};
	return (win_handle)item;
}

HANDLE win_item_handle(win_handle item)
{
	return ((struct win_item *)item)->handle;
}

static void file_close(void *context, win_handle handle)
{
	struct win_item *item = (struct win_item *)handle;

	(void)context;
	if (!item)
		return;
	if (item->kind == WIN_ITEM_PROCESS)
		win_close_process(item);
	else if (item->kind == WIN_ITEM_DESKTOP)
		CloseDesktop(item->handle);
	else
		CloseHandle(item->handle);
	free(item);
}

/* ---- lock and ledger ---- */

static HANDLE open_in_store(const struct win_host *host, const char *name, DWORD access,
			    DWORD share, DWORD how)
{
	cleanup_free char *path = NULL;
	cleanup_free wchar_t *wide = NULL;

	if (asprintf(&path, "%s\\%s", host->store, name) < 0)
		return INVALID_HANDLE_VALUE;
	wide = win_path(path);
	return wide ? CreateFileW(wide, access, share, NULL, how,
				  FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_WRITE_THROUGH, NULL)
		    : INVALID_HANDLE_VALUE;
}

static int file_lock(void *context, struct atoll_error *err)
{
	struct win_host *host = context;

	/* Shared with nobody: Windows closes it when the process ends, however it ends. */
	host->lock = open_in_store(host, "lock", GENERIC_READ | GENERIC_WRITE, 0, OPEN_ALWAYS);
	if (host->lock != INVALID_HANDLE_VALUE)
		return 0;
	if (GetLastError() == ERROR_SHARING_VIOLATION)
		return error_set(err, ATOLL_FAULT_HOST, EBUSY,
				 "store.lock: another atoll works on this store");
	return win_fail(err, "store.lock", "CreateFileW");
}

static void file_unlock(void *context)
{
	struct win_host *host = context;

	CloseHandle(host->lock);
	host->lock = INVALID_HANDLE_VALUE;
}

static int file_read_ledger(void *context, char **ret, size_t *ret_size, struct atoll_error *err)
{
	HANDLE file =
		open_in_store(context, "ledger", GENERIC_READ, FILE_SHARE_READ, OPEN_EXISTING);
	LARGE_INTEGER size;
	char *text = NULL;
	DWORD n = 0;
	int r = 0;

	if (file == INVALID_HANDLE_VALUE) {
		if (GetLastError() != ERROR_FILE_NOT_FOUND)
			return win_fail(err, "ledger.open", "CreateFileW");
		*ret = calloc(1, 1);
		*ret_size = 0;
		return *ret ? 0 : error_oom(err);
	}
	if (!GetFileSizeEx(file, &size))
		r = win_fail(err, "ledger.read", "GetFileSizeEx");
	else if (size.QuadPart > NT_LEDGER_SIZE_MAX)
		r = error_set(err, ATOLL_FAULT_HOST, EFBIG, "ledger.read: over 64 MiB");
	if (r == 0) {
		text = calloc(1, (size_t)size.QuadPart + 1);
		r = text ? 0 : error_oom(err);
	}
	if (r == 0 &&
	    (!ReadFile(file, text, (DWORD)size.QuadPart, &n, NULL) || n != (DWORD)size.QuadPart))
		r = win_fail(err, "ledger.read", "ReadFile");
	CloseHandle(file);
	if (r < 0) {
		free(text);
		return r;
	}
	*ret = text;
	*ret_size = n;
	return 0;
}

static int file_append_ledger(void *context, const char *line, struct atoll_error *err)
{
	HANDLE file = open_in_store(context, "ledger", FILE_APPEND_DATA | SYNCHRONIZE,
				    FILE_SHARE_READ, OPEN_ALWAYS);
	DWORD size = (DWORD)strlen(line), n = 0;
	int r = 0;

	if (file == INVALID_HANDLE_VALUE)
		return win_fail(err, "ledger.open", "CreateFileW");
	if (!WriteFile(file, line, size, &n, NULL) || n != size)
		r = win_fail(err, "ledger.write", "WriteFile");
	CloseHandle(file);
	return r;
}

/* ---- files by path ---- */

static int file_kind(void *context, const char *path)
{
	cleanup_free wchar_t *wide = win_path(path);
	DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;

	(void)context;
	if (!wide)
		return -ENOMEM;
	if (attributes != INVALID_FILE_ATTRIBUTES)
		return attributes & FILE_ATTRIBUTE_DIRECTORY ? NT_IS_DIRECTORY : NT_IS_FILE;
	switch (GetLastError()) {
	case ERROR_FILE_NOT_FOUND:
	case ERROR_PATH_NOT_FOUND:
		return NT_NOTHING;
	default:
		return -EIO;
	}
}

static int file_make_directory(void *context, const char *path, struct atoll_error *err)
{
	cleanup_free wchar_t *wide = win_path(path);

	(void)context;
	if (!wide)
		return error_oom(err);
	return CreateDirectoryW(wide, NULL) ? 0
					    : win_fail(err, "directory.made", "CreateDirectoryW");
}

static int file_make_file(void *context, const char *path, struct atoll_error *err)
{
	cleanup_free wchar_t *wide = win_path(path);
	HANDLE file;

	(void)context;
	if (!wide)
		return error_oom(err);
	file = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return win_fail(err, "file.made", "CreateFileW");
	CloseHandle(file);
	return 0;
}

static int file_remove(void *context, const char *path, struct atoll_error *err)
{
	cleanup_free wchar_t *wide = win_path(path);
	DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;

	(void)context;
	if (!wide)
		return error_oom(err);
	if (attributes == INVALID_FILE_ATTRIBUTES)
		return win_fail(err, "directory.removed", "GetFileAttributesW");
	if (attributes & FILE_ATTRIBUTE_READONLY)
		SetFileAttributesW(wide, attributes & ~(DWORD)FILE_ATTRIBUTE_READONLY);
	if (attributes & FILE_ATTRIBUTE_DIRECTORY ? RemoveDirectoryW(wide) : DeleteFileW(wide))
		return 0;
	return win_fail(err, "directory.removed", "RemoveDirectoryW or DeleteFileW");
}

/* ---- files by handle ---- */

static int file_open(void *context, const char *path, win_handle *ret, struct atoll_error *err)
{
	cleanup_free wchar_t *wide = win_path(path);
	HANDLE file;

	(void)context;
	if (!wide)
		return error_oom(err);
	/* FILE_LIST_DIRECTORY is FILE_READ_DATA for a file. WRITE_OWNER is for the label. */
	file = CreateFileW(wide,
			   READ_CONTROL | WRITE_DAC | WRITE_OWNER | FILE_READ_ATTRIBUTES |
				   FILE_LIST_DIRECTORY,
			   SHARE_ALL, NULL, OPEN_EXISTING,
			   FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return win_fail(err, "file.open", "CreateFileW");
	*ret = win_item_new(WIN_ITEM_HANDLE, file);
	return *ret ? 0 : error_oom(err);
}

/* "\\?\C:\x" and "\\?\UNC\server\x" as the model writes them. */
static void strip_prefix(const char *path, char *ret, size_t size)
{
	if (strncmp(path, "\\\\?\\UNC\\", 8) == 0)
		snprintf(ret, size, "\\\\%s", path + 8);
	else
		snprintf(ret, size, "%s", strncmp(path, "\\\\?\\", 4) == 0 ? path + 4 : path);
}

static int file_describe(void *context, win_handle file, struct win_object *ret,
			 struct atoll_error *err)
{
	cleanup_free wchar_t *wide = calloc(WIN_PATH_SIZE, sizeof *wide);
	cleanup_free char *path = NULL;
	FILE_ATTRIBUTE_TAG_INFO info;
	DWORD n;

	(void)context;
	if (!wide)
		return error_oom(err);
	n = GetFinalPathNameByHandleW(win_item_handle(file), wide, WIN_PATH_SIZE,
				      FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
	if (n == 0 || n >= WIN_PATH_SIZE)
		return win_fail(err, "file.name", "GetFinalPathNameByHandleW");
	path = win_narrow(wide);
	if (!path)
		return error_set(err, ATOLL_FAULT_HOST, EILSEQ, "file.name: no valid UTF-16");
	if (!GetFileInformationByHandleEx(win_item_handle(file), FileAttributeTagInfo, &info,
					  sizeof info))
		return win_fail(err, "file.name", "GetFileInformationByHandleEx");
	strip_prefix(path, ret->path, sizeof ret->path);
	ret->is_directory = info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY;
	ret->is_reparse = info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT;
	return 0;
}

static int file_get_security(void *context, win_handle file, struct nt_descriptor *ret,
			     struct atoll_error *err)
{
	cleanup_free uint8_t *data = NULL;
	DWORD size = 0;
	int r;

	(void)context;
	GetKernelObjectSecurity(win_item_handle(file), PARTS, NULL, 0, &size);
	if (GetLastError() != ERROR_INSUFFICIENT_BUFFER)
		return win_fail(err, "list.read", "GetKernelObjectSecurity");
	data = malloc(size);
	if (!data)
		return error_oom(err);
	if (!GetKernelObjectSecurity(win_item_handle(file), PARTS, data, size, &size))
		return win_fail(err, "list.read", "GetKernelObjectSecurity");
	r = nt_descriptor_unpack(data, size, ret);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "list.read: odd descriptor") : 0;
}

static int file_set_security(void *context, win_handle file, const struct nt_descriptor *sd,
			     struct atoll_error *err)
{
	cleanup_free uint8_t *data = NULL;
	struct nt_descriptor wanted = *sd;
	int r;

	(void)context;
	/* An absent label is set as an empty list. Lists that inherit say so, or Windows forgets
	 * it. */
	wanted.has_sacl = true;
	wanted.is_sacl_null = false;
	if (wanted.control & NT_SE_DACL_AUTO_INHERITED)
		wanted.control |= DACL_AUTO_INHERIT_REQ;
	r = nt_descriptor_pack(&wanted, &data);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "list.write: descriptor");
	if (!SetKernelObjectSecurity(win_item_handle(file),
				     DACL_SECURITY_INFORMATION | LABEL_SECURITY_INFORMATION, data))
		return win_fail(err, "list.write", "SetKernelObjectSecurity");
	return 0;
}

/* ---- the names in a directory ---- */

static bool is_dots(const wchar_t *name, size_t n)
{
	return (n == 1 && name[0] == L'.') || (n == 2 && name[0] == L'.' && name[1] == L'.');
}

static int add_name(char **names, size_t *used, const FILE_ID_BOTH_DIR_INFO *entry)
{
	const size_t n = entry->FileNameLength / sizeof(wchar_t);
	cleanup_free wchar_t *wide = calloc(n + 1, sizeof *wide);
	cleanup_free char *name = NULL;
	char *grown;

	if (!wide)
		return -ENOMEM;
	memcpy(wide, entry->FileName, entry->FileNameLength);
	if (is_dots(wide, n))
		return 0;
	name = win_narrow(wide);
	if (!name)
		return -EILSEQ;
	grown = realloc(*names, *used + strlen(name) + 2);
	if (!grown)
		return -ENOMEM;
	*names = grown;
	memcpy(grown + *used, name, strlen(name) + 1);
	*used += strlen(name) + 1;
	grown[*used] = '\0';
	return 0;
}

/* The order is the file system's: NTFS sorts. */
static int file_list(void *context, win_handle directory, char **ret, struct atoll_error *err)
{
	enum {
		SIZE = 65536
	};
	cleanup_free uint8_t *page = malloc(SIZE);
	FILE_INFO_BY_HANDLE_CLASS how = FileIdBothDirectoryRestartInfo;
	char *names = calloc(1, 1);
	size_t used = 0;
	int r = page && names ? 0 : error_oom(err);

	(void)context;
	while (r == 0 &&
	       GetFileInformationByHandleEx(win_item_handle(directory), how, page, SIZE)) {
		const FILE_ID_BOTH_DIR_INFO *entry = (const void *)page;

		for (;;) {
			r = add_name(&names, &used, entry);
			if (r < 0 || entry->NextEntryOffset == 0)
				break;
			entry = (const void *)((const uint8_t *)entry + entry->NextEntryOffset);
		}
		how = FileIdBothDirectoryInfo;
	}
	if (r == 0 && GetLastError() != ERROR_NO_MORE_FILES)
		r = win_fail(err, "file.list", "GetFileInformationByHandleEx");
	else if (r < 0)
		error_set(err, ATOLL_FAULT_HOST, -r, "file.list: a name");
	if (r < 0) {
		free(names);
		return r;
	}
	*ret = names;
	return 0;
}

void win_file_calls(struct win_calls *calls)
{
	calls->lock = file_lock;
	calls->unlock = file_unlock;
	calls->read_ledger = file_read_ledger;
	calls->append_ledger = file_append_ledger;
	calls->kind = file_kind;
	calls->make_directory = file_make_directory;
	calls->make_file = file_make_file;
	calls->remove = file_remove;
	calls->open = file_open;
	calls->describe = file_describe;
	calls->get_security = file_get_security;
	calls->set_security = file_set_security;
	calls->list = file_list;
	calls->close = file_close;
}

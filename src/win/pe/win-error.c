/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors on Windows: the functions of base/error.h, whose Linux version asks Linux for the words of
 * an errno. Called from everywhere; allocates nothing.
 */
#include "win/pe/win-error.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

static int code_for(enum atoll_fault fault)
{
	switch (fault) {
	case ATOLL_FAULT_POLICY:
		return EPERM;
	case ATOLL_FAULT_HOST:
		return ENOTSUP;
	default:
		return EINVAL;
	}
}

int error_set(struct atoll_error *err, enum atoll_fault fault, int errnum, const char *format, ...)
{
	const int code = errnum ? errnum : code_for(fault);
	va_list args;
	int n;

	if (!err)
		return -code;
	err->fault = fault;
	err->errnum = errnum;
	va_start(args, format);
	n = vsnprintf(err->text, sizeof err->text, format, args);
	va_end(args);
	/* These four are chosen by us, not by a call: the text says it all. */
	if (errnum && errnum != EIO && errnum != EPERM && errnum != EINVAL && errnum != ENOTSUP &&
	    n >= 0 && (size_t)n < sizeof err->text)
		snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", strerror(errnum));
	return -code;
}

int error_context(struct atoll_error *err, int code, const char *format, ...)
{
	char front[sizeof err->text], whole[2 * sizeof err->text];
	va_list args;

	if (!err || code >= 0)
		return code;
	va_start(args, format);
	vsnprintf(front, sizeof front, format, args);
	va_end(args);
	snprintf(whole, sizeof whole, "%s: %s", front, err->text);
	memcpy(err->text, whole, sizeof err->text - 1);
	err->text[sizeof err->text - 1] = '\0';
	return code;
}

static int errno_of(DWORD code)
{
	switch (code) {
	case ERROR_FILE_NOT_FOUND:
	case ERROR_PATH_NOT_FOUND:
		return ENOENT;
	case ERROR_ACCESS_DENIED:
		return EACCES;
	case ERROR_ALREADY_EXISTS:
	case ERROR_FILE_EXISTS:
		return EEXIST;
	case ERROR_DIR_NOT_EMPTY:
		return ENOTEMPTY;
	case ERROR_SHARING_VIOLATION:
	case ERROR_LOCK_VIOLATION:
		return EBUSY;
	default:
		return EIO;
	}
}

int win_fail_code(struct atoll_error *err, const char *check, const char *call, DWORD code)
{
	const int errnum = errno_of(code);

	if (err) {
		err->fault = ATOLL_FAULT_HOST;
		err->errnum = errnum;
		snprintf(err->text, sizeof err->text, "%s: %s: Windows error %lu", check, call,
			 code);
	}
	return -errnum;
}

int win_fail(struct atoll_error *err, const char *check, const char *call)
{
	return win_fail_code(err, check, call, GetLastError());
}

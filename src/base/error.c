/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/uapi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* See error.h about the analyzer. */
#undef error_set
#undef error_context

static int code_for(enum atoll_fault fault)
{
	switch (fault) {
	case ATOLL_FAULT_POLICY:
		return EPERM;
	case ATOLL_FAULT_HOST:
		return ENOTSUP;
	case ATOLL_FAULT_BUG:
		return ENOTRECOVERABLE;
	default:
		return EINVAL;
	}
}

int error_set(struct atoll_error *err, enum atoll_fault fault, int errnum, const char *format, ...)
{
	int code = errnum ? errnum : code_for(fault);
	va_list args;
	size_t used;

	if (!err)
		return -code;

	err->fault = fault;
	err->errnum = errnum;
	va_start(args, format);
	vsnprintf(err->text, sizeof err->text, format, args);
	va_end(args);

	if (errnum) {
		const char *words = strerrordesc_np(errnum);
		struct rlimit files;

		used = strlen(err->text);
		/* EMFILE: the object in the text is not the cause, the descriptor limit is. */
		if (errnum == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0)
			snprintf(err->text + used, sizeof err->text - used,
				 ": too many open files, this process may have %llu "
				 "(RLIMIT_NOFILE): ulimit -n 1024",
				 (unsigned long long)files.rlim_cur);
		else if (words)
			snprintf(err->text + used, sizeof err->text - used, ": %s", words);
		else
			snprintf(err->text + used, sizeof err->text - used, ": error %d", errnum);
	}
	return -code;
}

int error_context(struct atoll_error *err, int code, const char *format, ...)
{
	char story[sizeof err->text];
	va_list args;
	size_t used;

	if (!err)
		return code;

	memcpy(story, err->text, sizeof story);
	va_start(args, format);
	vsnprintf(err->text, sizeof err->text, format, args);
	va_end(args);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof err->text - used, ": %s", story);
	return code;
}

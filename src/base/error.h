/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <errno.h>
#include <stdarg.h>

/*
 * Tell the story of a failure where it happens: the text, and behind it the words for `errnum`
 * unless that is 0 (nothing in the system failed; the text says it all). Returns the negative errno
 * to hand up: -errnum, or one that stands for the fault. `err` may be NULL. Allocates nothing, so
 * it may be used between clone and exec.
 */
int error_set(struct atoll_error *err, enum atoll_fault fault, int errnum, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Put what the caller knows in front of the story: "prepare job x: open layer 'y': ...". Returns
 * `code` as given, so that it can stand in a return statement. */
int error_context(struct atoll_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Memory ran out. Here, so that whoever analyses a caller sees that it is never 0. */
static inline int error_oom(struct atoll_error *err)
{
	error_set(err, ATOLL_FAULT_HOST, ENOMEM, "allocate");
	return -ENOMEM;
}

#ifdef __clang_analyzer__
/* What it cannot see from the outside: a failure is never 0, nor a success. */
#define error_set(...)		      ((error_set)(__VA_ARGS__), -1)
#define error_context(err, code, ...) ((error_context)(err, code, __VA_ARGS__), code)
#endif

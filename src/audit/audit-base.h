/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"

/* Sizes and macros that the files of this component share. */

#define AUDIT_STORE_SIZE 17 /* the id of a store: 16 hex digits and the NUL */
#define AUDIT_KEY_SIZE	 17 /* the id of a key: the same */
#define AUDIT_TIME_SIZE	 31 /* 2026-11-16T10:45:39.123456789Z and the NUL */

/* Sets a message without the text of an errno, and is the negative errno `code` for programs. */
#define audit_refuse(err, fault, code, ...) (error_set(err, fault, 0, __VA_ARGS__), -(code))

/* A buffer of a fixed size on the stack. An event log may be open for days, and the allocator of
 * the static program never returns memory (base/libc.c), so repeated work allocates nothing. */
#define AUDIT_STACK_BUF(name, size)                                                                \
	char name##_room[size];                                                                    \
	struct buf name = {.data = name##_room, .room = (size), .limit = (size)-1}

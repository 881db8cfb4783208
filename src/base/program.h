/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Where one of our own helper programs lies: in libexec if this program is installed, beside it in
 * a build tree; in somebody else's program likewise as seen from the library. 0, or -ENOENT. */
int program_find(const char *name, char *ret, size_t size);

enum program_ties {
	/* Nothing of ours: no terminal, no stream, no variable; it is killed when the thread that
	 * has started it ends. */
	PROGRAM_ALONE,
	/* Standard streams, variables and ignored signals are ours. */
	PROGRAM_ATTACHED,
};
/* Executes a program with `fd` as its 3, and no other descriptor of ours. Its pid, or a negative
 * errno, also that of execve(2); `fd` stays the caller's. */
pid_t program_start(const char *path, const char *name, int fd, enum program_ties ties);

/* The pages of stack and heap that were used once, and are not now, go back to the kernel. Of a
 * program's first thread. */
void program_trim(void);

/* What lists of processes show of this one, as far as there is room; the arguments are gone. */
void program_set_title(const char *title);

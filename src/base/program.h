/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Where one of our own helper programs lies: in libexec if this program is installed, beside it in
 * a build tree; in somebody else's program likewise as seen from the library. 0, or -ENOENT. */
int program_find(const char *name, char *ret, size_t size);
/* Every plain absolute path where one of our own programs lies or is looked for: this program, the
 * library, the helper programs beside them, and the libexec directories as a whole. 0, or what
 * `each` has returned below 0. */
int program_each_place(int (*each)(const char *path, void *data), void *data);
/* The absolute path by which this program was executed, with the links that are on the way. False
 * in somebody else's program, and if the path is not known. */
bool program_called_as(char *ret, size_t size);
/* Where this one lies is not looked for again, here and in forks. */
void program_remember(void);

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
 * process that is ours alone, with one thread. The stack of another program's thread is left as it
 * is: nobody knows what lies beneath it. */
void program_trim(void);
/* The same in what may be a part of somebody else's program, or a copy of one of its threads: the
 * heap only if it is our own (libc.c). */
void program_trim_own(void);
/* Only the stack, if it is the program's own. */
void program_trim_stack(void);
/* The content of these bytes is not needed any more: whole pages of them are zeros from here on,
 * what is left at both ends stays as it is. Of static or allocated memory. */
void program_drop(void *memory, size_t size);
/* Whoever has called this function, whose __builtin_frame_address(0) it is, is never returned to:
 * what lies on the first thread's stack above it goes back to the kernel. */
void program_forget_callers(void *frame);

#define PROGRAM_PAGE 4096
/* For a static variable that is dropped as a whole. */
#define PROGRAM_PAGES _Alignas(PROGRAM_PAGE)

/* What lists of processes show of this one, as far as there is room; the arguments are gone. */
void program_set_title(const char *title);

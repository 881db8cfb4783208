/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Argument lists and command lines
 *
 * A Windows program gets one command line and splits it itself. Programs that are built with
 * Microsoft's C library split it by fixed rules: blanks separate, quotes hold together, backslashes
 * count only before a quote. nt_command_line() writes a line that these rules split into the given
 * arguments.
 *
 * cmd.exe splits by other rules and runs programs that a crafted argument names, so arguments for a
 * batch file (.bat, .cmd) cannot be quoted safely: such a program is refused unless its arguments
 * contain letters, digits and a few harmless signs only.
 */

#define NT_COMMAND_LINE_MAX 32767 /* UTF-16 units, with the NUL; here counted in bytes */

/* Write the command line into fresh memory that the caller frees. `argv` ends with NULL and has at
 * least one element. Returns 0, -E2BIG if the line is too long, -EINVAL for a program name that
 * has a quote or is empty, -EPERM for arguments that are unsafe for a batch file, or -ENOMEM. */
int nt_command_line(const char *const *argv, char **ret);

/* Split a line as Microsoft's C library does. The caller frees `*ret` in one piece. Returns the
 * number of arguments, or -ENOMEM. */
int nt_command_split(const char *line, char ***ret);

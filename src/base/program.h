/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Where one of our own helper programs lies: in libexec if this program is installed, beside it in
 * a build tree; in somebody else's program likewise as seen from the library. 0, or -ENOENT. */
int program_find(const char *name, char *ret, size_t size);

/* What lists of processes show of this one, as far as there is room; the arguments are gone. */
void program_set_title(const char *title);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Places that every sandbox sees as they are
 *
 * A symbolic link from a writable root to one of them is ordinary: an environment of Python's leads
 * to /usr/bin/python3. What lies there belongs to root, everybody may read it, and no run can write
 * it. /etc is not among them: it holds files that only root reads. Asked by the guard when a link
 * is made, and by the marks before a layer is applied. Pure functions over text.
 */

/* `path` is absolute; one with ".." is not in any place. */
bool common_has(const char *path);

/* The same for a link's text, seen from the directory that the link is in (absolute, no links): for
 * a relative one, ".." may stand at its beginning only. */
bool common_has_target(const char *dir, const char *text);

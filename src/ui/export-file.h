/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;

/* Creates a temporary file beside `path`, calls write() to fill it, and renames it to `path`: so
 * no program reads an incomplete file, and a symlink at `path` is replaced, not followed.
 * Removes the temporary file on failure. */
int export_file(const char *path, int (*write)(int fd, void *data, struct atoll_error *err),
		void *data, struct atoll_error *err);

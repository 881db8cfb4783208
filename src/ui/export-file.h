/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;

/* Let `write` fill a file that is made beside `path` and takes its place when it is whole: nobody
 * takes a half for all, and a link that a run has left under this name is replaced, not followed.
 * After a failure there is no such file. */
int export_file(const char *path, int (*write)(int fd, void *data, struct atoll_error *err),
		void *data, struct atoll_error *err);

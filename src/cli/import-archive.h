/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <limits.h>

/* For atoll_import_options.held: a line on standard error, for the first of them. `data` is this.
 */
struct import_printed {
	const char *file; /* the archive's name, for what to type to take it */
	uint64_t n;
};
void import_print_held(const char *path, const char *mark, void *data);

/* Unpack an archive ("-": standard input) into `dir`, or if that is NULL into a directory named
 * after the file; `ret_dir` is where. */
int import_archive(const char *file, const char *dir, const struct atoll_import_options *options,
		   char ret_dir[PATH_MAX], struct atoll_archive_report *ret,
		   struct atoll_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <limits.h>

/* For atoll_import_options.held: prints the first held files to standard error. `data` is a
 * struct import_printed. */
struct import_printed {
	const char *file; /* the archive's name, for the printed command */
	uint64_t n;
};
void import_print_held(const char *path, const char *mark, void *data);

/* Unpacks an archive ("-": standard input) into `dir`, or (NULL) into a directory named after
 * the file. `ret_dir` is the directory. */
int import_archive(const char *file, const char *dir, const struct atoll_import_options *options,
		   char ret_dir[PATH_MAX], struct atoll_archive_report *ret,
		   struct atoll_error *err);

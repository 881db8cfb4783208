/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>

/* `atoll export --format tar|oci`: writes to the file `path`, which appears when it is complete,
 * or to standard output (NULL), which must not be a terminal. Prints what is left out to
 * standard error, unless `is_quiet`. */
int export_tar(const char *id, enum atoll_tar form, const char *path, bool is_quiet,
	       struct atoll_error *err);

/* Prints the numbers of marked and left-out files to standard error. */
void export_print_report(const struct atoll_archive_report *report);

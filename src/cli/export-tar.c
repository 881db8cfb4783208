/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export-tar.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void tell(const struct atoll_archive_report *report)
{
	if (report->n_marked > 0)
		fprintf(stderr,
			"atoll: %" PRIu64 " of what is in it the host would execute or trust\n",
			report->n_marked);
	if (report->n_dropped > 0)
		fprintf(stderr, "atoll: not in it: %s\n", report->dropped);
}

/* Beside the file that it becomes, so that nobody takes half a tar for one. */
static int write_file(const char *id, enum atoll_tar form, const char *path,
		      struct atoll_archive_report *report, struct atoll_error *err)
{
	cleanup_free char *temp = NULL;
	cleanup_fd int fd = -1;
	mode_t mask = umask(0);
	int r;

	umask(mask);
	if (asprintf(&temp, "%s.XXXXXX", path) < 0) {
		temp = NULL;
		return error_oom(err);
	}
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "make a file beside '%s'", path);
	r = atoll_export_tar(id, form, fd, report, err);
	if (r == 0 && (fchmod(fd, 0666 & ~mask) < 0 || rename(temp, path) < 0))
		r = error_set(err, ATOLL_FAULT_HOST, errno, "write '%s'", path);
	if (r < 0)
		unlink(temp);
	return r;
}

int export_tar(const char *id, enum atoll_tar form, const char *path, bool is_quiet,
	       struct atoll_error *err)
{
	struct atoll_archive_report report;
	int r;

	if (!path && isatty(STDOUT_FILENO))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "a tar is nothing for a terminal; name a file: -o FILE");
	r = path ? write_file(id, form, path, &report, err)
		 : atoll_export_tar(id, form, STDOUT_FILENO, &report, err);
	if (r == 0 && !is_quiet)
		tell(&report);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export-tar.h"

#include "base/error.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

void export_print_report(const struct atoll_archive_report *report)
{
	if (report->n_marked > 0)
		fprintf(stderr,
			"atoll: %" PRIu64 " of what is in it the host would execute or trust\n",
			report->n_marked);
	if (report->n_dropped > 0)
		fprintf(stderr, "atoll: not in it: %s\n", report->dropped);
}

struct tar {
	const char *id;
	enum atoll_tar form;
	struct atoll_archive_report report;
};

static int fill_tar(int fd, void *data, struct atoll_error *err)
{
	struct tar *tar = data;

	return atoll_export_tar(tar->id, tar->form, NULL, fd, &tar->report, err);
}

int export_tar(const char *id, enum atoll_tar form, const char *path, bool is_quiet,
	       struct atoll_error *err)
{
	struct tar tar = {.id = id, .form = form};
	int r;

	if (!path && isatty(STDOUT_FILENO))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "standard output is a terminal; write the tar to a file: -o FILE");
	r = path ? export_file(path, fill_tar, &tar, err) : fill_tar(STDOUT_FILENO, &tar, err);
	if (r == 0 && !is_quiet)
		export_print_report(&tar.report);
	return r;
}

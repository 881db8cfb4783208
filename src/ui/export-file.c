/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/export-file.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int export_file(const char *path, int (*write)(int fd, void *data, struct atoll_error *err),
		void *data, struct atoll_error *err)
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
		return error_set(err, ATOLL_FAULT_REQUEST, errno,
				 "create a temporary file beside '%s'", path);
	r = write(fd, data, err);
	if (r == 0 && (fchmod(fd, 0666 & ~mask) < 0 || rename(temp, path) < 0))
		r = error_set(err, ATOLL_FAULT_HOST, errno, "write '%s'", path);
	if (r < 0)
		unlink(temp);
	return r;
}

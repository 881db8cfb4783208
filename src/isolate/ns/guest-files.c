/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/program.h"
#include "base/scope.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * Our own program inside
 *
 * `guest: on` shows atoll-guest, and the kernels that interpret code if they are installed beside
 * it, read-only. It runs as any other program there, and gets no right by being ours: whoever talks
 * to it from outside believes it as little as anything else inside.
 */

static const char *const kernels[] = {"kernel.py", "kernel.js"};

static int add_kernels(struct cell *cell, const char *dir, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kernels); i++) {
		char source[PATH_MAX + 32], path[64];
		struct stat st;

		snprintf(source, sizeof source, "%s/%s", dir, kernels[i]);
		snprintf(path, sizeof path, NS_KERNELS "/%s", kernels[i]);
		if (lstat(source, &st) == 0 && S_ISREG(st.st_mode))
			r = ns_add_file(cell, source, path, err);
	}
	return r;
}

int guest_prepare(struct cell *cell, struct atoll_error *err)
{
	char found[PATH_MAX], real[PATH_MAX];
	int r;

	if (!cell->spec->has_guest)
		return 0;
	if (program_find("atoll-guest", found, sizeof found) < 0 || !realpath(found, real))
		return error_set(err, ATOLL_FAULT_HOST, ENOENT,
				 "guest: on (%s): the program 'atoll-guest' is not installed "
				 "beside atoll",
				 cell->spec->guest_origin);
	r = ns_add_file(cell, real, NS_GUEST, err);
	if (r == 0) {
		*strrchr(real, '/') = '\0';
		r = add_kernels(cell, real, err);
	}
	return r;
}

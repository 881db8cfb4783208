/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int program_find(const char *name, char *ret, size_t size)
{
	static const char *const places[] = {"/../libexec/atoll/", "/"};
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	if (length < 0)
		return -errno;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if ((size_t)snprintf(ret, size, "%s%s%s", self, places[i], name) < size &&
		    access(ret, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool find_near(char *file, const char *const *places, const char *name, char *ret,
		      size_t size)
{
	char *slash = strrchr(file, '/');

	if (!slash)
		return false;
	*slash = '\0';
	for (; *places; places++) {
		if ((size_t)snprintf(ret, size, "%s%s%s", file, *places, name) < size &&
		    access(ret, X_OK) == 0)
			return true;
	}
	return false;
}

/* The file that this very code was loaded from: the program, or the library in somebody else's. */
static bool find_own_file(char *ret, size_t size)
{
	uintptr_t here = (uintptr_t)&find_own_file;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];
	bool is_found = false;

	while (maps && !is_found && fgets(line, sizeof line, maps)) {
		uintptr_t first, end;
		char *path = strchr(line, '/');

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &first, &end) != 2 || here < first ||
		    here >= end || !path)
			continue;
		path[strcspn(path, "\n")] = '\0';
		is_found = (size_t)snprintf(ret, size, "%s", path) < size;
	}
	if (maps)
		fclose(maps);
	return is_found;
}

int program_find(const char *name, char *ret, size_t size)
{
	static const char *const beside_program[] = {"/../libexec/atoll/", "/", NULL};
	/* A library lies in lib or lib/ARCHITECTURE; in a build tree one step below programs. */
	static const char *const beside_library[] = {"/../libexec/atoll/", "/../../libexec/atoll/",
						     "/../", NULL};
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	if (length < 0)
		return -errno;
	self[length] = '\0';
	if (find_near(self, beside_program, name, ret, size))
		return 0;
	if (find_own_file(self, sizeof self) && find_near(self, beside_library, name, ret, size))
		return 0;
	return -ENOENT;
}

void program_set_title(const char *title)
{
	uint64_t bounds[2] = {0};
	char text[2048];
	FILE *stat = fopen("/proc/self/stat", "re");
	const char *at = NULL;

	if (stat && fgets(text, sizeof text, stat))
		at = strrchr(text, ')');
	if (stat)
		fclose(stat);
	/* Behind the name field 2 ends; the arguments' bounds are fields 48 and 49. */
	for (int field = 3; at && field <= 49; field++) {
		at = strchr(at + 1, ' ');
		if (at && field >= 48)
			bounds[field - 48] = strtoull(at + 1, NULL, 10);
	}
	if (!bounds[0] || bounds[1] <= bounds[0])
		return;
	memset((void *)(uintptr_t)bounds[0], 0, bounds[1] - bounds[0]);
	for (size_t i = 0; title[i] && i + 1 < bounds[1] - bounds[0]; i++)
		((char *)(uintptr_t)bounds[0])[i] = title[i];
}

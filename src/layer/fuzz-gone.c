/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/gone.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Every path of a list that is taken is found again, in its directory, and none leads out. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gone *gone = NULL;
	size_t first, n;

	if (gone_parse((const char *)data, size, &gone) < 0)
		return 0;
	for (const char *path = (const char *)data, *end = path + size; path < end;
	     path += strlen(path) + 1) {
		char *dir = strdup(path), *slash;

		must(path[0] != '\0' && (path[0] != '/' || path[1] == '\0'));
		must(strncmp(path, "../", 3) != 0 && !strstr(path, "/../"));
		if (path[strlen(path) - 1] == '/') {
			dir[strlen(dir) - 1] = '\0';
			must(gone_is_opaque(gone, dir));
		} else {
			must(gone_is_deleted(gone, path));
			slash = strrchr(dir, '/');
			dir[slash ? slash - dir : 0] = '\0';
			n = gone_find(gone, dir, &first);
			must(n > 0 && gone_name(gone, first) != NULL);
		}
		free(dir);
	}
	gone_free(gone);
	return 0;
}

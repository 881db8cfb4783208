/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/mounts.h"
#include "base/path.h"
#include "base/str.h"
#include "isolate/ns/cell.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/*
 * What is mounted on the host, as /proc/self/mountinfo says
 *
 * prepare.c, beneath.c, aliases.c and the plan ask for it. The text is read once for each list of
 * mounts, from ns_prepare_mounts() on, or not at all where a process remembers it (mount-cache.c).
 */

/* The list of mounts, read once: several places are looked up in it. */
static _Thread_local struct buf mounted;

const char *ns_mounted(void)
{
	const char *text = known_mounts();
	cleanup_fd int fd = -1;

	if (text || mounted.used)
		return text ? text : mounted.data;
	fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	mounted = (struct buf)BUF_INIT(4 << 20);
	if (fd >= 0 && fd_read_all(fd, &mounted) == 0 && mounted.used)
		return mounted.data;
	buf_done(&mounted);
	return NULL;
}

bool ns_next_mounted(const char **text, char ret[4096])
{
	struct mounts_line line;

	if (!mounts_next(text, &line))
		return false;
	strcpy(ret, line.point);
	return true;
}

/* Is something mounted beneath this directory? Then no layer can be put over it by a user. */
bool ns_has_submounts(const char *path, char ret[4096])
{
	const char *text = ns_mounted();
	char point[PATH_MAX];

	if (ret)
		strcpy(ret, path);
	if (!text)
		return true;
	while (ns_next_mounted(&text, point)) {
		if (!streq(point, path) && path_is_within(point, path)) {
			if (ret)
				strcpy(ret, point);
			return true;
		}
	}
	return false;
}

void ns_forget_mounted(void)
{
	buf_done(&mounted);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* What the sandbox sees as its workspace's own owner and mode are those of the upper directory. As
 * root the layer's files belong to the workspace's owner; else they can only be ours. */
static int fit_upper(const struct layer_record *record)
{
	if (geteuid() == 0 && record->owner_uid + record->owner_gid != 0) {
		if (fchownat(record->fd, "top/upper", record->owner_uid, record->owner_gid,
			     AT_SYMLINK_NOFOLLOW) < 0 ||
		    fchownat(record->fd, "top/work", record->owner_uid, record->owner_gid,
			     AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
	}
	/* mkdir() heeds the umask. */
	return fchmodat(record->fd, "top/upper", record->workspace_mode, 0) < 0 ? -errno : 0;
}

int record_make_top(struct layer_record *record, struct atoll_error *err)
{
	static const char *const names[] = {"top", "top/upper", "top/work"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		if (mkdirat(record->fd, names[i], 0700) < 0 && errno != EEXIST)
			r = -errno;
	}
	if (r == 0)
		r = fit_upper(record);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "create a layer in record '%s'",
				 record->info.id)
		     : 0;
}

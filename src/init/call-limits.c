/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/scope.h"
#include "init/watch.h"

#include <errno.h>
#include <linux/falloc.h>
#include <string.h>

/*
 * Calls that only count
 *
 * What is counted is in registers, so the kernel can be told to go on: it will see the same. Which
 * file a descriptor is may change meanwhile; so it is not asked, and private files count, too.
 */

/* Reserves space without making a page dirty. */
int call_fallocate(struct call *call)
{
	const int mode = (int)call->args[1];
	const int64_t length = (int64_t)call->args[3];

	call->action = "reserve";
	if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE)) && length > 0 &&
	    !watch_reserve(call->guard->watch, (uint64_t)length)) {
		cleanup_target struct target target = TARGET_INIT;

		if (resolve_fd(call->tid, (int)call->args[0], &target) == 0)
			memcpy(call->path, target.path, strlen(target.path) + 1);
		return guard_refuse(call, ENOSPC, "limits.disk");
	}
	answer_continue(call);
	return 0;
}

/* Memory that no process needs to map: from now on it is looked for. */
int call_memfd(struct call *call)
{
	call->guard->watch->uses_memfd = true;
	answer_continue(call);
	return 0;
}

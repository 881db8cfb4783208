/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"
#include "audit/key.h"
#include "audit/log-line.h"
#include "audit/runs.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>

/* The writer of a log has its lock, so -EBUSY if that is taken. */
static int lock(int state_fd, const char *id, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	char path[64];

	snprintf(path, sizeof path, "log/%s.jsonl", id);
	fd = openat(state_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno == EWOULDBLOCK ? EBUSY : errno,
				 "remove the event log of run %s", id);
	return take_fd(&fd);
}

int audit_remove(const char *id, struct atoll_error *err)
{
	static const char *const endings[] = {"jsonl", "edge", "out", "err"};
	static const unsigned char nothing[HASH_SIZE];
	const struct audit_run_entry entry = {.run = id, .kind = "removed", .root = nothing};
	char dir[PATH_MAX], path[64];
	cleanup_fd int state_fd = -1, held = -1;
	struct audit_key key;
	int r;

	if (!audit_is_id(id))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "the id of a run '%s'", id);
	state_fd = state_open(false, dir, err);
	if (state_fd < 0)
		return state_fd;
	held = lock(state_fd, id, err);
	if (held < 0)
		return held;
	r = audit_key_load(state_fd, &key, err);
	if (r < 0)
		return r;
	/* Add the entry to the tree before removing the files: a crash in between must not look
	 * like a stolen log. */
	r = audit_runs_enter(state_fd, &key, &entry, false, err);
	audit_key_done(&key);
	for (size_t i = 0; r == 0 && i < sizeof endings / sizeof *endings; i++) {
		snprintf(path, sizeof path, "log/%s.%s", id, endings[i]);
		if (unlinkat(state_fd, path, 0) < 0 && errno != ENOENT)
			r = error_set(err, ATOLL_FAULT_HOST, errno, "remove '%s' in the store",
				      path);
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "isolate/ns/filter.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>

/*
 * Landlock takes away every right to change files; the mount namespace already decides what can be
 * read. Rights come back only for storage that is the sandbox's own, a layer over the workspace
 * included, and only where nothing of the host's is mounted beneath that a contract names, because
 * a right reaches through mounts (is_delicate() in prepare.c). Reading is not handled on purpose:
 * every open of every program would pay for it.
 */

#define RIGHTS_MAKE                                                                                \
	(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |                              \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                              \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                            \
	 LANDLOCK_ACCESS_FS_MAKE_SYM)
/* Not LANDLOCK_ACCESS_FS_TRUNCATE: the kernel then looks, at every open and also one for reading,
 * what may be truncated later, which made `find` a fifth slower. The guard makes every call that
 * truncates by path itself, wherever the object is, and never hands one back. Where files are not
 * guarded at all (must_guard_files()) every mount of the host's is read-only, and the kernel
 * answers a truncation there with EROFS. */
#define RIGHTS_WRITE LANDLOCK_ACCESS_FS_WRITE_FILE
#define RIGHTS_ALL                                                                                 \
	(RIGHTS_WRITE | RIGHTS_MAKE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                              \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REFER)

int landlock_abi(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static int allow(int ruleset, uint64_t handled, const char *path, uint64_t rights,
		 struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = {
		.allowed_access = rights & handled,
		.parent_fd = fd,
	};

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s' for Landlock", path);
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "Landlock rule for '%s'", path);
	return 0;
}

static int allow_private(const struct cell *cell, int ruleset, uint64_t handled,
			 struct atoll_error *err)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];
		bool is_free = false;
		int r;

		for (size_t j = 0; j < cell->n_zones; j++) {
			if (streq(cell->zones[j].path, mount->path))
				is_free = cell->zones[j].kind == INIT_ZONE_FREE ||
					  cell->zones[j].kind == INIT_ZONE_OWN;
		}
		if ((mount->kind != NS_PRIVATE && !mount->is_layer && !mount->is_ephemeral) ||
		    !is_free)
			continue;
		r = allow(ruleset, handled, mount->path, RIGHTS_ALL, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int landlock_restrict(int ruleset_fd, struct atoll_error *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "set no_new_privs");
	if (syscall(SYS_landlock_restrict_self, ruleset_fd, (uint64_t)FILTER_OWN_RULES << 32) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "restrict by Landlock");
	return 0;
}

/* Harmless nodes and terminals. One line is enough unless something of the host's lies there, a
 * directory in /dev/shm for one. */
static int allow_devices(const struct cell *cell, int ruleset, uint64_t handled,
			 struct atoll_error *err)
{
	bool is_shared = false;
	int r = 0;

	for (size_t i = 0; i < cell->n_zones; i++) {
		const struct init_zone *zone = &cell->zones[i];
		const bool is_private = zone->kind == INIT_ZONE_FREE && zone->is_writable;

		is_shared = is_shared || (!is_private && path_is_within(zone->path, "/dev"));
	}
	if (!is_shared)
		return allow(ruleset, handled, "/dev", RIGHTS_WRITE, err);
	for (size_t i = 0; r == 0 && ns_devices[i].name; i++) {
		char path[32];

		snprintf(path, sizeof path, "/dev/%s", ns_devices[i].name);
		r = allow(ruleset, handled, path, RIGHTS_WRITE, err);
	}
	return r < 0 ? r : allow(ruleset, handled, "/dev/pts", RIGHTS_WRITE, err);
}

int landlock_seal(const struct cell *cell, struct atoll_error *err)
{
	struct uapi_landlock_ruleset_attr attr = {.handled_access_fs = RIGHTS_ALL};
	size_t size = sizeof attr.handled_access_fs;
	cleanup_fd int ruleset = -1;
	int r;

	if (cell->landlock_abi >= 6) {
		attr.scoped = UAPI_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | UAPI_LANDLOCK_SCOPE_SIGNAL;
		size = sizeof attr;
	}
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "create a Landlock ruleset");
	/* A right reaches through mounts: with an open top every mount of the host's is read-only,
	 * and that alone keeps it (must_guard_files()). */
	r = cell->has_open_top ? allow(ruleset, attr.handled_access_fs, "/", RIGHTS_ALL, err)
			       : allow_private(cell, ruleset, attr.handled_access_fs, err);
	/* /proc decides by itself. */
	if (r == 0)
		r = allow(ruleset, attr.handled_access_fs, "/proc", RIGHTS_WRITE, err);
	if (r == 0)
		r = allow_devices(cell, ruleset, attr.handled_access_fs, err);
	return r < 0 ? r : landlock_restrict(ruleset, err);
}

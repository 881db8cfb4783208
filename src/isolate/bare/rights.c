/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/bare/bare.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * What may be read, as a Landlock ruleset
 *
 * A right on a directory reaches everything beneath it and cannot be taken back further down. So
 * where something is hidden inside what is granted, and in /proc, Landlock leaves the right to
 * execute at most, and the guard opens what is read, too (init_zone.guards_reading). Granting
 * everything beside the hidden instead was tried: what appears later could not be read, and the
 * directories on the way could not be listed.
 */

#define RIGHTS_READ                                                                                \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE)
#define RIGHTS_CHANGE                                                                              \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE |                             \
	 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |                              \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                              \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                            \
	 LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REMOVE_DIR |                             \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REFER)
#define RIGHTS_DEVICE                                                                              \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |                            \
	 LANDLOCK_ACCESS_FS_TRUNCATE | LANDLOCK_ACCESS_FS_IOCTL_DEV)
#define RIGHTS_OF_FILES (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | RIGHTS_DEVICE)

struct rights {
	const struct cell *cell;
	int fd;
};

static int allow_fd(struct rights *rights, int fd, uint64_t wanted, const char *path,
		    struct atoll_error *err)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = wanted, .parent_fd = fd};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "stat '%s'", path);
	if (S_ISLNK(st.st_mode))
		return 0; /* where it leads to has rights of its own, or none */
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= RIGHTS_OF_FILES;
	if (syscall(SYS_landlock_add_rule, rights->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "Landlock rule for '%s'", path);
	return 0;
}

static int allow(struct rights *rights, const char *path, uint64_t wanted, struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s' for Landlock", path);
	return allow_fd(rights, fd, wanted, path, err);
}

/* ---- what is hidden ---- */

static bool is_hide_in_effect(const struct spec *spec, const struct spec_rule *rule)
{
	return rule->access == SPEC_HIDE && !rule->is_pattern &&
	       spec_rule_for(spec, rule->path) == rule;
}

static bool is_beneath(const char *path, const char *above)
{
	return !streq(path, above) && path_is_within(path, above);
}

static bool hides_beneath(const struct cell *cell, const char *path)
{
	const struct spec *spec = cell->spec;

	for (size_t i = 0; i < spec->n_rules; i++) {
		if (is_beneath(spec->rules[i].path, path) &&
		    is_hide_in_effect(spec, &spec->rules[i]))
			return true;
	}
	/* What a hidden link leads to. */
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind == NS_HIDE && is_beneath(cell->mounts[i].path, path))
			return true;
	}
	return false;
}

static bool has_pattern(const struct spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];
		char base[PATH_MAX];

		if (rule->access != SPEC_HIDE || !rule->is_pattern)
			continue;
		snprintf(base, sizeof base, "%.*s", (int)path_literal_length(rule->path),
			 rule->path);
		if (!base[0] || path_is_within(base, path) || path_is_within(path, base))
			return true;
	}
	return false;
}

/* ---- grants ---- */

static int allow_mount(struct rights *rights, size_t i, struct atoll_error *err)
{
	const struct ns_mount *mount = &rights->cell->mounts[i];
	cleanup_fd int fd = fd_openat2(AT_FDCWD, mount->path, O_PATH, 0, RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != mount->dev || st.st_ino != mount->ino)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' was replaced while the run was prepared", mount->path);
	return allow_fd(rights, fd,
			rights->cell->bare->is_guarded[i] ? LANDLOCK_ACCESS_FS_EXECUTE
							  : RIGHTS_READ,
			mount->path, err);
}

static int allow_mounts(struct rights *rights, struct atoll_error *err)
{
	const struct cell *cell = rights->cell;
	int r = 0;

	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		cell->bare->is_guarded[i] =
			mount->kind == NS_BIND && mount->is_dir &&
			(has_pattern(cell->spec, mount->path) || hides_beneath(cell, mount->path));
	}
	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind == NS_BIND)
			r = allow_mount(rights, i, err);
		else if (cell->mounts[i].kind == NS_DEVICE)
			r = allow(rights, cell->mounts[i].path, RIGHTS_DEVICE, err);
	}
	return r;
}

/* Three more are added for the private places, when they are made. */
static int make_zones(struct cell *cell, struct atoll_error *err)
{
	size_t n_masks = 0, n = 0;
	struct init_zone *zones;

	while (ns_proc_masks[n_masks])
		n_masks++;
	zones = calloc(cell->n_mounts + n_masks + 5, sizeof *zones);
	if (!zones)
		return error_oom(err);
	zones[n++] = (struct init_zone){.path = "/", .guards_reading = true};
	zones[n++] = (struct init_zone){.path = "/proc", .guards_reading = true};
	for (size_t i = 0; i < n_masks; i++) {
		if (asprintf(&cell->bare->masks[i], "/proc/%s", ns_proc_masks[i]) < 0)
			return error_oom(err);
		zones[n++] = (struct init_zone){
			.path = cell->bare->masks[i], .guards_reading = true, .is_hidden = true};
	}
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind != NS_BIND && mount->kind != NS_HIDE && mount->kind != NS_DEVICE)
			continue;
		zones[n++] = (struct init_zone){
			.path = mount->path,
			.kind = mount->is_writable ? INIT_ZONE_GUARDED : INIT_ZONE_FREE,
			.dev = mount->kind == NS_BIND ? mount->dev : 0,
			.ino = mount->kind == NS_BIND ? mount->ino : 0,
			.guards_reading = cell->bare->is_guarded[i] || mount->kind == NS_HIDE,
			.is_hidden = mount->kind == NS_HIDE,
			.is_writable = mount->is_writable,
		};
	}
	free(cell->zones);
	cell->zones = zones;
	cell->n_zones = n;
	return 0;
}

static int allow_proxy(struct rights *rights, struct atoll_error *err)
{
	const struct uapi_landlock_net_port_attr rule = {
		.allowed_access = UAPI_LANDLOCK_ACCESS_NET_CONNECT_TCP,
		.port = rights->cell->extra->proxy_port,
	};

	if (!rule.port ||
	    syscall(SYS_landlock_add_rule, rights->fd, UAPI_LANDLOCK_RULE_NET_PORT, &rule, 0) == 0)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, errno, "Landlock rule for the proxy's port");
}

int bare_make_rights(struct cell *cell, struct atoll_error *err)
{
	const struct uapi_landlock_ruleset_attr attr = {
		.handled_access_fs = RIGHTS_READ | RIGHTS_CHANGE | LANDLOCK_ACCESS_FS_IOCTL_DEV,
		/* The filter refuses such sockets already, or the guard connects them. */
		.handled_access_net =
			UAPI_LANDLOCK_ACCESS_NET_BIND_TCP | UAPI_LANDLOCK_ACCESS_NET_CONNECT_TCP,
		.scoped = UAPI_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | UAPI_LANDLOCK_SCOPE_SIGNAL,
	};
	struct rights rights = {.cell = cell};
	int r;

	cell->bare->is_guarded = calloc(cell->n_mounts + 1, sizeof *cell->bare->is_guarded);
	if (!cell->bare->is_guarded)
		return error_oom(err);
	rights.fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (rights.fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "create a Landlock ruleset");
	cell->bare->ruleset_fd = rights.fd;
	r = allow_mounts(&rights, err);
	if (r == 0)
		r = allow_proxy(&rights, err);
	return r < 0 ? r : make_zones(cell, err);
}

int bare_allow_private(const struct cell *cell, const char *path, bool is_writable,
		       struct atoll_error *err)
{
	struct rights rights = {.cell = cell, .fd = cell->bare->ruleset_fd};

	return allow(&rights, path, is_writable ? RIGHTS_READ | RIGHTS_CHANGE : RIGHTS_READ, err);
}

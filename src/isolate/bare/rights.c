/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/bare/bare.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * What may be read, as a Landlock ruleset
 *
 * A right on a directory reaches everything beneath it and cannot be taken back further down. So
 * where something is hidden inside a readable directory, the directory itself gets no right, and
 * everything beside the way to the hidden place does. What appears there later is not readable,
 * and the directories on the way cannot be listed.
 *
 * In a writable root that will not do, because the command makes new names there; nor for patterns,
 * nor for a directory with a great many entries. There the guard opens what is read, too
 * (init_zone.guards_reading), and Landlock leaves the right to execute only.
 */

#define RULES_MAX 16384

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
	size_t n;
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
	rights->n++;
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

/* A line that hides, or what a hidden link leads to. */
static bool is_hidden(const struct cell *cell, const char *path)
{
	const struct spec_rule *rule = spec_rule_for(cell->spec, path);

	if (rule && rule->access == SPEC_HIDE)
		return true;
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind == NS_HIDE && path_is_within(path, cell->mounts[i].path))
			return true;
	}
	return false;
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
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (is_beneath(cell->mounts[i].path, path) &&
		    (cell->mounts[i].kind == NS_HIDE || cell->bare->is_guarded[i]))
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

static bool is_guarded_mount(const struct cell *cell, const char *path)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->bare->is_guarded[i] && streq(cell->mounts[i].path, path))
			return true;
	}
	return false;
}

/* ---- grants ---- */

/* Everything beside the way to what is hidden. -E2BIG where that is too much. */
static int allow_beside(struct rights *rights, int dir_fd, const char *path,
			struct atoll_error *err)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir && copy >= 0)
		close(copy);
	while (dir && r == 0 && (entry = readdir(dir))) {
		cleanup_fd int fd = -1;
		char child[PATH_MAX];

		if (streq(entry->d_name, ".") || streq(entry->d_name, "..") ||
		    (size_t)snprintf(child, sizeof child, "%s/%s", path, entry->d_name) >=
			    sizeof child)
			continue;
		if (is_hidden(rights->cell, child) || is_guarded_mount(rights->cell, child))
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue; /* gone again, or not the user's to look at */
		if (rights->n > RULES_MAX)
			r = -E2BIG;
		else if (hides_beneath(rights->cell, child))
			r = allow_beside(rights, fd, child, err);
		else
			r = allow_fd(rights, fd, RIGHTS_READ, child, err);
	}
	if (dir)
		closedir(dir);
	return r;
}

static int allow_mount(struct rights *rights, size_t i, struct atoll_error *err)
{
	const struct ns_mount *mount = &rights->cell->mounts[i];
	bool *is_guarded = &rights->cell->bare->is_guarded[i];
	cleanup_fd int fd = fd_openat2(AT_FDCWD, mount->path, O_PATH, 0, RESOLVE_NO_SYMLINKS);
	struct stat st;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, fd < 0 ? -fd : errno, "open '%s'",
				 mount->path);
	if (st.st_dev != mount->dev || st.st_ino != mount->ino)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' was replaced while the run was prepared", mount->path);
	if (!*is_guarded && S_ISDIR(st.st_mode) && hides_beneath(rights->cell, mount->path)) {
		r = allow_beside(rights, fd, mount->path, err);
		if (r != -E2BIG)
			return r;
		*is_guarded = true;
	}
	return allow_fd(rights, fd, *is_guarded ? LANDLOCK_ACCESS_FS_EXECUTE : RIGHTS_READ,
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
			(has_pattern(cell->spec, mount->path) ||
			 (mount->is_writable && hides_beneath(cell, mount->path)));
	}
	/* Backwards: what lies deeper decides first, and may turn out to be guarded. */
	for (size_t i = cell->n_mounts; r == 0 && i-- > 0;) {
		if (cell->mounts[i].kind == NS_BIND)
			r = allow_mount(rights, i, err);
		else if (cell->mounts[i].kind == NS_DEVICE)
			r = allow(rights, cell->mounts[i].path, RIGHTS_DEVICE, err);
	}
	return r;
}

static int make_zones(struct cell *cell, struct atoll_error *err)
{
	struct init_zone *zones = calloc(cell->n_mounts + 3, sizeof *zones);
	size_t n = 0;

	if (!zones)
		return error_oom(err);
	zones[n++] = (struct init_zone){.path = "/", .kind = INIT_ZONE_FREE};
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind != NS_BIND)
			continue;
		zones[n++] = (struct init_zone){
			.path = mount->path,
			.kind = mount->is_writable ? INIT_ZONE_GUARDED : INIT_ZONE_FREE,
			.guards_reading = cell->bare->is_guarded[i],
		};
		cell->bare->is_reading_guarded |= cell->bare->is_guarded[i];
	}
	free(cell->zones);
	cell->zones = zones;
	cell->n_zones = n;
	return 0;
}

int bare_make_rights(struct cell *cell, struct atoll_error *err)
{
	const struct uapi_landlock_ruleset_attr attr = {
		.handled_access_fs = RIGHTS_READ | RIGHTS_CHANGE | LANDLOCK_ACCESS_FS_IOCTL_DEV,
		/* The filter refuses such sockets already. */
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
	/* Never to write: a process's own files there and those of the user's others are one tree.
	 */
	if (r == 0)
		r = allow(&rights, "/proc",
			  LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR, err);
	return r < 0 ? r : make_zones(cell, err);
}

int bare_allow_private(const struct cell *cell, const char *path, bool is_writable,
		       struct atoll_error *err)
{
	struct rights rights = {.cell = cell, .fd = cell->bare->ruleset_fd};

	return allow(&rights, path, is_writable ? RIGHTS_READ | RIGHTS_CHANGE : RIGHTS_READ, err);
}

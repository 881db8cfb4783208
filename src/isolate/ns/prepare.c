/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

const char *const ns_private_dirs[] = {"/tmp", "/var/tmp", "/dev/shm", NULL};

/* The harmless ones; the host's real nodes, checked by number when they are bound. */
const struct ns_device ns_devices[] = {
	{"null", 1, 3},	   {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8},
	{"urandom", 1, 9}, {"tty", 5, 0},  {NULL, 0, 0},
};

/* What tells about the machine rather than about the sandbox's own processes, and everybody may
 * read. */
const char *const ns_proc_masks[] = {
	"kallsyms",   "keys",  "key-users", "sched_debug", "config.gz",
	"interrupts", "iomem", "ioports",   NULL,
};

/* The same, but the kernel gives it to root alone, and nobody in a sandbox is that. */
const char *const ns_proc_kept[] = {
	"kcore", "kmsg", "timer_list", "sysrq-trigger", "slabinfo", "vmallocinfo", NULL,
};

/* Links that belong to the system's layout and not to anybody's project. */
static const char *const system_dirs[] = {"/", "/usr", "/var", "/etc", "/usr/local", NULL};

static bool is_system_dir(const char *path, size_t length)
{
	for (size_t i = 0; system_dirs[i]; i++) {
		if (strlen(system_dirs[i]) == length && memcmp(system_dirs[i], path, length) == 0)
			return true;
	}
	return false;
}

#define MOUNTS_STEP 64

struct ns_mount *ns_add_mount(struct cell *cell, enum ns_mount_kind kind, const char *path)
{
	struct ns_mount *mount;

	/* In steps: most contracts have some thirty, and every copy is pages that were not there.
	 */
	if (cell->n_mounts % MOUNTS_STEP == 0) {
		struct ns_mount *grown =
			realloc(cell->mounts, (cell->n_mounts + MOUNTS_STEP) * sizeof *grown);

		if (!grown)
			return NULL;
		cell->mounts = grown;
	}
	mount = &cell->mounts[cell->n_mounts];
	*mount = (struct ns_mount){.kind = kind, .tree_fd = -1, .map_fd = -1, .path = strdup(path)};
	if (!mount->path)
		return NULL;
	cell->n_mounts++;
	return mount;
}

void ns_free_mounts(struct cell *cell)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		struct ns_mount *mount = &cell->mounts[i];

		if (mount->tree_fd >= 0)
			close(mount->tree_fd);
		if (mount->map_fd >= 0)
			close(mount->map_fd);
		for (size_t j = 0; j < mount->n_masks; j++)
			free(mount->masks[j]);
		free(mount->masks);
		free(mount->link);
		free(mount->source);
		free(mount->path);
	}
	aliases_free(cell);
	free(cell->mounts);
	free(cell->zones);
	cell->mounts = NULL;
	cell->zones = NULL;
	cell->n_mounts = cell->n_zones = 0;
}

/* The deepest mount that a path lies in, itself not counted. */
static struct ns_mount *enclosing(struct cell *cell, const char *path)
{
	struct ns_mount *found = NULL;

	for (size_t i = 0; i < cell->n_mounts; i++) {
		struct ns_mount *mount = &cell->mounts[i];

		if ((mount->kind == NS_BIND || mount->kind == NS_HIDE) &&
		    !streq(mount->path, path) && path_is_within(path, mount->path) &&
		    (!found || strlen(mount->path) > strlen(found->path)))
			found = mount;
	}
	return found;
}

static bool has_mount(const struct cell *cell, const char *path)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (streq(cell->mounts[i].path, path))
			return true;
	}
	return false;
}

/* ---- what is not there ---- */

/*
 * Most of the places that the defaults speak about do not exist on a given machine. Instead of
 * asking for each, the home directory, which most of them lie in, is read once. The set may take a
 * name for there that is not; then it is asked for after all.
 */
#define NAMES_BITS 4096

struct listing {
	const char *path;
	size_t length;
	bool is_read;
	uint64_t bits[NAMES_BITS / 64];
};

static unsigned name_bit(const char *name, size_t length)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	return (hash ^ hash >> 12) % NAMES_BITS;
}

static void read_listing(struct listing *listing, const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char entries[16384];
	ssize_t got = -1;

	listing->path = path;
	listing->length = streq(path, "/") ? 0 : strlen(path);
	while (fd >= 0 && (got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(entries + at);
			unsigned bit = name_bit(entry->d_name, strlen(entry->d_name));

			listing->bits[bit / 64] |= 1ULL << bit % 64;
			at += entry->d_reclen;
		}
	}
	listing->is_read = fd >= 0 && got == 0;
}

/* Is there surely nothing at this path? */
static bool is_absent(const struct cell *cell, const char *path)
{
	const struct listing *listing = cell->listing;
	const char *name = path + listing->length + 1;
	unsigned bit;

	if (!listing->is_read || strncmp(path, listing->path, listing->length) != 0 ||
	    path[listing->length] != '/')
		return false;
	bit = name_bit(name, strcspn(name, "/"));
	return !(listing->bits[bit / 64] & 1ULL << bit % 64);
}

/* ---- sources ---- */

/* The first component that is a symbolic link; its length within `path`, 0 if there is none. */
static size_t find_link(const char *path)
{
	char prefix[PATH_MAX];
	struct stat st;

	for (size_t i = 1; i <= strlen(path) && i < sizeof prefix; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(prefix, path, i);
		prefix[i] = '\0';
		if (lstat(prefix, &st) == 0 && S_ISLNK(st.st_mode))
			return i;
	}
	return 0;
}

/* A link of the system's layout becomes the same link inside; `path` goes on at its target. */
static int follow_system_link(struct cell *cell, char path[PATH_MAX], struct atoll_error *err)
{
	size_t length = find_link(path);
	char prefix[PATH_MAX], link[PATH_MAX], next[2 * PATH_MAX];
	const char *slash;
	struct ns_mount *mount;
	ssize_t got;

	memcpy(prefix, path, length);
	prefix[length] = '\0';
	slash = strrchr(prefix, '/');
	if (length == 0 || !slash ||
	    !is_system_dir(prefix, slash == prefix ? 1 : (size_t)(slash - prefix)))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' is a symbolic link, and a grant never follows one; name the "
				 "real place",
				 length ? prefix : path);
	got = readlink(prefix, link, sizeof link - 1);
	if (got < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read link '%s'", prefix);
	link[got] = '\0';
	if (!has_mount(cell, prefix) && !enclosing(cell, prefix)) {
		mount = ns_add_mount(cell, NS_LINK, prefix);
		if (!mount || !(mount->link = strdup(link)))
			return error_oom(err);
	}
	if (link[0] == '/')
		snprintf(next, sizeof next, "%s%s", link, path + length);
	else
		snprintf(next, sizeof next, "%.*s/%s%s", (int)(slash - prefix), prefix, link,
			 path + length);
	path_normalize(next);
	if (strlen(next) >= PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "'%.60s...'", next);
	strcpy(path, next);
	return 0;
}

/*
 * Look at a grant's place once, without following links. `path` may change to where a link of the
 * system's layout leads. 1 if there is nothing and that is fine.
 */
static int look_at(struct cell *cell, const struct spec_rule *rule, char path[PATH_MAX],
		   struct stat *ret, struct atoll_error *err)
{
	cleanup_fd int fd = -1;

	for (int links = 0;; links++) {
		int r;

		fd = fd_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_SYMLINKS);
		if (fd >= 0)
			break;
		if (fd != -ELOOP || links > 8) {
			if (rule && rule->is_optional)
				return 1;
			return error_set(err, ATOLL_FAULT_REQUEST, -fd, "%s '%s' (%s)",
					 rule ? spec_access_word(rule->access) : "use", path,
					 rule ? rule->origin : "default");
		}
		/* At another place a link of the system's would lead to the wrong one. */
		if (rule && rule->at)
			return error_set(
				err, ATOLL_FAULT_POLICY, 0,
				"%s '%s' (%s): '%.*s' is a symbolic link, and a grant never "
				"follows one; name the real place",
				spec_access_word(rule->access), path, rule->origin,
				(int)find_link(path), path);
		r = follow_system_link(cell, path, err);
		/* Nobody asked for a default, ~/.local/bin: where the user has a link it is left
		 * out. */
		if (r < 0 && rule && rule->is_optional && streq(rule->origin, "default")) {
			if (err)
				*err = (struct atoll_error){0};
			return 1;
		}
		if (r < 0)
			return rule ? error_context(err, r, "%s '%s' (%s)",
						    spec_access_word(rule->access), rule->path,
						    rule->origin)
				    : r;
	}
	if (fstat(fd, ret) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "stat '%s'", path);
	return 0;
}

/* ---- grants ---- */

static int add_grant(struct cell *cell, const struct spec_rule *rule, const char *asked,
		     struct atoll_error *err)
{
	struct ns_mount *mount, *above;
	char path[PATH_MAX];
	struct stat st;
	bool is_writable = rule->access == SPEC_WRITE, is_layer;
	int r;

	if (rule->is_optional && is_absent(cell, asked))
		return 0;
	snprintf(path, sizeof path, "%s", asked);
	r = look_at(cell, rule, path, &st, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		if (rule->is_optional)
			return 0;
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s '%s' (%s): only directories and plain files can be granted%s",
				 spec_access_word(rule->access), path, rule->origin,
				 S_ISSOCK(st.st_mode) ? "; for a socket use --socket" : "");
	}
	if (!streq(path, asked)) {
		/* A link led here. Where it leads to is mostly part of another grant. */
		const struct spec_rule *other = spec_rule_for(cell->spec, path);

		if (other && other != rule && other->access == rule->access)
			return 0;
	}
	is_layer = is_writable && cell->spec->workspace_mode == SPEC_WORKSPACE_LAYER &&
		   streq(path, cell->spec->workspace);
	above = enclosing(cell, path);
	if (has_mount(cell, path) || (above && above->kind == NS_BIND && !above->is_layer &&
				      !is_layer && !rule->at && above->is_writable == is_writable))
		return 0; /* seen already, or part of what is */
	mount = ns_add_mount(cell, NS_BIND, path);
	if (!mount)
		return error_oom(err);
	above = enclosing(cell, path); /* the list may have moved */
	mount->rule = rule;
	mount->is_writable = is_writable;
	mount->is_layer = is_layer;
	mount->is_dir = S_ISDIR(st.st_mode);
	mount->is_nested = above && above->kind == NS_BIND;
	/* The workspace is shown as its owner's in every mode. */
	mount->is_explicit = !streq(rule->origin, "default") || streq(path, cell->spec->workspace);
	mount->is_moved = rule->at;
	mount->dev = st.st_dev;
	mount->ino = st.st_ino;
	mount->uid = st.st_uid;
	mount->gid = st.st_gid;
	return 0;
}

/* "/" is every entry of it but the places that are always private. */
static int add_whole_root(struct cell *cell, const struct spec_rule *rule, struct atoll_error *err)
{
	static const char *const never[] = {"proc", "sys", "dev", "run", "tmp", NULL};
	DIR *dir = opendir("/");
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read '/'");
	while (r == 0 && (entry = readdir(dir))) {
		struct spec_rule one = *rule;
		char path[NAME_MAX + 2];
		bool is_private = entry->d_name[0] == '.' &&
				  (!entry->d_name[1] || streq(entry->d_name, ".."));

		for (size_t i = 0; never[i]; i++)
			is_private = is_private || streq(never[i], entry->d_name);
		if (is_private)
			continue;
		snprintf(path, sizeof path, "/%s", entry->d_name);
		one.is_optional = true;
		r = add_grant(cell, &one, path, err);
		if (cell->n_mounts && cell->mounts[cell->n_mounts - 1].rule == &one)
			cell->mounts[cell->n_mounts - 1].rule = rule;
	}
	closedir(dir);
	return r;
}

static int add_socket(struct cell *cell, const struct spec_word *socket, struct atoll_error *err)
{
	struct spec_rule rule = {
		.access = SPEC_READ, .path = socket->text, .origin = socket->origin};
	struct ns_mount *mount, *above;
	char path[PATH_MAX];
	struct stat st;
	int r;

	snprintf(path, sizeof path, "%s", socket->text);
	r = look_at(cell, &rule, path, &st, err);
	if (r < 0)
		return r;
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "socket '%s' (%s) is not a socket",
				 socket->text, socket->origin);
	mount = ns_add_mount(cell, NS_BIND, path);
	if (!mount)
		return error_oom(err);
	/* Also inside a grant: on a mount of its own nobody can put another in its place. */
	above = enclosing(cell, path);
	mount->is_nested = above && above->kind == NS_BIND;
	mount->is_explicit = true;
	mount->dev = st.st_dev;
	mount->ino = st.st_ino;
	return 0;
}

/* ---- hidden paths ---- */

int ns_add_mask(struct ns_mount *mount, const char *path, struct atoll_error *err)
{
	char **grown = realloc(mount->masks, (mount->n_masks + 1) * sizeof *grown);

	if (!grown)
		return error_oom(err);
	mount->masks = grown;
	grown[mount->n_masks] = strdup(path + strlen(mount->path) + 1);
	if (!grown[mount->n_masks])
		return error_oom(err);
	mount->n_masks++;
	return 0;
}

/* Does a more specific rule show something beneath a hidden path again? */
static bool shows_beneath(const struct spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if ((rule->access == SPEC_READ || rule->access == SPEC_WRITE) &&
		    !streq(rule->path, path) && path_is_within(rule->path, path))
			return true;
	}
	return false;
}

/* What a link leads to is hidden as well, if it is shown at all, and no line names that place. */
static int hide_target(struct cell *cell, const struct spec_rule *rule, struct atoll_error *err)
{
	cleanup_fd int fd = fd_openat2(AT_FDCWD, rule->path, O_PATH, 0, RESOLVE_NO_SYMLINKS);
	const struct spec_rule *named;
	char real[PATH_MAX];
	struct ns_mount *mount, *above;
	struct stat st;

	if (fd != -ELOOP || !realpath(rule->path, real) || lstat(real, &st) < 0)
		return 0;
	above = enclosing(cell, real);
	named = spec_rule_for(cell->spec, real);
	if (!above || above->kind == NS_HIDE || has_mount(cell, real) ||
	    (named && streq(named->path, real)) || shows_beneath(cell->spec, real))
		return 0;
	if (above->is_layer)
		return ns_add_mask(above, real, err);
	mount = ns_add_mount(cell, NS_HIDE, real);
	if (!mount)
		return error_oom(err);
	mount->rule = rule;
	mount->is_dir = S_ISDIR(st.st_mode);
	mount->is_nested = true;
	return 0;
}

/*
 * A line about a link would be about nothing: what it leads to has another path. Whoever writes
 * such a line is told; the defaults name places that may be anything, and lines about what the host
 * obeys name both the links and their ends.
 */
static int refuse_link(const struct spec_rule *rule, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	char real[PATH_MAX];
	size_t length;

	if (streq(rule->origin, "default") || streq(rule->origin, SPEC_ORIGIN_HOST))
		return 0;
	fd = fd_openat2(AT_FDCWD, rule->path, O_PATH, 0, RESOLVE_NO_SYMLINKS);
	if (fd != -ELOOP)
		return 0;
	length = find_link(rule->path);
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s '%s' (%s): '%.*s' is a symbolic link; name the real place%s%s",
			 spec_access_word(rule->access), rule->path, rule->origin, (int)length,
			 rule->path, realpath(rule->path, real) ? ": " : "",
			 realpath(rule->path, real) ? real : "");
}

static int add_hide(struct cell *cell, const struct spec_rule *rule, bool can_mask,
		    struct atoll_error *err)
{
	struct ns_mount *above = enclosing(cell, rule->path), *mount;
	bool is_there = !is_absent(cell, rule->path);
	struct stat st;

	if (!above || above->kind == NS_HIDE)
		return 0; /* nothing is there to hide */
	if ((!above->is_writable || above->is_layer) && can_mask &&
	    !shows_beneath(cell->spec, rule->path))
		return ns_add_mask(above, rule->path, err);
	/* Not there yet (a link's target is hidden or not by its own path); and whoever replaces it
	 * on the host takes the mount away with the old one, but not one on a layer. */
	cell->needs_keeper = cell->needs_keeper || !above->is_layer;
	if (!is_there || lstat(rule->path, &st) < 0 || S_ISLNK(st.st_mode))
		return 0;
	mount = ns_add_mount(cell, NS_HIDE, rule->path);
	if (!mount)
		return error_oom(err);
	mount->rule = rule;
	mount->is_dir = S_ISDIR(st.st_mode);
	mount->is_nested = true;
	return 0;
}

/*
 * Is there nothing, or nothing that the run could read or pass? Asked as the run: as this user with
 * all groups, which the kernel answers; or as somebody who owns nothing and is in no group. Where
 * the kernel cannot be asked (before 5.8, or by a filter) the answer is no.
 */
static bool keeps_itself(const struct cell *cell, const char *path)
{
	const int flags = AT_EACCESS | AT_SYMLINK_NOFOLLOW;
	struct stat st;

	if (cell->ids.is_shifted) {
		if (lstat(path, &st) < 0)
			return errno == ENOENT || errno == ENOTDIR;
		/* With an owner's id there may be groups and lists of access that let it in. */
		return !cell->ids.is_unmapped && !S_ISLNK(st.st_mode) && !(st.st_mode & S_IRWXO);
	}
	if (syscall(SYS_faccessat2, AT_FDCWD, path, R_OK, flags) == 0)
		return false;
	if (errno == ENOENT || errno == ENOTDIR)
		return true;
	return errno == EACCES && syscall(SYS_faccessat2, AT_FDCWD, path, X_OK, flags) < 0 &&
	       errno == EACCES;
}

/*
 * May /etc be shown as it is? A layer over it costs a tenth of a start. What the defaults hide
 * there belongs to root, who also makes what comes later and gives it a mode; so that mode can do
 * the same as a layer, unless a single one of these places could be read. Where a person has
 * written a line about something there, that line is kept as everywhere.
 */
static bool etc_keeps_hidden(const struct cell *cell, const struct spec_rule **rules, size_t n)
{
	/* Whoever is root inside is not kept out by the mode of what is root's. */
	if (path_is_within(cell->spec->home, "/etc") || cell->ids.has_many)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct spec_rule *rule = rules[i];

		if (streq(rule->path, "/etc") || !path_is_within(rule->path, "/etc"))
			continue;
		if (rule->access != SPEC_HIDE || !streq(rule->origin, "default") ||
		    !keeps_itself(cell, rule->path))
			return false;
	}
	return true;
}

/* ---- the list ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp((*(const struct spec_rule *const *)a)->path,
		      (*(const struct spec_rule *const *)b)->path);
}

static int mounts_by_path(const void *a, const void *b)
{
	return strcmp(((const struct ns_mount *)a)->path, ((const struct ns_mount *)b)->path);
}

int ns_add_private(struct cell *cell, const char *path, struct atoll_error *err)
{
	struct ns_mount *mount;

	if (has_mount(cell, path) || enclosing(cell, path))
		return 0; /* the contract shows the host's */
	mount = ns_add_mount(cell, NS_PRIVATE, path);
	if (!mount)
		return error_oom(err);
	mount->is_writable = mount->is_dir = true;
	return 0;
}

int ns_add_file(struct cell *cell, const char *source, const char *path, struct atoll_error *err)
{
	struct ns_mount *mount = ns_add_mount(cell, NS_BIND, path);
	struct stat st;

	if (!mount || !(mount->source = strdup(source)))
		return error_oom(err);
	if (lstat(source, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, ATOLL_FAULT_HOST, errno, "'%s' is no plain file", source);
	mount->dev = st.st_dev;
	mount->ino = st.st_ino;
	return 0;
}

/* From here on the workspace has its name inside; up to here all that was looked at has the host's.
 */
static int move_workspace(struct cell *cell, struct atoll_error *err)
{
	struct ns_mount *spot = spec_is_moved(cell->spec) ? layer_spot(cell) : NULL;
	char *at = spot ? strdup(spec_at(cell->spec)) : NULL;

	if (!spot)
		return 0;
	if (!at)
		return error_oom(err);
	spot->source = spot->path;
	spot->path = at;
	spot->is_nested = false; /* nothing of the host's is where it goes: inside_check() */
	return 0;
}

/* `from` and what lies in it is seen at `to`. */
static int retarget(struct ns_mount *mount, const char *from, const char *to,
		    struct atoll_error *err)
{
	char *path;

	if (asprintf(&path, "%s%s", to, mount->path + strlen(from)) < 0)
		return error_oom(err);
	if (mount->kind == NS_BIND)
		mount->source = mount->path;
	else
		free(mount->path);
	mount->path = path;
	return 0;
}

/* The same for grants, with what is hidden in them: elsewhere_check() has seen to it that nothing
 * else of the host's is there, on either side. */
static int move_grants(struct cell *cell, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		struct ns_mount *mount = &cell->mounts[i];

		if (!mount->is_moved)
			continue;
		for (size_t j = 0; r == 0 && j < cell->n_mounts; j++) {
			if (cell->mounts[j].kind == NS_HIDE &&
			    path_is_within(cell->mounts[j].path, mount->path))
				r = retarget(&cell->mounts[j], mount->path, mount->rule->at, err);
		}
		if (r == 0)
			r = retarget(mount, mount->path, mount->rule->at, err);
		mount->is_nested = false;
	}
	return r;
}

static int add_devices(struct cell *cell, struct atoll_error *err)
{
	for (size_t i = 0; ns_devices[i].name; i++) {
		struct ns_mount *mount;
		char path[32];
		struct stat st;

		snprintf(path, sizeof path, "/dev/%s", ns_devices[i].name);
		if (lstat(path, &st) < 0 || !S_ISCHR(st.st_mode) ||
		    st.st_rdev != makedev(ns_devices[i].major, ns_devices[i].minor))
			return error_set(err, ATOLL_FAULT_HOST, 0,
					 "'%s' of this host is not the device that it should be",
					 path);
		mount = ns_add_mount(cell, NS_DEVICE, path);
		if (!mount)
			return error_oom(err);
		mount->dev = st.st_dev;
		mount->ino = st.st_ino;
	}
	return 0;
}

/* The keeper of hidden names finds what it watches by its path: see hidden-keeper.c. */
static void note_keeper(struct cell *cell)
{
	for (size_t i = 0; i < cell->spec->n_rules; i++)
		cell->needs_keeper =
			cell->needs_keeper || ns_needs_keeper(cell, &cell->spec->rules[i]);
}

/*
 * A mount of the host's above which Landlock may give no right, because a right reaches through
 * mounts: what can be written; and a directory that can only be read. A read-only mount refuses
 * every change but one: the kernel lets a FIFO on it be opened to be written, and whoever reads
 * from it on the host would get the command's bytes. Nor may a directory on the way to it be moved
 * where the keeper watches it. Directories that the defaults show hold programs, and no FIFO; an
 * overlay's FIFOs lead nowhere.
 */
static bool is_delicate(const struct cell *cell, const struct ns_mount *mount)
{
	if (mount->kind != NS_BIND || mount->is_layer)
		return false;
	return mount->is_writable || (mount->is_dir && !mount->is_ephemeral &&
				      (mount->is_explicit || cell->needs_keeper));
}

static bool has_delicate(const struct cell *cell, const char *path)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (is_delicate(cell, &cell->mounts[i]) &&
		    path_is_within(cell->mounts[i].path, path))
			return true;
	}
	return false;
}

/* Storage of the sandbox's own: by Landlock everything may be changed there. */
static bool is_own(const struct ns_mount *mount)
{
	return mount->kind == NS_PRIVATE || mount->is_layer || mount->is_ephemeral;
}

static bool lies_in_own(const struct cell *cell, const struct ns_mount *mount)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (is_own(&cell->mounts[i]) && path_is_within(mount->path, cell->mounts[i].path))
			return true;
	}
	return false;
}

static enum init_zone_kind zone_kind(const struct cell *cell, const struct ns_mount *mount)
{
	if (mount->kind == NS_BIND && mount->is_writable && !mount->is_layer)
		return INIT_ZONE_GUARDED;
	if (!is_own(mount))
		return INIT_ZONE_FREE;
	if (has_delicate(cell, mount->path))
		return INIT_ZONE_PRIVATE;
	return mount->kind == NS_PRIVATE ? INIT_ZONE_FREE : INIT_ZONE_OWN;
}

/*
 * Must calls that change files be looked at? Not where nothing of the host's can be written: then
 * every mount of the host's is read-only, which the kernel asks for every change, also those that
 * Landlock does not know (truncating, modes, attributes, times). But Landlock alone refuses a FIFO
 * there (is_delicate()). And a descriptor that was opened outside is on a mount of the host's own;
 * the contract may pass some, and whoever listens at a socket that it grants may send others.
 * Standard input and output are pipes or a terminal made for the run.
 */
static bool must_guard_files(const struct cell *cell)
{
	if (cell->spec->n_descriptors || cell->spec->n_sockets)
		return true;
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		/* With an open top everything lies in the sandbox's own; but the ways there from
		 * the top are fixed (root.c). */
		if (is_delicate(cell, mount) &&
		    (mount->is_writable || (mount->is_explicit && cell->spec->root_is_layer) ||
		     lies_in_own(cell, mount)))
			return true;
	}
	return false;
}

static int add_zones(struct cell *cell, struct atoll_error *err)
{
	cell->zones = calloc(cell->n_mounts + 1, sizeof *cell->zones);
	if (!cell->zones)
		return error_oom(err);
	cell->zones[cell->n_zones++] = (struct init_zone){
		.path = "/", .kind = INIT_ZONE_FREE, .is_writable = cell->has_open_top};
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind != NS_LINK && mount->kind != NS_DEVICE && mount->kind != NS_STAGE)
			cell->zones[cell->n_zones++] = (struct init_zone){
				.path = mount->path,
				.kind = zone_kind(cell, mount),
				.is_writable = mount->is_writable || mount->is_layer ||
					       mount->is_ephemeral || mount->kind == NS_PRIVATE,
			};
	}
	return 0;
}

/*
 * Does a stronger line speak about the same place? The lines are sorted, and nothing is more
 * specific about a path than a line that names it, so that the neighbours are all that has to be
 * looked at.
 */
static bool is_overruled(const struct spec *spec, const struct spec_rule **rules, size_t n,
			 size_t i)
{
	bool is_alone = (i == 0 || !streq(rules[i - 1]->path, rules[i]->path)) &&
			(i + 1 == n || !streq(rules[i + 1]->path, rules[i]->path));

	return !is_alone && spec_rule_for(spec, rules[i]->path) != rules[i];
}

bool ns_pattern_reaches(const struct spec_rule *rule, const struct ns_mount *mount)
{
	char base[PATH_MAX];

	if (!rule->is_pattern || rule->access != SPEC_HIDE)
		return false;
	snprintf(base, sizeof base, "%.*s", (int)path_literal_length(rule->path), rule->path);
	return path_is_within(ns_host_path(mount), base) ||
	       path_is_within(base, ns_host_path(mount));
}

/* The keeper sees no name appear on an overlay: where it has to, names are hidden by mounts. */
static bool is_kept(const struct cell *cell, const struct ns_mount *mount)
{
	for (size_t i = 0; i < cell->spec->n_rules; i++) {
		if (ns_pattern_reaches(&cell->spec->rules[i], mount))
			return true;
	}
	return false;
}

/* May names disappear from this tree by a layer over it? As root we copy single trees; a user's
 * copies come whole. */
static bool can_mask_in(const struct cell *cell, const struct ns_mount *tree)
{
	if (tree->keeps_hidden)
		return false;
	if (tree->is_layer)
		return true;
	return (!is_kept(cell, tree) || system_is_layer(cell, tree)) &&
	       (cell->ids.is_shifted || !ns_has_submounts(tree->path, NULL));
}

int ns_hide_name(struct cell *cell, const char *path, const struct spec_rule *rule,
		 struct atoll_error *err)
{
	struct ns_mount *above = enclosing(cell, path), *mount;
	const struct spec_rule *own = spec_rule_for(cell->spec, path);
	struct stat st;
	int r;

	if (!above || above->kind == NS_HIDE || has_mount(cell, path) || lstat(path, &st) < 0 ||
	    (own && own->access == SPEC_HIDE))
		return 0;
	if ((!above->is_writable || above->is_layer) && can_mask_in(cell, above) &&
	    !shows_beneath(cell->spec, path)) {
		r = ns_add_mask(above, path, err);
		return r < 0 ? r : 1;
	}
	mount = ns_add_mount(cell, NS_HIDE, path);
	if (!mount)
		return error_oom(err);
	mount->rule = rule;
	mount->is_dir = S_ISDIR(st.st_mode);
	mount->is_nested = true;
	return 1;
}

/* Behind all grants: a link in the home may lead into any of them, ~/.ssh -> dotfiles/ssh. */
static int hide_targets(struct cell *cell, const struct spec_rule **rules, size_t n,
			struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (rules[i]->access == SPEC_HIDE && !is_absent(cell, rules[i]->path) &&
		    !is_overruled(cell->spec, rules, n, i))
			r = hide_target(cell, rules[i], err);
	}
	return r;
}

static int add_rules(struct cell *cell, const struct spec_rule **rules, size_t n,
		     struct atoll_error *err)
{
	const bool etc_keeps = etc_keeps_hidden(cell, rules, n);
	const struct ns_mount *asked_of = NULL;
	bool can_mask = false;

	for (size_t i = 0; i < n; i++) {
		const struct spec_rule *rule = rules[i];
		struct ns_mount *above;
		int r;

		if (is_overruled(cell->spec, rules, n, i))
			continue;
		if (rule->access == SPEC_HIDE) {
			above = enclosing(cell, rule->path);
			if (above && above != asked_of) {
				above->keeps_hidden = etc_keeps && !above->is_writable &&
						      streq(above->path, "/etc");
				can_mask = can_mask_in(cell, above);
			}
			asked_of = above;
			r = above && above->keeps_hidden ? 0 : add_hide(cell, rule, can_mask, err);
		} else if (cell->spec->image && streq(rule->origin, "default") &&
			   path_depth(rule->path) == 1) {
			r = image_add(cell, rule->path, rule, err);
		} else if (streq(rule->path, "/")) {
			r = add_whole_root(cell, rule, err);
		} else {
			r = add_grant(cell, rule, rule->path, err);
		}
		if (r < 0)
			return r;
		if (rule->access != SPEC_HIDE)
			asked_of = NULL; /* the list has moved */
	}
	return hide_targets(cell, rules, n, err);
}

static int check_cwd(const struct cell *cell, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	char path[PATH_MAX];

	if (!spec_host_path(cell->spec, cell->spec->cwd, path, sizeof path))
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG,
				 "working directory '%s' (%s)", cell->spec->cwd,
				 cell->spec->cwd_origin);
	fd = fd_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);

	if (fd == -ELOOP)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "working directory '%s' (%s) goes through a symbolic link",
				 cell->spec->cwd, cell->spec->cwd_origin);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -fd, "working directory '%s' (%s)",
				 cell->spec->cwd, cell->spec->cwd_origin);
	return 0;
}

/* A pattern that reaches over a directory of the host's. In a layer what matches is taken out once:
 * what appears on the host later is not part of what the run began with. */
bool ns_needs_keeper(const struct cell *cell, const struct spec_rule *rule)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind == NS_BIND && mount->is_dir && !mount->is_layer &&
		    ns_pattern_reaches(rule, mount))
			return true;
	}
	return false;
}

static int prepare_mounts(struct cell *cell, struct atoll_error *err)
{
	const struct spec *spec = cell->spec;
	cleanup_free const struct spec_rule **rules = calloc(spec->n_rules + 1, sizeof *rules);
	struct listing home = {0};
	size_t n = 0;
	int r;

	if (!rules)
		return error_oom(err);
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (!rule->is_pattern &&
		    (rule->access == SPEC_HIDE || rule->access == SPEC_PROTECT)) {
			r = refuse_link(rule, err);
			if (r < 0)
				return r;
		}
		if (!spec->rules[i].is_pattern && spec->rules[i].access != SPEC_PROTECT)
			rules[n++] = &spec->rules[i];
	}
	qsort(rules, n, sizeof *rules, by_path);
	cell->listing = &home;
	read_listing(&home, spec->home);
	r = add_rules(cell, rules, n, err);
	cell->listing = NULL;
	for (size_t i = 0; r == 0 && i < spec->n_sockets; i++)
		r = add_socket(cell, &spec->sockets[i], err);
	if (r == 0)
		r = check_cwd(cell, err);
	if (r == 0)
		r = aliases_prepare(cell, err);
	if (r == 0)
		r = layer_prepare(cell, err);
	if (r == 0)
		r = move_workspace(cell, err);
	if (r == 0)
		r = move_grants(cell, err);
	if (r == 0 && spec->image && spec->root_is_layer)
		r = image_add(cell, "/var", NULL, err);
	if (r == 0 && spec->root_is_layer)
		r = ns_add_private(cell, "/var", err);
	for (size_t i = 0; r == 0 && ns_private_dirs[i]; i++)
		r = ns_add_private(cell, ns_private_dirs[i], err);
	if (r == 0)
		r = add_devices(cell, err);
	if (r == 0 && !streq(spec->home, "/") && !spec->n_users)
		r = ns_add_private(cell, spec->home, err);
	if (r == 0)
		r = users_prepare(cell, err);
	if (r == 0)
		r = guest_prepare(cell, err);
	if (r == 0)
		r = system_prepare(cell, err);
	if (r == 0)
		r = beneath_prepare(cell, err);
	if (r == 0)
		r = shared_prepare(cell, err);
	if (r < 0)
		return r;
	note_keeper(cell);
	cell->guards_files = must_guard_files(cell);
	cell->has_open_top = spec->root_is_layer && !cell->guards_files;
	if (cell->has_open_top)
		r = ns_add_private(cell, "/run", err);
	if (r < 0)
		return r;
	qsort(cell->mounts, cell->n_mounts, sizeof *cell->mounts, mounts_by_path);
	return add_zones(cell, err);
}

int ns_prepare_mounts(struct cell *cell, struct plan *plan, struct atoll_error *err)
{
	int r;

	cell->is_plan = plan;
	ns_forget_mounted();
	r = prepare_mounts(cell, err);
	ns_forget_mounted();
	return r;
}

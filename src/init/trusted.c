/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "init/guard.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* A path inside is at most this long, and its name on the host is longer by a grant's at most. */
#define GUARD_HOST_MAX (3 * PATH_MAX)

static bool identify(int dir_fd, const char *name, struct guard_id *ret)
{
	struct statx stx;

	if (statx(dir_fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME,
		  &stx) < 0)
		return false;
	*ret = (struct guard_id){
		.dev = (uint64_t)stx.stx_dev_major << 32 | stx.stx_dev_minor,
		.ino = stx.stx_ino,
		.born_s = stx.stx_btime.tv_sec,
		.born_ns = stx.stx_btime.tv_nsec,
	};
	return true;
}

static struct guard_id *find(const struct guard_set *set, const struct guard_id *id)
{
	size_t n = set->n < GUARD_OWN_MAX ? set->n : GUARD_OWN_MAX;

	for (size_t i = 0; i < n; i++) {
		if (memcmp(&set->ids[i], id, sizeof *id) == 0)
			return (struct guard_id *)&set->ids[i];
	}
	return NULL;
}

void guard_set_add(struct guard_set *set, int dir_fd, const char *name)
{
	struct guard_id id;

	if (identify(dir_fd, name, &id) && !find(set, &id))
		set->ids[set->n++ % GUARD_OWN_MAX] = id;
}

bool guard_set_has(const struct guard_set *set, int dir_fd, const char *name)
{
	struct guard_id id;

	return set->n && identify(dir_fd, name, &id) && find(set, &id);
}

void guard_forget(struct guard *guard, int dir_fd, const char *name)
{
	struct guard_set *sets[] = {&guard->own_git, &guard->own_sockets};
	struct guard_id id, *known;

	if (!(guard->own_git.n | guard->own_sockets.n) || !identify(dir_fd, name, &id))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		known = find(sets[i], &id);
		if (known)
			*known = (struct guard_id){0};
	}
}

/* With mounts a zone is the directory that was granted; without them somebody on the host may have
 * put another in its place. */
static bool is_in_place(const struct init_zone *zone)
{
	struct stat st;

	return zone->ino == 0 ||
	       (lstat(zone->path, &st) == 0 && st.st_dev == zone->dev && st.st_ino == zone->ino);
}

const struct init_zone *guard_zone(const struct guard *guard, const char *path)
{
	const struct init_config *config = guard->config;
	const struct init_zone *found = NULL;
	size_t deepest = 0;

	for (size_t i = 0; i < config->n_zones; i++) {
		size_t length = strlen(config->zones[i].path);

		if (path_is_within(path, config->zones[i].path) && (!found || length > deepest)) {
			found = &config->zones[i];
			deepest = length;
		}
	}
	return found && is_in_place(found) ? found : NULL;
}

int guard_refuse(struct call *call, int code, const char *rule)
{
	call->rule = rule;
	return -code;
}

/* The part of a rule's path that is no pattern, as a length. */
static size_t literal_length(const struct spec_rule *rule)
{
	return rule->is_pattern ? path_literal_length(rule->path) : strlen(rule->path);
}

/* Does `path`, or something above the rule's own place, decide what is found at that place? */
static bool leads_to(const struct spec_rule *rule, const char *path)
{
	size_t length = strlen(path);

	return length <= literal_length(rule) && strncmp(rule->path, path, length) == 0 &&
	       (rule->path[length] == '/' || rule->path[length] == '\0');
}

/* Lines are about the host's names. What has none there is judged by the one that it has. */
static const char *host_name(const struct spec *spec, const char *path, char ret[GUARD_HOST_MAX])
{
	return spec_host_path(spec, path, ret, GUARD_HOST_MAX) ? ret : path;
}

/* Would a directory that comes from elsewhere bring in what a pattern protects here? */
static bool comes_from_outside(const struct call *call, const struct spec_rule *rule,
			       const char *path)
{
	static char host[GUARD_HOST_MAX];
	char base[PATH_MAX];
	size_t length = literal_length(rule);

	if (!rule->is_pattern || !call->moves_from || length >= sizeof base)
		return false;
	memcpy(base, rule->path, length);
	base[length] = '\0';
	return path_is_within(path, base) &&
	       !path_is_within(host_name(call->guard->config->spec, call->moves_from, host), base);
}

/*
 * Lines of the contract: what is hidden or protected. A place is also what leads to it: a directory
 * above must not be moved away, nor be replaced by one, or by a link, whose content nobody has
 * looked at.
 */
static int permit_by_contract(struct call *call, const char *inside, enum names_action action,
			      bool is_dir)
{
	static char host[GUARD_HOST_MAX];
	const struct spec *spec = call->guard->config->spec;
	const char *path = host_name(spec, inside, host);
	const struct spec_rule *rule = spec_rule_for(spec, path);
	bool changes_way = action == NAMES_SYMLINK || action == NAMES_RENAME_DIR_TO ||
			   (is_dir && action == NAMES_REMOVE);

	if (rule && rule->access == SPEC_HIDE)
		return guard_refuse(call, EACCES, "hide");
	for (size_t i = 0; i < spec->n_rules; i++) {
		rule = &spec->rules[i];
		if (rule->access == SPEC_WRITE)
			continue;
		if (rule->access == SPEC_PROTECT &&
		    (rule->is_pattern ? path_glob(rule->path, path)
				      : path_is_within(path, rule->path)))
			return guard_refuse(call, EPERM, "protect");
		if (changes_way && leads_to(rule, path))
			return guard_refuse(call, EPERM, spec_access_word(rule->access));
		if (action == NAMES_RENAME_DIR_TO && rule->access == SPEC_PROTECT &&
		    comes_from_outside(call, rule, path))
			return guard_refuse(call, EPERM, "protect");
	}
	return 0;
}

/* Does `dir`/`name` exist, whatever it is? `added` is a name that the call at hand would add, as
 * the most forgiving file system would take it. */
static bool holds(int dir_fd, const char *name, const char *added)
{
	char folded[NAMES_FOLD_SIZE];
	struct stat st;

	return (added && names_fold(added, strlen(added), folded) &&
		names_same(folded, streq(name, "HEAD") ? "head" : name)) ||
	       fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A git directory, or what another one's `commondir` can make the greater part of it. */
static bool is_git_dir(int dir_fd, const char *added)
{
	return (holds(dir_fd, "objects", added) && holds(dir_fd, "refs", added)) ||
	       (holds(dir_fd, "HEAD", added) && holds(dir_fd, "commondir", added));
}

/* A walk through what lies in a directory that is about to become a git directory. */
struct survey {
	unsigned n_left; /* entries, so that nobody keeps the guard busy */
	char path[PATH_MAX];
};

#define SURVEY_ENTRIES_MAX 4096
#define SURVEY_DEPTH_MAX   32

static unsigned char entry_type(int dir_fd, const struct dirent64 *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_UNKNOWN;
	return (unsigned char)IFTODT(st.st_mode);
}

/* A FIFO or the like: git would wait at it. What nobody knows counts as well. */
static bool is_special(unsigned char type)
{
	return type != DT_REG && type != DT_DIR && type != DT_LNK;
}

/* Has a directory that becomes a git directory a special file among its own entries? */
static bool has_special(int dir_fd)
{
	cleanup_fd int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned n_left = SURVEY_ENTRIES_MAX;
	char entries[2048];
	ssize_t got;

	if (fd < 0)
		return true;
	while ((got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			struct dirent64 *entry = (struct dirent64 *)(void *)(entries + at);

			at += entry->d_reclen;
			if (n_left-- == 0 || is_special(entry_type(fd, entry)))
				return true;
		}
	}
	return got < 0;
}

/* Would git_guard() have let each entry beneath `name` be made, had it been a git directory's then?
 * `path` in the survey is where `name` is, as git_guard() takes it. */
static bool is_tree_clean(int parent_fd, const char *name, struct survey *survey, unsigned depth)
{
	cleanup_fd int fd = openat(parent_fd, name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	size_t length = strlen(survey->path);
	char entries[2048];
	ssize_t got;

	if (fd < 0 || depth == SURVEY_DEPTH_MAX)
		return false;
	while ((got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			struct dirent64 *entry = (struct dirent64 *)(void *)(entries + at);
			unsigned char type = entry_type(fd, entry);
			size_t room = sizeof survey->path - length;
			const char *what;

			at += entry->d_reclen;
			if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
				continue;
			if (survey->n_left-- == 0 || (size_t)snprintf(survey->path + length, room,
								      "/%s", entry->d_name) >= room)
				return false;
			if (is_special(type) || type == DT_LNK)
				return false;
			if (git_guard(survey->path, type == DT_DIR ? NAMES_MKDIR : NAMES_CREATE,
				      true, &what) != GIT_ALLOW)
				return false;
			if (type == DT_DIR && !is_tree_clean(fd, entry->d_name, survey, depth + 1))
				return false;
			survey->path[length] = '\0';
		}
	}
	return got == 0;
}

/*
 * A tree that git looks into, of a directory that becomes a git directory. What comes later is
 * judged by its path from there on, which is worth nothing if something was there before: a nested
 * git directory to which only the last marker is missing, a link out of the tree.
 */
static bool is_part_clean(int dir_fd, const char *part)
{
	struct survey survey = {.n_left = SURVEY_ENTRIES_MAX};
	struct stat st;

	if (fstatat(dir_fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	if (!S_ISDIR(st.st_mode))
		return S_ISREG(st.st_mode);
	strcpy(survey.path, part);
	return is_tree_clean(dir_fd, part, &survey, 0);
}

/* A directory is about to become a git directory. What lies in it came in unseen. */
static bool is_clean_before(struct call *call, int dir_fd)
{
	struct stat st;

	for (size_t i = 0; git_before[i]; i++) {
		if (!streq(git_before[i], "hooks") && !streq(git_before[i], "config") &&
		    (fstatat(dir_fd, git_before[i], &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		     (errno != ENOENT && errno != ENOTDIR)))
			return false;
	}
	/* Through a link its content would stay open to change. */
	if (fstatat(dir_fd, "objects", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		return false;
	/* Of the objects, which may be many, git_guard() lists every name: only objects/info
	 * matters. */
	for (size_t i = 0; git_markers[i]; i++) {
		bool is_objects = streq(git_markers[i], "objects");

		if (!is_part_clean(dir_fd, is_objects ? "objects/info" : git_markers[i]))
			return false;
	}
	return !has_special(dir_fd) && guard_seal_config(call, dir_fd);
}

/* The first `length` bytes of a path, as a descriptor. */
static int open_prefix(const char *path, size_t length)
{
	char prefix[PATH_MAX];

	if (length >= sizeof prefix)
		return -ENAMETOOLONG;
	memcpy(prefix, path, length);
	prefix[length] = '\0';
	return fd_openat2(AT_FDCWD, length ? prefix : "/", O_PATH, 0, 0);
}

static bool is_own(struct call *call, int fd)
{
	return fd >= 0 && guard_set_has(&call->guard->own_git, fd, "");
}

static bool is_own_at(struct call *call, int dir_fd, const char *name)
{
	return guard_set_has(&call->guard->own_git, dir_fd, name);
}

/* Of a `.git` in a path. Most runs have made none, and need not look. */
static bool is_own_prefix(struct call *call, const char *path, size_t length)
{
	cleanup_fd int fd = call->guard->own_git.n ? open_prefix(path, length) : -1;

	return is_own(call, fd);
}

/* As git has it, not as is_git_dir() does: directories `objects` and `refs` may be a project's own.
 */
static bool is_git_root(const struct guard *guard, const struct init_zone *zone)
{
	static char host[GUARD_HOST_MAX];
	const char *name = path_name(host_name(guard->config->spec, zone->path, host));
	cleanup_fd int fd = -1;

	if (names_is_git(path_name(zone->path), strlen(path_name(zone->path))) ||
	    names_is_git(name, strlen(name)))
		return true;
	fd = open(zone->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && holds(fd, "objects", NULL) && holds(fd, "refs", NULL) &&
	       holds(fd, "HEAD", NULL);
}

/* The writable root was a git directory when it was first asked about: somebody has granted one
 * apart from its work tree. One that the run itself makes later has permit_in_bare(). */
static bool was_git_root(struct guard *guard, const struct init_zone *zone)
{
	size_t i = (size_t)(zone - guard->config->zones);

	if (i >= GUARD_ROOTS_MAX)
		return is_git_root(guard, zone);
	if (guard->git_roots[i] == GUARD_ROOT_UNSEEN)
		guard->git_roots[i] = is_git_root(guard, zone) ? GUARD_ROOT_GIT : GUARD_ROOT_PLAIN;
	return guard->git_roots[i] == GUARD_ROOT_GIT;
}

const char *guard_git_inside(struct guard *guard, const struct init_zone *zone, const char *path)
{
	const char *inside = names_git_inside(zone->path, path);

	if (inside || streq(path, zone->path) || !was_git_root(guard, zone))
		return inside;
	return path + strlen(zone->path) + (zone->path[1] ? 1 : 0);
}

static bool is_git_prefix(const char *path, size_t length)
{
	cleanup_fd int fd = open_prefix(path, length);

	return fd >= 0 && is_git_dir(fd, NULL);
}

bool guard_is_in_git_dir(const struct init_zone *zone, const char *path)
{
	const char *marker = NULL;

	if (names_git_inside(zone->path, path))
		return true;
	while ((marker = git_next_marker(zone->path, path, marker)))
		if (is_git_prefix(path, (size_t)(marker - path) - 1))
			return true;
	return !streq(path, zone->path) && is_git_prefix(path, strlen(path));
}

bool guard_is_near_protected(const struct call *call, const char *inside)
{
	static char host[GUARD_HOST_MAX];
	const struct spec *spec = call->guard->config->spec;
	const char *path = host_name(spec, inside, host);

	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->access == SPEC_PROTECT &&
		    (rule->is_pattern ? path_glob(rule->path, path)
				      : path_is_within(path, rule->path) ||
						path_is_within(rule->path, path)))
			return true;
	}
	return false;
}

/* How many directories lie between the name at the end of `inside` and its git directory. */
static size_t levels_inside(const char *inside)
{
	size_t n = 0;

	for (const char *c = inside; (c = strchr(c, '/')); c++)
		n++;
	return n;
}

bool guard_is_own_git(struct call *call, const struct target *target)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);
	const char *inside = zone ? guard_git_inside(call->guard, zone, target->path) : NULL;
	cleanup_fd int fd = -1;

	if (!call->guard->own_git.n || target->parent < 0)
		return false;
	if (inside && is_own_at(call, target->parent, target->name))
		return true;
	if (inside && !inside[0]) /* the .git itself: what holds it does not count */
		return false;
	fd = fcntl(target->parent, F_DUPFD_CLOEXEC, 0);
	/* Not beyond the git directory: what holds it may be the run's own for other reasons. */
	for (size_t up = inside ? levels_inside(inside) : 0; fd >= 0; up--) {
		int above;

		if (is_own(call, fd))
			return true;
		if (up == 0)
			return false;
		above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = above;
	}
	return false;
}

static bool adds_a_name(enum names_action action)
{
	return action == NAMES_CREATE || action == NAMES_MKDIR || action == NAMES_SYMLINK ||
	       action == NAMES_RENAME_TO || action == NAMES_RENAME_DIR_TO;
}

/* The directory that a marker in the target's path is in: by descriptor where there is one, because
 * another run may move things meanwhile. */
static int open_dir_of(const struct target *target, const char *marker)
{
	char up[3 * 256 + 1] = "";
	size_t n = 0;
	int fd;

	if (target->parent < 0)
		return open_prefix(target->path, (size_t)(marker - target->path) - 1);
	for (const char *slash = marker; (slash = strchr(slash, '/')); slash++) {
		if (3 * ++n >= sizeof up)
			return -ENAMETOOLONG;
		strcat(up, "../");
	}
	fd = openat(target->parent, n ? up : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Look at it again when the call is done. */
static int note_unsure(struct call *call, int dir_fd, const char *marker, enum names_action action)
{
	struct guard_unsure *unsure = &call->unsure[call->n_unsure];
	size_t length = strlen(marker);

	if (action == NAMES_REMOVE || action == NAMES_CHMOD)
		return 0;
	if (call->n_unsure == GUARD_UNSURE_MAX)
		return guard_refuse(call, EPERM, "too many names of git's in one path");
	/* Where only the beginning fits, that decides as well. */
	if (length >= sizeof unsure->inside)
		length = sizeof unsure->inside - 1;
	memcpy(unsure->inside, marker, length);
	unsure->inside[length] = '\0';
	unsure->action = action;
	unsure->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	if (unsure->dir_fd < 0)
		return guard_refuse(call, errno, "a place that cannot be looked at");
	call->n_unsure++;
	return 0;
}

int guard_confirm(struct call *call)
{
	const char *what;

	for (size_t i = 0; i < call->n_unsure; i++) {
		const struct guard_unsure *unsure = &call->unsure[i];

		if (!is_git_dir(unsure->dir_fd, NULL))
			continue;
		if (git_guard(unsure->inside, unsure->action, false, &what) != GIT_ALLOW ||
		    !is_clean_before(call, unsure->dir_fd))
			return guard_refuse(call, EPERM, "a new git directory");
	}
	return 0;
}

/* The config says how the index is read. */
static int keeps_index(struct call *call, const struct target *target, enum names_action action)
{
	return action != NAMES_REMOVE || target->parent < 0 ||
			       guard_keeps_format(target->parent, target->name)
		       ? 0
		       : guard_refuse(call, EPERM, "git config, as long as there is an index");
}

static const char what_moved[] = "directory moved out of the git directory";

/* Of these parts the place counts: where a worktree's index finds its config, and from where
 * core.worktree of a submodule leads to the work tree. Beneath `.git` no checkout writes them. */
static bool is_bound(const struct target *target, const char *inside)
{
	char path[NAME_MAX + 16];
	struct stat st;

	if (*inside)
		return starts_with(inside, "modules") || starts_with(inside, "worktrees");
	snprintf(path, sizeof path, "%s/modules", target->name);
	if (fstatat(target->parent, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	snprintf(path, sizeof path, "%s/worktrees", target->name);
	return fstatat(target->parent, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Git directories by another name than ".git": "x/HEAD", "x/hooks/pre-commit". */
static int permit_in_bare(struct call *call, const char *root, const struct target *target,
			  enum names_action action, bool is_dir, enum git_verdict *ret_verdict)
{
	const char *marker = NULL, *what = NULL;
	int r;

	while ((marker = git_next_marker(root, target->path, marker))) {
		cleanup_fd int dir = open_dir_of(target, marker);
		const char *added = adds_a_name(action) && !strchr(marker, '/') ? marker : NULL;

		/* An ancestor that cannot be searched, no descriptor left: what cannot be looked at
		 * may be anything. */
		if (dir < 0)
			return dir == -ENOENT || dir == -ENOTDIR
				       ? dir
				       : guard_refuse(call, -dir,
						      "a place that cannot be looked at");
		if (is_git_dir(dir, NULL)) {
			if (action == NAMES_REMOVE && is_dir && is_bound(target, marker))
				return guard_refuse(call, EPERM, what_moved);
			*ret_verdict = git_guard(marker, action, is_own(call, dir), &what);
			if (*ret_verdict == GIT_REFUSE)
				return guard_refuse(call, EPERM, what);
			return keeps_index(call, target, action);
		}
		r = note_unsure(call, dir, marker, action);
		if (r < 0)
			return r;
		if (added && is_git_dir(dir, added)) {
			*ret_verdict = git_guard(marker, action, true, &what);
			if (*ret_verdict != GIT_ALLOW || !is_clean_before(call, dir))
				return guard_refuse(call, EPERM, "a new git directory");
			call->makes_git_dir = true;
			return 0;
		}
	}
	return 0;
}

/* Zones are known by their paths. A mount goes along with a directory that is moved, and would have
 * a path that is nobody's afterwards. */
static bool is_way_to_zone(const struct guard *guard, const char *path)
{
	for (size_t i = 0; i < guard->config->n_zones; i++) {
		const char *other = guard->config->zones[i].path;

		if (!streq(other, path) && path_is_within(other, path))
			return true;
	}
	return false;
}

static int mount_of(int dir_fd, const char *name, uint64_t *ret)
{
	struct statx stx;

	if (statx(dir_fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &stx) < 0)
		return -errno;
	*ret = stx.stx_mnt_id;
	return stx.stx_mask & STATX_MNT_ID ? 0 : -ENOSYS;
}

/* What lies on another mount is none of this zone's, whatever its path says. */
static int check_mount(struct call *call, const struct init_zone *zone, const struct target *target)
{
	uint64_t mount, own;
	int r;

	if (target->object >= 0) {
		r = mount_of(target->object, "", &mount);
	} else {
		r = mount_of(target->parent, target->name, &mount);
		if (r == -ENOENT)
			r = mount_of(target->parent, "", &mount);
	}
	if (r == 0)
		r = mount_of(AT_FDCWD, zone->path, &own);
	if (r < 0)
		return r;
	return mount == own ? 0 : guard_refuse(call, EACCES, "no longer what was granted");
}

/* Nothing is refused by its name here, if only it is the private storage that is meant. Elsewhere
 * the kernel decides, and what comes to us has no name at all: a memfd. */
static int permit_in_private(struct call *call, const struct init_zone *zone,
			     const struct target *target, bool moves_dir)
{
	int r = zone->kind == INIT_ZONE_PRIVATE ? check_mount(call, zone, target) : 0;

	if (r == 0 && moves_dir && is_way_to_zone(call->guard, target->path))
		return guard_refuse(call, EBUSY, "the way to a grant");
	return r;
}

/* Beneath ".git", or in a root that is a git directory. */
static int permit_in_git(struct call *call, const struct target *target, const char *inside,
			 enum names_action action, bool is_dir, enum git_verdict *ret_verdict)
{
	/* "" is the .git itself, and the component ends right before a slash otherwise. */
	size_t length = (size_t)(inside - target->path) - (inside[0] ? 1 : 0);
	bool is_ours = is_own_prefix(call, target->path, length) || guard_is_own_git(call, target);
	const char *what;

	/* A part that is moved brings its content to where nobody looks for it. */
	if (action == NAMES_REMOVE && is_dir && (!is_ours || is_bound(target, inside)))
		return guard_refuse(call, EPERM, what_moved);
	*ret_verdict = git_guard(inside, action, is_ours, &what);
	if (*ret_verdict == GIT_REFUSE)
		return guard_refuse(call, EPERM, what);
	return keeps_index(call, target, action);
}

/* The host knows what is granted at another place (`at`) by its own names. Both count. */
const char *guard_refused_name(const struct guard *guard, const struct init_zone *zone,
			       const char *path, enum names_action action)
{
	static char root[GUARD_HOST_MAX], host[GUARD_HOST_MAX];
	const struct spec *spec = guard->config->spec;
	const char *what = names_refuse(zone->path, path, action);

	if (what || streq(host_name(spec, path, host), path))
		return what;
	return names_refuse(host_name(spec, zone->path, root), host, action);
}

static int permit_in_root(struct call *call, const struct init_zone *zone,
			  const struct target *target, enum names_action action, bool is_dir,
			  enum git_verdict *ret_verdict)
{
	const char *what, *inside;
	int r;

	/* What is granted is a mount elsewhere, whose own name cannot go. */
	if (call->guard->config->is_bare && action != NAMES_WRITE && action != NAMES_CHMOD &&
	    streq(target->path, zone->path))
		return guard_refuse(call, EBUSY, "the grant itself");
	r = permit_by_contract(call, target->path, action, is_dir);
	if (r < 0)
		return r;
	what = guard_refused_name(call->guard, zone, target->path, action);
	if (what)
		return guard_refuse(call, EPERM, what);
	inside = guard_git_inside(call->guard, zone, target->path);
	/* Of a worktree whose repository was granted: its submodules are in worktrees/NAME. */
	if (inside && starts_with(inside, "modules") && adds_a_name(action) &&
	    !names_git_inside(zone->path, target->path) && !guard_is_own_git(call, target))
		return guard_refuse(call, EPERM, "git submodules of another work tree");
	if (inside)
		return permit_in_git(call, target, inside, action, is_dir, ret_verdict);
	return permit_in_bare(call, zone->path, target, action, is_dir, ret_verdict);
}

int guard_permit(struct call *call, const struct target *target, enum names_action action,
		 bool is_dir, enum git_verdict *ret_verdict)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);
	int r;

	*ret_verdict = GIT_ALLOW;
	memcpy(call->path, target->path, strlen(target->path) + 1);
	if (!zone)
		return guard_refuse(call, EACCES, "no longer what was granted");
	if (zone->kind != INIT_ZONE_GUARDED)
		return permit_in_private(call, zone, target, action == NAMES_REMOVE && is_dir);
	r = permit_in_root(call, zone, target, action, is_dir, ret_verdict);
	return r < 0 ? r : guard_act_as_owner(call);
}

/* In a git directory, whatever its name is. */
static bool is_in_git(struct call *call, const struct init_zone *zone, const struct target *target)
{
	const char *inside = guard_git_inside(call->guard, zone, target->path), *marker = NULL;

	if (inside)
		return true;
	while ((marker = git_next_marker(zone->path, target->path, marker))) {
		cleanup_fd int dir = open_dir_of(target, marker);

		if (dir < 0 || is_git_dir(dir, NULL))
			return true;
	}
	return false;
}

int guard_permit_special(struct call *call, const struct target *target, mode_t mode)
{
	static char root[GUARD_HOST_MAX], host[GUARD_HOST_MAX];
	const struct init_zone *zone = guard_zone(call->guard, target->path);
	const struct spec *spec = call->guard->config->spec;
	const char *what;

	if (!zone || zone->kind != INIT_ZONE_GUARDED || S_ISDIR(mode) || S_ISLNK(mode) ||
	    S_ISREG(mode) || !(mode & S_IFMT))
		return 0;
	what = names_refuse_special(zone->path, target->path);
	if (!what)
		what = names_refuse_special(host_name(spec, zone->path, root),
					    host_name(spec, target->path, host));
	/* git's own sockets (fsmonitor) keep nobody waiting. */
	if (!what && !S_ISSOCK(mode) && is_in_git(call, zone, target))
		what = "FIFO in a git directory";
	return what ? guard_refuse(call, EPERM, what) : 0;
}

/* A submodule's git directory, or a worktree's, made by this run in a git directory that was there:
 * the outermost new directory counts for all that is in it. */
static bool is_part_of_git(struct call *call, const struct init_zone *zone,
			   const struct target *target, enum names_action action)
{
	const char *inside =
		action == NAMES_MKDIR ? guard_git_inside(call->guard, zone, target->path) : NULL;

	return inside && (starts_with(inside, "modules") || starts_with(inside, "worktrees")) &&
	       !guard_is_own_git(call, target);
}

void guard_made(struct call *call, const struct target *target, enum names_action action)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);

	if (!zone || zone->kind != INIT_ZONE_GUARDED || target->parent < 0)
		return;
	call->guard->n_created++;
	if (is_part_of_git(call, zone, target, action)) {
		guard_set_add(&call->guard->own_git, target->parent, target->name);
	} else if (names_is_git(target->name, strlen(target->name))) {
		if (action == NAMES_MKDIR || action == NAMES_CREATE)
			guard_set_add(&call->guard->own_git, target->parent, target->name);
	} else if (call->makes_git_dir) {
		guard_set_add(&call->guard->own_git, target->parent, "");
	}
}

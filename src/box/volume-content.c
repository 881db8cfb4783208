/* SPDX-License-Identifier: Apache-2.0 */
#include "box/volume-content.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/uapi.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/volume.h"
#include "box/work.h"

#include <dirent.h>
#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#define BENEATH	    (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
#define ENTRIES_MAX 100000
#define TREE_DEPTH  256
#define OWNER	    "user.atoll.owner" /* "UID:GID", as a client set them */
#define USER_INSIDE 1000

/* ---- paths ---- */

/* What is behind the root: "" is the root itself. */
static const char *relative(const struct volume_job *job)
{
	return job->path + 1;
}

/* The directory that the last name is in; `*ret_name` is that name. -ENOENT, -ENOTDIR, -ELOOP. */
static int open_parent(const struct volume_job *job, int root, const char **ret_name)
{
	const char *path = relative(job), *slash = strrchr(path, '/');
	char parent[PATH_MAX];

	*ret_name = slash ? slash + 1 : path;
	snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) : 1,
		 slash ? path : ".");
	return fd_openat2(root, parent, O_RDONLY | O_DIRECTORY, 0, BENEATH);
}

/* ---- entries ---- */

static void read_owner(int fd, struct volume_entry *entry)
{
	char text[32] = "";
	unsigned uid, gid;

	entry->uid = entry->st.st_uid == geteuid() ? USER_INSIDE : entry->st.st_uid;
	entry->gid = entry->st.st_gid == getegid() ? USER_INSIDE : entry->st.st_gid;
	if (fd >= 0 && fgetxattr(fd, OWNER, text, sizeof text - 1) > 0 &&
	    sscanf(text, "%u:%u", &uid, &gid) == 2) {
		entry->uid = uid;
		entry->gid = gid;
	}
}

static void entry_done(struct volume_entry *entry)
{
	free(entry->path);
	free(entry->target);
}

/* 1: it is gone. entry_done() in any case. */
static int read_entry(int dir_fd, const char *name, const char *path, struct volume_entry *entry)
{
	cleanup_fd int fd = -1;
	char target[PATH_MAX];

	if (fstatat(dir_fd, name, &entry->st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (S_ISREG(entry->st.st_mode) || S_ISDIR(entry->st.st_mode))
		fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	read_owner(fd, entry);
	if (S_ISLNK(entry->st.st_mode)) {
		ssize_t n = readlinkat(dir_fd, name, target, sizeof target - 1);

		target[n < 0 ? 0 : n] = '\0';
		entry->target = strdup(target);
	}
	entry->path = strdup(path);
	return entry->path && (entry->target || !S_ISLNK(entry->st.st_mode)) ? 0 : -ENOMEM;
}

/* The answer to all questions but lists has one entry. */
static int add_entry(struct volume_job *job, int dir_fd, const char *name, const char *path)
{
	struct volume_entry entry = {0};
	int r = read_entry(dir_fd, name, path, &entry);

	job->entries = r == 0 ? malloc(sizeof *job->entries) : NULL;
	if (job->entries) {
		job->entries[0] = entry;
		job->n = 1;
		return 0;
	}
	entry_done(&entry);
	return r == 0 ? -ENOMEM : r == 1 ? -ENOENT : r;
}

static int add_asked(struct volume_job *job, int root)
{
	const char *name;
	cleanup_fd int parent = -1;

	if (!relative(job)[0])
		return add_entry(job, root, ".", "/");
	parent = open_parent(job, root, &name);
	return parent < 0 ? parent : add_entry(job, parent, name, job->path);
}

static int no_dots(const struct dirent *entry)
{
	return !streq(entry->d_name, ".") && !streq(entry->d_name, "..");
}

static int in_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, in the order of their bytes. */
struct names {
	char **items;
	size_t n;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
}

static int add_name(struct names *names, const char *name)
{
	if ((names->n & (names->n - 1)) == 0) {
		char **more = reallocarray(names->items, names->n ? 2 * names->n : 1, sizeof *more);

		if (!more)
			return -ENOMEM;
		names->items = more;
	}
	names->items[names->n] = strdup(name);
	return names->items[names->n] ? (names->n++, 0) : -ENOMEM;
}

/* A box makes as many names as it likes: no more are read than a list may have. */
static int read_names(struct volume_job *job, int dir_fd, struct names *names)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir)))
		if (no_dots(entry))
			r = job->n_names++ < ENTRIES_MAX ? add_name(names, entry->d_name) : -E2BIG;
	closedir(dir);
	if (names->n > 0)
		qsort(names->items, names->n, sizeof *names->items, in_bytes);
	return r;
}

static int list_in(struct volume_job *job, int fd, const char *path, uint32_t depth);

static int list_one(struct volume_job *job, int fd, const char *name, const char *path,
		    uint32_t depth)
{
	cleanup_free char *whole = path_join(path, name);
	cleanup_fd int child = -1;
	struct volume_entry entry = {0};
	int r = whole ? read_entry(fd, name, whole, &entry) : -ENOMEM;
	const bool is_dir = S_ISDIR(entry.st.st_mode);

	if (r == 0)
		r = job->put(job, &entry);
	else if (r == 1)
		depth = r = 0;
	entry_done(&entry);
	if (r < 0 || depth <= 1 || !is_dir)
		return r;
	child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return child < 0 ? 0 : list_in(job, child, whole, depth - 1);
}

/* Each directory before what it holds; not through links. */
static int list_in(struct volume_job *job, int fd, const char *path, uint32_t depth)
{
	cleanup_with(names_done) struct names names = {0};
	int r = read_names(job, fd, &names);

	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = list_one(job, fd, names.items[i], path, depth);
	return r;
}

static int list(struct volume_job *job, int root)
{
	const char *path = relative(job)[0] ? relative(job) : ".";
	cleanup_fd int fd = fd_openat2(root, path, O_RDONLY | O_DIRECTORY, 0, BENEATH);
	uint32_t depth = job->depth ? job->depth : 1;
	int r;

	if (fd < 0)
		return fd;
	r = list_in(job, fd, job->path, depth < VOLUME_DEPTH_MAX ? depth : VOLUME_DEPTH_MAX);
	return r < 0 ? r : job->end(job);
}

/* ---- changes ---- */

static int set_meta(int fd, const struct volume_job *job)
{
	struct volume_entry now = {0};
	char text[32];

	if (job->mode >= 0 && fchmod(fd, (mode_t)job->mode & 0777) < 0)
		return -errno;
	if (job->uid < 0 && job->gid < 0)
		return 0;
	if (fstat(fd, &now.st) < 0)
		return -errno;
	read_owner(fd, &now);
	snprintf(text, sizeof text, "%u:%u", job->uid < 0 ? now.uid : (unsigned)job->uid,
		 job->gid < 0 ? now.gid : (unsigned)job->gid);
	/* Where there are no such attributes, they are not kept. */
	if (fsetxattr(fd, OWNER, text, strlen(text), 0) < 0 && errno != ENOTSUP)
		return -errno;
	return 0;
}

/* `mkdir -p`, one name after the other from the root. */
static int make_all(const struct volume_job *job, int root)
{
	cleanup_free char *path = strdup(relative(job));
	cleanup_fd int fd = dup(root);
	char *remaining = path, *name;

	while (path && fd >= 0 && (name = strsep(&remaining, "/"))) {
		int next;

		if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(fd);
		fd = next;
	}
	return !path ? -ENOMEM : fd < 0 ? -errno : set_meta(fd, job);
}

static int make_dir(struct volume_job *job, int root)
{
	cleanup_fd int parent = -1, fd = -1;
	const char *name;
	int r;

	if (!relative(job)[0])
		return -EEXIST;
	if (job->force) {
		r = make_all(job, root);
		return r < 0 ? r : add_asked(job, root);
	}
	parent = open_parent(job, root, &name);
	if (parent < 0)
		return parent;
	if (mkdirat(parent, name, 0755) < 0)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : set_meta(fd, job);
	return r < 0 ? r : add_asked(job, root);
}

static int change(struct volume_job *job, int root)
{
	const char *path = relative(job)[0] ? relative(job) : ".";
	cleanup_fd int fd = fd_openat2(root, path, O_RDONLY | O_NONBLOCK, 0, BENEATH);
	struct stat st;
	int r = fd < 0 ? fd : 0;

	if (r == 0 && (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))))
		r = -EINVAL;
	if (r == 0)
		r = set_meta(fd, job);
	return r < 0 ? r : add_asked(job, root);
}

/* What a box has made may be deeper than descriptors reach, and closed to its owner. */
struct removal {
	int top_fd;
	const char *name;
	unsigned n_deep; /* taken out, to lie beside it under its name and a number */
};

static void deep_name(const struct removal *removal, unsigned i, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%.3000s~%u", removal->name, i);
}

static int open_closed(int dir_fd, const char *name)
{
	cleanup_fd int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return fd >= 0 && chmod(path, 0700) == 0
		       ? openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		       : -1;
}

static void remove_level(struct removal *removal, int dir_fd, const char *name, int depth)
{
	char other[PATH_MAX];
	struct dirent *entry;
	DIR *dir;
	int fd;

	if (unlinkat(dir_fd, name, 0) == 0)
		return;
	if (depth > TREE_DEPTH) {
		deep_name(removal, removal->n_deep, other);
		if (renameat(dir_fd, name, removal->top_fd, other) == 0)
			removal->n_deep++;
		return;
	}
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		fd = open_closed(dir_fd, name);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	fchmod(fd, 0700);
	while ((entry = readdir(dir)))
		if (no_dots(entry))
			remove_level(removal, fd, entry->d_name, depth + 1);
	closedir(dir);
	unlinkat(dir_fd, name, AT_REMOVEDIR);
}

void volume_remove_tree(int dir_fd, const char *name)
{
	struct removal removal = {.top_fd = dir_fd, .name = name};
	char other[PATH_MAX];

	remove_level(&removal, dir_fd, name, 0);
	for (unsigned i = 0; i < removal.n_deep; i++) {
		deep_name(&removal, i, other);
		remove_level(&removal, dir_fd, other, 0);
	}
}

/* Out of sight at once; then it may take its time. */
static int remove_asked(struct volume_job *job, int root, int drafts)
{
	cleanup_fd int parent = -1;
	const char *name;

	if (!relative(job)[0])
		return -EBUSY;
	parent = open_parent(job, root, &name);
	if (parent < 0)
		return parent;
	if (renameat(parent, name, drafts, job->draft) < 0)
		return -errno;
	volume_remove_tree(drafts, job->draft);
	return 0;
}

static int open_file(struct volume_job *job, int root)
{
	const char *path = relative(job)[0] ? relative(job) : ".";
	struct stat st;
	int r = fd_openat2(root, path, O_RDONLY | O_NONBLOCK, 0, BENEATH);

	if (r < 0)
		return r;
	job->fd = r;
	if (fstat(job->fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
}

bool volume_has_room(int fd)
{
	struct statvfs fs;

	/* As much stays free as a machine needs to go on. */
	return fstatvfs(fd, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize > UINT64_C(64) << 20;
}

/* The place is looked at before anything is sent for it. */
static int open_draft(struct volume_job *job, int root, int drafts)
{
	cleanup_fd int parent = -1;
	const char *name;
	struct stat st;

	if (!relative(job)[0])
		return -EISDIR;
	parent = open_parent(job, root, &name);
	if (parent < 0)
		return parent;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISDIR(st.st_mode))
			return -EISDIR;
		if (!job->force)
			return -EEXIST;
	}
	if (!volume_has_room(root))
		return -ENOSPC;
	job->fd = openat(drafts, job->draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			 0644);
	return job->fd < 0 ? -errno : set_meta(job->fd, job);
}

static int commit(struct volume_job *job, int root, int drafts)
{
	cleanup_fd int parent = -1;
	const char *name;

	parent = open_parent(job, root, &name);
	if (parent < 0)
		return parent;
	if (renameat2(drafts, job->draft, parent, name, job->force ? 0 : RENAME_NOREPLACE) < 0)
		return -errno;
	return add_asked(job, root);
}

/* ---- on a thread ---- */

static int open_dir(const struct volume_job *job, const char *name)
{
	char path[PATH_MAX + 8];
	int fd;

	snprintf(path, sizeof path, "%s/%s", job->dir, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int run_op(struct volume_job *job, int root, int drafts)
{
	switch (job->op) {
	case VOLUME_STAT:
		return add_asked(job, root);
	case VOLUME_LIST:
		return list(job, root);
	case VOLUME_MAKE_DIR:
		return make_dir(job, root);
	case VOLUME_CHANGE:
		return change(job, root);
	case VOLUME_REMOVE:
		return remove_asked(job, root, drafts);
	case VOLUME_READ:
		return open_file(job, root);
	case VOLUME_DRAFT:
		return open_draft(job, root, drafts);
	case VOLUME_COMMIT:
		return commit(job, root, drafts);
	default:
		return -EINVAL;
	}
}

static void run(struct work_item *item)
{
	struct volume_job *job = (struct volume_job *)(void *)item;
	cleanup_fd int root = open_dir(job, "data"), drafts = open_dir(job, "draft");
	int r = root < 0 ? root : drafts < 0 ? drafts : run_op(job, root, drafts);

	/* A link on the way: to us there is nothing behind it. */
	if (r == -ELOOP || r == -EXDEV)
		r = -ENOENT;
	job->code = r;
	if (r < 0) {
		error_set(&job->error,
			  r == -ENOMEM || r == -ENOSPC ? ATOLL_FAULT_HOST : ATOLL_FAULT_REQUEST, -r,
			  "path '%.300s'", job->path);
		/* Nothing of a draft that is not to be. */
		if (drafts >= 0 && (job->op == VOLUME_COMMIT || job->op == VOLUME_DRAFT))
			unlinkat(drafts, job->draft, 0);
	}
}

int volume_job_start(struct daemon *daemon, const struct volume *volume, struct volume_job *job,
		     enum volume_op op, const char *path, struct atoll_error *err)
{
	char volumes[PATH_MAX];
	int r = daemon_subdir(daemon, "volumes", volumes, err);

	if (r < 0)
		return r;
	if (strlen(path) >= 4000)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "a path that is too long");
	free(job->path);
	if (asprintf(&job->path, "/%s", path) < 0) {
		job->path = NULL;
		return error_oom(err);
	}
	path_normalize(job->path);
	if (path_depth(job->path) > VOLUME_DEPTH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "a path has at most %d names",
				 VOLUME_DEPTH_MAX);
	if (snprintf(job->dir, sizeof job->dir, "%s/%s", volumes, volume->id) >=
	    (int)sizeof job->dir)
		return error_set(err, ATOLL_FAULT_HOST, ENAMETOOLONG, "'%.200s'", volumes);
	if (op != VOLUME_COMMIT)
		daemon_random_name(job->draft, 20);
	job->op = op;
	job->item.run = run;
	work_submit(daemon_work(daemon), &job->item, WORK_NOW);
	return 0;
}

void volume_draft_drop(const struct volume_job *job)
{
	char path[PATH_MAX + 48];

	snprintf(path, sizeof path, "%s/draft/%s", job->dir, job->draft);
	unlink(path);
}

void volume_job_done(struct volume_job *job)
{
	for (size_t i = 0; i < job->n; i++)
		entry_done(&job->entries[i]);
	free(job->entries);
	free(job->path);
	if (job->fd >= 0)
		close(job->fd);
	job->entries = NULL;
	job->path = NULL;
	job->n = 0;
	job->fd = -1;
}

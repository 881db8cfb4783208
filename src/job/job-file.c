/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job-file.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "job/other-names.h"
#include "layer/layer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/*
 * Who could have written a job file
 *
 * A job file is found by looking up names in directories: those of the path as it was typed, and
 * those of every link on the way. Whoever can change one of these directories, a link or the file
 * decides what is read. So job_file_open() walks from "/" by descriptors, one name at a time,
 * follows links itself, and keeps every directory that it has looked up a name in. The file that is
 * read is the one at the end of this walk: no path is resolved a second time.
 *
 * The walk decides two things at once, because it has the descriptors: whether somebody other than
 * the caller and root could have changed an object (owner, mode, access list), and whether a
 * directory belongs to a git tree. Other names that mounts give to a directory or to the file
 * count, too; a file with a second name may be written by that name, wherever it is. Which
 * directories a run could write is decided later, by job-trust.c, when the contract is known.
 *
 * Called by atoll_job_load() and atoll_trust_content().
 */

#define LINKS_MAX 40 /* as the kernel's MAXSYMLINKS */
#define ACL	  "system.posix_acl_access"

struct walk {
	struct job_file *file;
	const char *name;    /* of the job file, for messages */
	char at[PATH_MAX];   /* the directory `fd`, without links */
	char rest[PATH_MAX]; /* names that are still to be looked up */
	int fd;
	int links;
};

/* ---- who else ---- */

/* The n-th field of a line of /etc/passwd or /etc/group, cut off in place. */
static char *field(char **line)
{
	char *text = strsep(line, ":\n");

	return text ? text : (char *)"";
}

/* Has a user other than the caller and root this group as the first one? */
static bool is_others_first_group(gid_t gid, char ret_caller[64])
{
	FILE *accounts = fopen("/etc/passwd", "re");
	char line[1024];
	bool is_found = !accounts;

	ret_caller[0] = '\0';
	while (accounts && fgets(line, sizeof line, accounts)) {
		char *at = line, *name = field(&at);
		unsigned long uid, first;

		field(&at);
		uid = strtoul(field(&at), NULL, 10);
		first = strtoul(field(&at), NULL, 10);
		if (uid == geteuid())
			snprintf(ret_caller, 64, "%s", name);
		else if (uid != 0 && first == gid)
			is_found = true;
	}
	if (accounts)
		fclose(accounts);
	return is_found;
}

/* A line of /etc/group, behind the number: names with commas between. */
static bool has_other_members(char *members, const char *caller)
{
	char *name;

	while ((name = strsep(&members, ",\n"))) {
		if (name[0] && !streq(name, "root") && !streq(name, caller))
			return true;
	}
	return false;
}

/* Is the caller, besides root, the only member? A group that the files of this machine do not list
 * (a directory service's) may have any. */
static bool is_own_group(gid_t gid)
{
	char line[4096], caller[64];
	bool is_own = false;
	FILE *groups;

	if (is_others_first_group(gid, caller))
		return false;
	groups = fopen("/etc/group", "re");
	while (groups && fgets(line, sizeof line, groups)) {
		char *at = line;

		field(&at);
		field(&at);
		if (strtoul(field(&at), NULL, 10) != gid)
			continue;
		/* A line that is cut off has many members. */
		is_own = strchr(at ? at : "", '\n') && !has_other_members(at, caller);
		if (!is_own)
			break;
	}
	if (groups)
		fclose(groups);
	return is_own;
}

/* The group's bits of the mode are the mask of an access list, if there is one. */
static bool has_access_list(int fd)
{
	char link[64];

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	return getxattr(link, ACL, NULL, 0) >= 0 || (errno != ENODATA && errno != ENOTSUP);
}

/* In a user namespace that does not map the machine's root, root's directories belong to the
 * overflow id. These are root's on every machine (hier(7)). */
static bool is_roots_unmapped(const char *path, uid_t uid)
{
	static const char *const paths[] = {"/",    "/tmp",  "/var", "/var/tmp", "/home", "/root",
					    "/run", "/usr",  "/etc", "/opt",	 "/srv",  "/mnt",
					    "/dev", "/proc", "/sys", "/dev/shm", NULL};
	unsigned long overflow = 65534;
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");

	if (file) {
		if (fscanf(file, "%lu", &overflow) != 1)
			overflow = 65534;
		fclose(file);
	}
	for (size_t i = 0; uid == overflow && paths[i]; i++) {
		if (streq(path, paths[i]))
			return true;
	}
	return false;
}

/* Note it if somebody besides the caller and root can change this object, which is open as `fd`. */
static void look_at(struct walk *walk, const char *path, int fd, const struct stat *st)
{
	char *ret = walk->file->others;
	const size_t size = sizeof walk->file->others;
	const bool is_shared_dir = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX;
	char shown[100];

	if (ret[0])
		return;
	/* The message names the file already, and has room for few paths. */
	str_show(S_ISREG(st->st_mode) ? "it" : path, shown, sizeof shown);
	if (st->st_uid != geteuid() && st->st_uid != 0 && !is_roots_unmapped(path, st->st_uid))
		snprintf(ret, size, "%s belongs to uid %u", shown, st->st_uid);
	/* Root's files no run of another user's can write, and systems of images link all of them.
	 */
	else if (S_ISREG(st->st_mode) && st->st_nlink > 1 && st->st_uid == geteuid())
		snprintf(ret, size, "%s has a second name, by which it could be written", shown);
	else if (S_ISLNK(st->st_mode) || is_shared_dir)
		/* The names in a sticky directory are their owners' alone: each is looked at. */
		return;
	else if (st->st_mode & S_IWOTH)
		snprintf(ret, size, "%s can be written by everybody", shown);
	else if (st->st_mode & S_IWGRP && has_access_list(fd))
		snprintf(ret, size, "%s can be written by those of its access list", shown);
	else if (st->st_mode & S_IWGRP && !is_own_group(st->st_gid))
		snprintf(ret, size, "%s can be written by group %u", shown, st->st_gid);
}

/* ---- the walk ---- */

static int failed(const struct walk *walk, int code, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_REQUEST, code, "job file '%s'", walk->name);
}

/* A directory, or one above it, is the top of a git tree: by its names, since a mount shows it. */
static int find_git(struct walk *walk, const char *name, struct atoll_error *err)
{
	char path[PATH_MAX], git[PATH_MAX + 8];
	struct stat st;

	snprintf(path, sizeof path, "%s", name);
	while (!walk->file->git && path[0]) {
		snprintf(git, sizeof git, "%s/.git", path);
		if (lstat(git, &st) == 0 && !(walk->file->git = strdup(path)))
			return error_oom(err);
		*strrchr(path, '/') = '\0';
	}
	return 0;
}

/* The directories above a path, and what is there: by its names, since a mount shows it. */
static void add_ids_of(struct walk *walk, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s", name);
	while (path[0]) {
		layer_place_identify(AT_FDCWD, path, &walk->file->ids);
		*strrchr(path, '/') = '\0';
	}
}

/* By what other names could it have been written? */
static int add_other_names(struct walk *walk, const char *path, struct atoll_error *err)
{
	struct buf *dirs = &walk->file->dirs;
	size_t at = dirs->used;
	int r = 0;

	other_names_add(path, dirs);
	if (buf_error(dirs) < 0)
		return error_oom(err);
	for (; at < dirs->used && r == 0; at += strlen(dirs->data + at) + 1) {
		add_ids_of(walk, dirs->data + at);
		r = find_git(walk, dirs->data + at, err);
	}
	return r == 0 && buf_error(&walk->file->ids) < 0 ? error_oom(err) : r;
}

/* A directory has been entered: `walk->at` and `walk->fd` are its. */
static int enter(struct walk *walk, struct atoll_error *err)
{
	struct stat st;

	if (fstat(walk->fd, &st) < 0)
		return failed(walk, errno, err);
	look_at(walk, walk->at, walk->fd, &st);
	buf_add(&walk->file->dirs, walk->at, strlen(walk->at) + 1);
	layer_place_identify(walk->fd, "", &walk->file->ids);
	if (!walk->file->git && fstatat(walk->fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0) {
		walk->file->git = strdup(walk->at);
		if (!walk->file->git)
			return error_oom(err);
	}
	return buf_error(&walk->file->dirs) < 0 ? error_oom(err)
						: add_other_names(walk, walk->at, err);
}

static int enter_root(struct walk *walk, struct atoll_error *err)
{
	if (walk->fd >= 0)
		close(walk->fd);
	walk->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (walk->fd < 0)
		return failed(walk, errno, err);
	strcpy(walk->at, "/");
	return enter(walk, err);
}

/* Look up the link's target first, then the remaining names. */
static int follow(struct walk *walk, int link, const char *path, struct atoll_error *err)
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t length = readlinkat(link, "", target, sizeof target - 1);
	struct stat st;

	if (length <= 0 || fstat(link, &st) < 0)
		return failed(walk, errno, err);
	target[length] = '\0';
	look_at(walk, path, link, &st);
	if (++walk->links > LINKS_MAX)
		return failed(walk, ELOOP, err);
	/* The rest is empty or begins with a "/". */
	if (snprintf(joined, sizeof joined, "%s%s", target, walk->rest) >= PATH_MAX)
		return failed(walk, ENAMETOOLONG, err);
	strcpy(walk->rest, joined);
	return target[0] == '/' ? enter_root(walk, err) : 0;
}

/* The last name: a plain file, which is the one that was looked at. */
static int open_last(struct walk *walk, int found, const char *name, const char *path,
		     struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	struct stat before, st;

	if (fstat(found, &before) < 0)
		return failed(walk, errno, err);
	if (!S_ISREG(before.st_mode))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "job file '%s' is not a plain file",
				 walk->name);
	/* A fifo in its place must not make us wait. */
	fd = openat(walk->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failed(walk, errno, err);
	if (st.st_dev != before.st_dev || st.st_ino != before.st_ino)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "job file '%s' was replaced while it was opened; try again",
				 walk->name);
	look_at(walk, path, fd, &st);
	layer_place_identify(fd, "", &walk->file->ids);
	walk->file->real = strdup(path);
	if (!walk->file->real)
		return error_oom(err);
	return add_other_names(walk, path, err) < 0 ? -ENOMEM : take_fd(&fd);
}

/* ".." of a directory that was reached without links is the name cut off. */
static int leave(struct walk *walk, struct atoll_error *err)
{
	int above = openat(walk->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (above < 0)
		return failed(walk, errno, err);
	close(walk->fd);
	walk->fd = above;
	strrchr(walk->at, '/')[walk->at == strrchr(walk->at, '/') ? 1 : 0] = '\0';
	return enter(walk, err);
}

/* One name. A descriptor when it was the last and a file, -EAGAIN while there are more. */
static int step(struct walk *walk, const char *name, bool is_last, struct atoll_error *err)
{
	cleanup_free char *path = path_join(walk->at, name);
	cleanup_fd int found = -1;
	struct stat st;
	int r;

	if (!path)
		return error_oom(err);
	if (strlen(path) >= PATH_MAX)
		return failed(walk, ENAMETOOLONG, err);
	/* O_DIRECTORY makes the kernel mount what is mounted on demand. */
	found = openat(walk->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (found >= 0) {
		close(walk->fd);
		walk->fd = take_fd(&found);
		strcpy(walk->at, path);
		r = enter(walk, err);
		return r < 0 ? r : -EAGAIN;
	}
	if (errno == ENOTDIR)
		found = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (found < 0 || fstat(found, &st) < 0)
		return failed(walk, errno, err);
	if (S_ISLNK(st.st_mode)) {
		r = follow(walk, found, path, err);
		return r < 0 ? r : -EAGAIN;
	}
	return is_last ? open_last(walk, found, name, path, err) : failed(walk, ENOTDIR, err);
}

static int walk_on(struct walk *walk, struct atoll_error *err)
{
	int r = -EAGAIN;

	while (r == -EAGAIN) {
		char name[NAME_MAX + 1];
		size_t skipped = strspn(walk->rest, "/");
		size_t length = strcspn(walk->rest + skipped, "/");
		bool is_last = !walk->rest[skipped + length];

		if (length == 0)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "job file '%s' is not a plain file", walk->name);
		if (length > NAME_MAX)
			return failed(walk, ENAMETOOLONG, err);
		snprintf(name, sizeof name, "%.*s", (int)length, walk->rest + skipped);
		memmove(walk->rest, walk->rest + skipped + length,
			strlen(walk->rest + skipped + length) + 1);
		if (streq(name, "."))
			continue;
		if (!streq(name, "..")) {
			r = step(walk, name, is_last, err);
			continue;
		}
		r = leave(walk, err);
		r = r < 0 ? r : -EAGAIN;
	}
	return r;
}

static int walk_to(const char *name, const char *path, struct job_file *file,
		   struct atoll_error *err)
{
	struct walk walk = {.file = file, .name = name, .fd = -1};
	int r;

	snprintf(walk.rest, sizeof walk.rest, "%s", path);
	r = enter_root(&walk, err);
	if (r == 0)
		r = walk_on(&walk, err);
	if (walk.fd >= 0)
		close(walk.fd);
	return r;
}

/* ---- standard input ---- */

/*
 * A file on standard input was opened by a shell, from a path that nobody knows here; the kernel
 * knows the name that it has now. All of that name's directories count, as do owner and mode.
 */
static int look_at_input(int fd, struct job_file *file, struct atoll_error *err)
{
	char link[64], path[PATH_MAX];
	struct walk walk = {.file = file, .name = "standard input", .fd = -1};
	struct job_file named = {.dirs = BUF_INIT(1 << 20), .ids = BUF_INIT(1 << 20)};
	cleanup_fd int again = -1;
	struct stat st, other;
	ssize_t length;

	if (fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "read standard input");
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	path[length > 0 ? length : 0] = '\0';
	/* A pipe of a shell's has no path; a fifo has one, and a run may be at its other end. */
	if (!S_ISREG(st.st_mode) && !(S_ISFIFO(st.st_mode) && path[0] == '/'))
		return 0;
	if (length > 0 && S_ISREG(st.st_mode))
		again = walk_to("standard input", path, &named, NULL);
	if (again >= 0 && fstat(again, &other) == 0 && other.st_dev == st.st_dev &&
	    other.st_ino == st.st_ino) {
		*file = named;
		file->spelled = strdup(file->real);
		return file->spelled ? 0 : error_oom(err);
	}
	job_file_done(&named);
	/* Without a name, such as a shell's "here document": only its owner has written it, unless
	 * it was in a directory of a run's. */
	look_at(&walk, "standard input", fd, &st);
	if (S_ISFIFO(st.st_mode) && !file->others[0])
		snprintf(file->others, sizeof file->others,
			 "standard input is a fifo, which anybody who can write it may fill");
	file->spelled = strdup("standard input");
	if (length > 0 && path[0] == '/' && strrchr(path, '/') != path)
		*strrchr(path, '/') = '\0';
	buf_add(&file->dirs, path, strlen(path) + 1);
	if (path[0] == '/')
		add_ids_of(&walk, path);
	return file->spelled && buf_error(&file->dirs) == 0 ? 0 : error_oom(err);
}

static int open_input(struct job_file *file, struct atoll_error *err)
{
	cleanup_fd int fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "read standard input");
	r = look_at_input(fd, file, err);
	return r < 0 ? r : take_fd(&fd);
}

/* ---- both ---- */

/*
 * From the current directory up, no name is looked up in it, so what a run could have put there
 * decides nothing: `cd workspace; atoll run -f ../job.yaml`. Its name is one of the directory
 * above, which the walk enters. Every further ".." is left to the walk.
 */
static const char *skip_up(const char *path, char *cwd)
{
	for (; path[0] == '.' && path[1] == '/'; path += strspn(path, "/"))
		path++;
	if (strncmp(path, "../", 3) != 0)
		return path;
	strrchr(cwd, '/')[strrchr(cwd, '/') == cwd ? 1 : 0] = '\0';
	return path + 3;
}

static bool spell(const char *path, char *cwd, char *ret, size_t size)
{
	const char *rest = path[0] == '/' ? path : skip_up(path, cwd);

	return snprintf(ret, size, "%s/%s", path[0] == '/' ? "" : cwd, rest) < PATH_MAX;
}

int job_file_open(const char *path, struct job_file *ret, struct atoll_error *err)
{
	char cwd[PATH_MAX], spelled[2 * PATH_MAX];
	struct job_file file = {.dirs = BUF_INIT(1 << 20), .ids = BUF_INIT(1 << 20)};
	int r;

	if (streq(path, "-")) {
		r = open_input(&file, err);
	} else if (path[0] != '/' && (!getcwd(cwd, sizeof cwd) || cwd[0] != '/')) {
		r = error_set(err, ATOLL_FAULT_REQUEST, errno ? errno : ENOENT,
			      "the current directory is gone or unreachable");
	} else if (!path[0] || !spell(path, cwd, spelled, sizeof spelled)) {
		r = error_set(err, ATOLL_FAULT_REQUEST, path[0] ? ENAMETOOLONG : ENOENT,
			      "job file '%s'", path);
	} else {
		r = walk_to(path, spelled, &file, err);
		path_normalize(spelled);
		file.spelled = r < 0 ? NULL : strdup(spelled);
	}
	if (r < 0)
		job_file_done(&file);
	else
		*ret = file;
	return r;
}

void job_file_done(struct job_file *file)
{
	free(file->spelled);
	free(file->real);
	free(file->git);
	buf_done(&file->dirs);
	buf_done(&file->ids);
	*file = (struct job_file){0};
}

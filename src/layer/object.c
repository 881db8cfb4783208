/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/object.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/str.h"
#include "layer/layer-tree.h"

#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

/* A descriptor is open for each level; a usual limit is 1024. */
#define DEPTH_MAX 400
/* Between two of these it is seen whether somebody wants it to end. */
#define PIECE_MAX ((size_t)64 << 20)
/* So many files are written to the disk one by one; more, by a sweep over the file system. */
#define SYNC_EACH_MAX 64

void object_lose(struct object_loss *loss, const char *path, const char *what)
{
	char shown[96];
	size_t used;

	if (!loss)
		return;
	loss->n++;
	used = strlen(loss->text);
	if (used + 8 < sizeof loss->text)
		snprintf(loss->text + used, sizeof loss->text - used, "%s%s of '%s'",
			 used ? ", " : "", what, str_show(path, shown, sizeof shown));
}

void object_copier_done(struct object_copier *copier)
{
	for (size_t i = 0; i < copier->n_names; i++)
		free(copier->names[i].path);
	free(copier->names);
	copier->names = NULL;
	copier->n_names = 0;
}

void object_stop_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGHUP);
	sigaddset(ret, SIGQUIT);
}

/* One that is ignored (by nohup, or of a job in the background) waits as well while it is blocked
 * (signal(7)), and ends nobody. */
static bool is_interrupted(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action;
	sigset_t waiting;

	if (sigpending(&waiting) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigismember(&waiting, signals[i]) &&
		    sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			return true;
	return false;
}

/* ---- content ---- */

/* By hand: between file systems, and where a container's profile refuses copy_file_range(). */
static ssize_t copy_piece(int from, int to, off_t at, size_t size)
{
	char chunk[65536];
	size_t most = size < sizeof chunk ? size : sizeof chunk;
	ssize_t done = pread(from, chunk, most, at);

	return done > 0 ? pwrite(to, chunk, (size_t)done, at) : done;
}

static int copy_range(int from, int to, off_t at, off_t end)
{
	while (at < end) {
		loff_t in = at, out = at;
		size_t piece = (size_t)(end - at) < PIECE_MAX ? (size_t)(end - at) : PIECE_MAX;
		ssize_t done = copy_file_range(from, &in, to, &out, piece, 0);

		if (done < 0 && errno != EINTR)
			done = copy_piece(from, to, at, piece);
		if (done < 0 && errno != EINTR)
			return -errno;
		if (done == 0) /* it has become shorter */
			return -EAGAIN;
		if (done > 0)
			at += done;
		if (at < end && is_interrupted())
			return -EINTR;
	}
	return 0;
}

/* Network file systems and FUSE answer EINTR, where local ones go on. */
static int cut(int fd, off_t size)
{
	while (ftruncate(fd, size) < 0)
		if (errno != EINTR || is_interrupted())
			return -errno;
	return 0;
}

static int sync_whole(int fd, int (*sync)(int))
{
	while (sync(fd) < 0)
		if (errno != EINTR || is_interrupted())
			return -errno;
	return 0;
}

int object_copy_data(int from, int to, off_t size)
{
	off_t at = 0;
	int r;

	if (size == 0 || ioctl(to, FICLONE, from) == 0)
		return 0;
	r = cut(to, size);
	if (r < 0)
		return r;
	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO) /* a hole up to the end */
			break;
		if (data < 0)
			data = at;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || hole > size)
			hole = size;
		r = copy_range(from, to, data, hole);
		if (r < 0)
			return r;
		at = hole;
	}
	return 0;
}

/* ---- attributes ---- */

/* What is of overlayfs or of the kernel's security modules stays where it is. */
static bool is_kept(const char *name)
{
	return (starts_with(name, "user.") && !starts_with(name, "user.overlay.")) ||
	       starts_with(name, "system.posix_acl_") || streq(name, "security.capability");
}

/* The names, each ended by a NUL; -1 if there can be none. */
static ssize_t list_xattrs(int fd, char **ret)
{
	for (int tries = 0; tries < 8; tries++) {
		ssize_t size = flistxattr(fd, NULL, 0), got;
		char *list;

		if (size <= 0)
			return size;
		list = malloc((size_t)size);
		if (!list)
			return -1;
		got = flistxattr(fd, list, (size_t)size);
		if (got >= 0) {
			*ret = list;
			return got;
		}
		free(list);
	}
	return -1;
}

/* The value; NULL if it is not there. */
static char *get_xattr(int fd, const char *name, size_t *ret_size)
{
	ssize_t size = fgetxattr(fd, name, NULL, 0);
	char *value;

	if (size < 0)
		return NULL;
	value = malloc((size_t)size + 1);
	if (!value)
		return NULL;
	size = fgetxattr(fd, name, value, (size_t)size);
	if (size < 0) {
		free(value);
		return NULL;
	}
	*ret_size = (size_t)size;
	return value;
}

static bool has_same_xattr(int fd, const char *name, const char *value, size_t size)
{
	size_t there_size = 0;
	cleanup_free char *there = get_xattr(fd, name, &there_size);

	return there && there_size == size && memcmp(there, value, size) == 0;
}

static void drop_other_xattrs(int from_fd, int to_fd)
{
	cleanup_free char *list = NULL;
	ssize_t used = list_xattrs(to_fd, &list);

	for (ssize_t at = 0; at < used; at += (ssize_t)strlen(list + at) + 1)
		if (is_kept(list + at) && fgetxattr(from_fd, list + at, NULL, 0) < 0)
			fremovexattr(to_fd, list + at);
}

int object_copy_xattrs(int from_fd, int to_fd, struct object_loss *loss, const char *path,
		       struct atoll_error *err)
{
	cleanup_free char *list = NULL;
	ssize_t used;

	drop_other_xattrs(from_fd, to_fd);
	used = list_xattrs(from_fd, &list);
	for (ssize_t at = 0; at < used; at += (ssize_t)strlen(list + at) + 1) {
		size_t size = 0;
		cleanup_free char *value = NULL;

		/* Attributes of overlayfs that the command set itself arrive with a second
		 * "overlay."; on the host they would steer a later overlay. */
		if (starts_with(list + at, "user.overlay.overlay."))
			object_lose(loss, path, "an attribute 'user.overlay'");
		if (!is_kept(list + at))
			continue;
		value = get_xattr(from_fd, list + at, &size);
		if (!value || has_same_xattr(to_fd, list + at, value, size) ||
		    fsetxattr(to_fd, list + at, value, size, 0) == 0)
			continue;
		if (errno == ENOSPC || errno == EDQUOT)
			return error_set(err, ATOLL_FAULT_HOST, errno, "attributes of '%s'", path);
		object_lose(loss, path,
			    starts_with(list + at, "system.") ? "the access list" : "an attribute");
	}
	return 0;
}

int object_set_attributes(int fd, const struct stat *wanted, struct object_loss *loss,
			  const char *path, struct atoll_error *err)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, wanted->st_mtim};
	struct stat st;
	uid_t uid;
	gid_t gid;

	if (fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at '%s'", path);
	uid = ids_is_kept(wanted->st_uid) ? st.st_uid : wanted->st_uid;
	gid = ids_is_kept(wanted->st_gid) ? st.st_gid : wanted->st_gid;
	if ((st.st_uid != uid || st.st_gid != gid) && fchown(fd, uid, gid) < 0 &&
	    (st.st_gid == gid || fchown(fd, (uid_t)-1, gid) < 0))
		object_lose(loss, path, "the owner");
	/* After the owner, whose change takes set-id bits away. */
	if (fchmod(fd, wanted->st_mode & 07777) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "set the mode of '%s'", path);
	if (futimens(fd, times) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "set the time of '%s'", path);
	return 0;
}

/* ---- copies ---- */

static int sync_one(struct object_copier *copier, int fd)
{
	return !copier->is_passing && copier->n_unsynced++ < SYNC_EACH_MAX ? sync_whole(fd, fsync)
									   : 0;
}

int object_copier_sync(struct object_copier *copier, struct atoll_error *err)
{
	int r = sync_whole(copier->to_fd, copier->n_unsynced > SYNC_EACH_MAX ? syncfs : fsync);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "write to the disk");
	return 0;
}

static const char *name_seen(const struct object_copier *copier, const struct stat *st)
{
	for (size_t i = copier->n_names; st->st_nlink > 1 && i > 0; i--)
		if (copier->names[i - 1].ino == st->st_ino &&
		    copier->names[i - 1].dev == st->st_dev)
			return copier->names[i - 1].path;
	return NULL;
}

static int remember_name(struct object_copier *copier, const struct stat *st, const char *to)
{
	struct object_name *more;

	if (st->st_nlink < 2)
		return 0;
	more = reallocarray(copier->names, copier->n_names + 1, sizeof *more);
	if (!more)
		return -ENOMEM;
	copier->names = more;
	more[copier->n_names] = (struct object_name){st->st_dev, st->st_ino, strdup(to)};
	return more[copier->n_names].path ? (copier->n_names++, 0) : -ENOMEM;
}

static int failed(struct atoll_error *err, int code, const char *path)
{
	char shown[256];

	str_show(path, shown, sizeof shown);
	if (code == -EAGAIN)
		return error_set(err, ATOLL_FAULT_POLICY, EAGAIN,
				 "'%s' changed while it was copied; wait until nobody writes it",
				 shown);
	if (code == -EINTR)
		return error_set(err, ATOLL_FAULT_HOST, EINTR,
				 "a signal stopped the copy of '%s'; do it again", shown);
	return error_set(err, ATOLL_FAULT_HOST, -code, "copy '%s'", shown);
}

/* `data` NULL: the content of `fd`. */
static int copy_file(struct object_copier *copier, int fd, const struct stat *st, const char *data,
		     size_t size, const char *to, const char *path, struct atoll_error *err)
{
	const char *seen = data || copier->is_alone ? NULL : name_seen(copier, st);
	cleanup_fd int out = -1;
	int r;

	if (seen)
		return linkat(copier->to_fd, seen, copier->to_fd, to, 0) < 0
			       ? failed(err, -errno, path)
			       : 0;
	out = openat(copier->to_fd, to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return failed(err, -errno, path);
	r = data ? fd_write_all(out, data, size) : object_copy_data(fd, out, st->st_size);
	if (r < 0)
		return failed(err, r, path);
	r = object_copy_xattrs(fd, out, copier->loss, path, err);
	if (r < 0)
		return r;
	r = object_set_attributes(out, st, copier->loss, path, err);
	if (r < 0)
		return r;
	r = data || copier->is_alone ? 0 : remember_name(copier, st, to);
	if (r == 0)
		r = sync_one(copier, out);
	return r < 0 ? failed(err, r, path) : 0;
}

/* Links, fifos; what else there is has no meaning elsewhere. */
static int copy_special(struct object_copier *copier, int fd, const struct stat *st, const char *to,
			const char *path, struct atoll_error *err)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};
	char target[4097];
	ssize_t length = 0;
	int r;

	if (S_ISLNK(st->st_mode)) {
		length = readlinkat(fd, "", target, sizeof target - 1);
		if (length < 0)
			return failed(err, -errno, path);
		target[length] = '\0';
		r = symlinkat(target, copier->to_fd, to);
	} else {
		r = mknodat(copier->to_fd, to, st->st_mode & (S_IFMT | 07777), st->st_rdev);
		if (r == 0 && fchmodat(copier->to_fd, to, st->st_mode & 07777, 0) < 0)
			return failed(err, -errno, path);
	}
	if (r < 0)
		return failed(err, -errno, path);
	if ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
	    fchownat(copier->to_fd, to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		object_lose(copier->loss, path, "the owner");
	if (utimensat(copier->to_fd, to, times, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(err, -errno, path);
	return 0;
}

static int copy_tree(struct object_copier *copier, int fd, const char *to, bool is_deep,
		     bool is_exact, const char *path, int depth, struct atoll_error *err);

static int copy_entries(struct object_copier *copier, int fd, const char *to, const char *path,
			int depth, struct atoll_error *err)
{
	int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = failed(err, -errno, path);
		if (own_fd >= 0)
			close(own_fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir))) {
		cleanup_free char *inner_to = NULL, *inner = NULL;
		cleanup_fd int inner_fd = -1;

		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		if (asprintf(&inner_to, "%s/%s", to, entry->d_name) < 0 ||
		    asprintf(&inner, "%s/%s", path, entry->d_name) < 0) {
			r = error_oom(err);
			break;
		}
		inner_fd = tree_open_object(fd, entry->d_name, copier->is_ours);
		r = inner_fd < 0 ? failed(err, inner_fd, inner)
				 : copy_tree(copier, inner_fd, inner_to, true, true, inner,
					     depth + 1, err);
	}
	if (r == 0 && errno)
		r = failed(err, -errno, path);
	closedir(dir);
	return r;
}

static int copy_dir(struct object_copier *copier, int fd, const struct stat *st, const char *to,
		    bool is_deep, bool is_exact, const char *path, int depth,
		    struct atoll_error *err)
{
	struct stat wanted = *st;
	cleanup_fd int out = -1;
	int r;

	if (depth > DEPTH_MAX)
		return error_set(err, ATOLL_FAULT_HOST, 0, "'%.200s' is nested too deeply", path);
	if (mkdirat(copier->to_fd, to, 0700) < 0)
		return failed(err, -errno, path);
	r = is_deep ? copy_entries(copier, fd, to, path, depth, err) : 0;
	if (r < 0)
		return r;
	out = openat(copier->to_fd, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		return failed(err, -errno, path);
	r = object_copy_xattrs(fd, out, copier->loss, path, err);
	if (r < 0)
		return r;
	if (!is_exact)
		wanted.st_mode = S_IFDIR | 0700;
	r = object_set_attributes(out, &wanted, copier->loss, path, err);
	if (r < 0)
		return r;
	r = sync_one(copier, out);
	return r < 0 ? failed(err, r, path) : 0;
}

/* What there is to copy, and whose it is to be. */
static int look_at(const struct object_copier *copier, int fd, struct stat *ret)
{
	if (fstat(fd, ret) < 0)
		return -errno;
	if (ids_is_kept(ret->st_uid))
		ret->st_uid = copier->owner_uid;
	if (ids_is_kept(ret->st_gid))
		ret->st_gid = copier->owner_gid;
	return 0;
}

static int copy_tree(struct object_copier *copier, int fd, const char *to, bool is_deep,
		     bool is_exact, const char *path, int depth, struct atoll_error *err)
{
	struct stat st;
	int r;

	if (is_interrupted())
		return failed(err, -EINTR, path);
	r = look_at(copier, fd, &st);
	if (r < 0)
		return failed(err, r, path);
	if (S_ISDIR(st.st_mode))
		return copy_dir(copier, fd, &st, to, is_deep, is_exact, path, depth, err);
	if (S_ISREG(st.st_mode))
		return copy_file(copier, fd, &st, NULL, 0, to, path, err);
	return copy_special(copier, fd, &st, to, path, err);
}

int object_copy(struct object_copier *copier, int fd, const char *to, bool is_deep, bool is_exact,
		const char *path, struct atoll_error *err)
{
	return copy_tree(copier, fd, to, is_deep, is_exact, path, 0, err);
}

int object_copy_with(struct object_copier *copier, int fd, const char *data, size_t size,
		     const char *to, const char *path, struct atoll_error *err)
{
	struct stat st;
	int r = look_at(copier, fd, &st);

	if (r < 0)
		return failed(err, r, path);
	return copy_file(copier, fd, &st, data, size, to, path, err);
}

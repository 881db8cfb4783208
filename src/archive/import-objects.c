/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/import.h"
#include "base/error.h"
#include "base/fd.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

/* What an entry says, made in a directory that is open. Nothing that was there is opened or
 * replaced. */

/* ---- attributes ---- */

static int set_attributes(struct import *import, const struct item *item, int fd,
			  struct atoll_error *err)
{
	const char *name;
	const void *value;
	size_t size;

	archive_entry_xattr_reset(item->entry);
	while (archive_entry_xattr_next(item->entry, &name, &value, &size) == ARCHIVE_OK) {
		bool is_hostile;

		if (!name || !arc_takes_attribute(name, &is_hostile)) {
			if (name && is_hostile)
				return import_refuse(item, err,
						     "it has an attribute that means something to "
						     "overlayfs");
			import->dropped[DROP_ATTRIBUTES]++;
		} else if (fsetxattr(fd, name, size ? value : "", size, 0) < 0) {
			if (errno == ENOSPC || errno == EDQUOT)
				return import_failed(item, err, errno, "write an attribute of");
			/* A file system without them, or one too long for it. */
			import->dropped[DROP_ATTRIBUTES]++;
		}
	}
	return 0;
}

static void note_dropped(struct import *import, const struct item *item)
{
	if (archive_entry_perm(item->entry) & 07000)
		import->dropped[DROP_BITS]++;
	if (archive_entry_acl_types(item->entry) != 0)
		import->dropped[DROP_LISTS]++;
}

static int set_time(const struct item *item, int fd, const char *name, struct atoll_error *err)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{archive_entry_mtime(item->entry), archive_entry_mtime_nsec(item->entry)}};
	int r;

	if (!archive_entry_mtime_is_set(item->entry))
		return 0;
	if (times[1].tv_nsec < 0 || times[1].tv_nsec > 999999999)
		times[1].tv_nsec = 0;
	r = name ? utimensat(fd, name, times, AT_SYMLINK_NOFOLLOW) : futimens(fd, times);
	return r < 0 ? import_failed(item, err, errno, "set the time of") : 0;
}

/* ---- the kinds ---- */

static int write_at(const struct item *item, int fd, const char *data, size_t size, int64_t offset,
		    struct atoll_error *err)
{
	while (size > 0) {
		ssize_t n = pwrite(fd, data, size, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return import_failed(item, err, n < 0 ? errno : EIO, "write");
		data += n;
		size -= (size_t)n;
		offset += n;
	}
	return 0;
}

static int copy_data(struct import *import, const struct item *item, int fd,
		     struct atoll_error *err)
{
	int64_t at = 0, offset;
	const void *data;
	size_t size;
	int r;

	while ((r = archive_read_data_block(import->archive, &data, &size, &offset)) ==
	       ARCHIVE_OK) {
		if (offset < at || size > INT64_MAX - (uint64_t)offset)
			return import_refuse(item, err, "its parts overlap");
		if (size == 0)
			continue;
		r = import_count_bytes(import, item, (uint64_t)(offset - at) + size, err);
		if (r == 0)
			r = import_check_ratio(import, item, size, err);
		if (r == 0)
			r = write_at(item, fd, data, size, offset, err);
		if (r < 0)
			return r;
		at = offset + (int64_t)size;
	}
	if (r != ARCHIVE_EOF)
		return import_damaged(import, err);
	if (!archive_entry_size_is_set(item->entry) || archive_entry_size(item->entry) <= at)
		return 0;
	/* A hole at the end. */
	r = import_count_bytes(import, item, (uint64_t)(archive_entry_size(item->entry) - at), err);
	if (r == 0 && ftruncate(fd, archive_entry_size(item->entry)) < 0)
		r = import_failed(item, err, errno, "write");
	return r;
}

static int make_file(struct import *import, const struct item *item, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	int r;

	if (archive_entry_size_is_set(item->entry) &&
	    (archive_entry_size(item->entry) < 0 ||
	     (uint64_t)archive_entry_size(item->entry) > import->limits.max_bytes))
		return import_count_bytes(import, item, UINT64_MAX, err);
	fd = fd_openat2(item->parent, item->leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600,
			WALK);
	if (fd < 0)
		return import_failed(item, err, -fd, "make");
	r = copy_data(import, item, fd, err);
	if (r == 0)
		r = set_attributes(import, item, fd, err);
	if (r == 0 && fchmod(fd, archive_entry_perm(item->entry) & 0777 & ~import->mask) < 0)
		r = import_failed(item, err, errno, "set the mode of");
	return r < 0 ? r : set_time(item, fd, NULL, err);
}

static int make_directory(struct import *import, const struct item *item, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	int r;

	/* A directory may be told of again, after what lies in it. */
	if (mkdirat(item->parent, item->leaf, 0700) < 0 && errno != EEXIST)
		return import_failed(item, err, errno, "make");
	fd = fd_openat2(item->parent, item->leaf, O_RDONLY | O_DIRECTORY, 0, WALK);
	if (fd == -ENOTDIR || fd == -ELOOP)
		return import_failed(item, err, EEXIST, "make");
	if (fd < 0)
		return import_failed(item, err, -fd, "open");
	r = set_attributes(import, item, fd, err);
	if (r == 0)
		r = import_note_directory(import, item->path, strlen(item->path),
					  archive_entry_perm(item->entry), item->entry, err);
	return r;
}

static int make_symlink(struct import *import, const struct item *item, struct atoll_error *err)
{
	const char *target = archive_entry_symlink(item->entry);

	if (!target || target[0] == '\0' || strlen(target) >= ARC_NAME_MAX)
		return import_refuse(item, err, "a symbolic link that leads nowhere");
	if (!import->limits.keeps_outside_links && !arc_link_stays(target, item->depth))
		return import_refuse(
			item, err, "a symbolic link that leads out of the tree (--outside-links)");
	if (symlinkat(target, item->parent, item->leaf) < 0)
		return import_failed(item, err, errno, "make");
	return set_time(item, item->parent, item->leaf, err);
}

/* To a file that came before it. Its content and mode are that one's. */
static int make_hard_link(struct import *import, const struct item *item, struct atoll_error *err)
{
	const char *target = archive_entry_hardlink(item->entry);
	cleanup_fd int dir = -1;
	char path[ARC_NAME_MAX];
	struct stat st;
	size_t depth;
	char *slash;
	int r = arc_clean_name(target, path, &depth, err);

	if (r < 0)
		return error_context(err, r, "hard link '%s'", item->shown);
	if (archive_entry_size_is_set(item->entry) && archive_entry_size(item->entry) > 0)
		return import_refuse(item, err, "a hard link with content of its own");
	slash = strrchr(path, '/');
	if (slash) {
		*slash = '\0';
		dir = fd_openat2(import->top_fd, path, O_PATH | O_DIRECTORY, 0, WALK);
	} else {
		dir = fcntl(import->top_fd, F_DUPFD_CLOEXEC, 3);
	}
	if (dir < 0 || fstatat(dir, slash ? slash + 1 : path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return import_refuse(
			item, err,
			"a hard link to something that is no file the archive has brought");
	if (linkat(dir, slash ? slash + 1 : path, item->parent, item->leaf, 0) < 0)
		return import_failed(item, err, errno, "make the hard link");
	return 0;
}

int import_make(struct import *import, const struct item *item, struct atoll_error *err)
{
	note_dropped(import, item);
	if (archive_entry_hardlink(item->entry))
		return make_hard_link(import, item, err);
	switch (archive_entry_filetype(item->entry)) {
	case AE_IFREG:
		return make_file(import, item, err);
	case AE_IFDIR:
		return make_directory(import, item, err);
	case AE_IFLNK:
		return make_symlink(import, item, err);
	case AE_IFIFO:
		return import_refuse(item, err, "a fifo");
	case AE_IFCHR:
	case AE_IFBLK:
		return import_refuse(item, err, "a device");
	default:
		return import_refuse(item, err, "no file, directory or link");
	}
}

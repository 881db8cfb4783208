/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/import.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * From an archive to a directory
 *
 * Every name is walked from the top's descriptor and through no link (openat2), and everything is
 * made anew: nothing is opened that was there, nothing replaced, nothing removed. Directories are
 * ours alone while they are filled; their modes and times come last, the deepest first.
 */

int import_refuse(const struct item *item, struct atoll_error *err, const char *why)
{
	error_set(err, ATOLL_FAULT_POLICY, 0, "entry '%s': %s", item->shown, why);
	return -EINVAL;
}

/* The file system said no. What exists is the same name twice; a link on the way is an attack. */
int import_failed(const struct item *item, struct atoll_error *err, int errnum, const char *what)
{
	if (errnum == EEXIST)
		return import_refuse(item, err, "the archive has its name twice");
	if (errnum == ELOOP)
		return import_refuse(item, err, "its name goes through a symbolic link");
	if (errnum == ENOTDIR)
		return import_refuse(item, err,
				     "its name goes through something that is no directory");
	return error_set(err, ATOLL_FAULT_HOST, errnum, "%s '%s'", what, item->shown);
}

int import_damaged(struct import *import, struct atoll_error *err)
{
	const char *why = archive_error_string(import->archive);
	char shown[160];

	error_set(err, ATOLL_FAULT_REQUEST, 0, "the archive is damaged or of an unknown kind: %s",
		  str_show(why ? why : "no more is known", shown, sizeof shown));
	return -EINVAL;
}

/* ---- bounds ---- */

static int count_entry(struct import *import, const struct item *item, struct atoll_error *err)
{
	if (++import->n_entries > import->limits.max_entries)
		return error_set(err, ATOLL_FAULT_POLICY, EFBIG,
				 "entry '%s': more than %" PRIu64 " entries (--files)", item->shown,
				 import->limits.max_entries);
	return 0;
}

int import_count_bytes(struct import *import, const struct item *item, uint64_t n,
		       struct atoll_error *err)
{
	if (n > import->limits.max_bytes - import->n_bytes)
		return error_set(err, ATOLL_FAULT_POLICY, EFBIG,
				 "entry '%s': more than %" PRIu64 " bytes in all (--disk)",
				 item->shown, import->limits.max_bytes);
	import->n_bytes += n;
	return 0;
}

/* Of what is really written; holes cost nothing. */
int import_check_ratio(struct import *import, const struct item *item, size_t n,
		       struct atoll_error *err)
{
	int64_t used = archive_filter_bytes(import->archive, -1);
	uint64_t from = used > 0 ? (uint64_t)used : 1;

	import->n_written += n;
	if (import->n_written > ARC_RATIO_FREE &&
	    import->n_written / from > import->limits.max_ratio)
		return error_set(err, ATOLL_FAULT_POLICY, EFBIG,
				 "entry '%s': more than %" PRIu64
				 " bytes out of each byte of the archive (--ratio)",
				 item->shown, import->limits.max_ratio);
	return 0;
}

/* ---- directories ---- */

int import_note_directory(struct import *import, const char *path, size_t length, mode_t mode,
			  struct archive_entry *entry, struct atoll_error *err)
{
	struct directory *one;

	if ((import->n_dirs & (import->n_dirs - 1)) == 0) {
		size_t room = import->n_dirs ? import->n_dirs * 2 : 1;

		one = reallocarray(import->dirs, room, sizeof *one);
		if (!one)
			return error_oom(err);
		import->dirs = one;
	}
	one = &import->dirs[import->n_dirs];
	*one = (struct directory){.path = strndup(path, length),
				  .turn = import->n_dirs,
				  .mode = mode & 0777 & ~import->mask};
	if (!one->path)
		return error_oom(err);
	import->n_dirs++;
	if (entry && archive_entry_mtime_is_set(entry)) {
		one->has_mtime = true;
		one->mtime = (struct timespec){archive_entry_mtime(entry),
					       archive_entry_mtime_nsec(entry)};
	}
	return 0;
}

/* One step down, made if it is not there. */
static int step_down(struct import *import, const struct item *item, int from, const char *name,
		     size_t path_length, struct atoll_error *err)
{
	int fd = fd_openat2(from, name, O_PATH | O_DIRECTORY, 0, WALK);
	int r;

	if (fd != -ENOENT)
		return fd < 0 ? import_failed(item, err, -fd, "open the directory of") : fd;
	r = count_entry(import, item, err);
	if (r == 0)
		r = import_note_directory(import, item->path, path_length, 0777, NULL, err);
	if (r < 0)
		return r;
	if (mkdirat(from, name, 0700) < 0)
		return import_failed(item, err, errno, "make the directory of");
	fd = fd_openat2(from, name, O_PATH | O_DIRECTORY, 0, WALK);
	return fd < 0 ? import_failed(item, err, -fd, "open the directory of") : fd;
}

static int walk_down(struct import *import, const struct item *item, struct atoll_error *err)
{
	cleanup_fd int at = -1;
	int from = import->top_fd;
	char name[256];

	for (const char *part = item->path; part != item->leaf;) {
		size_t length = strcspn(part, "/");
		int fd;

		memcpy(name, part, length);
		name[length] = '\0';
		fd = step_down(import, item, from, name, (size_t)(part - item->path) + length, err);
		if (fd < 0)
			return fd;
		if (at >= 0)
			close(at);
		from = at = fd;
		part += length + 1;
	}
	return take_fd(&at);
}

/* A descriptor of the directory that the entry lies in; the top's is not handed out, so a copy. */
static int open_parent(struct import *import, struct item *item, struct atoll_error *err)
{
	char *slash = strrchr(item->path, '/');
	int fd;

	item->leaf = slash ? slash + 1 : item->path;
	if (!slash) {
		fd = fcntl(import->top_fd, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? error_set(err, ATOLL_FAULT_HOST, errno, "copy a descriptor") : fd;
	}
	*slash = '\0';
	fd = fd_openat2(import->top_fd, item->path, O_PATH | O_DIRECTORY, 0, WALK);
	*slash = '/';
	if (fd == -ENOENT)
		return walk_down(import, item, err);
	return fd < 0 ? import_failed(item, err, -fd, "open the directory of") : fd;
}

static int take_entry(struct import *import, struct archive_entry *entry, struct atoll_error *err)
{
	const char *name = archive_entry_pathname(entry);
	struct item item = {.entry = entry};
	cleanup_fd int parent = -1;
	char shown[160];
	int r;

	if (!name)
		return import_damaged(import, err);
	item.shown = str_show(name, shown, sizeof shown);
	r = arc_clean_name(name, item.path, &item.depth, err);
	if (r < 0)
		return r;
	if (arc_is_whiteout(item.path))
		return import_refuse(
			&item, err,
			"a whiteout: this is a layer of a container image, no whole tree");
	if (archive_entry_is_encrypted(entry))
		return import_refuse(&item, err, "it is encrypted");
	r = count_entry(import, &item, err);
	if (r < 0)
		return r;
	if (item.depth == 0) {
		/* The top is the caller's; that it is a directory is all that may be said. */
		return archive_entry_filetype(entry) == AE_IFDIR && !archive_entry_hardlink(entry)
			       ? 0
			       : import_refuse(&item, err, "it takes the place of the whole tree");
	}
	parent = open_parent(import, &item, err);
	if (parent < 0)
		return parent;
	item.parent = parent;
	return import_make(import, &item, err);
}

/* ---- the end ---- */

/* What lies beneath comes first, and of two with the same path the later one. */
static int compare(const void *a, const void *b)
{
	const struct directory *one = a, *other = b;
	int by_path = strcmp(other->path, one->path);

	return by_path ? by_path : one->turn < other->turn ? 1 : -1;
}

static int finish_directories(struct import *import, struct atoll_error *err)
{
	if (import->n_dirs > 0)
		qsort(import->dirs, import->n_dirs, sizeof *import->dirs, compare);
	for (size_t i = 0; i < import->n_dirs; i++) {
		const struct directory *one = &import->dirs[i];
		struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, one->mtime};
		cleanup_fd int fd = -1;

		if (i > 0 && streq(one->path, import->dirs[i - 1].path))
			continue;
		fd = fd_openat2(import->top_fd, one->path, O_RDONLY | O_DIRECTORY, 0, WALK);
		if (times[1].tv_nsec < 0 || times[1].tv_nsec > 999999999)
			times[1].tv_nsec = 0;
		if (fd < 0 || (one->has_mtime && futimens(fd, times) < 0) ||
		    fchmod(fd, one->mode) < 0)
			return error_set(err, ATOLL_FAULT_HOST, fd < 0 ? -fd : errno,
					 "finish a directory");
	}
	return 0;
}

static void tell(const struct import *import, struct atoll_archive_report *ret)
{
	static const char *const words[DROP_COUNT] = {
		[DROP_BITS] = "set-id or sticky bits",
		[DROP_ATTRIBUTES] = "extended attributes",
		[DROP_LISTS] = "access lists",
	};
	size_t used = 0;

	*ret = (struct atoll_archive_report){.n_entries = import->n_entries,
					     .n_bytes = import->n_bytes};
	for (int i = 0; i < DROP_COUNT; i++) {
		if (import->dropped[i] == 0)
			continue;
		ret->n_dropped += import->dropped[i];
		used += (size_t)snprintf(ret->dropped + used, sizeof ret->dropped - used,
					 "%s%s of %" PRIu64, used ? ", " : "", words[i],
					 import->dropped[i]);
	}
}

static void import_done(struct import *import)
{
	for (size_t i = 0; i < import->n_dirs; i++)
		free(import->dirs[i].path);
	free(import->dirs);
}

struct archive *arc_reader_new(bool is_zip)
{
	struct archive *archive = archive_read_new();

	if (archive && is_zip && archive_read_support_format_zip_seekable(archive) == ARCHIVE_OK)
		return archive;
	/* By name, not "all": that would take programs of the host's for rare kinds. */
	if (archive && !is_zip && archive_read_support_format_tar(archive) == ARCHIVE_OK &&
	    archive_read_support_filter_gzip(archive) == ARCHIVE_OK &&
	    archive_read_support_filter_bzip2(archive) == ARCHIVE_OK &&
	    archive_read_support_filter_xz(archive) == ARCHIVE_OK &&
	    archive_read_support_filter_zstd(archive) == ARCHIVE_OK)
		return archive;
	if (archive)
		archive_read_free(archive);
	return NULL;
}

/* A tar's name that is not of the locale is a warning, and stays as it is, byte for byte; all other
 * warnings are damage. */
static bool is_usable(struct archive *archive, int code)
{
	const char *text = code == ARCHIVE_WARN ? archive_error_string(archive) : NULL;

	return code == ARCHIVE_OK || (text && strstr(text, "can't be converted"));
}

int arc_import(struct archive *archive, int dir_fd, const struct atoll_import_options *options,
	       struct atoll_archive_report *ret, struct atoll_error *err)
{
	struct import import = {.archive = archive, .top_fd = dir_fd, .limits = *options};
	struct archive_entry *entry;
	int r = 0, code = ARCHIVE_OK;

	import.mask = umask(0);
	umask(import.mask);
	while (r == 0 && is_usable(archive, code = archive_read_next_header(archive, &entry)))
		r = take_entry(&import, entry, err);
	if (r == 0 && code != ARCHIVE_EOF)
		r = import_damaged(&import, err);
	if (r == 0)
		r = finish_directories(&import, err);
	if (r == 0)
		tell(&import, ret);
	import_done(&import);
	return r;
}

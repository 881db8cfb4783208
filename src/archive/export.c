/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

/*
 * From a record to a tar
 *
 * What was added or changed is in it whole, in the order of its names, so that the same changes
 * give the same tar: mode, time to the nanosecond, attributes of users, hard links, holes. Owner is
 * the workspace's, by number. What is not in it is counted: deletions, unless it is a container's
 * layer; sockets, which no tar has; access lists.
 *
 * A file of the command's own that is called ".wh.NAME" would delete NAME where a layer is used, so
 * such a layer is not made.
 */

#define CHUNK	     (1 << 20)
#define SEGMENTS_MAX 100000 /* parts of a file between holes; one with more is written whole */

enum drop {
	DROP_DELETED,
	DROP_SOCKETS,
	DROP_LISTS,
	DROP_NAMES,
	DROP_COUNT,
};

struct export
{
	struct archive *out;
	struct layer_changes *changes;
	enum atoll_tar form;
	struct atoll_change **sorted;
	const char **first_names; /* of each group of hard links */
	char *buffer, *zeros;
	uint64_t dropped[DROP_COUNT];
	struct atoll_archive_report report;
	struct atoll_error *err;
};

/* ---- writing ---- */

static int out_failed(struct export *export)
{
	const char *why = archive_error_string(export->out);
	int errnum = archive_errno(export->out);

	return error_set(export->err, ATOLL_FAULT_HOST, errnum > 0 ? errnum : EIO,
			 "write the tar: %s", why ? why : "no more is known");
}

static int shown_failure(struct export *export, const char *path, int errnum, const char *what)
{
	char shown[160];

	return error_set(export->err, ATOLL_FAULT_HOST, errnum, "%s '%s'", what,
			 str_show(path, shown, sizeof shown));
}

/* A name that is not UTF-8 is a warning, and written as it is. */
static int put_header(struct export *export, struct archive_entry *entry)
{
	int code = archive_write_header(export->out, entry);

	if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
		return out_failed(export);
	export->report.n_entries++;
	return 0;
}

static int put_data(struct export *export, const char *data, size_t size)
{
	while (size > 0) {
		la_ssize_t n = archive_write_data(export->out, data, size);

		if (n <= 0)
			return out_failed(export);
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* ---- content ---- */

/* Where the data lies, told to the entry; if there are no holes, nothing. */
static void note_holes(struct archive_entry *entry, int fd, off_t size)
{
	off_t at = 0;

	for (size_t n = 0; at < size; n++) {
		off_t data = lseek(fd, at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);

		if (data < 0 && errno == ENXIO) {
			archive_entry_sparse_add_entry(entry, size, 0);
			return;
		}
		if (data < 0 || hole <= data || n > SEGMENTS_MAX) {
			archive_entry_sparse_clear(entry);
			return;
		}
		if (hole > size)
			hole = size;
		if (data == 0 && hole == size)
			return;
		if (data < hole)
			archive_entry_sparse_add_entry(entry, data, hole - data);
		at = hole;
	}
}

static int copy_part(struct export *export, const char *path, int fd, off_t from, off_t to)
{
	int r = 0;

	while (from < to && r == 0) {
		size_t want = to - from < CHUNK ? (size_t)(to - from) : CHUNK;
		ssize_t n = pread(fd, export->buffer, want, from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return shown_failure(export, path, n < 0 ? errno : ESTALE, "read");
		r = put_data(export, export->buffer, (size_t)n);
		from += n;
	}
	return r;
}

/* libarchive counts holes off what it is given, and they need not be read for that. */
static int skip_part(struct export *export, off_t from, off_t to)
{
	int r = 0;

	for (; from < to && r == 0; from += CHUNK)
		r = put_data(export, export->zeros,
			     to - from < CHUNK ? (size_t)(to - from) : CHUNK);
	return r;
}

static int copy_content(struct export *export, struct archive_entry *entry, const char *path,
			int fd)
{
	off_t size = archive_entry_size(entry), at = 0;
	la_int64_t offset, length;
	int r = 0;

	export->report.n_bytes += (uint64_t)size;
	if (archive_entry_sparse_reset(entry) == 0)
		return copy_part(export, path, fd, 0, size);
	while (r == 0 && archive_entry_sparse_next(entry, &offset, &length) == ARCHIVE_OK) {
		r = skip_part(export, at, offset);
		if (r == 0)
			r = copy_part(export, path, fd, offset, offset + length);
		at = offset + length;
	}
	return r < 0 ? r : skip_part(export, at, size);
}

/* ---- what it is ---- */

static void add_attribute(struct export *export, struct archive_entry *entry, int fd,
			  const char *name)
{
	bool is_hostile;
	ssize_t size;

	if (streq(name, "system.posix_acl_access") || streq(name, "system.posix_acl_default"))
		export->dropped[DROP_LISTS]++;
	if (!arc_takes_attribute(name, &is_hostile))
		return;
	size = fgetxattr(fd, name, export->buffer, CHUNK);
	if (size >= 0)
		archive_entry_xattr_add_entry(entry, name, export->buffer, (size_t)size);
}

static void add_attributes(struct export *export, struct archive_entry *entry, int fd)
{
	char names[XATTR_LIST_MAX];
	ssize_t size = flistxattr(fd, names, sizeof names);

	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1)
		add_attribute(export, entry, fd, names + at);
}

static struct archive_entry *new_entry(const struct export *export, const char *path,
				       const struct stat *st)
{
	const struct layer_record *record = export->changes->record;
	struct archive_entry *entry = archive_entry_new();

	if (!entry)
		return NULL;
	archive_entry_copy_pathname(entry, path);
	archive_entry_set_filetype(entry, st->st_mode & S_IFMT);
	archive_entry_set_perm(entry, st->st_mode & 0777);
	archive_entry_set_uid(entry, record->owner_uid);
	archive_entry_set_gid(entry, record->owner_gid);
	archive_entry_set_mtime(entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(entry, S_ISREG(st->st_mode) ? st->st_size : 0);
	return entry;
}

/* By a name that it already has in the tar. True if there is one. */
static bool add_hard_link(struct export *export, const struct atoll_change *change,
			  struct archive_entry *entry)
{
	const char **first = &export->first_names[change->link_group];

	if (change->link_group == 0)
		return false;
	if (!*first) {
		*first = change->path;
		return false;
	}
	archive_entry_copy_hardlink(entry, *first);
	archive_entry_set_size(entry, 0);
	return true;
}

static int fill_entry(struct export *export, const struct atoll_change *change, int fd,
		      const struct stat *st, struct archive_entry *entry)
{
	char target[PATH_MAX];
	ssize_t length;
	int r;

	if (S_ISREG(st->st_mode) && add_hard_link(export, change, entry))
		return put_header(export, entry);
	if (S_ISLNK(st->st_mode)) {
		length = readlinkat(fd, "", target, sizeof target - 1);
		if (length < 0)
			return shown_failure(export, change->path, errno, "read the link");
		target[length] = '\0';
		archive_entry_copy_symlink(entry, target);
	}
	if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
		add_attributes(export, entry, fd);
	if (S_ISREG(st->st_mode))
		note_holes(entry, fd, st->st_size);
	r = put_header(export, entry);
	return r == 0 && S_ISREG(st->st_mode) ? copy_content(export, entry, change->path, fd) : r;
}

static int put_object(struct export *export, const struct atoll_change *change)
{
	cleanup_fd int fd = layer_stack_open_after(&export->changes->stack, change->path);
	struct archive_entry *entry;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return shown_failure(export, change->path, fd < 0 ? -fd : errno, "open");
	if (S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
		export->dropped[DROP_SOCKETS]++;
		return 0;
	}
	export->report.n_marked += change->mark != NULL;
	entry = new_entry(export, change->path, &st);
	r = entry ? fill_entry(export, change, fd, &st, entry) : error_oom(export->err);
	archive_entry_free(entry);
	return r;
}

/* ---- deletions ---- */

/* Does the directory that it was in exist after the run? If not, that one's end says it all. */
static bool has_parent(const struct export *export, const char *path, const char *slash)
{
	cleanup_free char *parent = slash ? strndup(path, (size_t)(slash - path)) : NULL;
	cleanup_fd int fd = -1;
	struct stat st;

	if (!slash)
		return true;
	fd = parent ? layer_stack_open_after(&export->changes->stack, parent) : -1;
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static int put_whiteout(struct export *export, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const struct stat st = {.st_mode = S_IFREG | 0644};
	cleanup_free char *mark = NULL;
	struct archive_entry *entry;
	int r;

	if (!has_parent(export, path, slash))
		return 0;
	if (export->form != ATOLL_TAR_OCI || strlen(name) + 4 > NAME_MAX) {
		export->dropped[export->form == ATOLL_TAR_OCI ? DROP_NAMES : DROP_DELETED]++;
		return 0;
	}
	if (asprintf(&mark, "%.*s.wh.%s", (int)(name - path), path, name) < 0) {
		mark = NULL;
		return error_oom(export->err);
	}
	entry = new_entry(export, mark, &st);
	r = entry ? put_header(export, entry) : error_oom(export->err);
	archive_entry_free(entry);
	return r;
}

static int put_change(struct export *export, const struct atoll_change *change)
{
	int r = 0;

	if (change->kind == ATOLL_DELETED || change->kind == ATOLL_RENAMED)
		r = put_whiteout(export, change->from ? change->from : change->path);
	if (r < 0 || change->kind == ATOLL_DELETED)
		return r;
	/* A directory's time follows from what is done in it. */
	if (S_ISDIR(change->after.st_mode) && change->kind == ATOLL_CHANGED &&
	    change->parts == ATOLL_PART_TIME)
		return 0;
	return put_object(export, change);
}

/* ---- all of it ---- */

static int compare(const void *a, const void *b)
{
	const struct atoll_change *const *one = a, *const *other = b;

	return strcmp((*one)->path, (*other)->path);
}

static int prepare(struct export *export)
{
	const struct atoll_changes *list = &export->changes->list;
	uint32_t groups = 0;

	export->sorted = calloc(list->n + 1, sizeof *export->sorted);
	export->buffer = malloc(CHUNK);
	export->zeros = calloc(1, CHUNK);
	if (!export->sorted || !export->buffer || !export->zeros)
		return error_oom(export->err);
	for (size_t i = 0; i < list->n; i++) {
		struct atoll_change *change = &list->items[i];

		export->sorted[i] = change;
		groups = change->link_group > groups ? change->link_group : groups;
		if (export->form == ATOLL_TAR_OCI && change->kind != ATOLL_DELETED &&
		    arc_is_whiteout(change->path)) {
			char shown[160];

			error_set(export->err, ATOLL_FAULT_POLICY, 0,
				  "'%s' would delete something where the layer is used: it is "
				  "called like a whiteout; --format tar takes it",
				  str_show(change->path, shown, sizeof shown));
			return -EINVAL;
		}
	}
	qsort(export->sorted, list->n, sizeof *export->sorted, compare);
	export->first_names = calloc(groups + 1, sizeof *export->first_names);
	return export->first_names ? 0 : error_oom(export->err);
}

static void tell(struct export *export)
{
	static const char *const words[DROP_COUNT] = {
		[DROP_DELETED] = "deletions (--format oci has them)",
		[DROP_SOCKETS] = "sockets",
		[DROP_LISTS] = "access lists",
		[DROP_NAMES] = "deletions of names that are too long for a whiteout",
	};
	struct atoll_archive_report *report = &export->report;
	size_t used = 0;

	for (int i = 0; i < DROP_COUNT; i++) {
		if (export->dropped[i] == 0)
			continue;
		report->n_dropped += export->dropped[i];
		used += (size_t)snprintf(report->dropped + used, sizeof report->dropped - used,
					 "%s%" PRIu64 " %s", used ? ", " : "", export->dropped[i],
					 words[i]);
	}
}

static int write_all(struct export *export)
{
	int r = prepare(export);

	if (r < 0)
		return r;
	export->out = archive_write_new();
	if (!export->out)
		return error_oom(export->err);
	if (archive_write_set_format_pax(export->out) != ARCHIVE_OK ||
	    archive_write_open_fd(export->out, 1) != ARCHIVE_OK)
		return out_failed(export);
	for (size_t i = 0; r == 0 && export->sorted[i]; i++)
		r = put_change(export, export->sorted[i]);
	if (r == 0 && archive_write_close(export->out) != ARCHIVE_OK)
		r = out_failed(export);
	return r;
}

/* What a reader needs beneath the record: its layers, or copies of what is in them, and the
 * workspace. */
static int lock_in(const struct layer_changes *changes, uint64_t max_bytes, struct atoll_error *err)
{
	const struct layer_stack *stack = &changes->stack;
	cleanup_free int *fds = calloc(stack->n + 2, sizeof *fds);

	if (!fds)
		return error_oom(err);
	memcpy(fds, stack->layer_fds, stack->n * sizeof *fds);
	fds[stack->n] = stack->base_fd;
	fds[stack->n + 1] = changes->frozen_fd;
	return arc_lock_in(-1, fds, stack->n + (changes->frozen ? 2 : 1), max_bytes, err);
}

int arc_export(const char *id, enum atoll_tar form, uint64_t max_bytes,
	       struct atoll_archive_report *ret, struct atoll_error *err)
{
	struct export export = {.form = form, .err = err};
	int r;

	/* Else names that are not ASCII would be written as if nobody knew what they are. */
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return error_set(err, ATOLL_FAULT_HOST, 0, "there is no locale C.UTF-8");
	r = layer_changes_open_frozen(id, &export.changes, err);
	if (r < 0)
		return r;
	r = lock_in(export.changes, max_bytes, err);
	if (r == 0)
		r = write_all(&export);
	if (r == 0) {
		tell(&export);
		*ret = export.report;
	}
	if (export.out)
		archive_write_free(export.out);
	free(export.sorted);
	free(export.first_names);
	free(export.buffer);
	free(export.zeros);
	atoll_changes_close(&export.changes->list);
	return r;
}
